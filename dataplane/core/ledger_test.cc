#include "dataplane/core/ledger.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "dataplane/core/plan.h"
#include "gradcodec/half.h"
#include "gradcodec/residual.h"
#include "gtest/gtest.h"

namespace optireduce::core {
namespace {

using gradcodec::Dtype;
using gradcodec::ReduceOp;
using Floats = std::vector<float>;

constexpr size_t kWorld = 4;
constexpr uint64_t kBucket = 77;
constexpr size_t kCount = 16;  // 4 shards of one chunk of 4 elements
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

LedgerConfig Config() {
  LedgerConfig config;
  config.world = kWorld;
  config.payload_bytes = 16;
  config.budget = size_t{1} << 16;
  config.max_ops = 8;
  config.max_buckets = 4;
  return config;
}

OpDescriptor Descriptor() {
  OpDescriptor op;
  op.reduce_op = ReduceOp::kAvg;
  op.count = kCount;
  op.bucket = kBucket;
  return op;
}

// One op at rank 0: its buffers and its account. Chunks are 0..3, each with
// elements 4 i .. 4 i + 3.
class TestOp {
 public:
  TestOp(Ledger* ledger, uint32_t seq, float gradient, float scale = 1,
         OpDescriptor op = Descriptor())
      : input(op.count, gradient), output(op.count, 99) {
    plan = ChunkPlan(op, kWorld, 16, 1, OpSeq(seq));
    account = ledger->Open(op, OpSeq(seq), scale,
                           reinterpret_cast<const uint8_t*>(input.data()));
  }

  ChunkInfo Info(uint32_t chunk) const { return *plan.Locate(chunk); }
  uint8_t* Out(uint32_t chunk) {
    return reinterpret_cast<uint8_t*>(output.data() + Info(chunk).first);
  }
  Placed Result(uint32_t chunk, float value, uint16_t c, bool imputed,
                std::optional<bool> included) {
    const Floats payload(4, value);
    return account->OnResult(Info(chunk),
                             {reinterpret_cast<const uint8_t*>(payload.data()),
                              c, imputed, included},
                             Out(chunk));
  }
  // All contributions were summed.
  Placed Whole(uint32_t chunk, float value) {
    return Result(chunk, value, kWorld, true, true);
  }
  void WholeFrom(uint32_t first, float value) {
    for (uint32_t i = first; i < 4; ++i) Whole(i, value);
  }
  float Sent(uint32_t chunk) {
    Floats packet(4, -1);
    const bool any = account->Contribution(
        Info(chunk), reinterpret_cast<uint8_t*>(packet.data()));
    return any ? packet[0] : kNan;
  }
  void Complete() {
    account->Complete(reinterpret_cast<uint8_t*>(output.data()));
  }
  void Fail() { account->Fail(reinterpret_cast<uint8_t*>(output.data())); }
  float At(uint32_t chunk) const { return output[4 * chunk]; }

  Floats input, output;
  ChunkPlan plan;
  Account* account;
};

struct Stored {
  Floats residual = Floats(kCount), debt = Floats(kCount);
};
Stored StoredIn(const Ledger& ledger) {
  Stored stored;
  ledger.Read(kBucket, stored.residual.data(), stored.debt.data());
  return stored;
}
float Residual(const Ledger& ledger, uint32_t chunk) {
  return StoredIn(ledger).residual[4 * chunk];
}
float Debt(const Ledger& ledger, uint32_t chunk) {
  return StoredIn(ledger).debt[4 * chunk];
}

// ---- the course of an op

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
  EXPECT_TRUE(Ledger::Supports(Descriptor()));
  for (auto change : {+[](OpDescriptor* op) { op->bucket = 0; },
                      +[](OpDescriptor* op) { op->count = 0; },
                      +[](OpDescriptor* op) { op->codec = Codec::kHadamard; },
                      +[](OpDescriptor* op) { op->dtype = Dtype::kFloat64; },
                      +[](OpDescriptor* op) { op->dtype = Dtype::kInt32; },
                      +[](OpDescriptor* op) { op->reduce_op = ReduceOp::kMax; },
                      +[](OpDescriptor* op) {
                        op->collective = Collective::kReduceScatter;
                      }}) {
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

// ---- flaws that earlier rules had, by their names in the rules' history

// The owner froze without this rank; nothing that comes later flips that.
TEST(LedgerFlawTest, F3LateToOwnE) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  op.Result(0, 2, 2, false, false);
  EXPECT_EQ(op.Result(0, 2, 2, false, true), Placed::kDuplicate);
  op.Complete();
  op.account->CloseUsed();
  op.Result(0, 2, 2, false, true);
  EXPECT_EQ(Residual(ledger, 0), 3);
}

// A holder's answer says nothing about this rank's contribution, unless c does.
TEST(LedgerFlawTest, F4HolderSettles) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  op.Complete();
  op.account->CloseUsed();
  EXPECT_EQ(op.Result(0, 2, 2, false, std::nullopt), Placed::kDebt);
  EXPECT_EQ(op.Result(1, 2, kWorld, true, std::nullopt), Placed::kDebt);
  EXPECT_EQ(op.Result(2, 0, 0, false, std::nullopt), Placed::kDebt);
  EXPECT_TRUE(op.account->LacksBooking(0));
  EXPECT_FALSE(op.account->LacksResult(0));
  EXPECT_FALSE(op.account->LacksBooking(1));
  EXPECT_FALSE(op.account->LacksBooking(2));
  EXPECT_EQ(op.Result(0, 2, 2, false, true), Placed::kDuplicate);
  EXPECT_FALSE(op.account->LacksBooking(0));
  EXPECT_EQ(Residual(ledger, 0), 0) << "it was summed";
  EXPECT_EQ(Residual(ledger, 1), 0);
  EXPECT_EQ(Residual(ledger, 2), 3);
}

// The close takes effect here: nothing changes an output after it.
TEST(LedgerFlawTest, F5ReadAtPost) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  op.Complete();
  EXPECT_EQ(op.Whole(0, 5), Placed::kOutput);
  op.account->CloseUsed();
  const Floats read = op.output;
  EXPECT_EQ(op.Whole(1, 5), Placed::kDebt);
  EXPECT_EQ(op.output, read);
  EXPECT_EQ(Debt(ledger, 0), 0);
  EXPECT_EQ(Debt(ledger, 1), 5);
}

