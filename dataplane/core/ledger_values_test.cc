// Loss scales, values that are not finite, half precision.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "dataplane/base/arena.h"
#include "dataplane/core/ledger.h"
#include "dataplane/core/ledger_testing.h"
#include "dataplane/core/plan.h"
#include "gradcodec/half.h"
#include "gtest/gtest.h"

namespace optireduce::core {
namespace {

using gradcodec::Dtype;
using ledger_testing::Config;
using ledger_testing::Debt;
using ledger_testing::Descriptor;
using ledger_testing::Floats;
using ledger_testing::kBucket;
using ledger_testing::kCount;
using ledger_testing::kNan;
using ledger_testing::kWorld;
using ledger_testing::Residual;
using ledger_testing::Stored;
using ledger_testing::StoredIn;
using ledger_testing::TestOp;

// ---- loss scales

TEST(LedgerTest, StoredValuesFollowTheLossScale) {
  Ledger ledger(Config());
  TestOp first(&ledger, 0, 3, 2);
  first.Result(0, 0, 0, false, false);
  first.Complete();
  first.account->CloseUsed();
  first.Whole(1, 6);
  EXPECT_EQ(Residual(ledger, 0), 3);
  EXPECT_EQ(Debt(ledger, 1), 6);

  TestOp second(&ledger, 1, 100, 8);
  EXPECT_EQ(second.Sent(0), 112);
  EXPECT_EQ(Debt(ledger, 1), 24);
  // Of the first op, in its own units.
  first.Result(2, 0, 0, false, false);
  EXPECT_EQ(Residual(ledger, 2), 12);
  first.Whole(3, 5);
  EXPECT_EQ(Debt(ledger, 3), 20);

  // An op that ends after one with another scale was submitted.
  TestOp third(&ledger, 2, 50, 4);
  second.WholeFrom(0, 1);
  second.Complete();
  EXPECT_EQ(second.At(1), 25);
  EXPECT_EQ(Debt(ledger, 1), 0);
  third.account->CloseSkipped();
  third.Complete();
  EXPECT_EQ(Residual(ledger, 2), 6) << "what it had taken is back";
}

TEST(LedgerTest, SkipGivesBackInTheNewScale) {
  Ledger ledger(Config());
  TestOp first(&ledger, 0, 3, 2);
  first.Result(0, 0, 0, false, false);
  first.Complete();
  first.account->CloseUsed();
  first.Whole(1, 6);
  TestOp second(&ledger, 1, 1, 2);
  second.Complete();
  second.account->CloseSkipped();
  TestOp third(&ledger, 2, 0, 1);
  EXPECT_EQ(third.Sent(0), 1.5f);
  third.Complete();
  EXPECT_EQ(third.At(1), 3);
}

TEST(LedgerTest, WhatOverflowsWithTheScaleIsDroppedAndCounted) {
  Ledger ledger(Config());
  TestOp first(&ledger, 0, 0x1p127f, 1);
  first.Result(0, 0, 0, false, false);
  first.Complete();
  first.account->CloseUsed();
  first.Whole(1, 0x1p127f);
  TestOp second(&ledger, 1, 1, 4);
  EXPECT_EQ(second.Sent(0), 1);
  EXPECT_EQ(Debt(ledger, 1), 0);
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kNonFinite),
            (Forgiven{.contributions = 4, .results = 4}));
}

// ---- values that are not finite

TEST(LedgerTest, NonFiniteValuesAreNeverStored) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  op.input[0] = kNan;
  op.input[4] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(op.Sent(0))) << "everybody shall see it";
  op.Result(0, 0, 0, false, false);
  op.Result(1, 2, 3, true, false);
  op.Complete();
  op.account->CloseUsed();
  op.Result(2, kNan, 2, false, false);
  op.Result(3, kNan, 3, true, false);
  const Stored stored = StoredIn(ledger);
  EXPECT_EQ(stored.residual,
            (Floats{0, 3, 3, 3, 0, 1, 1, 1, 3, 3, 3, 3, 0, 0, 0, 0}));
  EXPECT_EQ(stored.debt, Floats(kCount));
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kNonFinite),
            (Forgiven{.contributions = 6, .results = 8}));
}

// ---- half precision

class HalfTest : public ::testing::Test {
 protected:
  HalfTest() {
    descriptor_ = Descriptor();
    descriptor_.dtype = Dtype::kFloat16;
    descriptor_.count = 32;  // 4 shards of one chunk of 8 elements
    plan_ = ChunkPlan(descriptor_, kWorld, 16, 1, OpSeq());
  }

