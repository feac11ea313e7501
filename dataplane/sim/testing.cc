#include "dataplane/sim/testing.h"

#include <cstring>
#include <utility>

#include "dataplane/sim/simulation.h"
#include "gtest/gtest.h"

namespace optireduce::sim::testing {

Scenario Ranks(size_t world) {
  Scenario scenario;
  scenario.hosts.resize(world);
  GroupSpec group;
  for (size_t rank = 0; rank < world; ++rank) {
    group.hosts.push_back(static_cast<uint16_t>(rank));
    // No two clocks agree.
    scenario.hosts[rank].clock_start =
        Duration::Millis(static_cast<int64_t>(777 * rank));
  }
  group.config.tag = 0xC0FFEE;
  group.config.stage1_bound = Duration::Millis(20);
  group.config.result_bound = Duration::Millis(30);
  group.config.adaptive_bounds = false;
  group.config.hard_limit = Duration::Seconds(5);
  group.config.memory_budget = size_t{8} << 20;
  scenario.groups.push_back(std::move(group));
  return scenario;
}

OpSpec AllReduce(uint64_t count, core::Mode mode) {
  OpSpec op;
  op.descriptor.count = count;
  op.descriptor.mode = mode;
  return op;
}

OpSpec Exact(core::Collective collective, uint64_t count) {
  OpSpec op = AllReduce(count, core::Mode::kExact);
  op.descriptor.collective = collective;
  op.inputs = InputKind::kBits;
  return op;
}

OpSpec& Add(Scenario* scenario, OpSpec op) {
  return scenario->groups[0].ops.emplace_back(std::move(op));
}

void SubmitLate(OpSpec* op, size_t world, core::Rank rank, Duration late) {
  op->submit_after.assign(world, Duration());
  op->submit_after[rank.index()] = late;
}

ScriptedFault& Script(Scenario* scenario, ScriptAction action, uint32_t stage) {
  ScriptedFault& fault = scenario->script.emplace_back();
  fault.op = 0;
  fault.stage = stage;
  fault.action = action;
  return fault;
}

Outcome RunWell(const Scenario& scenario) {
  RunOptions options;
  options.keep_outputs = true;
  Outcome outcome = RunScenario(scenario, options);
  for (const std::string& line : outcome.violations) ADD_FAILURE() << line;
  return outcome;
}

const OpOutcome& OpOf(const Outcome& outcome, size_t rank, size_t op) {
  return outcome.groups.at(0).at(rank).ops.at(op);
}

std::vector<float> Floats(const OpOutcome& op) {
  std::vector<float> values(op.output.size() / sizeof(float));
  if (!values.empty()) {
    std::memcpy(values.data(), op.output.data(), op.output.size());
  }
  return values;
}

Duration Took(const OpOutcome& op) { return op.reported_at - op.submitted_at; }

uint64_t Counted(const Outcome& outcome, core::Verdict verdict) {
  uint64_t sum = 0;
  for (const HostOutcome& host : outcome.hosts) {
    sum += host.counters[static_cast<size_t>(verdict)];
  }
  return sum;
}

uint64_t Injected(const Outcome& outcome, FaultKind kind) {
  return outcome.injected[static_cast<size_t>(kind)];
}

std::vector<uint16_t> Missing(const OpOutcome& op, size_t world) {
  std::vector<uint16_t> ranks;
  for (size_t rank = 0; rank < world; ++rank) {
    if (op.report.missing.Contains(R(rank))) {
      ranks.push_back(static_cast<uint16_t>(rank));
    }
  }
  return ranks;
}

}  // namespace optireduce::sim::testing