// Bookings of a step wait for its close.
TEST(LedgerFlawTest, F6BookAtOnce) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  op.Result(0, 2, 2, false, false);
  op.Complete();
  op.Result(1, 2, 2, false, false);
  EXPECT_EQ(StoredIn(ledger).residual, Floats(kCount));
  op.account->CloseSkipped();
  EXPECT_EQ(StoredIn(ledger).residual, Floats(kCount));
  op.Result(2, 2, 2, false, false);
  EXPECT_EQ(StoredIn(ledger).residual, Floats(kCount));
  EXPECT_TRUE(op.account->is_settled());
}

// A skipped step leaves residuals and debts as they were before it.
TEST(LedgerFlawTest, F6SkipDrops) {
  Ledger ledger(Config());
  TestOp first(&ledger, 0, 3);
  first.Result(0, 0, 0, false, false);
  first.Complete();
  first.account->CloseUsed();
  first.Whole(1, 7);
  const Stored before = StoredIn(ledger);
  EXPECT_EQ(before.residual[0], 3);
  EXPECT_EQ(before.debt[4], 7);

  TestOp second(&ledger, 1, 10);
  second.Result(0, 1, 2, false, false);
  second.Whole(1, 1);
  second.Complete();
  EXPECT_EQ(second.At(1), 8);
  second.Whole(2, 1);
  second.account->CloseSkipped();
  EXPECT_EQ(StoredIn(ledger).residual, before.residual);
  EXPECT_EQ(StoredIn(ledger).debt, before.debt);
  EXPECT_EQ(second.Whole(3, 1), Placed::kNowhere);
  EXPECT_TRUE(second.account->is_settled());
  EXPECT_EQ(StoredIn(ledger).debt, before.debt);
  second.account->CloseUsed();  // by the next submit: too late
  EXPECT_EQ(StoredIn(ledger).residual, before.residual);
}

// The same for a rank whose op ended in an error, and for one that is told
// before its op ends.
TEST(LedgerFlawTest, F6SkipAfterAnErrorAndBeforeTheEnd) {
  for (bool fails : {false, true}) {
    for (bool early : {false, true}) {
      Ledger ledger(Config());
      TestOp first(&ledger, 0, 3);
      first.Result(0, 0, 0, false, false);
      first.Complete();
      first.account->CloseUsed();
      first.Whole(1, 7);
      const Stored before = StoredIn(ledger);
      TestOp second(&ledger, 1, 10);
      second.Result(0, 2, 2, false, false);
      second.Whole(1, 1);
      if (early) second.account->CloseSkipped();
      if (fails) {
        second.Fail();
        second.Whole(2, 1);
      } else {
        second.Complete();
      }
      if (!early) second.account->CloseSkipped();
      EXPECT_EQ(StoredIn(ledger).residual, before.residual);
      EXPECT_EQ(StoredIn(ledger).debt, before.debt);
      EXPECT_TRUE(second.account->is_settled());
    }
  }
}

