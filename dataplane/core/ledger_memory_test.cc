// What is forgiven when memory is short.

#include <cmath>
#include <cstdint>
#include <optional>

#include "dataplane/base/arena.h"
#include "dataplane/core/ledger.h"
#include "dataplane/core/ledger_testing.h"
#include "gtest/gtest.h"

namespace optireduce::core {
namespace {

using ledger_testing::Config;
using ledger_testing::Descriptor;
using ledger_testing::Floats;
using ledger_testing::kCount;
using ledger_testing::Residual;
using ledger_testing::TestOp;

TEST(LedgerTest, EvictionForgivesWhatIsOpenAndClosesTheStep) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  op.Result(0, 0, 0, false, false);
  op.Result(1, 2, 2, false, std::nullopt);
  op.Whole(2, 2);
  op.Complete();
  op.account->CloseUsed();
  op.account->Evict();
  EXPECT_TRUE(op.account->is_settled());
  EXPECT_EQ(Residual(ledger, 0), 3);
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kEvicted),
            (Forgiven{.contributions = 8, .results = 4}));
  const size_t used = ledger.memory_used();
  ledger.Release(op.account);
  EXPECT_LT(ledger.memory_used(), used);
}

// Room for `blocks` blocks besides a bucket and `ops` open ops.
LedgerConfig TightConfig(size_t ops, size_t blocks) {
  LedgerConfig config = Config();
  config.budget = ByteArena::Cost(8 * sizeof(void*)) +
                  ops * ByteArena::Cost(size_t{4} * 32) +
                  blocks * ByteArena::Cost(16);
  return config;
}

TEST(LedgerTest, AtTheBoundTheOldestHeldContributionsGoFirst) {
  Ledger ledger(TightConfig(3, 8));
  TestOp first(&ledger, 0, 1);
  first.Complete();  // holds 4
  TestOp second(&ledger, 1, 2);
  second.Complete();  // and 4
  second.account->CloseUsed();
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kNoMemory), Forgiven());
  TestOp third(&ledger, 2, 3);
  third.WholeFrom(1, 1);
  third.Complete();  // 1 more
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kNoMemory),
            (Forgiven{.contributions = kCount, .results = 0}));
  EXPECT_FALSE(first.account->LacksBooking(0));
  EXPECT_TRUE(first.account->LacksResult(0)) << "that needs no room yet";
  EXPECT_TRUE(second.account->LacksBooking(0));
  EXPECT_TRUE(third.account->LacksBooking(0));
  EXPECT_TRUE(std::isnan(first.Sent(0))) << "never to be sent again";
  EXPECT_EQ(second.Sent(0), 2);
}

TEST(LedgerTest, AtTheBoundTheNewcomerGoesWithout) {
  Ledger ledger(TightConfig(1, 2));
  TestOp op(&ledger, 0, 1);
  op.Complete();
  // Four contributions to hold, room for two; its own step is not closed.
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kNoMemory).contributions, 8u);
  EXPECT_TRUE(op.account->LacksBooking(0));
  EXPECT_FALSE(op.account->LacksBooking(3));
  op.account->CloseUsed();
  op.Result(0, 0, 0, false, false);
  op.Result(1, 0, 0, false, false);
  EXPECT_EQ(Residual(ledger, 0), 1);
  EXPECT_EQ(Residual(ledger, 1), 1);
  // Residuals are never given up for a debt.
  EXPECT_EQ(op.Whole(2, 5), Placed::kNowhere);
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kNoMemory).results, 4u);
  EXPECT_EQ(Residual(ledger, 0), 1);
}

TEST(LedgerTest, WithoutRoomABookingIsForgiven) {
  Ledger ledger(TightConfig(1, 0));
  TestOp op(&ledger, 0, 1);
  op.Result(0, 0, 0, false, false);
  EXPECT_FALSE(op.account->LacksBooking(0));
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kNoMemory),
            (Forgiven{.contributions = 4, .results = 0}));
}

