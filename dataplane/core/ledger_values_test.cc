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

// At its owner, whether its own contribution was summed or not.
TEST_F(HalfTest, WhatRoundingLeftOfTheSumIsTheOwnersResidual) {
  const Halves input = Of(3);
  Halves output(32);
  const Floats remainder = {0.5f, 0, -2, kNan, 0, 0, 0, 0};
  Account* account = Open(0, input);
  const Halves payload = Of(3);
  for (uint32_t chunk : {0, 1}) {
    account->OnResult(
        *plan_.Locate(chunk),
        {.payload = reinterpret_cast<const uint8_t*>(payload.data()),
         .contributors = 3,
         .imputed = true,
         .included = chunk == 0,
         .remainder = remainder.data()},
        reinterpret_cast<uint8_t*>(output.data() + size_t{8} * chunk));
  }
  Complete(account, &output);
  Read();
  EXPECT_EQ(residual_, Floats(32)) << "it waits for the step's close";
  account->CloseUsed();
  Read();
  const Floats expected = {0.5f, 0, -2, 0, 0, 0, 0, 0};
  EXPECT_EQ(Floats(residual_.begin(), residual_.begin() + 8), expected);
  EXPECT_EQ(Floats(residual_.begin() + 8, residual_.begin() + 16), expected)
      << "3 less the imputed 3";
  EXPECT_EQ(ledger_.forgiven(ForgivenFor::kNonFinite).contributions, 2u);
}

TEST_F(HalfTest, ASkippedStepTakesNoRemainder) {
  const Halves input = Of(3);
  Halves output(32);
  const Floats remainder(8, 1);
  Account* account = Open(0, input);
  account->OnResult(*plan_.Locate(0),
                    {.payload = reinterpret_cast<const uint8_t*>(input.data()),
                     .contributors = kWorld,
                     .imputed = true,
                     .included = true,
                     .remainder = remainder.data()},
                    reinterpret_cast<uint8_t*>(output.data()));
  Complete(account, &output);
  account->CloseSkipped();
  Read();
  EXPECT_EQ(residual_, Floats(32));
}

// ---- codecs: float32 in the trainer's buffers, 16 bits on the wire

class NarrowTest : public ::testing::Test {
 protected:
  NarrowTest() {
    descriptor_ = Descriptor();
    descriptor_.codec = Codec::kBfloat16;
    descriptor_.count = 32;  // 4 shards of one chunk of 8 elements
    plan_ = ChunkPlan(descriptor_, kWorld, 16, 1, OpSeq());
  }

  Account* Open(uint32_t seq, const OpDescriptor& op) {
    return ledger_.Open(op, OpSeq(seq), 1,
                        reinterpret_cast<const uint8_t*>(input_.data()));
  }
  void Result(Account* account, uint32_t chunk, float value, bool included) {
    const std::vector<uint16_t> payload(8, gradcodec::FloatToBfloat16(value));
    account->OnResult(
        *plan_.Locate(chunk),
        {.payload = reinterpret_cast<const uint8_t*>(payload.data()),
         .contributors = 3,
         .imputed = true,
         .included = included},
        reinterpret_cast<uint8_t*>(output_.data() + size_t{8} * chunk));
  }
  void Complete(Account* account) {
    account->Complete(reinterpret_cast<uint8_t*>(output_.data()));
  }
  Floats Residuals() {
    Floats residual(32), debt(32);
    ledger_.Read(kBucket, residual.data(), debt.data());
    return residual;
  }

  Ledger ledger_{Config()};
  OpDescriptor descriptor_;
  ChunkPlan plan_;
  Floats input_ = Floats(32, 257);
  Floats output_ = Floats(32, 99);
};

TEST_F(NarrowTest, ContributionsAreRoundedAndTheRestComesAgain) {
  Account* account = Open(0, descriptor_);
  std::vector<uint16_t> packet(8);
  ASSERT_TRUE(account->Contribution(*plan_.Locate(1),
                                    reinterpret_cast<uint8_t*>(packet.data())));
  EXPECT_EQ(gradcodec::Bfloat16ToFloat(packet[0]), 256);
  Result(account, 0, 256, true);
  Result(account, 1, 250, false);
  Complete(account);
  account->CloseUsed();
  EXPECT_EQ(output_[0], 256);
  EXPECT_EQ(output_[8], 250);
  EXPECT_EQ(output_[16], 0) << "it did not come";
  const Floats residual = Residuals();
  EXPECT_EQ(residual[0], 1);
  EXPECT_EQ(residual[8], 7);
}

// In full width a chunk holds four elements, here eight.
TEST_F(NarrowTest, WhatIsStoredSurvivesAnotherTypeOnTheWire) {
  for (size_t i = 0; i < 32; ++i) input_[i] = static_cast<float>(100 + i);
  Account* account = Open(0, descriptor_);
  Floats expected(32);
  for (uint32_t chunk = 0; chunk < 4; ++chunk) {
    Result(account, chunk, chunk == 2 ? 110 : 100, chunk == 2);
  }
  for (size_t i = 0; i < 32; ++i) {
    if (i / 8 != 2) expected[i] = static_cast<float>(i);
  }
  Complete(account);
  account->CloseUsed();
  ASSERT_EQ(Residuals(), expected);
  OpDescriptor wide = descriptor_;
  wide.codec = Codec::kNone;
  for (const OpDescriptor& op : {wide, descriptor_, wide}) {
    // Another op of the bucket takes the residual and, skipped, gives it back.
    Account* other = Open(1, op);
    ASSERT_NE(other, nullptr);
    const ChunkPlan plan(op, kWorld, 16, 1, OpSeq());
    const ChunkInfo last = *plan.Locate(plan.chunk_limit() - 1);
    std::vector<uint8_t> packet(16);
    ASSERT_TRUE(other->Contribution(last, packet.data()));
    Complete(other);
    other->CloseSkipped();
    EXPECT_EQ(Residuals(), expected);
    ledger_.Release(other);
  }
  EXPECT_EQ(ledger_.forgiven(), ForgivenCounts{});
}

TEST_F(NarrowTest, WhatIsStillOwedDoesNotSurviveIt) {
  Account* account = Open(0, descriptor_);
  Result(account, 0, 250, false);
  Complete(account);
  account->CloseUsed();
  OpDescriptor wide = descriptor_;
  wide.codec = Codec::kNone;
  ASSERT_NE(Open(1, wide), nullptr);
  EXPECT_EQ(ledger_.forgiven(ForgivenFor::kReset),
            (Forgiven{.contributions = 24, .results = 24}));
  EXPECT_TRUE(account->is_settled());
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
