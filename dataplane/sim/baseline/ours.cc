#include "dataplane/sim/baseline/ours.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "dataplane/base/rng.h"
#include "dataplane/sim/baseline/background.h"
#include "dataplane/sim/baseline/reliable.h"
#include "dataplane/sim/baseline/stack.h"
#include "dataplane/sim/simulation.h"
#include "proto/wire.h"

namespace optireduce::sim::baseline {

namespace {

// The background beside the cores.
class Beside : public Bystander {
 public:
  explicit Beside(const ExperimentSpec& spec) : spec_(spec) {}

  void Start(EventLoop* loop, PacketPool* pool, Network* network) override {
    stack_.emplace(loop, pool, network, spec_.hosts, spec_.mtu,
                   TimeOnLine(spec_.mtu, spec_.rate_bps));
    background_.emplace(spec_.background, spec_.seed, spec_.hosts, loop,
                        &*stack_);
    background_->Start();
  }

  const Stack& stack() const { return *stack_; }
  const BackgroundTraffic& background() const { return *background_; }

 private:
  const ExperimentSpec& spec_;
  std::optional<Stack> stack_;
  std::optional<BackgroundTraffic> background_;
};

Duration Times(Duration time, double factor) {
  return Duration::Nanos(
      static_cast<int64_t>(static_cast<double>(time.nanos()) * factor));
}

uint64_t Times(uint64_t rate_bps, double factor) {
  return static_cast<uint64_t>(static_cast<double>(rate_bps) * factor);
}

bool AreInStep(const ExperimentSpec& spec) {
  return spec.late == 0 && spec.jitter == 0 && !spec.congestion_control &&
         spec.incast == 0 && spec.change_factor == 1 && spec.jobs == 1;
}

// A host that is told what its line takes is told the most that it ever takes.
HostSpec HostOf(const ExperimentSpec& spec) {
  HostSpec host;
  host.link.rate_bps = spec.rate_bps;
  if (spec.share_cap < 1 || spec.congestion_control) {
    host.pacer_bps = Times(spec.rate_bps, std::max(spec.change_factor, 1.0));
  }
  return host;
}

core::GroupConfig ConfigOf(const ExperimentSpec& spec) {
  core::GroupConfig config;
  config.tag = 0xBA5E;
  config.congestion_control = spec.congestion_control;
  config.incast = spec.incast;
  config.share_cap_permille =
      static_cast<uint32_t>(std::lround(spec.share_cap * 1000));
  config.payload_bytes = wire::PayloadForMtu(spec.mtu);
  config.quorum_permille = spec.quorum_permille;
  config.early_wait = Duration::Millis(10);
  config.slowest_rate_bps = 100'000'000;
  config.memory_budget = std::max<size_t>(config.memory_budget, spec.bytes * 8);
  return config;
}

std::vector<OpSpec> OpsOf(const ExperimentSpec& spec) {
  const Duration ideal = IdealTime(spec);
  Rng rng(spec.seed);
  OpSpec op;
  op.descriptor.reduce_op = gradcodec::ReduceOp::kAvg;
  op.descriptor.count = spec.bytes / 4;
  std::vector<OpSpec> ops;
  for (size_t i = 0; i < kWarmUpOps + spec.ops; ++i) {
    const auto place = static_cast<double>(i);
    op.submit_after.assign(spec.hosts,
                           kWarmUp + Times(ideal, spec.period * place));
    if (i > kWarmUpOps && (i + 1) % kLateEvery == kWarmUpOps) {
      op.submit_after[0] = op.submit_after[0] + Times(ideal, spec.late);
    }
    for (Duration& at : op.submit_after) {
      at = at + Times(ideal, spec.jitter * rng.Unit());
    }
    ops.push_back(op);
  }
  return ops;
}

void AddSecondJob(const ExperimentSpec& spec, Scenario* scenario) {
  GroupSpec second = scenario->groups[0];
  second.config.tag = 0xBEEF;
  for (size_t rank = 1; rank < spec.hosts; ++rank) {
    second.hosts[rank] = static_cast<uint16_t>(scenario->hosts.size());
    scenario->hosts.push_back(HostOf(spec));
  }
  scenario->groups.push_back(std::move(second));
}

void ChangeRates(const ExperimentSpec& spec, Scenario* scenario) {
  for (size_t host = 0; host < scenario->hosts.size(); ++host) {
    scenario->rate_changes.push_back(
        {static_cast<uint16_t>(host), Times(IdealTime(spec), spec.change_after),
         Times(spec.rate_bps, spec.change_factor)});
  }
}

// Of the ops that count, at rank 0.
size_t FirstAfterChange(const ExperimentSpec& spec, const Outcome& outcome) {
  const Timestamp change =
      Timestamp() + Times(IdealTime(spec), spec.change_after);
  size_t op = 0;
  while (op < spec.ops &&
         (spec.change_factor == 1 ||
          outcome.groups[0][0].ops[kWarmUpOps + op].submitted_at < change)) {
    ++op;
  }
  return op;
}

// Of the ops that count, at host 0.
std::vector<Timestamp> EndedAt(const std::vector<RankOutcome>& ranks) {
  std::vector<Timestamp> ended;
  for (size_t op = kWarmUpOps; op < ranks[0].ops.size(); ++op) {
    ended.push_back(ranks[0].ops[op].reported_at);
  }
  return ended;
}

}  // namespace

Duration IdealTime(const ExperimentSpec& spec) {
  const uint64_t payload = wire::PayloadForMtu(spec.mtu);
  const uint64_t shard = (spec.bytes + spec.hosts - 1) / spec.hosts;
  const uint64_t packets = (shard + payload - 1) / payload;
  const uint64_t overhead =
      wire::kHeaderBytes + wire::kCrcBytes + kWireOverhead;
  const uint64_t bytes = 2 * (spec.hosts - 1) * (shard + packets * overhead);
  return Duration::Nanos(static_cast<int64_t>(
      static_cast<double>(bytes) * 8e9 / static_cast<double>(spec.rate_bps)));
}

Scenario OursScenario(const ExperimentSpec& spec) {
  Scenario scenario;
  scenario.seed = spec.seed;
  scenario.give_up = Duration::Seconds(100'000);
  GroupSpec group;
  for (size_t i = 0; i < spec.hosts; ++i) {
    scenario.hosts.push_back(HostOf(spec));
    group.hosts.push_back(static_cast<uint16_t>(i));
  }
  group.config = ConfigOf(spec);
  group.max_in_flight = 1;
  // A rank that is behind still needs the others' results.
  group.ending = AreInStep(spec) ? Ending::kLeave : Ending::kDrain;
  group.keep_buffers = false;
  group.ops = OpsOf(spec);
  scenario.groups.push_back(std::move(group));
  if (spec.jobs == 2) AddSecondJob(spec, &scenario);
  if (spec.change_factor != 1) ChangeRates(spec, &scenario);
  scenario.random.loss = spec.loss;
  return scenario;
}

ExperimentResult RunOurs(const ExperimentSpec& spec) {
  const Scenario scenario = OursScenario(spec);
  Beside beside(spec);
  RunOptions options;
  options.bystander = &beside;
  const Outcome outcome = RunScenario(scenario, options);
  ExperimentResult result;
  if (!outcome.ok()) result.failure = outcome.violations.front();
  for (size_t op = kWarmUpOps; op < kWarmUpOps + spec.ops; ++op) {
    for (const RankOutcome& rank : outcome.groups[0]) {
      const OpOutcome& one = rank.ops[op];
      if (!one.reported()) {
        if (result.failure.empty()) result.failure = "an op was not reported";
        continue;
      }
      result.samples.push_back(one.reported_at - one.submitted_at);
      result.missing.push_back(one.report.MissingFraction());
      result.bounds.push_back(one.report.result_bound);
    }
  }
  result.changed_at = FirstAfterChange(spec, outcome);
  if (spec.jobs == 2) {
    for (const auto& ranks : outcome.groups) {
      result.jobs_ended.push_back(EndedAt(ranks));
    }
  }
  result.elapsed = outcome.end - Timestamp();
  result.background_bytes = beside.background().Received();
  result.transport = beside.stack().Totals();
  result.repairs = outcome.repairs;
  result.trace_hash = outcome.trace_hash;
  return result;
}

}  // namespace optireduce::sim::baseline