TEST(LedgerTest, SubmitsWaitForRoom) {
  Ledger ledger(TightConfig(1, 0));
  TestOp first(&ledger, 0, 1);
  ASSERT_NE(first.account, nullptr);
  first.WholeFrom(0, 1);
  first.Complete();
  TestOp second(&ledger, 1, 1);
  EXPECT_EQ(second.account, nullptr);
  ledger.Release(first.account);
  TestOp again(&ledger, 1, 1);
  EXPECT_NE(again.account, nullptr);
}

OpDescriptor Bucket(uint64_t key) {
  OpDescriptor op = Descriptor();
  op.bucket = key;
  return op;
}

TEST(LedgerTest, UnusedBucketsMakeRoomForNewOnes) {
  Ledger ledger(Config());  // four buckets
  for (uint32_t key = 1; key <= 4; ++key) {
    TestOp op(&ledger, key, 1, 1, Bucket(key));
    op.Result(0, 0, 0, false, false);
    op.Complete();
    op.account->CloseUsed();
    ledger.Release(op.account);
  }
  TestOp used(&ledger, 5, 1, 1, Bucket(1));
  // With an op open it is worth waiting.
  TestOp refused(&ledger, 6, 1, 1, Bucket(5));
  EXPECT_EQ(refused.account, nullptr);
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kNoMemory), Forgiven());
  used.Result(0, 0, 0, false, false);
  used.Complete();
  used.account->CloseUsed();
  used.account->Evict();
  ledger.Release(used.account);
  TestOp fifth(&ledger, 6, 1, 1, Bucket(5));
  ASSERT_NE(fifth.account, nullptr);
  Floats residual(kCount), debt(kCount);
  EXPECT_TRUE(ledger.Read(1, residual.data(), debt.data()));
  EXPECT_FALSE(ledger.Read(2, residual.data(), debt.data()))
      << "the longest unused";
  EXPECT_TRUE(ledger.Read(3, residual.data(), debt.data()));
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kNoMemory),
            (Forgiven{.contributions = 4, .results = 0}));
  EXPECT_FALSE(ledger.Read(0, residual.data(), debt.data()));
}

TEST(LedgerTest, EmptyBucketsGoFirst) {
  Ledger ledger(Config());
  for (uint32_t key = 1; key <= 4; ++key) {
    TestOp op(&ledger, key, 1, 1, Bucket(key));
    if (key != 3) op.Result(0, 0, 0, false, false);
    op.WholeFrom(0, 1);
    op.Complete();
    op.account->CloseUsed();
    ledger.Release(op.account);
  }
  TestOp open(&ledger, 5, 1, 1, Bucket(4));
  TestOp fifth(&ledger, 6, 1, 1, Bucket(5));
  ASSERT_NE(fifth.account, nullptr);
  Floats residual(kCount), debt(kCount);
  EXPECT_TRUE(ledger.Read(1, residual.data(), debt.data()));
  EXPECT_FALSE(ledger.Read(3, residual.data(), debt.data()));
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kNoMemory), Forgiven());
}

TEST(LedgerTest, ReturnsAllMemory) {
  Ledger ledger(Config());
  const size_t before = ledger.memory_used();
  TestOp first(&ledger, 0, 3);
  first.Result(0, 0, 0, false, false);
  first.Complete();
  first.account->CloseUsed();
  first.Whole(1, 3);
  TestOp second(&ledger, 1, 3);
  second.Whole(1, 3);
  second.Complete();
  TestOp third(&ledger, 2, 3);
  third.Whole(1, 3);
  third.Fail();
  TestOp running(&ledger, 3, 3);
  for (TestOp* op : {&first, &second, &third, &running}) {
    ledger.Release(op->account);
  }
  ledger.ResetAll();
  EXPECT_EQ(ledger.memory_used(), before);
}

TEST(LedgerTest, WithoutMemoryNothingIsOpened) {
  LedgerConfig config = Config();
  config.budget = 0;
  Ledger ledger(config);
  EXPECT_FALSE(ledger.memory_ok());
  TestOp op(&ledger, 0, 3);
  EXPECT_EQ(op.account, nullptr);
}

}  // namespace
}  // namespace optireduce::core
