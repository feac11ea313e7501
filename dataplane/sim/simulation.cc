#include "dataplane/sim/simulation.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dataplane/base/rng.h"
#include "dataplane/sim/alloc_trap.h"
#include "dataplane/sim/event_loop.h"
#include "dataplane/sim/group_run.h"
#include "dataplane/sim/host.h"
#include "dataplane/sim/inventor.h"
#include "dataplane/sim/network.h"
#include "dataplane/sim/packet_pool.h"
#include "dataplane/sim/script.h"
#include "dataplane/sim/trace.h"
#include "dataplane/sim/trainer.h"

namespace optireduce::sim {

namespace {

uint32_t LargestDatagram(const Scenario& scenario) {
  size_t largest = wire::kHeaderBytes + wire::kTrailerRoom;
  for (const GroupSpec& group : scenario.groups) {
    largest =
        std::max(largest, core::MaxDatagramBytes(group.config.payload_bytes));
  }
  return static_cast<uint32_t>(largest);
}

std::vector<LinkSpec> Links(const Scenario& scenario) {
  std::vector<LinkSpec> links;
  for (const HostSpec& host : scenario.hosts) links.push_back(host.link);
  return links;
}

class Simulation : public Actor {
 public:
  Simulation(const Scenario& scenario, const RunOptions& options)
      : scenario_(scenario),
        options_(options),
        rng_(scenario.seed),
        trace_(options.trace),
        pool_(LargestDatagram(scenario)),
        network_(&loop_, &pool_, &rng_, &trace_, &injected_, Links(scenario)) {
    world_.loop = &loop_;
    world_.pool = &pool_;
    world_.network = &network_;
    world_.trace = &trace_;
    world_.injected = &injected_;
    world_.violations = &violations_;
    world_.wake_all = [this] {
      for (const auto& host : hosts_) host->Wake();
    };
    AddGroups();
    AddHosts();
    AddFaults();
  }

  Outcome Run() {
    const uint64_t allocations = NoAllocation::violations();
    for (const auto& host : hosts_) host->Wake();
    const Timestamp give_up = Timestamp() + scenario_.give_up;
    uint64_t events = 0;
    if (options_.bystander != nullptr) {
      options_.bystander->Start(&loop_, &pool_, &network_);
    }
    while (!loop_.empty() && !(options_.bystander != nullptr && Over())) {
      if (loop_.next_time() > give_up) {
        violations_.Add(loop_.now(), "not over by the time to give up");
        break;
      }
      loop_.RunNext();
      ++events;
    }
    const uint64_t forbidden = NoAllocation::violations() - allocations;
    if (forbidden > 0) {
      violations_.Add(loop_.now(), absl::StrCat("the core allocated or freed ",
                                                forbidden, " times"));
    }
    return Collect(events);
  }

  void OnEvent(uint32_t code, uint64_t argument) override {
    switch (code) {
      case kDeath:
        Die(scenario_.deaths[argument]);
        break;
      case kEpoch:
        Reopen(argument);
        break;
      case kRateChange: {
        const RateChange& change = scenario_.rate_changes[argument];
        network_.SetRate(change.host, change.rate_bps);
        break;
      }
      default:
        break;
    }
  }

 private:
  enum Code : uint32_t { kDeath, kEpoch, kRateChange };
  // How often it is looked whether an epoch is over.
  static constexpr Duration kEpochLook = Duration::Micros(200);

  bool Over() const {
    return std::all_of(world_.groups.begin(), world_.groups.end(),
                       [](const auto& group) { return group->over(); });
  }

  void AddGroups() {
    for (size_t i = 0; i < scenario_.groups.size(); ++i) {
      world_.groups.push_back(std::make_unique<GroupRun>(
          scenario_.groups[i], i, scenario_.seed + i * 7919, &violations_));
      world_.groups[i]->Expect(MayBeCut(i), LongestStall(i), CalmFrom());
      if (scenario_.groups[i].next_epoch_of) {
        loop_.At(Timestamp() + kEpochLook, this, kEpoch, i);
      }
    }
  }

