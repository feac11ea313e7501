#include "dataplane/sim/baseline/ours.h"

#include <algorithm>
#include <optional>
#include <utility>

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

namespace {

void AddOps(const ExperimentSpec& spec, GroupSpec* group) {
  const Duration ideal = IdealTime(spec);
  Rng rng(spec.seed);
  OpSpec op;
  op.descriptor.reduce_op = gradcodec::ReduceOp::kAvg;
  op.descriptor.count = spec.bytes / 4;
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
    group->ops.push_back(op);
  }
}

}  // namespace

Scenario OursScenario(const ExperimentSpec& spec) {
  Scenario scenario;
  scenario.seed = spec.seed;
  scenario.give_up = Duration::Seconds(100'000);
  GroupSpec group;
  for (size_t i = 0; i < spec.hosts; ++i) {
    HostSpec host;
    host.link.rate_bps = spec.rate_bps;
    if (spec.share_cap < 1) {
      host.pacer_bps = static_cast<uint64_t>(
          spec.share_cap * static_cast<double>(spec.rate_bps));
    }
    scenario.hosts.push_back(host);
    group.hosts.push_back(static_cast<uint16_t>(i));
  }
  core::GroupConfig& config = group.config;
  config.tag = 0xBA5E;
  config.payload_bytes = wire::PayloadForMtu(spec.mtu);
  config.quorum_permille = spec.quorum_permille;
  config.early_wait = Duration::Millis(10);
  config.slowest_rate_bps = 100'000'000;
  config.memory_budget = std::max<size_t>(config.memory_budget, spec.bytes * 8);
  group.max_in_flight = 1;
  // A late rank still needs the others' results.
  const bool any_late = spec.late > 0 || spec.jitter > 0;
  group.ending = any_late ? Ending::kDrain : Ending::kLeave;
  group.keep_buffers = false;
  AddOps(spec, &group);
  scenario.groups.push_back(std::move(group));
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
