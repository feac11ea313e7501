// Losses, copies and damage, packet by packet.

#include <algorithm>
#include <set>
#include <vector>

#include "dataplane/core/plan.h"
#include "dataplane/sim/scenario.h"
#include "dataplane/sim/simulation.h"
#include "dataplane/sim/testing.h"
#include "gtest/gtest.h"

namespace optireduce::sim {
namespace {

using core::Collective;
using core::Mode;
using core::OpStatus;
using core::Verdict;
using gradcodec::ReduceOp;
using testing::Add;
using testing::AllReduce;
using testing::Counted;
using testing::Exact;
using testing::Floats;
using testing::Injected;
using testing::OpOf;
using testing::R;
using testing::Ranks;
using testing::RunWell;
using testing::Script;

TEST(FaultCases, ResultsLostToOneRankAreAbsentThereAlone) {
  Scenario scenario = Ranks(4);
  OpSpec op = AllReduce(4000, Mode::kBounded);
  op.descriptor.reduce_op = ReduceOp::kAvg;
  op.inputs = InputKind::kRankPlus;
  Add(&scenario, op);
  ScriptedFault& fault = Script(&scenario, ScriptAction::kDrop, 2);
  fault.source = R(3);
  fault.destination = R(1);
  fault.repairs = true;
  const Outcome outcome = RunWell(scenario);
  for (size_t rank = 0; rank < 4; ++rank) {
    const OpOutcome& result = OpOf(outcome, rank);
    const std::vector<float> values = Floats(result);
    const auto zeros = std::count(values.begin(), values.end(), 0.0f);
    EXPECT_EQ(result.report.Stage1Loss(), 0);
    EXPECT_EQ(result.report.min_contributors, 4);
    EXPECT_EQ(result.report.absent, static_cast<uint64_t>(zeros));
    EXPECT_EQ(result.report.status,
              rank == 1 ? OpStatus::kPartial : OpStatus::kComplete);
    EXPECT_EQ(zeros, rank == 1 ? 1000 : 0);
    EXPECT_EQ(result.report.Stage2Loss(), rank == 1 ? 0.25 : 0);
    EXPECT_EQ(std::count(values.begin(), values.end(), 2.5f), 4000 - zeros);
    EXPECT_EQ(testing::Missing(result, 4),
              rank == 1 ? std::vector<uint16_t>{3} : std::vector<uint16_t>{});
  }
}

TEST(FaultCases, ExactSumsUnderLossHaveTheBitsOfTheLosslessRun) {
  for (const double loss : {0.0, 0.1, 0.4}) {
    Scenario scenario = Ranks(4);
    OpSpec op = AllReduce(5000, Mode::kExact);
    op.inputs = InputKind::kBits;
    Add(&scenario, op);
    scenario.random.loss = loss;
    const Outcome outcome = RunWell(scenario);
    EXPECT_EQ(Injected(outcome, FaultKind::kLoss) > 0, loss > 0);
    for (size_t rank = 0; rank < 4; ++rank) {
      const OpOutcome& result = OpOf(outcome, rank);
      EXPECT_EQ(result.report.status, OpStatus::kComplete);
      EXPECT_EQ(result.report.MissingFraction(), 0);
      // The oracle compares with the sum in rank order; here, with each other.
      EXPECT_EQ(result.output, OpOf(outcome, 0).output);
    }
  }
}

TEST(FaultCases, EveryExactCollectiveSurvivesLossAndDamage) {
  for (const Collective collective :
       {Collective::kReduceScatter, Collective::kAllGather,
        Collective::kBroadcast, Collective::kBarrier}) {
    Scenario scenario = Ranks(5);
    for (int i = 0; i < 3; ++i) {
      Add(&scenario,
          Exact(collective, collective == Collective::kBarrier ? 0 : 5000));
    }
    scenario.random.loss = 0.1;
    scenario.random.corrupt = 0.1;
    scenario.random.corrupt_flipped = 0.5;
    scenario.random.duplicate = 0.1;
    scenario.random.window.end = Timestamp::FromNanos(2'000'000'000);
    const Outcome outcome = RunWell(scenario);
    for (size_t rank = 0; rank < 5; ++rank) {
      for (size_t op = 0; op < 3; ++op) {
        EXPECT_EQ(OpOf(outcome, rank, op).report.status, OpStatus::kComplete);
      }
    }
  }
}

// Each in turn, with all that is sent again. The oracle knows each element's
// possible values: the mean over all ranks, over all but the one whose packet
// was lost, or nothing.
TEST(FaultCases, EachPacketOfAnOpLostInTurnCostsItsOwnElementsOnly) {
  for (const size_t world : {3, 6, 7}) {
    for (const uint32_t stage : {1u, 2u}) {
      for (uint32_t packet = 0;; ++packet) {
        Scenario scenario = Ranks(world);
        OpSpec op = AllReduce(4096, Mode::kBounded);
        op.descriptor.reduce_op = ReduceOp::kAvg;
        op.inputs = InputKind::kIota;
        Add(&scenario, op);
        ScriptedFault& fault = Script(&scenario, ScriptAction::kDrop, stage);
        fault.skip = packet;
        fault.times = 1;
        ScriptedFault& questions = scenario.script.emplace_back();
        questions.type = wire::PacketType::kNack;
        const Outcome outcome = RunWell(scenario);
        if (Injected(outcome, FaultKind::kScripted) == 0) break;
        uint64_t lost = 0;
        for (size_t rank = 0; rank < world; ++rank) {
          const core::OpReport& report = OpOf(outcome, rank).report;
          lost += report.elements * world - report.contributions;
          EXPECT_GE(report.min_contributors, world - 1);
        }
        EXPECT_GT(lost, 0u);
        ASSERT_FALSE(HasFailure())
            << "world " << world << " stage " << stage << " packet " << packet;
      }
    }
  }
}

TEST(FaultCases, ACopyIsCountedAndNotSummed) {
  for (const Mode mode : {Mode::kBounded, Mode::kExact}) {
    Scenario scenario = Ranks(3);
    OpSpec op = AllReduce(5, mode);
    op.inputs = InputKind::kListed;
    op.listed = {{0x3F800000}, {0x40000000}, {0x40800000}};  // 1, 2, 4
    Add(&scenario, op);
    ScriptedFault& fault = Script(&scenario, ScriptAction::kDuplicate, 1);
    fault.source = R(1);
    fault.destination = R(2);
    const Outcome outcome = RunWell(scenario);
    for (size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(Floats(OpOf(outcome, rank)), std::vector<float>(5, 7));
    }
    EXPECT_EQ(Injected(outcome, FaultKind::kScripted), 1u);
    EXPECT_EQ(Counted(outcome, Verdict::kDuplicate) +
                  Counted(outcome, Verdict::kLate) +
                  Counted(outcome, Verdict::kStaleOp),
              1u);
  }
}

TEST(FaultCases, OneLostContributionIsMissingInExactlyItsChunk) {
  for (const uint32_t chunk : {0u, 63u, 64u, 255u, 256u, 299u}) {
    Scenario scenario = Ranks(2);
    Add(&scenario, AllReduce(uint64_t{600} * 356, Mode::kBounded));
    ScriptedFault& fault = Script(&scenario, ScriptAction::kDrop, 1);
    fault.chunk = chunk;  // of shard 0, which one of the two owns
    fault.repairs = true;
    const Outcome outcome = RunWell(scenario);
    EXPECT_GT(Injected(outcome, FaultKind::kScripted), 1u);
    for (size_t rank = 0; rank < 2; ++rank) {
      const core::OpReport& report = OpOf(outcome, rank).report;
      EXPECT_EQ(report.absent, 0u);
      EXPECT_EQ(report.min_contributors, 1);
      EXPECT_EQ(report.contributions, report.elements * 2 - 356);
    }
  }
}

TEST(FaultCases, AFlippedBitIsFoundAndCounted) {
  for (const Mode mode : {Mode::kBounded, Mode::kExact}) {
    Scenario scenario = Ranks(3);
    Add(&scenario, AllReduce(1000, mode));
    ScriptedFault& fault = Script(&scenario, ScriptAction::kFlip, 1);
    fault.source = R(1);
    fault.times = 1;
    const Outcome outcome = RunWell(scenario);
    const uint64_t accepted = Counted(outcome, Verdict::kAccepted);
    uint64_t all = 0;
    for (const HostOutcome& host : outcome.hosts) all += host.delivered;
    EXPECT_GE(all - accepted, 1u);
    const core::OpReport& report = OpOf(outcome, 0).report;
    EXPECT_EQ(report.status, OpStatus::kComplete);  // it came again
  }
}

TEST(FaultCases, OldEpochsAndStaleCopiesChangeNothing) {
  Scenario scenario = Ranks(4);
  for (int i = 0; i < 6; ++i) {
    Add(&scenario, AllReduce(2000, i % 2 == 0 ? Mode::kExact : Mode::kBounded));
  }
  scenario.random.old_epoch = 0.5;
  scenario.random.stale = 0.5;
  scenario.random.replay_longest = Duration::Millis(10);
  const Outcome outcome = RunWell(scenario);
  EXPECT_EQ(Counted(outcome, Verdict::kUnknownTag) >=
                Injected(outcome, FaultKind::kOldEpoch),
            true);
  for (size_t rank = 0; rank < 4; ++rank) {
    for (size_t op = 0; op < 6; ++op) {
      EXPECT_EQ(OpOf(outcome, rank, op).report.status, OpStatus::kComplete);
    }
  }
}

// The last packets of every stream lost, all packets shuffled, all doubled: an
// op ends by count or by limit, never by a mark alone.
TEST(FaultCases, TailMarksAreAHintAndNoMore) {
  Scenario tails = Ranks(4);
  Add(&tails, AllReduce(20000, Mode::kBounded));
  Add(&tails, AllReduce(20000, Mode::kExact));
  tails.random.tail_permille = 1000;
  const Outcome cut = RunWell(tails);
  EXPECT_GT(Injected(cut, FaultKind::kTail), 0u);
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(OpOf(cut, rank, 1).report.status, OpStatus::kComplete);
  }

  Scenario shuffled = Ranks(4);
  Add(&shuffled, AllReduce(20000, Mode::kBounded));
  shuffled.random.reorder = 1.0;
  shuffled.random.reorder_longest = Duration::Millis(2);
  shuffled.random.duplicate = 1.0;
  const Outcome outcome = RunWell(shuffled);
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(OpOf(outcome, rank).report.status, OpStatus::kComplete);
  }
}

// Late results find the trainer's memory in use for something else (the
// simulator overwrites it at the report, and looks at it in the end).
TEST(FaultCases, WhatComesAfterTheReportTouchesNothing) {
  Scenario scenario = Ranks(4);
  OpSpec op = AllReduce(4000, Mode::kBounded);
  op.descriptor.soft_limit = Duration::Millis(5);
  Add(&scenario, op);
  ScriptedFault& fault = Script(&scenario, ScriptAction::kDelay, 2);
  fault.destination = R(0);
  fault.delay = Duration::Millis(10);
  scenario.groups[0].config.early_wait = Duration::Millis(20);
  const Outcome outcome = RunWell(scenario);
  EXPECT_EQ(OpOf(outcome, 0).report.status, OpStatus::kPartial);
  EXPECT_EQ(OpOf(outcome, 0).report.cause, core::EndCause::kDeadline);
  EXPECT_GE(Counted(outcome, Verdict::kLate), 9u);
}

TEST(FaultCases, RanksThatDisagreeAllLearnItAndTheNextOpIsRight) {
  Scenario scenario = Ranks(3);
  OpSpec op = AllReduce(256, Mode::kBounded);
  op.by_rank.assign(3, op.descriptor);
  op.by_rank[1].dtype = gradcodec::Dtype::kBfloat16;
  op.by_rank[1].count = 128;
  Add(&scenario, op);
  Add(&scenario, AllReduce(1000, Mode::kBounded));
  const Outcome outcome = RunWell(scenario);
  for (size_t rank = 0; rank < 3; ++rank) {
    const core::OpReport& report = OpOf(outcome, rank, 0).report;
    EXPECT_EQ(report.status, OpStatus::kMismatch);
    const core::OpDescriptor& mine = op.by_rank[rank];
    EXPECT_NE(report.mismatch_descriptor.dtype, mine.dtype);
    EXPECT_NE(report.mismatch_descriptor.count, mine.count);
    EXPECT_EQ(OpOf(outcome, rank, 1).report.status, OpStatus::kComplete);
  }
}

}  // namespace
}  // namespace optireduce::sim