  void AddHosts() {
    for (size_t i = 0; i < scenario_.hosts.size(); ++i) {
      const auto index = static_cast<uint16_t>(i);
      std::vector<Stall> stalls;
      for (const Stall& stall : scenario_.stalls) {
        if (stall.host == index) stalls.push_back(stall);
      }
      for (const Stall& stall : stalls) {
        Count(stall.whole_host ? FaultKind::kHostStall : FaultKind::kPollStall,
              &injected_);
      }
      hosts_.push_back(
          std::make_unique<Host>(&world_, index, scenario_.hosts[i], stalls));
      network_.Attach(index, hosts_.back().get());
    }
    for (const auto& group : world_.groups) {
      for (size_t rank = 0; rank < group->world(); ++rank) {
        Host& host = *hosts_[group->spec().hosts[rank]];
        host.Add(std::make_unique<Trainer>(
            group.get(), core::Rank(static_cast<uint16_t>(rank)), &host.clock(),
            options_.keep_outputs, &trace_, &violations_));
      }
    }
  }

  void AddFaults() {
    for (const ScriptedFault& fault : scenario_.script) {
      network_.AddFault(
          std::make_unique<Scripted>(fault, world_.groups[fault.group].get()));
    }
    for (const PartitionSpec& partition : scenario_.partitions) {
      network_.AddFault(std::make_unique<Partition>(
          partition.window, partition.from_host, partition.to_host));
    }
    AddRandomFaults(scenario_.random);
    for (const Background& background : scenario_.backgrounds) {
      network_.AddBackground(background);
    }
    for (size_t i = 0; i < scenario_.rate_changes.size(); ++i) {
      loop_.At(Timestamp() + scenario_.rate_changes[i].after, this, kRateChange,
               i);
    }
    injected_[static_cast<size_t>(FaultKind::kTrainerStall)] +=
        scenario_.trainer_stalls;
    for (size_t i = 0; i < scenario_.deaths.size(); ++i) {
      loop_.At(Timestamp() + scenario_.deaths[i].after, this, kDeath, i);
    }
  }

  void AddRandomFaults(const RandomFaults& random) {
    const Window& window = random.window;
    // In front of those that drop: what nobody sent needs nothing to arrive.
    if (random.invented > 0) {
      network_.AddFault(std::make_unique<Inventor>(
          window, random.invented, random.reorder_longest, &pool_, &world_));
    }
    if (random.loss > 0) {
      network_.AddFault(std::make_unique<Loss>(window, random.loss));
    }
    if (random.burst_start > 0) {
      network_.AddFault(std::make_unique<BurstLoss>(
          window, scenario_.hosts.size(), random.burst_start, random.burst_end,
          random.burst_loss));
    }
    if (random.tail_permille > 0) {
      network_.AddFault(std::make_unique<TailLoss>(window, scenario_.seed,
                                                   random.tail_permille));
    }
    if (random.duplicate > 0) {
      network_.AddFault(std::make_unique<Duplication>(window, random.duplicate,
                                                      random.reorder_longest));
    }
    if (random.reorder > 0) {
      network_.AddFault(std::make_unique<Reordering>(window, random.reorder,
                                                     random.reorder_longest));
    }
    if (random.corrupt > 0) {
      network_.AddFault(std::make_unique<Corruption>(window, random.corrupt,
                                                     random.corrupt_flipped));
    }
    if (random.old_epoch > 0) {
      network_.AddFault(std::make_unique<Replay>(window, random.old_epoch, true,
                                                 random.replay_longest));
    }
    if (random.stale > 0) {
      network_.AddFault(std::make_unique<Replay>(window, random.stale, false,
                                                 random.replay_longest));
    }
    if (random.forged > 0) {
      network_.AddFault(std::make_unique<Forger>(window, random.forged,
                                                 random.replay_longest));
    }
  }

