#include "dataplane/sim/simulation.h"

#include "dataplane/sim/scenario.h"
#include "gtest/gtest.h"

namespace optireduce::sim {
namespace {

Scenario Basic(size_t world) {
  Scenario scenario;
  scenario.hosts.resize(world);
  GroupSpec group;
  group.config.tag = 77;
  group.config.memory_budget = 4 << 20;
  for (size_t i = 0; i < world; ++i) {
    group.hosts.push_back(static_cast<uint16_t>(i));
  }
  scenario.groups.push_back(group);
  return scenario;
}

OpSpec AllReduce(uint64_t count, core::Mode mode) {
  OpSpec op;
  op.descriptor.count = count;
  op.descriptor.mode = mode;
  return op;
}

void Expect(const Outcome& outcome) {
  for (const auto& line : outcome.violations) ADD_FAILURE() << line;
}

TEST(SimulationTest, Smoke) {
  for (size_t world : {1, 2, 3, 4, 8, 16}) {
    for (core::Mode mode : {core::Mode::kBounded, core::Mode::kExact}) {
      Scenario scenario = Basic(world);
      for (int i = 0; i < 4; ++i) {
        scenario.groups[0].ops.push_back(AllReduce(1000 * i, mode));
      }
      const Outcome outcome = RunScenario(scenario);
      Expect(outcome);
      printf("world %zu events %lu end %ld\n", world, outcome.events,
             outcome.end.nanos());
      for (auto& rank : outcome.groups[0])
        for (auto& op : rank.ops) {
          EXPECT_TRUE(op.reported());
          EXPECT_EQ(op.report.status, core::OpStatus::kComplete);
        }
    }
  }
}

}  // namespace
}  // namespace optireduce::sim
