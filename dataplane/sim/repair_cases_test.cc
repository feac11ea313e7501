// What is lost of a bounded op comes again inside its deadline.

#include "dataplane/sim/scenario.h"
#include "dataplane/sim/simulation.h"
#include "dataplane/sim/testing.h"
#include "gtest/gtest.h"

namespace optireduce::sim {
namespace {

using core::EndCause;
using core::Mode;
using core::OpStatus;
using testing::Add;
using testing::AllReduce;
using testing::Injected;
using testing::OpOf;
using testing::R;
using testing::Ranks;
using testing::RunWell;
using testing::Script;
using testing::Took;

constexpr uint64_t kChunk = 356;  // elements

// Chunks of each shard.
OpSpec OpOfChunks(size_t world, uint64_t chunks) {
  return AllReduce(world * chunks * kChunk, Mode::kBounded);
}

// The scenario's first ops are for ranks to learn how far they are from each
// other.
size_t AddAfterQuietOps(Scenario* scenario, const OpSpec& op) {
  for (int64_t i = 0; i < 3; ++i) {
    OpSpec quiet = OpOfChunks(scenario->hosts.size(), 40);
    quiet.submit_after.assign(scenario->hosts.size(), Duration::Millis(i * 10));
    Add(scenario, quiet);
  }
  OpSpec last = op;
  last.submit_after.assign(scenario->hosts.size(), Duration::Millis(40));
  Add(scenario, last);
  return scenario->groups[0].ops.size() - 1;
}

// All ranks have everything of the op, long before it would end early or by its
// bound. How many packets came again.
uint64_t ExpectRepaired(const Outcome& outcome, size_t world, size_t op,
                        Duration within) {
  uint64_t repaired = 0;
  for (size_t rank = 0; rank < world; ++rank) {
    const OpOutcome& result = OpOf(outcome, rank, op);
    EXPECT_EQ(result.report.status, OpStatus::kComplete) << rank;
    EXPECT_EQ(result.report.cause, EndCause::kAllIn) << rank;
    EXPECT_LT(Took(result), within) << rank;
    repaired += result.report.repaired;
  }
  return repaired;
}

TEST(RepairCases, WithoutLossNobodyAsks) {
  for (const uint64_t chunks : {1, 3, 100, 500}) {
    Scenario scenario = Ranks(5);
    scenario.groups[0].max_in_flight = 1;
    for (int i = 0; i < 5; ++i) Add(&scenario, OpOfChunks(5, chunks));
    const Outcome outcome = RunWell(scenario);
    EXPECT_EQ(outcome.repairs.questions, 0u) << chunks;
    EXPECT_EQ(outcome.repairs.repaired_bytes, 0u) << chunks;
  }
}

TEST(RepairCases, EachPacketLostInTurnComesAgain) {
  for (const uint32_t stage : {1u, 2u}) {
    for (uint32_t packet = 0;; ++packet) {
      Scenario scenario = Ranks(3);
      const size_t op = AddAfterQuietOps(&scenario, OpOfChunks(3, 4));
      ScriptedFault& fault = Script(&scenario, ScriptAction::kDrop, stage);
      fault.op = static_cast<uint32_t>(op);
      fault.skip = packet;
      fault.times = 1;
      const Outcome outcome = RunWell(scenario);
      if (Injected(outcome, FaultKind::kScripted) == 0) break;
      EXPECT_EQ(ExpectRepaired(outcome, 3, op, Duration::Millis(1)), 1u);
      ASSERT_FALSE(HasFailure()) << "stage " << stage << " packet " << packet;
    }
  }
}

// A contribution and the result that it went into come again one after the
// other.
TEST(RepairCases, AGapIsFilledWhileTheStreamFlows) {
  Scenario scenario = Ranks(3);
  const size_t op = AddAfterQuietOps(&scenario, OpOfChunks(3, 1000));
  ScriptedFault& fault = Script(&scenario, ScriptAction::kDrop, 1);
  fault.op = static_cast<uint32_t>(op);
  fault.source = R(1);
  fault.destination = R(2);
  fault.skip = 100;
  fault.times = 50;
  const Outcome outcome = RunWell(scenario);
  Scenario quiet = scenario;
  quiet.script.clear();
  const Duration without = Took(OpOf(RunWell(quiet), 0, op));
  EXPECT_EQ(ExpectRepaired(outcome, 3, op, without + Duration::Micros(300)),
            50u);
  // No more than a few questions for all of them, and nothing twice.
  EXPECT_LE(outcome.repairs.questions, 4u);
}

TEST(RepairCases, TheEndOfAStreamComesAgain) {
  for (const uint32_t stage : {1u, 2u}) {
    for (const uint32_t length : {1u, 20u, 60u}) {
      Scenario scenario = Ranks(3);
      const size_t op = AddAfterQuietOps(&scenario, OpOfChunks(3, 60));
      ScriptedFault& fault = Script(&scenario, ScriptAction::kCutTail, stage);
      fault.op = static_cast<uint32_t>(op);
      fault.source = R(1);
      fault.destination = R(2);
      fault.length = length;
      const Outcome outcome = RunWell(scenario);
      EXPECT_EQ(ExpectRepaired(outcome, 3, op, Duration::Millis(2)), length)
          << "stage " << stage;
    }
  }
}

// Repairs and questions are lost like everything else.
TEST(RepairCases, WhatIsLostAgainIsAskedForAgain) {
  Scenario scenario = Ranks(3);
  // A silence of that length would end the stages if nothing were hoped for.
  scenario.groups[0].config.early_wait = Duration::Micros(200);
  const size_t op = AddAfterQuietOps(&scenario, OpOfChunks(3, 40));
  ScriptedFault& fault = Script(&scenario, ScriptAction::kDrop, 1);
  fault.op = static_cast<uint32_t>(op);
  fault.source = R(0);
  fault.destination = R(1);
  fault.repairs = true;
  fault.skip = 30;
  fault.times = 12;  // the end of the stream, and the first two that come again
  ScriptedFault& questions = scenario.script.emplace_back();
  questions.type = wire::PacketType::kNack;
  questions.times = 1;
  const Outcome outcome = RunWell(scenario);
  EXPECT_EQ(ExpectRepaired(outcome, 3, op, Duration::Millis(4)), 10u);
}

// Newer ops keep coming from the peer, so that it is never silent.
TEST(RepairCases, TheStreamOfANewerOpShowsTheEndOfAnOlderOne) {
  Scenario scenario = Ranks(3);
  scenario.groups[0].max_in_flight = 4;
  const size_t op = AddAfterQuietOps(&scenario, OpOfChunks(3, 60));
  for (int i = 0; i < 3; ++i) {
    OpSpec next = OpOfChunks(3, 2000);
    next.submit_after.assign(3, Duration::Millis(40));
    Add(&scenario, next);
  }
  ScriptedFault& fault = Script(&scenario, ScriptAction::kCutTail, 1);
  fault.op = static_cast<uint32_t>(op);
  fault.source = R(1);
  fault.destination = R(2);
  fault.length = 20;
  const Outcome outcome = RunWell(scenario);
  EXPECT_EQ(ExpectRepaired(outcome, 3, op, Duration::Millis(1)), 20u);
}

TEST(RepairCases, PacketsThatAreOvertakenAreNotAskedFor) {
  Scenario scenario = Ranks(3);
  Add(&scenario, OpOfChunks(3, 500));
  scenario.random.reorder = 0.1;
  scenario.random.reorder_longest = Duration::Micros(30);
  const Outcome outcome = RunWell(scenario);
  EXPECT_EQ(ExpectRepaired(outcome, 3, 0, Duration::Millis(3)), 0u);
  EXPECT_EQ(outcome.repairs.repaired_bytes, 0u);
}

// One that never answers: it has died, say, without anybody knowing.
TEST(RepairCases, QuestionsInVainEndTheWait) {
  for (const uint32_t stage : {1u, 2u}) {
    Scenario scenario = Ranks(4);
    scenario.groups[0].config.early_wait = Duration::Millis(1);
    const size_t op = AddAfterQuietOps(&scenario, OpOfChunks(4, 40));
    ScriptedFault& fault = Script(&scenario, ScriptAction::kDrop, stage);
    fault.op = static_cast<uint32_t>(op);
    fault.source = R(1);
    fault.skip = 5;
    fault.times = 1;
    scenario.script.emplace_back().type = wire::PacketType::kNack;
    const Outcome outcome = RunWell(scenario);
    size_t partial = 0;
    for (size_t rank = 0; rank < 4; ++rank) {
      const OpOutcome& result = OpOf(outcome, rank, op);
      EXPECT_NE(result.report.cause, EndCause::kDeadline);
      EXPECT_LT(Took(result), Duration::Millis(4)) << rank;
      partial += result.report.status == OpStatus::kPartial;
    }
    EXPECT_EQ(partial, stage == 1 ? 4u : 1u);
  }
}

// Who has not opened the op has nothing to send.
TEST(RepairCases, ALateRankIsNotAsked) {
  Scenario scenario = Ranks(4);
  OpSpec op = OpOfChunks(4, 20);
  testing::SubmitLate(&op, 4, R(3), Duration::Millis(200));
  Add(&scenario, op);
  const Outcome outcome = RunWell(scenario);
  EXPECT_EQ(OpOf(outcome, 0).report.min_contributors, 3);
  EXPECT_LE(OpOf(outcome, 0).reported_at - OpOf(outcome, 0).submitted_at,
            Duration::Millis(31));
  EXPECT_EQ(outcome.repairs.repaired_bytes, 0u);
}

// Whatever is lost, what is sent again stays a quarter of the rest (an oracle
// says so, too), and no op outlives its bound.
TEST(RepairCases, HeavyLossIsNotAnsweredByAFlood) {
  Scenario scenario = Ranks(4);
  const size_t op = AddAfterQuietOps(&scenario, OpOfChunks(4, 300));
  scenario.random.loss = 0.4;
  scenario.random.window.begin = Timestamp() + Duration::Millis(39);
  const Outcome outcome = RunWell(scenario);
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(OpOf(outcome, rank, op).report.status, OpStatus::kPartial);
    EXPECT_LE(Took(OpOf(outcome, rank, op)), Duration::Millis(31));
  }
  EXPECT_GT(outcome.repairs.repaired_bytes, outcome.repairs.first_bytes / 8);
  EXPECT_LE(outcome.repairs.repaired_bytes, outcome.repairs.first_bytes / 4);
}

}  // namespace
}  // namespace optireduce::sim
