// What a group remembers of its ops: each way in which a stage closes, who was
// late, and what became of what lacked.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "dataplane/core/bucket_testing.h"
#include "dataplane/core/engine_core.h"
#include "dataplane/core/op_record.h"

namespace optireduce::core {
namespace {

using wire::PacketType;

constexpr uint64_t kShard =
    kCount / kWorld;  // elements of BucketNet's, a chunk

OpRecord RecordOf(TestNet& net, size_t rank, OpSeq seq = OpSeq(0)) {
  for (const OpRecord& record : net.core(rank).Records(net.group(rank))) {
    if (record.seq == seq) return record;
  }
  ADD_FAILURE() << "rank " << rank << " has no record of " << seq.value();
  return {};
}

const StageRecord& Stage1(const OpRecord& record) {
  return record.history.stages[0];
}
const StageRecord& Stage2(const OpRecord& record) {
  return record.history.stages[1];
}

Duration Since(Timestamp start, Timestamp time) { return time - start; }

// Four ranks and plain ops.
class RecordTest : public ::testing::Test {
 protected:
  RecordTest() : net_(kWorld, FastSettings()) { FormOrDie(&net_, kWorld); }

  void Submit(size_t rank, const OpDescriptor& op) {
    if (buffers_.empty()) buffers_.emplace_back(kWorld, op.count);
    ASSERT_EQ(net_.Submit(rank, op, buffers_[0].View(rank)),
              SubmitResult::kAccepted);
  }
  void SubmitAll(const OpDescriptor& op) {
    for (size_t r = 0; r < kWorld; ++r) Submit(r, op);
  }