// The hard limit ends the wait and nothing else.
TEST(LedgerFlawTest, F7ErrorDrops) {
  Ledger ledger(Config());
  TestOp debtor(&ledger, 0, 0);
  debtor.WholeFrom(1, 0);
  debtor.Complete();
  debtor.account->CloseUsed();
  debtor.Whole(0, 9);

  TestOp op(&ledger, 1, 3);
  op.Whole(0, 5);
  op.Fail();
  op.input.assign(kCount, 55);
  op.output.assign(kCount, 55);
  EXPECT_EQ(op.Sent(1), 3) << "peers may still sum it";
  EXPECT_EQ(op.Result(1, 5, 2, false, false), Placed::kDebt);
  EXPECT_EQ(Debt(ledger, 0), 9) << "an error takes no debt";
  EXPECT_EQ(Debt(ledger, 1), 0) << "the step may still be skipped";
  op.account->CloseUsed();
  EXPECT_EQ(Debt(ledger, 0), 14);
  EXPECT_EQ(Debt(ledger, 1), 5);
  EXPECT_EQ(Residual(ledger, 1), 3);
  EXPECT_EQ(op.Result(2, 5, 2, false, true), Placed::kDebt);
  EXPECT_EQ(Debt(ledger, 2), 5);
  EXPECT_FALSE(op.account->is_settled());
  op.Whole(3, 5);
  EXPECT_TRUE(op.account->is_settled());
}

// Until it is decided what the dead owner's results are, v is held.
TEST(LedgerFlawTest, F8DeadToResidual) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  op.Complete();
  op.account->CloseUsed();
  EXPECT_EQ(Residual(ledger, 0), 0);
  EXPECT_TRUE(op.account->LacksBooking(0));
  // Decided: a survivor holds chunk 0, nobody chunk 1.
  op.account->OwnerGone(op.Info(0));
  EXPECT_TRUE(op.account->LacksBooking(0)) << "the holder's c may tell";
  op.Result(0, 2, 2, false, std::nullopt);
  EXPECT_FALSE(op.account->LacksBooking(0));
  EXPECT_EQ(Residual(ledger, 0), 0) << "forgiven: it may have been summed";
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kOwnerGone),
            (Forgiven{.contributions = 4, .results = 0}));
  op.Result(1, 0, 0, false, false);
  EXPECT_EQ(Residual(ledger, 1), 3) << "void: it returns whole";
  // Chunk 2: the holder's result has everybody in it.
  op.account->OwnerGone(op.Info(2));
  op.Result(2, 2, kWorld, true, std::nullopt);
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kOwnerGone).contributions, 4u);
}

// With a removed rank in the group nothing is imputed.
TEST(LedgerFlawTest, F9ImputeRemoved) {
  EXPECT_TRUE(gradcodec::IsImputed(3, kWorld, false));
  EXPECT_FALSE(gradcodec::IsImputed(3, kWorld, true));
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  op.Result(0, 2, 3, false, false);
  op.Complete();
  op.account->CloseUsed();
  EXPECT_EQ(Residual(ledger, 0), 3);
}

// A reliable op has no bound: what it lacks can be asked for before its end.
TEST(LedgerFlawTest, F10HolderAfterClose) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 0);
  op.WholeFrom(1, 1);
  EXPECT_FALSE(op.account->has_all_results());
  EXPECT_EQ(op.account->FindLacking(0), 0u);
  op.account->OwnerGone(op.Info(0));
  EXPECT_EQ(op.Result(0, 2, 2, false, std::nullopt), Placed::kOutput);
  EXPECT_TRUE(op.account->has_all_results());
  EXPECT_EQ(op.account->FindLacking(0), op.plan.chunk_limit());
}

// When nobody has it, it is forgiven, and the op comes to an end (F16 too: two
// that lack it learn from each other that they do).
TEST(LedgerFlawTest, F12NoGone) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  op.WholeFrom(1, 1);
  op.account->NoHolder(op.Info(0));
  EXPECT_TRUE(op.account->has_all_results()) << "it counts as present: zero";
  EXPECT_EQ(op.Whole(0, 5), Placed::kNowhere) << "forgiven is forgiven";
  op.Complete();
  EXPECT_EQ(op.At(0), 0);
  op.account->CloseUsed();
  EXPECT_TRUE(op.account->is_settled());
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kNoHolder),
            (Forgiven{.contributions = 0, .results = 4}));
  EXPECT_EQ(ledger.forgiven(ForgivenFor::kOwnerGone),
            (Forgiven{.contributions = 4, .results = 0}));
}

// ---- eviction and memory

TEST(LedgerTest, EvictionForgivesWhatIsOpenAndClosesTheStep) {
  Ledger ledger(Config());
  TestOp op(&ledger, 0, 3);
  op.Result(0, 0, 0, false, false);
  op.Result(1, 2, 2, false, std::nullopt);
  op.Whole(2, 2);
  op.Complete();
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
  config.budget = ByteArena::Cost(2 * 4 * sizeof(void*)) +
                  ops * ByteArena::Cost(4 * 32) + blocks * ByteArena::Cost(16);
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
        reinterpret_cast<uint8_t*>(output->data() + 8 * chunk));
  }
  static void Complete(Account* account, Halves* output) {
    account->Complete(reinterpret_cast<uint8_t*>(output->data()));
  }
  static float At(const Halves& output, uint32_t chunk) {
    return gradcodec::HalfToFloat(output[8 * chunk]);
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

// ---- resets

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