  // Whether others may give a rank of the group up.
  bool MayBeCut(size_t group) const {
    const core::GroupConfig& config = scenario_.groups[group].config;
    const auto lasts = [&config](const Window& window) {
      return window.end - window.begin >= config.dead_after / 2;
    };
    for (const Death& death : scenario_.deaths) {
      if (death.group == group) return true;
      if (death.daemon) return true;
    }
    for (const PartitionSpec& partition : scenario_.partitions) {
      if (lasts(partition.window)) return true;
    }
    return std::any_of(
        scenario_.stalls.begin(), scenario_.stalls.end(),
        [&lasts](const Stall& stall) { return lasts(stall.window); });
  }

  Duration LongestStall(size_t group) const {
    Duration longest;
    for (uint16_t host : scenario_.groups[group].hosts) {
      Duration sum;
      for (const Stall& stall : scenario_.stalls) {
        if (stall.host != host) continue;
        sum = sum + (stall.window.end - stall.window.begin);
      }
      longest = std::max(longest, sum);
    }
    for (const PartitionSpec& partition : scenario_.partitions) {
      longest =
          std::max(longest, partition.window.end - partition.window.begin);
    }
    return longest;
  }

  Timestamp CalmFrom() const {
    Timestamp calm;
    const auto until = [&calm](const Window& window) {
      if (window.end != Timestamp::Never()) calm = std::max(calm, window.end);
    };
    until(scenario_.random.window);
    for (const auto& partition : scenario_.partitions) until(partition.window);
    for (const auto& stall : scenario_.stalls) until(stall.window);
    for (const auto& background : scenario_.backgrounds) {
      until(background.window);
    }
    return calm;
  }

  void Die(const Death& death) {
    Host& host =
        *hosts_[scenario_.groups[death.group].hosts[death.rank.index()]];
    if (death.daemon) {
      Count(FaultKind::kDaemonDeath, &injected_);
      host.Kill();
      return;
    }
    for (const auto& trainer : host.trainers()) {
      if (trainer->group().index() != death.group ||
          trainer->rank() != death.rank || trainer->over()) {
        continue;
      }
      Count(FaultKind::kTrainerDeath, &injected_);
      trainer->Die(loop_.now());
      host.Wake();
    }
  }

  // Opens a group whose earlier epoch is over.
  void Reopen(size_t index) {
    GroupRun& group = *world_.groups[index];
    if (!world_.groups[*group.spec().next_epoch_of]->over()) {
      loop_.At(loop_.now() + kEpochLook, this, kEpoch, index);
      return;
    }
    group.Open(loop_.now());
    for (uint16_t host : group.spec().hosts) {
      hosts_[host]->Start();
      hosts_[host]->Wake();
    }
  }

  Outcome Collect(uint64_t events) {
    Outcome outcome;
    for (const auto& group : world_.groups) {
      outcome.groups.emplace_back(group->world());
      outcome.repairs += group->Repairs();
      if (!group->over()) {
        violations_.Add(loop_.now(),
                        absl::StrCat("group ", group->index(), " is not over"));
      }
    }
    for (const auto& host : hosts_) {
      outcome.hosts.push_back(host->Finish());
      outcome.coverage.Add(host->coverage());
      for (const auto& trainer : host->trainers()) {
        outcome.groups[trainer->group().index()][trainer->rank().index()] =
            trainer->outcome();
      }
    }
    outcome.injected = injected_;
    outcome.violations = std::move(violations_.lines());
    outcome.trace_hash = trace_.hash();
    outcome.events = events;
    outcome.sent = network_.sent();
    outcome.end = loop_.now();
    return outcome;
  }

  const Scenario& scenario_;
  RunOptions options_;
  EventLoop loop_;
  Rng rng_;
  Trace trace_;
  PacketPool pool_;
  FaultCounts injected_{};
  Violations violations_;
  Network network_;
  World world_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

}  // namespace

Outcome RunScenario(const Scenario& scenario, const RunOptions& options) {
  return Simulation(scenario, options).Run();
}

}  // namespace optireduce::sim