  using Halves = std::vector<uint16_t>;
  static Halves Of(float value) {
    return Halves(32, gradcodec::FloatToHalf(value));
  }
  Account* Open(uint32_t seq, const Halves& input) {
    return ledger_.Open(descriptor_, OpSeq(seq), 1,
                        reinterpret_cast<const uint8_t*>(input.data()));
  }
  Placed Result(Account* account, uint32_t chunk, float value, uint16_t c,
                bool imputed, bool included, Halves* output) {
    const Halves payload = Of(value);
    return account->OnResult(
        *plan_.Locate(chunk),
        {reinterpret_cast<const uint8_t*>(payload.data()), c, imputed,
         included},
        reinterpret_cast<uint8_t*>(output->data() + size_t{8} * chunk));
  }
  static void Complete(Account* account, Halves* output) {
    account->Complete(reinterpret_cast<uint8_t*>(output->data()));
  }
  static float At(const Halves& output, uint32_t chunk) {
    return gradcodec::HalfToFloat(output[size_t{8} * chunk]);
  }
  void Read() {
    residual_.assign(32, 0);
    debt_.assign(32, 0);
    ledger_.Read(kBucket, residual_.data(), debt_.data());
  }

  Ledger ledger_{Config()};
  OpDescriptor descriptor_;
  ChunkPlan plan_;
  Floats residual_, debt_;
};

TEST_F(HalfTest, RoundingErrorComesAgain) {
  const Halves input = Of(1024);
  Halves output(32);
  Account* account = Open(0, input);
  Result(account, 0, 1023.5f, 3, true, false, &output);
  Complete(account, &output);
  account->CloseUsed();
  Read();
  EXPECT_EQ(residual_[0], 0.5f);
  // 1024.5 is sent as 1024; the half is kept, summed though it was.
  account = Open(1, input);
  Halves packet(8);
  ASSERT_TRUE(account->Contribution(*plan_.Locate(0),
                                    reinterpret_cast<uint8_t*>(packet.data())));
  EXPECT_EQ(gradcodec::HalfToFloat(packet[0]), 1024);
  Result(account, 0, 1024, kWorld, true, true, &output);
  Result(account, 1, 1024, kWorld, true, true, &output);
  Complete(account, &output);
  account->CloseUsed();
  Read();
  EXPECT_EQ(residual_[0], 0.5f);
  EXPECT_EQ(residual_[8], 0);
}

TEST_F(HalfTest, DebtThatTheOutputCannotHoldIsStillOwed) {
  const Halves input = Of(1);
  Halves output(32);
  Account* account = Open(0, input);
  Complete(account, &output);
  account->CloseUsed();
  Result(account, 0, 0.75f, kWorld, true, true, &output);
  account = Open(1, input);
  Result(account, 0, 1024, kWorld, true, true, &output);
  Complete(account, &output);
  EXPECT_EQ(At(output, 0), 1025);
  Read();
  EXPECT_EQ(debt_[0], -0.25f);
  account->CloseSkipped();
  Read();
  EXPECT_EQ(debt_[0], 0.75f) << "all of it is back";

  // The same when the result comes after the debt was paid.
  account = Open(2, input);
  Complete(account, &output);
  EXPECT_EQ(At(output, 0), 0.75f);
  Result(account, 0, 1024, kWorld, true, true, &output);
  EXPECT_EQ(At(output, 0), 1025);
  Read();
  EXPECT_EQ(debt_[0], -0.25f);
  account->CloseSkipped();
  Read();
  EXPECT_EQ(debt_[0], 0.75f);
}

// Room for the debt, but not for what is left of it.
TEST_F(HalfTest, WithoutRoomTheRestOfADebtIsForgiven) {
  LedgerConfig config = Config();
  config.budget = ByteArena::Cost(8 * sizeof(void*)) +
                  ByteArena::Cost(size_t{4} * 32) +
                  ByteArena::Cost(size_t{8} * 4);
  Ledger ledger(config);
  const Halves input = Of(1);
  const auto* in = reinterpret_cast<const uint8_t*>(input.data());
  Halves output(32);
  for (uint32_t seq : {0, 1}) {
    Account* account = ledger.Open(descriptor_, OpSeq(seq), 1, in);
    ASSERT_NE(account, nullptr);
    for (uint32_t chunk = seq == 0 ? 1 : 0; chunk < 4; ++chunk) {
      Result(account, chunk, 1024, kWorld, true, true, &output);
    }
    Complete(account, &output);
    account->CloseUsed();
    if (seq == 0) {
      Result(account, 0, 0.75f, kWorld, true, true, &output);
      ledger.Release(account);
    }
  }
  EXPECT_EQ(At(output, 0), 1025);
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kNoMemory).results, 8u);
}

}  // namespace
}  // namespace optireduce::core
