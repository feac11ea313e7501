// Limits, late and lost ranks, on simulated time.

#include <vector>

#include "dataplane/sim/scenario.h"
#include "dataplane/sim/simulation.h"
#include "dataplane/sim/testing.h"
#include "gtest/gtest.h"

namespace optireduce::sim {
namespace {

using core::EndCause;
using core::Mode;
using core::OpStatus;
using gradcodec::ReduceOp;
using testing::Add;
using testing::AllReduce;
using testing::Floats;
using testing::Missing;
using testing::OpOf;
using testing::R;
using testing::Ranks;
using testing::RunWell;
using testing::Script;
using testing::SubmitLate;
using testing::Took;

OpSpec Average(Duration soft_limit) {
  OpSpec op = AllReduce(4000, Mode::kBounded);
  op.descriptor.reduce_op = ReduceOp::kAvg;
  op.descriptor.soft_limit = soft_limit;
  op.inputs = InputKind::kRankPlus;
  return op;
}

TEST(TimeCases, ASilentRankCostsTheSoftLimitAndItsShard) {
  Scenario scenario = Ranks(4);
  scenario.groups[0].config.stage1_bound = Duration::Millis(3);
  scenario.groups[0].config.early_wait = Duration::Millis(10);
  OpSpec op = Average(Duration::Millis(5));
  op.submit_after.assign(4, Duration::Millis(10));
  Add(&scenario, op);
  Death death;
  death.rank = R(3);
  death.after = Duration::Millis(5);
  death.daemon = true;
  scenario.deaths.push_back(death);
  const Outcome outcome = RunWell(scenario);
  for (size_t rank = 0; rank < 3; ++rank) {
    const OpOutcome& result = OpOf(outcome, rank);
    EXPECT_EQ(result.report.status, OpStatus::kPartial);
    EXPECT_GE(Took(result), Duration::Millis(5));
    EXPECT_LE(Took(result), Duration::Millis(6));
    EXPECT_EQ(Missing(result, 4), std::vector<uint16_t>{3});
    EXPECT_EQ(result.report.min_contributors, 3);
    EXPECT_EQ(result.report.Stage2Loss(), 0.25);
    for (const float value : Floats(result)) {
      EXPECT_TRUE(value == 2 || value == 0) << value;
    }
    EXPECT_TRUE(outcome.groups[0][rank].peer_lost);
  }
}

TEST(TimeCases, ALateTrainerIsServedByItsDaemonAndGetsTheResultAtOnce) {
  Scenario scenario = Ranks(4);
  scenario.groups[0].config.stage1_bound = Duration::Millis(10);
  scenario.groups[0].config.result_bound = Duration::Millis(18);
  OpSpec op = Average(Duration::Millis(20));
  SubmitLate(&op, 4, R(3), Duration::Millis(200));
  Add(&scenario, op);
  const Outcome outcome = RunWell(scenario);
  for (size_t rank = 0; rank < 4; ++rank) {
    const OpOutcome& result = OpOf(outcome, rank);
    EXPECT_EQ(result.report.status, OpStatus::kPartial);
    EXPECT_LE(Took(result), rank == 3 ? Duration() : Duration::Millis(21));
    EXPECT_EQ(result.report.min_contributors, 3);
    EXPECT_EQ(result.report.absent, 0u);
    EXPECT_EQ(Floats(result), std::vector<float>(4000, 2));
    if (rank != 3) {
      EXPECT_EQ(Missing(result, 4), std::vector<uint16_t>{3});
    }
  }
}

TEST(TimeCases, OneEarlyRankClosesNobodysOp) {
  Scenario scenario = Ranks(8);
  scenario.groups[0].config.stage1_bound = Duration::Millis(6);
  scenario.groups[0].config.result_bound = Duration::Millis(10);
  OpSpec op = AllReduce(4000, Mode::kBounded);
  op.submit_after.assign(8, Duration::Millis(500));
  op.submit_after[0] = Duration();
  Add(&scenario, op);
  const Outcome outcome = RunWell(scenario);
  for (size_t rank = 0; rank < 8; ++rank) {
    const OpOutcome& result = OpOf(outcome, rank);
    EXPECT_EQ(result.report.status, OpStatus::kComplete);
    EXPECT_EQ(result.report.min_contributors, 8);
    if (rank == 0) {
      EXPECT_GE(Took(result), Duration::Millis(500));
    } else {
      EXPECT_LT(Took(result), Duration::Millis(2));
    }
  }
}

TEST(TimeCases, TheHardLimitIsKeptBeyondAnyNarrowCounter) {
  Scenario scenario = Ranks(2);
  scenario.groups[0].config.hard_limit = Duration::Seconds(70);
  scenario.give_up = Duration::Seconds(500);
  OpSpec op = AllReduce(100, Mode::kExact);
  SubmitLate(&op, 2, R(1), Duration::Seconds(200));
  Add(&scenario, op);
  const Outcome outcome = RunWell(scenario);
  const OpOutcome& result = OpOf(outcome, 0);
  EXPECT_EQ(result.report.status, OpStatus::kHardLimit);
  EXPECT_GE(Took(result), Duration::Seconds(70));
  EXPECT_LE(Took(result), Duration::Seconds(70) + Duration::Micros(100));
  EXPECT_EQ(Missing(result, 2), std::vector<uint16_t>{1});
}

// A hundred chunks from each sender; one in the middle does not come. What
// marks the end of a stream is the place in the stream, not the number.
TEST(TimeCases, AnOpWithAGapEndsEarly) {
  for (const uint32_t stage : {1u, 2u}) {
    Scenario scenario = Ranks(3);
    scenario.groups[0].config.early_wait = Duration::Millis(1);
    Add(&scenario, AllReduce(uint64_t{300} * 356, Mode::kBounded));
    ScriptedFault& fault = Script(&scenario, ScriptAction::kDrop, stage);
    fault.chunk = 50;
    fault.repairs = true;
    if (stage == 2) fault.destination = R(0);
    const Outcome outcome = RunWell(scenario);
    EXPECT_GT(testing::Injected(outcome, FaultKind::kScripted), 1u);
    size_t early = 0;
    for (size_t rank = 0; rank < 3; ++rank) {
      const OpOutcome& result = OpOf(outcome, rank);
      EXPECT_LT(Took(result), Duration::Millis(5));
      EXPECT_NE(result.report.cause, EndCause::kDeadline);
      if (result.report.cause == EndCause::kEarly) ++early;
    }
    EXPECT_EQ(early, stage == 2 ? 1u : 0u);
  }
}

TEST(TimeCases, AfterAPartialAndAFailedOpTheNextIsWholeAndFast) {
  Scenario scenario = Ranks(4);
  OpSpec partial = AllReduce(4000, Mode::kBounded);
  Add(&scenario, partial);
  ScriptedFault& fault = Script(&scenario, ScriptAction::kDrop, 1);
  fault.source = R(2);
  fault.repairs = true;
  OpSpec failing = AllReduce(4000, Mode::kExact);
  failing.descriptor.hard_limit = Duration::Millis(20);
  failing.submit_after.assign(4, Duration::Millis(50));
  failing.submit_after[3] = Duration::Millis(150);
  Add(&scenario, failing);
  OpSpec next = AllReduce(4000, Mode::kExact);
  next.submit_after.assign(4, Duration::Millis(300));
  Add(&scenario, next);
  const Outcome outcome = RunWell(scenario);
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(OpOf(outcome, rank, 0).report.status, OpStatus::kPartial);
    EXPECT_NE(OpOf(outcome, rank, 1).report.status, OpStatus::kComplete);
    const OpOutcome& last = OpOf(outcome, rank, 2);
    EXPECT_EQ(last.report.status, OpStatus::kComplete);
    EXPECT_LT(Took(last), Duration::Millis(1));
  }
}

// A trainer far behind: its daemon holds what fits in its window and memory,
// and the others are not held up.
TEST(TimeCases, ATrainerFarBehindCostsAFixedAmountOfMemory) {
  Scenario scenario = Ranks(4);
  GroupSpec& group = scenario.groups[0];
  group.config.window = 8;
  group.config.memory_budget = 256 << 10;
  group.config.stage1_bound = Duration::Millis(1);
  group.config.result_bound = Duration::Millis(2);
  group.config.early_wait = Duration::Micros(200);
  for (int i = 0; i < 200; ++i) {
    OpSpec op = AllReduce(2000, Mode::kBounded);
    SubmitLate(&op, 4, R(3), Duration::Seconds(2));
    Add(&scenario, op);
  }
  const Outcome outcome = RunWell(scenario);
  for (size_t rank = 0; rank < 3; ++rank) {
    for (size_t op = 0; op < 200; ++op) {
      EXPECT_EQ(OpOf(outcome, rank, op).report.status, OpStatus::kPartial);
      EXPECT_EQ(OpOf(outcome, rank, op).report.min_contributors, 3);
    }
    EXPECT_LT(OpOf(outcome, rank, 199).reported_at,
              Timestamp() + Duration::Seconds(1));
  }
  for (size_t op = 0; op < 200; ++op) {
    EXPECT_TRUE(OpOf(outcome, 3, op).reported());
  }
}

TEST(TimeCases, AnEngineThatWasNotPolledLosesNothingThatArrivedInTime) {
  Scenario scenario = Ranks(4);
  OpSpec op = AllReduce(40000, Mode::kBounded);
  op.submit_after.assign(4, Duration::Millis(5));
  Add(&scenario, op);
  // From just after the submits, past every bound.
  for (const bool hardware : {false, true}) {
    scenario.stalls.clear();
    Stall stall;
    stall.host = 2;
    stall.window.begin = Timestamp() + Duration::Micros(5'700);
    stall.window.end = Timestamp() + Duration::Millis(90);
    scenario.stalls.push_back(stall);
    for (HostSpec& host : scenario.hosts) host.hardware_clock = hardware;
    const Outcome outcome = RunWell(scenario);
    const core::OpReport& report = OpOf(outcome, 2).report;
    // Its own shard has all contributions: they came before its bound.
    EXPECT_EQ(report.Stage1Loss(), 0) << "hardware clock: " << hardware;
    EXPECT_EQ(report.absent, 0u);
  }
}

}  // namespace
}  // namespace optireduce::sim