  TestNet net_;
  std::vector<Buffers> buffers_;
};

TEST_F(RecordTest, WithAllInNothingLacks) {
  const Timestamp start = net_.now();
  SubmitAll(AllReduce(kCount, Mode::kBounded));
  net_.Run(Duration::Millis(5));
  for (size_t r = 0; r < kWorld; ++r) {
    const OpRecord record = RecordOf(net_, r);
    EXPECT_TRUE(record.has_ended());
    EXPECT_EQ(record.report.status, OpStatus::kComplete);
    EXPECT_EQ(record.descriptor.count, kCount);
    EXPECT_EQ(record.history.opened, start);
    EXPECT_EQ(record.history.openers.count(), kWorld);
    for (const StageRecord& stage : record.history.stages) {
      EXPECT_EQ(stage.cause(), EndCause::kAllIn);
      EXPECT_EQ(stage.due(), kWorld);
      EXPECT_EQ(stage.came(), kWorld);
      EXPECT_EQ(stage.late() + stage.repaired() + stage.lacking_ranks(), 0u);
      EXPECT_GE(stage.opened(), start);
      EXPECT_GE(stage.closed(), stage.opened());
      EXPECT_LE(stage.full(), stage.closed());
    }
    EXPECT_EQ(Stage2(record).closed(), record.report.closed);
    EXPECT_LE(record.FullArrival(), record.report.closed) << "no time saved";
    EXPECT_EQ(record.history.owed, OwedRecord());
  }
}

TEST_F(RecordTest, AStageThatItsBoundClosesNamesWhoLacks) {
  net_.set_filter([](const wire::Header& header, Rank from, Rank to) {
    return header.type != PacketType::kData || from != Rank(2) || to != Rank(1);
  });
  SubmitAll(AllReduce(kCount, Mode::kBounded));
  net_.Run(Duration::Millis(30));
  const OpRecord record = RecordOf(net_, 1);
  const StageRecord& stage = Stage1(record);
  EXPECT_EQ(stage.cause(), EndCause::kDeadline);
  EXPECT_EQ(Since(record.report.quorum, stage.closed()), Duration::Millis(6));
  EXPECT_EQ(stage.due(), 4u);
  EXPECT_EQ(stage.came(), 3u);
  ASSERT_EQ(stage.lacking().size(), 1u);
  EXPECT_EQ(stage.lacking()[0].rank, Rank(2));
  EXPECT_EQ(stage.lacking()[0].packets, 1u);
  EXPECT_EQ(stage.lacking()[0].late, 0u);
  EXPECT_TRUE(stage.lacking()[0].begun);
  EXPECT_EQ(record.FullArrival(), Timestamp::Never()) << "it never came";
  // All results came, this one with three contributions.
  EXPECT_EQ(Stage2(record).cause(), EndCause::kAllIn);
  EXPECT_EQ(Stage1(RecordOf(net_, 2)).cause(), EndCause::kAllIn);
}

// All tails are in, and what lacks does not come, however often it is asked
// for.
TEST_F(RecordTest, AStageThatClosesEarlyNamesWhoLacks) {
  const uint64_t count = 4 * kChunk * 20;
  int sent = 0;
  net_.set_filter([&](const wire::Header& header, Rank from, Rank to) {
    return header.type != PacketType::kData || from != Rank(2) ||
           to != Rank(1) ||
           ((header.flags & wire::kFlagRepair) == 0 && ++sent != 10);
  });
  SubmitAll(AllReduce(count, Mode::kBounded));
  net_.Run(Duration::Millis(30));
  const OpRecord record = RecordOf(net_, 1);
  const StageRecord& stage = Stage1(record);
  EXPECT_EQ(stage.cause(), EndCause::kEarly);
  EXPECT_LT(Since(record.report.quorum, stage.closed()), Duration::Millis(6));
  EXPECT_EQ(stage.due(), 80u);
  EXPECT_EQ(stage.came(), 79u);
  ASSERT_EQ(stage.lacking().size(), 1u);
  EXPECT_EQ(stage.lacking()[0].rank, Rank(2));
  EXPECT_EQ(stage.lacking()[0].packets, 1u);
}

TEST_F(RecordTest, ALateContributionTellsHowMuchTimeWasSaved) {
  net_.set_delay([](const wire::Header& header, Rank from, Rank to) {
    return header.type == PacketType::kData && from == Rank(2) && to == Rank(1)
               ? Duration::Micros(6'200)
               : Duration();
  });
  const Timestamp start = net_.now();
  SubmitAll(AllReduce(kCount, Mode::kBounded));
  net_.Run(Duration::Millis(30));
  const OpRecord record = RecordOf(net_, 1);
  const StageRecord& stage = Stage1(record);
  EXPECT_EQ(stage.late(), 1u);
  ASSERT_EQ(stage.lacking().size(), 1u);
  EXPECT_EQ(stage.lacking()[0].late, 1u);
  const Timestamp came = start + Duration::Micros(6'210);
  EXPECT_EQ(stage.lacking()[0].last_late, came);
  EXPECT_EQ(record.FullArrival(), came);
  const Duration saved = Since(record.report.closed, came);
  EXPECT_GT(saved, Duration::Micros(100));
  EXPECT_LT(saved, Duration::Micros(210));
}

// As a repair that was on its way too. Rank 3, which does not come, keeps the
// op alive.
TEST_F(RecordTest, ADuplicateOfALatePacketCountsOnce) {
  bool again = false;
  net_.set_delay([&](const wire::Header& header, Rank from, Rank to) {
    if (header.type != PacketType::kData || from != Rank(2) || to != Rank(1)) {
      return Duration();
    }
    again = again || (header.flags & wire::kFlagRepair) != 0;
    return Duration::Millis(7);
  });
  for (size_t r = 0; r < 3; ++r) Submit(r, AllReduce(kCount, Mode::kBounded));
  net_.Run(Duration::Millis(40));
  ASSERT_TRUE(again) << "it was sent twice";
  const OpRecord record = RecordOf(net_, 1);
  EXPECT_EQ(Stage1(record).came(), 2u);
  EXPECT_EQ(Stage1(record).late(), 1u);
  EXPECT_EQ(Stage1(record).lacking_ranks(), 2u);
  EXPECT_EQ(record.FullArrival(), Timestamp::Never());
}

TEST_F(RecordTest, NamesTheRankThatBeganLate) {
  const Timestamp start = net_.now();
  for (size_t r = 0; r < 3; ++r) Submit(r, AllReduce(kCount, Mode::kBounded));
  net_.Run(Duration::Millis(200));
  EXPECT_EQ(RecordOf(net_, 0).history.openers.count(), 3u);
  Submit(3, AllReduce(kCount, Mode::kBounded));
  net_.Run(Duration::Millis(3));
  for (size_t r = 0; r < 3; ++r) {
    const OpRecord record = RecordOf(net_, r);
    ASSERT_EQ(record.history.openers.count(), 4u);
    EXPECT_EQ(record.history.openers.Last(0).rank, Rank(3));
    const Duration late = Since(start, record.history.openers.Last(0).at);
    EXPECT_GE(late, Duration::Millis(200));
    EXPECT_LT(late, Duration::Millis(205)) << "feedback brings the news";
    ASSERT_EQ(Stage1(record).lacking().size(), 1u);
    EXPECT_EQ(Stage1(record).lacking()[0].rank, Rank(3));
    EXPECT_FALSE(Stage1(record).lacking()[0].begun);
    EXPECT_LT(Since(start, record.report.closed), Duration::Millis(10));
  }
  // For its trainer the op was over before it came.
  const OpRecord own = RecordOf(net_, 3);
  EXPECT_TRUE(own.has_ended());
  EXPECT_EQ(own.report.cause, EndCause::kDeadline);
  ASSERT_EQ(Stage1(own).lacking().size(), 1u);
  EXPECT_EQ(Stage1(own).lacking()[0].rank, Rank(3));
  EXPECT_FALSE(Stage1(own).lacking()[0].begun);
  EXPECT_LT(Since(start, Stage1(own).closed()), Duration::Millis(10));
  EXPECT_GE(Since(start, own.report.submitted), Duration::Millis(200));
  EXPECT_LT(Since(start, own.history.opened), Duration::Millis(1));
}

// One of the results came between this daemon's close and the submit.
TEST_F(RecordTest, ALateTrainerIsToldOfResultsThatCameTooLateForItsDaemon) {
  net_.set_delay([](const wire::Header& header, Rank from, Rank to) {
    return header.type == PacketType::kResult && from == Rank(0) &&
                   to == Rank(3)
               ? Duration::Millis(20)
               : Duration();
  });
  for (size_t r = 0; r < 3; ++r) Submit(r, AllReduce(kCount, Mode::kBounded));
  net_.Run(Duration::Millis(200));
  Submit(3, AllReduce(kCount, Mode::kBounded));
  const OpRecord record = RecordOf(net_, 3);
  EXPECT_EQ(record.report.absent, kShard);
  ASSERT_EQ(Stage2(record).lacking().size(), 1u);
  EXPECT_EQ(Stage2(record).lacking()[0].rank, Rank(0));
  EXPECT_EQ(Stage2(record).lacking()[0].late, 1u);
  EXPECT_LT(Stage2(record).full(), record.report.closed);
}

TEST_F(RecordTest, BeforeItsSubmitAnOpIsServed) {
  for (size_t r = 0; r < 3; ++r) Submit(r, AllReduce(kCount, Mode::kBounded));
  net_.Run(Duration::Millis(1));
  EXPECT_EQ(RecordOf(net_, 3).state, OpState::kServing);
  EXPECT_FALSE(RecordOf(net_, 3).is_submitted());
  EXPECT_TRUE(RecordOf(net_, 0).is_submitted());
  EXPECT_FALSE(RecordOf(net_, 0).has_ended());
  net_.Run(Duration::Millis(20));
  EXPECT_EQ(RecordOf(net_, 3).state, OpState::kLate);
  EXPECT_EQ(Stage1(RecordOf(net_, 3)).cause(), EndCause::kDeadline);
  EXPECT_FALSE(RecordOf(net_, 3).has_ended());
}

TEST_F(RecordTest, WhatWasSentAgainCountsInItsStage) {
  int lost = 0;
  net_.set_filter([&](const wire::Header& header, Rank from, Rank to) {
    const bool first = (header.flags & wire::kFlagRepair) == 0;
    if (header.type == PacketType::kResult && from == Rank(0) &&
        to == Rank(3)) {
      return !first || ++lost != 1;
    }
    return header.type != PacketType::kData || from != Rank(2) ||
           to != Rank(1) || !first;
  });
  SubmitAll(AllReduce(kCount, Mode::kBounded));
  net_.Run(Duration::Millis(30));
  EXPECT_EQ(Stage1(RecordOf(net_, 1)).repaired(), 1u);
  EXPECT_EQ(Stage2(RecordOf(net_, 1)).repaired(), 0u);
  EXPECT_EQ(Stage1(RecordOf(net_, 3)).repaired(), 0u);
  EXPECT_EQ(Stage2(RecordOf(net_, 3)).repaired(), 1u);
  EXPECT_EQ(Stage2(RecordOf(net_, 3)).cause(), EndCause::kAllIn);
}

TEST_F(RecordTest, AnErrorClosesTheLastStage) {
  OpDescriptor op = AllReduce(kCount, Mode::kExact);
  op.hard_limit = Duration::Millis(20);
  for (size_t r = 0; r < 3; ++r) Submit(r, op);
  net_.Run(Duration::Millis(30));
  const OpRecord record = RecordOf(net_, 0);
  EXPECT_EQ(record.report.status, OpStatus::kHardLimit);
  EXPECT_EQ(Stage1(record).closed(), Timestamp::Never());
  EXPECT_EQ(Stage2(record).cause(), EndCause::kError);
  EXPECT_EQ(Stage2(record).came(), 0u);
  // The three that wait for contributions have no results either.
  EXPECT_EQ(Stage2(record).lacking_ranks(), 4u);
  EXPECT_EQ(record.FullArrival(), Timestamp::Never());
}

TEST_F(RecordTest, AnExactOpIsAllIn) {
  SubmitAll(AllReduce(kCount, Mode::kExact));
  net_.Run(Duration::Millis(5));
  for (const StageRecord& stage : RecordOf(net_, 2).history.stages) {
    EXPECT_EQ(stage.cause(), EndCause::kAllIn);
    EXPECT_EQ(stage.came(), 4u);
  }
}

TEST_F(RecordTest, TheLastOpsAreKept) {
  constexpr size_t kOps = 100;
  for (size_t op = 0; op < kOps; ++op) {
    SubmitAll(AllReduce(kCount, Mode::kBounded));
    net_.Run(Duration::Millis(5));
  }
  const std::vector<OpRecord> records = net_.core(0).Records(net_.group(0));
  ASSERT_GE(records.size(), kPastRecords);
  ASSERT_LE(records.size(), kPastRecords + 32);
  EXPECT_EQ(records.back().seq, OpSeq(kOps - 1));
  for (size_t i = 1; i < records.size(); ++i) {
    EXPECT_EQ(records[i].seq, records[i - 1].seq.Next());
    EXPECT_TRUE(records[i].has_ended());
  }
  EXPECT_TRUE(net_.core(0).Records(GroupId(77)).empty());
}

// ---- residuals and debts ----------------------------------------------------

TEST(OwedRecordTest, WhatWasNotSummedIsResidual) {
  BucketNet ranks;
  ranks.Lose(PacketType::kData, 2, 1, true);
  ranks.Submit(Bucketed(kCount, 1, 0));
  ranks.net().Run(Duration::Millis(30));
  OwedRecord expected;
  expected.residual = kShard;
  EXPECT_EQ(RecordOf(ranks.net(), 2).history.owed, expected);
  EXPECT_EQ(RecordOf(ranks.net(), 0).history.owed, OwedRecord());
}

TEST(OwedRecordTest, ALateResultIsPutInPlaceUntilTheStepIsClosed) {
  BucketNet ranks;
  ranks.Lose(PacketType::kResult, 3, 1, true);
  ranks.Submit(Bucketed(kCount, 1, 5));
  ranks.net().Run(Duration::Micros(10'200));
  OpRecord record = RecordOf(ranks.net(), 1);
  EXPECT_EQ(Stage2(record).cause(), EndCause::kDeadline);
  ASSERT_EQ(Stage2(record).lacking().size(), 1u);
  EXPECT_EQ(Stage2(record).lacking()[0].rank, Rank(3));
  // Its owner has not said either whether the contribution was summed.
  EXPECT_EQ(record.history.owed.lacking, kShard);
  EXPECT_EQ(record.history.owed.held, kShard);
  ranks.LoseNothing();
  ranks.net().Run(Duration::Millis(20));
  record = RecordOf(ranks.net(), 1);
  OwedRecord expected;
  expected.in_place = kShard;
  EXPECT_EQ(record.history.owed, expected);
  EXPECT_EQ(Stage2(record).late(), 1u);
  EXPECT_EQ(Stage2(record).lacking()[0].late, 1u);
  EXPECT_GT(record.FullArrival(), record.report.closed);
  EXPECT_NE(record.FullArrival(), Timestamp::Never());
}

TEST(OwedRecordTest, AfterTheStepsCloseALateResultIsDebt) {
  BucketNet ranks;
  ranks.Lose(PacketType::kResult, 3, 1, true);
  ranks.Submit(Bucketed(kCount, 1, 5));
  ranks.net().Run(Duration::Millis(20));
  Close(&ranks.net(), 1, 5, StepOutcome::kUsed);
  ranks.LoseNothing();
  ranks.net().Run(Duration::Millis(100));
  OwedRecord expected;
  expected.debt = kShard;
  EXPECT_EQ(RecordOf(ranks.net(), 1).history.owed, expected);
}

TEST(OwedRecordTest, AFailedOpsResultsAreDebt) {
  BucketNet ranks;
  ranks.Draw();
  OpDescriptor op = Bucketed(kCount, 1, 0);
  op.hard_limit = Duration::Millis(5);
  ranks.SubmitOne(0, op);
  ranks.net().Run(Duration::Millis(10));
  for (size_t r = 1; r < kWorld; ++r) {
    ranks.SubmitOne(r, Bucketed(kCount, 1, 0));
  }
  ranks.net().Run(Duration::Millis(100));
  OwedRecord expected;
  expected.debt = kCount;
  EXPECT_EQ(RecordOf(ranks.net(), 0).history.owed, expected);
}

// What was in the output when the error came goes to the debts too.
TEST(OwedRecordTest, AnErrorMakesDebtOfWhatWasHere) {
  BucketNet ranks;
  ranks.Lose(PacketType::kResult, 3, 1, true);
  OpDescriptor op = Bucketed(kCount, 1, 0);
  op.hard_limit = Duration::Millis(5);
  ranks.Submit(op);
  ranks.net().Run(Duration::Millis(7));
  const OpRecord record = RecordOf(ranks.net(), 1);
  EXPECT_EQ(record.report.status, OpStatus::kHardLimit);
  EXPECT_EQ(record.history.owed.debt, kCount - kShard);
  EXPECT_EQ(record.history.owed.lacking, kShard);
}

TEST(OwedRecordTest, ASkippedStepOwesNothing) {
  BucketNet ranks;
  ranks.Lose(PacketType::kData, 2, 1, true);
  ranks.Submit(Bucketed(kCount, 1, 5));
  ranks.net().Run(Duration::Millis(30));
  Close(&ranks.net(), 2, 6, StepOutcome::kSkipped);
  EXPECT_FALSE(RecordOf(ranks.net(), 2).history.owed.skipped) << "another step";
  Close(&ranks.net(), 3, 5, StepOutcome::kUsed);
  Close(&ranks.net(), 3, 5, StepOutcome::kSkipped);
  EXPECT_FALSE(RecordOf(ranks.net(), 3).history.owed.skipped) << "too late";
  Close(&ranks.net(), 2, 5, StepOutcome::kSkipped);
  const OwedRecord owed = RecordOf(ranks.net(), 2).history.owed;
  EXPECT_TRUE(owed.skipped);
  EXPECT_EQ(owed.residual, kShard);
}

// Pushed out by newer ops before anybody answered.
TEST(OwedRecordTest, WhatAnEvictedOpLackedIsForgiven) {
  GroupConfig settings = FastSettings();
  settings.window = 2;
  BucketNet ranks(settings);
  ranks.Lose(PacketType::kResult, 3, 1, true);
  ranks.Submit(Bucketed(kCount, 1, 0));
  ranks.net().Run(Duration::Millis(60));
  for (int op = 0; op < 6; ++op) {
    ranks.Submit(Bucketed(kCount, 2, 0));
    ranks.net().Run(Duration::Millis(60));
  }
  OwedRecord expected;
  expected.forgiven_contributions = expected.forgiven_results = kShard;
  EXPECT_EQ(RecordOf(ranks.net(), 1).history.owed, expected);
}

}  // namespace
}  // namespace optireduce::core
