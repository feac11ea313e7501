#include "dataplane/core/ledger.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "dataplane/core/ledger_testing.h"
#include "dataplane/core/plan.h"
#include "gtest/gtest.h"

namespace optireduce::core {
namespace {

using gradcodec::Dtype;
using gradcodec::ReduceOp;
using ledger_testing::Config;
using ledger_testing::Debt;
using ledger_testing::Descriptor;
using ledger_testing::Floats;
using ledger_testing::kBucket;
using ledger_testing::kCount;
using ledger_testing::kNan;
using ledger_testing::kWorld;
using ledger_testing::Residual;
using ledger_testing::StoredIn;
using ledger_testing::TestOp;

TEST(LedgerTest, NothingLostLeavesNothing) {
  Ledger ledger(Config());
  const size_t before = ledger.memory_used();
  TestOp op(&ledger, 0, 3);
  EXPECT_EQ(op.Sent(2), 3);
  op.WholeFrom(0, 5);
  EXPECT_TRUE(op.account->has_all_results());
  op.Complete();
  EXPECT_FALSE(op.account->is_settled()) << "its step is open";
  op.account->CloseUsed();
  EXPECT_TRUE(op.account->is_settled());
  EXPECT_EQ(op.output, Floats(kCount, 5));
  EXPECT_EQ(StoredIn(ledger).residual, Floats(kCount));
  ledger.Release(op.account);
  ledger.Reset(kBucket);
  EXPECT_EQ(ledger.memory_used(), before);
}

TEST(LedgerTest, WhatWasNotSummedIsContributedAgain) {
  Ledger ledger(Config());
  TestOp first(&ledger, 0, 3);
  first.Result(0, 2, 2, false, false);    // not imputed: all of it
  first.Result(1, 2.5f, 3, true, false);  // less the mean
  first.Result(2, 0, 0, false, false);    // nobody was summed
  first.Whole(3, 2);
  first.Complete();
  first.account->CloseUsed();
  EXPECT_EQ(Residual(ledger, 0), 3);
  EXPECT_EQ(Residual(ledger, 1), 0.5f);
  EXPECT_EQ(Residual(ledger, 2), 3);
  EXPECT_EQ(Residual(ledger, 3), 0);

  TestOp second(&ledger, 1, 10);
  EXPECT_EQ(Residual(ledger, 0), 0) << "it is in the contribution now";
  EXPECT_EQ(second.Sent(0), 13);
  EXPECT_EQ(second.Sent(1), 10.5f);
  EXPECT_EQ(second.Sent(2), 13);
  EXPECT_EQ(second.Sent(3), 10);
  // Lost again: it is still all there.
  second.Result(0, 0, 0, false, false);
  second.Complete();
  second.account->CloseUsed();
  EXPECT_EQ(Residual(ledger, 0), 13);
}

// A SUM's result counts the imputed mean for every missing rank.
TEST(LedgerTest, ImputedSumIsBookedAsAMean) {
  Ledger ledger(Config());
  OpDescriptor descriptor = Descriptor();
  descriptor.reduce_op = ReduceOp::kSum;
  TestOp op(&ledger, 0, 3, 1, descriptor);
  op.Result(0, 8, 3, true, false);
  op.Complete();
  op.account->CloseUsed();
  EXPECT_EQ(Residual(ledger, 0), 1);
}

TEST(LedgerTest, AbsentIsZeroAndPaidLater) {
  Ledger ledger(Config());
  TestOp first(&ledger, 0, 1);
  first.WholeFrom(1, 5);
  EXPECT_EQ(first.account->FindLacking(0), 0u);
  EXPECT_EQ(first.account->FindLacking(1), first.plan.chunk_limit());
  first.Complete();
  EXPECT_EQ(first.At(0), 0);
  first.account->CloseUsed();
  EXPECT_EQ(first.Whole(0, 7), Placed::kDebt);
  EXPECT_TRUE(first.account->is_settled());
  EXPECT_EQ(Debt(ledger, 0), 7);

  TestOp second(&ledger, 1, 1);
  second.WholeFrom(0, 5);
  EXPECT_EQ(Debt(ledger, 0), 7) << "paid at the end, not at the submit";
  second.Complete();
  EXPECT_EQ(second.At(0), 12);
  EXPECT_EQ(second.At(1), 5);
  EXPECT_EQ(Debt(ledger, 0), 0);
}

TEST(LedgerTest, LateResultsAreAddedToTheDebtThatWasPaid) {
  Ledger ledger(Config());
  TestOp first(&ledger, 0, 1);
  first.Complete();
  first.account->CloseUsed();
  first.Whole(0, 7);
  TestOp second(&ledger, 1, 1);
  second.Complete();
  EXPECT_EQ(second.At(0), 7);
  EXPECT_EQ(second.Whole(0, 5), Placed::kOutput);
  EXPECT_EQ(second.At(0), 12);
  EXPECT_EQ(second.Whole(1, 5), Placed::kOutput);
  EXPECT_EQ(second.At(1), 5);
  EXPECT_EQ(second.Result(2, 0, 0, false, false), Placed::kOutput);
  EXPECT_EQ(second.At(2), 0);
}

TEST(LedgerTest, InPlaceResultsDoNotOverwriteWhatIsOwed) {
  Ledger ledger(Config());
  OpDescriptor descriptor = Descriptor();
  TestOp op(&ledger, 0, 0);
  op.WholeFrom(0, 0);
  op.Complete();
  TestOp other(&ledger, 1, 3);
  other.output = other.input;  // one buffer for both
  const ChunkPlan plan(descriptor, kWorld, 16, 1, OpSeq(2));
  Account* account =
      ledger.Open(descriptor, OpSeq(2), 1,
                  reinterpret_cast<const uint8_t*>(other.output.data()));
  const Floats payload(4, 2);
  const auto* bytes = reinterpret_cast<const uint8_t*>(payload.data());
  // From a holder: nobody knows yet whether the 3 was summed.
  account->OnResult(other.Info(0), {bytes, 2, false, std::nullopt},
                    other.Out(0));
  account->OnResult(other.Info(1), {bytes, 2, false, false}, other.Out(1));
  account->Complete(reinterpret_cast<uint8_t*>(other.output.data()));
  EXPECT_EQ(other.At(0), 2);
  account->CloseUsed();
  account->OnResult(other.Info(0), {bytes, 2, false, false}, nullptr);
  EXPECT_EQ(Residual(ledger, 0), 3);
  EXPECT_EQ(Residual(ledger, 1), 3);
}

TEST(LedgerTest, ContributionsCanBeRepeatedUntilBooked) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  EXPECT_EQ(op.Sent(0), 3);
  op.Complete();
  op.input.assign(kCount, 55);  // the trainer has its buffer back
  EXPECT_EQ(op.Sent(0), 3);
  op.account->CloseUsed();
  EXPECT_EQ(op.Sent(0), 3);
  op.Whole(0, 1);
  EXPECT_TRUE(std::isnan(op.Sent(0)));
}

TEST(LedgerTest, TheNextSubmitOfTheBucketClosesTheStep) {
  Ledger ledger(Config());
  TestOp first(&ledger, 0, 3);
  first.Result(0, 0, 0, false, false);
  first.Complete();
  EXPECT_EQ(Residual(ledger, 0), 0);
  TestOp second(&ledger, 1, 10);
  EXPECT_EQ(second.Sent(0), 13) << "what was booked comes with it";
  EXPECT_EQ(first.Whole(1, 4), Placed::kDebt);
}

// It may even still be running: then it ends normally, and is closed.
TEST(LedgerTest, StepsMayBeClosedBeforeTheOpEnds) {
  Ledger ledger(Config());
  TestOp first(&ledger, 0, 3);
  TestOp second(&ledger, 1, 10);
  EXPECT_EQ(first.Result(0, 2, 2, false, false), Placed::kOutput);
  EXPECT_EQ(Residual(ledger, 0), 3) << "second has taken what was there";
  first.Complete();
  EXPECT_EQ(first.At(0), 2);
  EXPECT_EQ(first.Whole(1, 4), Placed::kDebt);
  EXPECT_EQ(first.At(1), 0);
  second.WholeFrom(0, 1);
  second.Complete();
  EXPECT_EQ(second.At(1), 5);
}

TEST(LedgerTest, TwoDifferentResultsAreAConflict) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  op.Result(0, 2, 2, false, std::nullopt);
  EXPECT_EQ(op.Result(0, 2, 2, false, std::nullopt), Placed::kDuplicate);
  EXPECT_EQ(op.Result(0, 2, 3, false, true), Placed::kConflict);
  EXPECT_EQ(op.Result(0, 2, 2, true, true), Placed::kConflict);
  EXPECT_EQ(op.Result(0, 4, 2, false, true), Placed::kConflict);
  EXPECT_TRUE(op.account->LacksBooking(0)) << "none of these counts";
  EXPECT_EQ(op.Result(0, 2, 2, false, true), Placed::kDuplicate);
  EXPECT_FALSE(op.account->LacksBooking(0));
}

