// State that is given up: other sizes, new parameters, new buckets.

#include <cmath>

#include "dataplane/core/ledger.h"
#include "dataplane/core/ledger_testing.h"
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
using ledger_testing::Residual;
using ledger_testing::TestOp;

TEST(LedgerTest, AnotherSizeOrTypeIsANewBucket) {
  for (int what = 0; what < 3; ++what) {
    Ledger ledger(Config());
    TestOp first(&ledger, 0, 3);
    first.Result(0, 0, 0, false, false);
    first.Complete();
    first.account->CloseUsed();
    first.Whole(1, 5);
    OpDescriptor other = Descriptor();
    if (what == 0) other.count = 15;
    if (what == 1) other.dtype = Dtype::kBfloat16;
    if (what == 2) other.reduce_op = ReduceOp::kSum;
    TestOp second(&ledger, 1, 10, 1, other);
    EXPECT_EQ(ledger.forgiven(ForgivenFor::kReset),
              (Forgiven{.contributions = 12, .results = 12}))
        << "4 stored, 8 held; 4 stored, 8 missing";
    EXPECT_TRUE(first.account->is_settled());
    EXPECT_EQ(first.Whole(2, 5), Placed::kNowhere);
    Floats residual(kCount), debt(kCount);
    ASSERT_TRUE(ledger.Read(kBucket, residual.data(), debt.data()));
    EXPECT_EQ(residual, Floats(kCount));
    EXPECT_EQ(debt, Floats(kCount));
    ledger.Release(first.account);
  }
}

TEST(LedgerTest, RunningOpsGoOnAsOneShotAfterAReset) {
  Ledger ledger(Config());
  TestOp first(&ledger, 0, 3);
  first.Result(0, 0, 0, false, false);
  first.Complete();
  first.account->CloseUsed();
  TestOp op(&ledger, 1, 10);
  EXPECT_EQ(op.Sent(0), 13);
  ledger.Reset(kBucket);
  EXPECT_EQ(op.Sent(0), 10);
  EXPECT_EQ(op.Result(0, 4, 2, false, false), Placed::kOutput);
  EXPECT_TRUE(std::isnan(op.Sent(0))) << "in place, the input is gone";
  op.Complete();
  EXPECT_EQ(op.At(0), 4);
  EXPECT_EQ(op.At(1), 0);
  EXPECT_TRUE(op.account->is_settled());
  op.account->CloseUsed();
  EXPECT_EQ(op.Whole(1, 4), Placed::kNowhere);
  Floats residual(kCount), debt(kCount);
  EXPECT_FALSE(ledger.Read(kBucket, residual.data(), debt.data()));
  ledger.Reset(kBucket);  // nothing to do
  ledger.Release(op.account);
  ledger.Release(first.account);
  EXPECT_EQ(ledger.memory_used(), 0u);
}

TEST(LedgerTest, FailsAfterAReset) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  op.Whole(0, 4);
  ledger.Reset(kBucket);
  op.Fail();
  EXPECT_TRUE(op.account->is_settled());
  op.account->CloseSkipped();
  op.account->OwnerGone(op.Info(0));
  op.account->NoHolder(op.Info(1));
  op.account->CloseUsed();
  op.account->Evict();
  ledger.Release(op.account);
  EXPECT_EQ(ledger.memory_used(), 0u);
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kReset),
            (Forgiven{.contributions = 12, .results = 12}));
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kEvicted), Forgiven());
}

TEST(LedgerTest, NewParametersPayDebtsButNotResiduals) {
  Ledger ledger(Config());
  TestOp first(&ledger, 0, 3);
  first.Result(0, 0, 0, false, false);
  first.Complete();
  first.account->CloseUsed();
  first.Whole(1, 5);
  TestOp second(&ledger, 1, 0);
  EXPECT_EQ(second.Sent(0), 3);
  ledger.ClearDebts();
  EXPECT_EQ(Debt(ledger, 1), 0);
  // Chunks 2 and 3 of the first op are in the new parameters, too.
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kOverwritten),
            (Forgiven{.contributions = 0, .results = 12}));
  EXPECT_EQ(first.Result(2, 5, 2, false, false), Placed::kNowhere);
  EXPECT_EQ(Residual(ledger, 2), 3);
  second.Complete();
  EXPECT_EQ(second.At(1), 0);
  second.account->CloseUsed();
  EXPECT_EQ(second.Whole(1, 6), Placed::kDebt) << "after the new parameters";
}

TEST(LedgerTest, ResultsThatWaitForTheCloseOfAFailedOpAreReset) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  op.Result(0, 4, 2, false, false);
  op.Fail();
  ledger.Reset(kBucket);
  // Of the results one was here; of the contributions one was booked.
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kReset),
            (Forgiven{.contributions = kCount, .results = kCount}));
}

}  // namespace
}  // namespace optireduce::core
