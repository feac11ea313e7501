// Random scenarios. A failing seed prints the command that replays it; more of
// them: `optisim run --seed S --count K`, or the large test beside this one.

#include "dataplane/sim/seeds.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "dataplane/core/bound_controller.h"
#include "dataplane/sim/outcome.h"
#include "dataplane/sim/random_scenario.h"
#include "dataplane/sim/simulation.h"
#include "gtest/gtest.h"

namespace optireduce::sim {
namespace {

// How many: an environment variable of the test in BUILD.bazel.
uint64_t Count() {
  const char* const count = std::getenv("OPTISIM_TEST_SEEDS");
  return count == nullptr ? 100 : std::strtoull(count, nullptr, 10);
}

TEST(SeedsTest, NoOracleComplains) {
  const SeedsSummary summary = RunSeeds(1, Count(), /*progress=*/false, stdout);
  PrintSummary(summary, stdout);
  EXPECT_TRUE(summary.failing.empty());
  EXPECT_TRUE(summary.coverage.Impossible().empty());
}

TEST(SeedsTest, TheSameSeedRunsTheSame) {
  for (const uint64_t seed : {11, 12, 13, 14}) {
    const Outcome first = RunScenario(RandomScenario(seed));
    const Outcome second = RunScenario(RandomScenario(seed));
    EXPECT_EQ(first.trace_hash, second.trace_hash);
    EXPECT_EQ(first.events, second.events);
    EXPECT_NE(first.trace_hash,
              RunScenario(RandomScenario(seed + 100)).trace_hash);
  }
}

// Otherwise the oracles would only ever see the configured ones.
TEST(SeedsTest, InSomeSeedsBoundsAdapt) {
  size_t adapted = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Scenario scenario = RandomScenario(seed);
    if (!scenario.groups[0].config.adaptive_bounds) continue;
    const core::Ceilings ceilings(scenario.groups[0].config);
    const Outcome outcome = RunScenario(scenario);
    const GroupSpec& group = scenario.groups[0];
    bool any = false;
    for (size_t op = 0; op < group.ops.size(); ++op) {
      const Duration bound = outcome.groups[0][0].ops[op].report.result_bound;
      const Duration most = ceilings
                                .Of(core::InputBytes(group.ops[op].descriptor,
                                                     group.hosts.size()))
                                .result;
      any = any || (bound > Duration() && bound < most);
    }
    adapted += any;
  }
  EXPECT_GE(adapted, 5u);
}

// The distribution that docs/TESTING.md promises.
TEST(SeedsTest, ScenariosAreDrawnAsDocumented) {
  constexpr uint64_t kSeeds = 2000;
  uint64_t small = 0;
  uint64_t loss = 0;
  uint64_t partition = 0;
  uint64_t death = 0;
  uint64_t short_queues = 0;
  uint64_t faultless = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Scenario scenario = RandomScenario(seed);
    const GroupSpec& group = scenario.groups[0];
    ASSERT_GE(group.hosts.size(), 2u);
    ASSERT_LE(group.hosts.size(), 64u);
    ASSERT_GE(group.ops.size(), 3u);
    ASSERT_GE(group.max_in_flight, 3u);
    ASSERT_GE(group.config.window, 3u);
    if (group.hosts.size() < 12) ++small;
    if (scenario.random.loss > 0) ++loss;
    if (!scenario.partitions.empty()) ++partition;
    if (!scenario.deaths.empty()) ++death;
    if (scenario.short_queues) ++short_queues;
    if (scenario.random.window.end == Timestamp::Never()) ++faultless;
  }
  const auto share = [](uint64_t seeds) {
    return static_cast<double>(seeds) / kSeeds;
  };
  // Log-uniform in 2..64: half of the worlds are below the root of 128.
  EXPECT_NEAR(share(small), 0.51, 0.06);
  EXPECT_NEAR(share(faultless), 0.1, 0.03);
  for (const uint64_t kind : {loss, partition, death, short_queues}) {
    EXPECT_GE(share(kind), 0.3);
  }
}

}  // namespace
}  // namespace optireduce::sim