TEST(LedgerTest, KnowsWhatHasResiduals) {
  for (Codec codec : {Codec::kNone, Codec::kBfloat16, Codec::kFloat16}) {
    OpDescriptor op = Descriptor();
    op.codec = codec;
    EXPECT_TRUE(Ledger::Supports(op));
  }
  for (auto change :
       {+[](OpDescriptor* op) { op->bucket = 0; },
        +[](OpDescriptor* op) { op->count = 0; },
        +[](OpDescriptor* op) { op->codec = Codec::kHadamard; },
        +[](OpDescriptor* op) { op->dtype = Dtype::kFloat64; },
        +[](OpDescriptor* op) { op->dtype = Dtype::kInt32; },
        +[](OpDescriptor* op) { op->reduce_op = ReduceOp::kMax; },
        +[](OpDescriptor* op) {
          op->collective = Collective::kReduceScatter;
          op->mode = Mode::kExact;
        },
        +[](OpDescriptor* op) { op->collective = Collective::kAllGather; }}) {
    OpDescriptor op = Descriptor();
    change(&op);
    EXPECT_FALSE(Ledger::Supports(op));
  }
  EXPECT_TRUE(Ledger::IsValidScale(65536));
  for (float scale : {0.0f, -1.0f, kNan, std::numeric_limits<float>::infinity(),
                      std::numeric_limits<float>::denorm_min()}) {
    EXPECT_FALSE(Ledger::IsValidScale(scale)) << scale;
  }
}

TEST(LedgerDeathTest, CallersKeepTheOrder) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  EXPECT_DEATH(op.account->Evict(), "");
  EXPECT_DEATH(op.account->OnResult(op.Info(0), {}, nullptr), "");
  op.Complete();
  EXPECT_DEATH(op.Complete(), "");
  EXPECT_DEATH(op.Fail(), "");
  OpDescriptor one_shot = Descriptor();
  one_shot.bucket = 0;
  EXPECT_DEATH(ledger.Open(one_shot, OpSeq(1), 1, nullptr), "");
  EXPECT_DEATH(ledger.Open(Descriptor(), OpSeq(1), 0, nullptr), "");
}

}  // namespace
}  // namespace optireduce::core
