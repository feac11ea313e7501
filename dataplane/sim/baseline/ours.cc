#include "dataplane/sim/baseline/ours.h"

#include <algorithm>
#include <optional>
#include <utility>

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

// What each host has to send or receive, with all headers, at the line rate.
Duration OnIdleLine(const ExperimentSpec& spec, uint32_t payload) {
  const uint64_t bytes = 2 * spec.bytes / spec.hosts * (spec.hosts - 1);
  const uint64_t packets = bytes / payload + 1;
  const uint64_t on_wire =
      packets * (core::MaxDatagramBytes(payload) + kWireOverhead);
  return Duration::Nanos(static_cast<int64_t>(
      static_cast<double>(on_wire) * 8e9 / static_cast<double>(spec.rate_bps)));
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
    scenario.hosts.push_back(host);
    group.hosts.push_back(static_cast<uint16_t>(i));
  }
  core::GroupConfig& config = group.config;
  config.tag = 0xBA5E;
  config.payload_bytes = wire::PayloadForMtu(spec.mtu);
  const Duration idle = OnIdleLine(spec, config.payload_bytes);
  config.stage1_bound = std::max(config.stage1_bound, idle * 2);
  config.result_bound = std::max(config.result_bound, idle * 3);
  config.hard_limit = std::max(config.hard_limit, config.result_bound * 4);
  config.memory_budget = std::max<size_t>(config.memory_budget, spec.bytes * 8);
  group.max_in_flight = 1;
  group.ending = Ending::kLeave;
  group.keep_buffers = false;
  OpSpec op;
  op.descriptor.reduce_op = gradcodec::ReduceOp::kAvg;
  op.descriptor.count = spec.bytes / 4;
  op.submit_after.assign(spec.hosts, kWarmUp);
  group.ops.assign(kWarmUpOps + spec.ops, op);
  scenario.groups.push_back(std::move(group));
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
  double missing = 0;
  for (size_t op = kWarmUpOps; op < kWarmUpOps + spec.ops; ++op) {
    for (const RankOutcome& rank : outcome.groups[0]) {
      const OpOutcome& one = rank.ops[op];
      if (!one.reported()) {
        result.failure = "an op was not reported";
        continue;
      }
      result.samples.push_back(one.reported_at - one.submitted_at);
      missing += one.report.MissingFraction();
    }
  }
  if (!result.samples.empty()) {
    missing /= static_cast<double>(result.samples.size());
  }
  result.missing = missing;
  result.elapsed = outcome.end - Timestamp();
  result.background_bytes = beside.background().Received();
  result.transport = beside.stack().Totals();
  result.trace_hash = outcome.trace_hash;
  return result;
}

}  // namespace optireduce::sim::baseline
