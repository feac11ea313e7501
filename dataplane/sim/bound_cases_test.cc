// Adaptive bounds, over many ops on simulated time, with the settings that a
// group has by default.

#include <algorithm>
#include <vector>

#include "dataplane/core/bound_controller.h"
#include "dataplane/sim/scenario.h"
#include "dataplane/sim/simulation.h"
#include "dataplane/sim/testing.h"
#include "gtest/gtest.h"

namespace optireduce::sim {
namespace {

using core::EndCause;
using core::Mode;
using core::OpReport;
using testing::Add;
using testing::AllReduce;
using testing::OpOf;
using testing::Ranks;
using testing::RunWell;
using testing::Took;

constexpr uint64_t kSlow = 250'000'000;
constexpr uint64_t kFast = 1'000'000'000;
// Takes 6.5 ms on fast links: 512 KiB.
constexpr uint64_t kCount = 128 << 10;
constexpr Duration kStep = Duration::Millis(50);

// One op after the other, at fixed times.
Scenario Steps(size_t world, int ops, uint64_t rate_bps) {
  Scenario scenario = Ranks(world);
  core::GroupConfig& config = scenario.groups[0].config;
  const core::GroupConfig defaults;
  config.adaptive_bounds = defaults.adaptive_bounds;
  config.stage1_bound = defaults.stage1_bound;
  config.result_bound = defaults.result_bound;
  for (HostSpec& host : scenario.hosts) host.link.rate_bps = rate_bps;
  for (int i = 0; i < ops; ++i) {
    OpSpec op = AllReduce(kCount, Mode::kBounded);
    op.submit_after.assign(world, kStep * i);
    Add(&scenario, op);
  }
  return scenario;
}

void ChangeRates(Scenario* scenario, Duration after, uint64_t rate_bps) {
  for (size_t host = 0; host < scenario->hosts.size(); ++host) {
    scenario->rate_changes.push_back(
        {static_cast<uint16_t>(host), after, rate_bps});
  }
}

// The first op that was submitted after a time.
size_t FirstAfter(const Outcome& outcome, Duration after) {
  size_t op = 0;
  while (OpOf(outcome, 0, op).submitted_at < Timestamp() + after) ++op;
  return op;
}

double Missing(const Outcome& outcome, size_t first, size_t end) {
  double sum = 0;
  size_t reports = 0;
  for (const RankOutcome& rank : outcome.groups[0]) {
    for (size_t op = first; op < end; ++op, ++reports) {
      sum += rank.ops[op].report.MissingFraction();
    }
  }
  return sum / static_cast<double>(reports);
}

TEST(BoundCases, SettleBetweenOneAndFourTimesWhatAnOpTakes) {
  constexpr int kOps = 60;
  const Outcome outcome = RunWell(Steps(4, kOps, kFast));
  EXPECT_LT(Missing(outcome, 0, kOps), 0.001);
  for (size_t rank = 0; rank < 4; ++rank) {
    for (size_t op = 0; op < kOps; ++op) {
      const OpReport& report = OpOf(outcome, rank, op).report;
      if (op < core::BoundController::kWarmUp + 2) continue;
      const Duration took = Took(OpOf(outcome, rank, op));
      EXPECT_GT(report.result_bound, took) << op;
      EXPECT_LT(report.result_bound, took * 2) << op;
      EXPECT_LT(report.stage1_bound, report.result_bound) << op;
    }
  }
}

TEST(BoundCases, AfterAFourfoldDropOfRateTheLossIsBackInItsBandWithin20Ops) {
  constexpr size_t kOps = 100;
  Scenario scenario = Steps(4, kOps, kFast);
  const Duration change = kStep * 40;
  ChangeRates(&scenario, change, kSlow);
  const Outcome outcome = RunWell(scenario);
  const size_t first = FirstAfter(outcome, change);
  EXPECT_LT(OpOf(outcome, 0, first).report.stage1_bound, Duration::Millis(26))
      << "had not settled";
  EXPECT_GT(Missing(outcome, first, first + 2), 0.01) << "nothing was cut";
  EXPECT_LT(Missing(outcome, first + 20, kOps), 0.001);
}

// Bounds of ops in flight are those of before the drop, and ops wait for each
// other on the wire.
TEST(BoundCases, AfterAFourfoldDropOfRateManyOpsInFlightAreBackToo) {
  constexpr size_t kOps = 200;
  Scenario scenario = Steps(4, kOps, kFast);
  scenario.groups[0].max_in_flight = 8;
  for (OpSpec& op : scenario.groups[0].ops) {
    op.descriptor.count = kCount / 8;
    op.submit_after.clear();  // as soon as there is room
  }
  const Duration change = Duration::Millis(60);
  ChangeRates(&scenario, change, kSlow);
  const Outcome outcome = RunWell(scenario);
  const size_t first = FirstAfter(outcome, change);
  ASSERT_GT(first, 40u);
  ASSERT_LT(first + 40, kOps);
  // They overlap: an op is submitted while seven others are not over.
  EXPECT_LT(OpOf(outcome, 0, first).submitted_at,
            OpOf(outcome, 0, first - 7).reported_at);
  EXPECT_GT(Missing(outcome, first - 8, first + 8), 0.01) << "nothing was cut";
  EXPECT_LT(Missing(outcome, first + 20, kOps), 0.001);
}

TEST(BoundCases, AfterAFourfoldRiseOfRateBoundsFollowWithin50Ops) {
  constexpr size_t kOps = 100;
  Scenario scenario = Steps(4, kOps, kSlow);
  const Duration change = kStep * 40;
  ChangeRates(&scenario, change, kFast);
  const Outcome outcome = RunWell(scenario);
  const size_t first = FirstAfter(outcome, change);
  EXPECT_LT(Missing(outcome, 0, kOps), 0.001);
  for (size_t rank = 0; rank < 4; ++rank) {
    const OpOutcome& old = OpOf(outcome, rank, first - 1);
    EXPECT_GT(old.report.result_bound, Took(old));
    for (size_t op = first + 50; op < kOps; ++op) {
      const OpOutcome& result = OpOf(outcome, rank, op);
      EXPECT_LE(result.report.result_bound, Took(result) * 2) << op;
    }
  }
}

// One trainer comes late to each op, by three and ten times what an op takes.
TEST(BoundCases, ALateTrainerDoesNotStretchThem) {
  constexpr size_t kOps = 60;
  for (const Duration late : {Duration::Millis(20), Duration::Millis(65)}) {
    Scenario scenario = Steps(4, kOps, kFast);
    for (OpSpec& op : scenario.groups[0].ops) {
      op.submit_after[3] = op.submit_after[3] + late;
    }
    const Outcome outcome = RunWell(scenario);
    for (size_t rank = 0; rank < 3; ++rank) {
      for (size_t op = kOps * 3 / 4; op < kOps; ++op) {
        EXPECT_LT(OpOf(outcome, rank, op).report.stage1_bound,
                  Duration::Millis(12));
        EXPECT_LT(Took(OpOf(outcome, rank, op)), Duration::Millis(20));
      }
    }
  }
}

// A trainer that is punctual comes to some ops ten times as late as they take.
TEST(BoundCases, WhoIsMuchLaterThanUsualCostsTheOthersNothing) {
  constexpr size_t kOps = 60;
  Scenario scenario = Steps(4, kOps, kFast);
  for (size_t op = 30; op < kOps; op += 10) {
    Duration& at = scenario.groups[0].ops[op].submit_after[3];
    at = at + Duration::Millis(65);
  }
  const Outcome outcome = RunWell(scenario);
  for (size_t rank = 0; rank < 3; ++rank) {
    const Duration usual = Took(OpOf(outcome, rank, 29));
    for (size_t op = 30; op < kOps; ++op) {
      const OpOutcome& result = OpOf(outcome, rank, op);
      EXPECT_LT(Took(result), usual * 11 / 10) << op;
      // The next one it submits with the late one.
      const bool late = op % 10 < 2;
      EXPECT_EQ(result.report.min_contributors, late ? 3 : 4) << op;
      EXPECT_EQ(result.report.absent, 0u) << op;
    }
  }
}

// From op 20 on one trainer comes later by most of what an op takes.
TEST(BoundCases, WhoComesToBeLateByLessThanAnOpIsWaitedForAfterSomeOps) {
  constexpr size_t kOps = 60;
  Scenario scenario = Steps(4, kOps, kFast);
  for (size_t op = 20; op < kOps; ++op) {
    Duration& at = scenario.groups[0].ops[op].submit_after[3];
    at = at + Duration::Millis(4);
  }
  const Outcome outcome = RunWell(scenario);
  EXPECT_GT(Missing(outcome, 20, 21), 0.2);
  EXPECT_LT(Missing(outcome, 21, 26), 0.1);
  EXPECT_EQ(Missing(outcome, 26, kOps), 0);
}

// A host that stands still for some ops is for the liveness to judge.
TEST(BoundCases, ASilentHostDoesNotStretchThem) {
  constexpr size_t kOps = 60;
  Scenario scenario = Steps(4, kOps, kFast);
  Stall stall;
  stall.host = 3;
  stall.whole_host = true;
  stall.window.begin = Timestamp() + kStep * 30;
  stall.window.end = stall.window.begin + Duration::Seconds(1);
  scenario.stalls.push_back(stall);
  const Outcome outcome = RunWell(scenario);
  EXPECT_GT(Missing(outcome, 31, 45), 0.1);
  for (size_t rank = 0; rank < 3; ++rank) {
    const Duration usual = Took(OpOf(outcome, rank, 25));
    for (size_t op = 25; op < kOps; ++op) {
      EXPECT_LT(OpOf(outcome, rank, op).report.result_bound, usual * 4) << op;
    }
  }
}

// Processors are busy: with every 35th op one of two engines is not run for 15
// ms, though ops take 1. Of 32 ops that is not seen; the engines say so.
TEST(BoundCases, EnginesThatPauseAreWaitedFor) {
  constexpr int kOps = 350;
  Scenario scenario = Steps(4, kOps, kFast);
  for (OpSpec& op : scenario.groups[0].ops) op.descriptor.count = kCount / 8;
  for (int op = 20; op < kOps; op += 35) {
    Stall stall;
    stall.host = static_cast<uint16_t>(op % 2);
    stall.window.begin = Timestamp() + kStep * op + Duration::Micros(300);
    stall.window.end = stall.window.begin + Duration::Millis(15);
    scenario.stalls.push_back(stall);
  }
  const Outcome outcome = RunWell(scenario);
  EXPECT_LT(Missing(outcome, 100, kOps), 0.00001);
  for (size_t op = 100; op < kOps; ++op) {
    EXPECT_LT(OpOf(outcome, 2, op).report.result_bound, Duration::Millis(48));
  }
}

// More bytes than the configured bounds are for; then the network loses much.
TEST(BoundCases, LongOpsOnSlowNetworksGetTheirTime) {
  constexpr int kOps = 30;
  Scenario scenario = Steps(4, kOps, 50'000'000);  // takes 130 ms
  scenario.groups[0].config.slowest_rate_bps = 50'000'000;
  for (int op = 0; op < kOps; ++op) {
    scenario.groups[0].ops[op].submit_after.assign(4, kStep * 6 * op);
  }
  const Outcome outcome = RunWell(scenario);
  EXPECT_LT(Missing(outcome, 0, kOps), 0.001);
  const OpOutcome& last = OpOf(outcome, 0, kOps - 1);
  EXPECT_GT(Took(last), Duration::Millis(100));
  EXPECT_LT(last.report.result_bound, Took(last) * 2);
}

// Lost packets come again, or end a stage early; bounds stay as they are.
TEST(BoundCases, LossDoesNotStretchThem) {
  constexpr size_t kOps = 100;
  Scenario scenario = Steps(4, kOps, kFast);
  scenario.random.loss = 0.01;
  const Outcome outcome = RunWell(scenario);
  for (size_t rank = 0; rank < 4; ++rank) {
    for (size_t op = kOps / 2; op < kOps; ++op) {
      const OpReport& report = OpOf(outcome, rank, op).report;
      EXPECT_NE(report.cause, EndCause::kDeadline) << op;
      // 6.8 ms without loss.
      EXPECT_LT(report.result_bound, Duration::Micros(6'800) * 4) << op;
    }
  }
  EXPECT_LT(Missing(outcome, kOps / 2, kOps), 0.0002);
}

}  // namespace
}  // namespace optireduce::sim
