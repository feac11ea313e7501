// Ops with residuals and debts, in whole groups.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "dataplane/core/bucket_testing.h"
#include "dataplane/core/engine_core.h"

namespace optireduce::core {
namespace {

using wire::PacketType;

TEST(BucketTest, AStepClosesEachOfItsOpsOnce) {
  TestNet net(2, FastSettings());
  FormOrDie(&net, 2);
  Buffers one(2, 400);
  Buffers two(2, 400);
  Buffers other(2, 400);
  Buffers none(2, 400);
  for (size_t r = 0; r < 2; ++r) {
    net.Submit(r, Bucketed(400, 1, 7), one.View(r));
    net.Submit(r, Bucketed(400, 2, 7), two.View(r));
    net.Submit(r, Bucketed(400, 3, 8), other.View(r));
    net.Submit(r, Bucketed(400, 4, 0), none.View(r));
  }
  EXPECT_EQ(Close(&net, 0, 9, StepOutcome::kUsed), 0u);
  EXPECT_EQ(Close(&net, 0, 0, StepOutcome::kUsed), 0u);
  EXPECT_EQ(Close(&net, 0, 7, StepOutcome::kUsed), 2u);
  EXPECT_EQ(Close(&net, 0, 7, StepOutcome::kSkipped), 0u);
  EXPECT_EQ(Close(&net, 0, 8, StepOutcome::kSkipped), 1u);
  EXPECT_EQ(Close(&net, 1, 7, StepOutcome::kSkipped), 2u);
}

TEST(BucketTest, LossScalesArePositiveFiniteAndNormal) {
  TestNet net(2, FastSettings());
  FormOrDie(&net, 2);
  Buffers buffers(2, 400);
  OpDescriptor op = Bucketed(400, 1, 0);
  for (float scale :
       {0.0f, -1.0f, std::numeric_limits<float>::infinity(), std::nanf(""),
        std::numeric_limits<float>::denorm_min()}) {
    op.loss_scale = scale;
    EXPECT_EQ(net.Submit(0, op, buffers.View(0)), SubmitResult::kBadScale)
        << scale;
  }
  // The ranks' scales need not be alike.
  for (size_t r = 0; r < 2; ++r) {
    op.loss_scale = r == 0 ? 1024.0f : 0.5f;
    EXPECT_EQ(net.Submit(r, op, buffers.View(r)), SubmitResult::kAccepted);
  }
  net.Run(Duration::Millis(3));
  EXPECT_EQ(net.report(0, OpSeq(0))->status, OpStatus::kComplete);
}

TEST(BucketTest, WhatAnOwnerDidNotSumComesWithTheNextOp) {
  BucketNet ranks;
  ranks.Lose(PacketType::kData, 2, 1, true);
  ranks.Submit(Bucketed(kCount, 1, 0));
  ranks.net().Run(Duration::Millis(30));
  for (size_t r = 0; r < kWorld; ++r) ranks.Use(r, 0);
  std::vector<float> residual(kCount);
  std::vector<float> debt(kCount);
  ASSERT_TRUE(ranks.net().core(2).ReadBucket(ranks.net().group(2), 1,
                                             residual.data(), debt.data()));
  // A whole shard but for the few that equal the mean of the others.
  EXPECT_GT(kCount - std::ranges::count(residual, 0.0f), kCount / kWorld - 20);
  EXPECT_LE(kCount - std::ranges::count(residual, 0.0f), kCount / kWorld);
  EXPECT_EQ(std::ranges::count(debt, 0.0f), kCount);
  EXPECT_TRUE(ranks.IsConserved(1));
  ranks.LoseNothing();
  ranks.Submit(Bucketed(kCount, 1, 0));
  ranks.net().Run(Duration::Millis(30));
  for (size_t r = 0; r < kWorld; ++r) ranks.Use(r, 1);
  EXPECT_TRUE(ranks.IsConserved(1));
  ASSERT_TRUE(ranks.net().core(2).ReadBucket(ranks.net().group(2), 1,
                                             residual.data(), debt.data()));
  EXPECT_EQ(std::ranges::count(residual, 0.0f), kCount) << "it is all out";
}

TEST(BucketTest, ALateResultIsPutInPlaceUntilTheStepIsClosed) {
  BucketNet ranks;
  ranks.Lose(PacketType::kResult, 3, 1, true);
  ranks.Submit(Bucketed(kCount, 1, 5));
  ranks.net().Run(Duration::Micros(10'200));
  ranks.LoseNothing();
  const OpReport* report = ranks.net().report(1, OpSeq(0));
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->absent, kCount / kWorld);
  EXPECT_TRUE(report->holds_buffers);
  EXPECT_FALSE(ranks.net().report(0, OpSeq(0))->holds_buffers);
  ranks.net().Run(Duration::Millis(20));
  EXPECT_EQ(ranks.CountEvents(1, EventKind::kBuffersFree), 1u);
  EXPECT_EQ(ranks.CountEvents(0, EventKind::kBuffersFree), 0u);
  EXPECT_EQ(ranks.buffers(0).values[1], ranks.buffers(0).values[0]);
  for (size_t r = 0; r < kWorld; ++r) {
    EXPECT_EQ(Close(&ranks.net(), r, 5, StepOutcome::kUsed), 1u);
    ranks.Use(r, 0);
  }
  ranks.net().Run(Duration::Millis(30));
  EXPECT_EQ(ranks.Status(1).ops_kept, 0u);
  EXPECT_TRUE(ranks.Status(1).ledger_quiet);
  EXPECT_TRUE(ranks.IsConserved(1));
}

TEST(BucketTest, AfterTheStepsCloseALateResultIsADebt) {
  BucketNet ranks;
  ranks.Lose(PacketType::kResult, 3, 1, true);
  ranks.Submit(Bucketed(kCount, 1, 5));
  ranks.net().Run(Duration::Millis(20));
  EXPECT_TRUE(ranks.net().report(1, OpSeq(0))->holds_buffers);
  for (size_t r = 0; r < kWorld; ++r) {
    EXPECT_EQ(Close(&ranks.net(), r, 5, StepOutcome::kUsed), 1u);
    ranks.Use(r, 0);
  }
  const std::vector<float> read = ranks.buffers(0).values[1];
  EXPECT_GT(ranks.Difference(1, 1), 1.0);
  EXPECT_GT(ranks.Status(1).ops_kept, 0u) << "it is still owed something";
  ranks.LoseNothing();
  ranks.net().Run(Duration::Millis(100));
  EXPECT_EQ(ranks.CountEvents(1, EventKind::kBuffersFree), 1u);
  EXPECT_EQ(ranks.buffers(0).values[1], read) << "nothing was written";
  EXPECT_EQ(ranks.Status(1).ops_kept, 0u);
  EXPECT_TRUE(ranks.IsConserved(1));
  ranks.Submit(Bucketed(kCount, 1, 6));
  ranks.net().Run(Duration::Millis(20));
  EXPECT_NE(ranks.buffers(1).values[1], ranks.buffers(1).values[0]);
  for (size_t r = 0; r < kWorld; ++r) ranks.Use(r, 1);
  EXPECT_TRUE(ranks.IsConserved(1));
}

TEST(BucketTest, ASkippedStepLeavesResidualsAndDebtsAsTheyWere) {
  BucketNet ranks;
  ranks.Lose(PacketType::kData, 2, 1);
  ranks.Submit(Bucketed(kCount, 1, 1));
  ranks.net().Run(Duration::Millis(30));
  for (size_t r = 0; r < kWorld; ++r) {
    Close(&ranks.net(), r, 1, StepOutcome::kUsed);
    ranks.Use(r, 0);
  }
  ranks.Lose(PacketType::kResult, 0, 3, true);
  ranks.Submit(Bucketed(kCount, 1, 2), /*counts=*/false);
  ranks.net().Run(Duration::Millis(30));
  for (size_t r = 0; r < kWorld; ++r) {
    EXPECT_EQ(Close(&ranks.net(), r, 2, StepOutcome::kSkipped), 1u);
  }
  ranks.LoseNothing();
  ranks.net().Run(Duration::Millis(100));
  EXPECT_TRUE(ranks.IsConserved(1));
  for (size_t r = 0; r < kWorld; ++r) EXPECT_EQ(ranks.Status(r).ops_kept, 0u);
}

// Its contribution is summed although it has given up; the results are owed.
TEST(BucketTest, AnOpThatRanIntoItsHardLimitIsOwed) {
  BucketNet ranks;
  ranks.Draw();
  OpDescriptor op = Bucketed(kCount, 1, 0);
  op.hard_limit = Duration::Millis(5);
  ranks.SubmitOne(0, op);
  ranks.net().Run(Duration::Millis(10));
  ASSERT_NE(ranks.net().report(0, OpSeq(0)), nullptr);
  EXPECT_EQ(ranks.net().report(0, OpSeq(0))->status, OpStatus::kHardLimit);
  for (size_t r = 1; r < kWorld; ++r) {
    ranks.SubmitOne(r, Bucketed(kCount, 1, 0));
  }
  ranks.net().Run(Duration::Millis(100));
  for (size_t r = 1; r < kWorld; ++r) {
    EXPECT_EQ(ranks.net().report(r, OpSeq(0))->min_contributors, kWorld);
    ranks.Use(r, 0);
  }
  EXPECT_TRUE(ranks.IsConserved(1));
  std::vector<float> residual(kCount);
  std::vector<float> debt(kCount);
  ASSERT_TRUE(ranks.net().core(0).ReadBucket(ranks.net().group(0), 1,
                                             residual.data(), debt.data()));
  EXPECT_EQ(debt, ranks.buffers(0).values[1]);
}

TEST(BucketTest, ALateTrainerBooksWhatWasImputedForIt) {
  BucketNet ranks;
  ranks.Submit(Bucketed(kCount, 1, 0), true, 2);
  ranks.net().Run(Duration::Millis(50));
  ranks.SubmitOne(2, Bucketed(kCount, 1, 0));
  ranks.net().Run(Duration::Millis(50));
  for (size_t r = 0; r < kWorld; ++r) {
    ASSERT_NE(ranks.net().report(r, OpSeq(0)), nullptr);
    ranks.Use(r, 0);
  }
  EXPECT_EQ(ranks.buffers(0).values[2], ranks.buffers(0).values[0]);
  EXPECT_TRUE(ranks.IsConserved(1));
}

TEST(BucketTest, AFlushLeavesNothingBehind) {
  BucketNet ranks;
  ranks.Lose(PacketType::kResult, 3, 1);
  ranks.Submit(Bucketed(kCount, 1, 0));
  ranks.net().Run(Duration::Millis(30));
  ranks.Lose(PacketType::kData, 2, 1, true);
  ranks.Submit(Bucketed(kCount, 1, 0));
  ranks.net().Run(Duration::Millis(30));
  ranks.LoseNothing();
  OpDescriptor flush = Bucketed(kCount, 1, 0);
  flush.mode = Mode::kFlush;
  ranks.Submit(flush, /*counts=*/false);
  ranks.net().Run(Duration::Millis(30));
  for (size_t r = 0; r < kWorld; ++r) {
    for (size_t op = 0; op < 3; ++op) ranks.Use(r, op);
    EXPECT_EQ(ranks.net().report(r, OpSeq(2))->status, OpStatus::kComplete);
    std::vector<float> residual(kCount);
    std::vector<float> debt(kCount);
    ASSERT_TRUE(ranks.net().core(r).ReadBucket(ranks.net().group(r), 1,
                                               residual.data(), debt.data()));
    EXPECT_EQ(std::ranges::count(residual, 0.0f), kCount);
    EXPECT_EQ(std::ranges::count(debt, 0.0f), kCount);
  }
  EXPECT_NE(ranks.buffers(2).values[0], std::vector<float>(kCount));
  EXPECT_TRUE(ranks.IsConserved(1));
}

// What senders and owners round is kept, and a flush, in full width, takes it.
TEST(BucketTest, WhatANarrowCodecRoundsComesLater) {
  BucketNet ranks;
  OpDescriptor op = Bucketed(kCount, 1, 0);
  op.codec = Codec::kBfloat16;
  constexpr size_t kOps = 4;
  for (size_t i = 0; i < kOps; ++i) {
    ranks.Lose(i % 2 == 0 ? PacketType::kData : PacketType::kResult, i, 1,
               i == 2);
    ranks.Submit(op);
    ranks.net().Run(Duration::Millis(30));
    ranks.LoseNothing();
    ranks.net().Run(Duration::Millis(30));
    for (size_t r = 0; r < kWorld; ++r) ranks.Use(r, i);
    EXPECT_TRUE(ranks.IsConserved(1)) << "op " << i;
  }
  std::vector<float> residual(kCount);
  std::vector<float> debt(kCount);
  size_t kept = 0;
  for (size_t r = 0; r < kWorld; ++r) {
    ASSERT_TRUE(ranks.net().core(r).ReadBucket(ranks.net().group(r), 1,
                                               residual.data(), debt.data()));
    kept += kCount - static_cast<size_t>(std::ranges::count(residual, 0.0f));
  }
  EXPECT_GT(kept, 20u);
  OpDescriptor flush = Bucketed(kCount, 1, 0);
  flush.mode = Mode::kFlush;
  ranks.Submit(flush, /*counts=*/false);
  ranks.net().Run(Duration::Millis(30));
  for (size_t r = 0; r < kWorld; ++r) {
    ASSERT_NE(ranks.net().report(r, OpSeq(kOps)), nullptr);
    ranks.Use(r, kOps);
    ASSERT_TRUE(ranks.net().core(r).ReadBucket(ranks.net().group(r), 1,
                                               residual.data(), debt.data()));
    EXPECT_EQ(std::ranges::count(residual, 0.0f), kCount);
    EXPECT_EQ(std::ranges::count(debt, 0.0f), kCount);
  }
  EXPECT_TRUE(ranks.IsConserved(1));
}

// Its daemon has rounded the results before there was an account.
TEST(BucketTest, ALateOwnerStillKeepsWhatItsResultsRounded) {
  BucketNet ranks;
  OpDescriptor op = Bucketed(kCount, 1, 0);
  op.codec = Codec::kBfloat16;
  ranks.Submit(op, true, 2);
  ranks.net().Run(Duration::Millis(50));
  ranks.SubmitOne(2, op);
  ranks.net().Run(Duration::Millis(50));
  for (size_t r = 0; r < kWorld; ++r) {
    ASSERT_NE(ranks.net().report(r, OpSeq(0)), nullptr);
    ranks.Use(r, 0);
  }
  EXPECT_TRUE(ranks.IsConserved(1));
}

// ---- bounded reduce-scatters

constexpr uint64_t kPart = kCount / kWorld;

OpDescriptor BucketedScatter() {
  OpDescriptor op = Bucketed(kCount, 1, 0);
  op.collective = Collective::kReduceScatter;
  return op;
}

// The input stays as it is.
SubmitResult SubmitScatter(TestNet* net, Buffers* inputs, Buffers* outputs,
                           size_t rank) {
  return net->Submit(rank, BucketedScatter(),
                     {inputs->View(rank).input, outputs->View(rank).output});
}

std::vector<float> ResidualOf(TestNet* net, size_t rank) {
  std::vector<float> residual(kCount, -1);
  std::vector<float> debt(kCount);
  net->core(rank).ReadBucket(net->group(rank), 1, residual.data(), debt.data());
  EXPECT_EQ(std::ranges::count(debt, 0.0f), kCount);
  return residual;
}

// `values` within rank `part`'s part, else zero.
std::vector<float> Only(const std::vector<float>& values, size_t part) {
  std::vector<float> only(kCount);
  for (size_t i = part * kPart; i < (part + 1) * kPart; ++i)
    only[i] = values[i];
  return only;
}

TEST(BucketScatterTest, WhatAnOwnerDidNotSumComesWithTheNextOp) {
  TestNet net(kWorld, FastSettings());
  FormOrDie(&net, kWorld);
  Buffers inputs(kWorld, kCount);
  Buffers outputs(kWorld, kPart);
  net.set_filter([](const wire::Header& header, Rank from, Rank to) {
    return header.type != PacketType::kData || from != Rank(2) || to != Rank(1);
  });
  for (size_t r = 0; r < kWorld; ++r) SubmitScatter(&net, &inputs, &outputs, r);
  net.Run(Duration::Millis(30));
  for (size_t r = 0; r < kWorld; ++r) {
    const std::vector<float> kept =
        r == 2 ? Only(inputs.values[2], 1) : std::vector<float>(kCount);
    EXPECT_EQ(ResidualOf(&net, r), kept) << "rank " << r;
  }
  const auto sum = [&inputs](size_t i) {
    return inputs.values[0][i] + inputs.values[1][i] + inputs.values[2][i] +
           inputs.values[3][i];
  };
  // Divided by all four: a mean of three would be given twice.
  EXPECT_EQ(outputs.values[1][7],
            (sum(kPart + 7) - inputs.values[2][kPart + 7]) / 4);
  EXPECT_EQ(outputs.values[3][7], sum(3 * kPart + 7) / 4);
  net.set_filter(nullptr);
  for (size_t r = 0; r < kWorld; ++r) SubmitScatter(&net, &inputs, &outputs, r);
  net.Run(Duration::Millis(30));
  EXPECT_EQ(outputs.values[1][7],
            (sum(kPart + 7) + inputs.values[2][kPart + 7]) / 4);
  for (size_t r = 0; r < kWorld; ++r) {
    EXPECT_EQ(ResidualOf(&net, r), std::vector<float>(kCount));
    EXPECT_TRUE(net.core(r).Status(net.group(r)).ledger_quiet);
    EXPECT_EQ(net.core(r).Status(net.group(r)).ops_kept, 0u);
  }
}

// Neither kept nor dropped until the owner has said.
TEST(BucketScatterTest, WithoutAnAccountContributionsAreHeld) {
  TestNet net(kWorld, FastSettings());
  FormOrDie(&net, kWorld);
  Buffers inputs(kWorld, kCount);
  Buffers outputs(kWorld, kPart);
  net.set_filter([](const wire::Header& header, Rank from, Rank to) {
    const bool data = header.type == PacketType::kData && from == Rank(2);
    const bool account = header.type == PacketType::kResult && to == Rank(2);
    return !(data && to == Rank(1)) &&
           !(account && (from == Rank(0) || from == Rank(1)));
  });
  for (size_t r = 0; r < kWorld; ++r) SubmitScatter(&net, &inputs, &outputs, r);
  net.Run(Duration::Millis(15));
  ASSERT_NE(net.report(2, OpSeq(0)), nullptr);
  EXPECT_EQ(ResidualOf(&net, 2), std::vector<float>(kCount));
  EXPECT_GT(net.core(2).Status(net.group(2)).ops_kept, 0u);
  net.set_filter(nullptr);
  net.Run(Duration::Millis(100));
  EXPECT_EQ(ResidualOf(&net, 2), Only(inputs.values[2], 1))
      << "owner 0 had summed it, owner 1 had not";
  EXPECT_EQ(net.core(2).Status(net.group(2)).ops_kept, 0u);
  EXPECT_EQ(net.core(2).Status(net.group(2)).forgiven, ForgivenCounts{});
}

TEST(BucketScatterTest, ALateTrainerKeepsAllThatItContributes) {
  TestNet net(kWorld, FastSettings());
  FormOrDie(&net, kWorld);
  Buffers inputs(kWorld, kCount);
  Buffers outputs(kWorld, kPart);
  for (size_t r : {0, 1, 3}) SubmitScatter(&net, &inputs, &outputs, r);
  net.Run(Duration::Millis(50));
  SubmitScatter(&net, &inputs, &outputs, 2);
  net.Run(Duration::Millis(50));
  const OpReport* report = net.report(2, OpSeq(0));
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->min_contributors, 3);
  EXPECT_EQ(ResidualOf(&net, 2), inputs.values[2]);
  EXPECT_EQ(outputs.values[2][7],
            (inputs.values[0][2 * kPart + 7] + inputs.values[1][2 * kPart + 7] +
             inputs.values[3][2 * kPart + 7]) /
                4);
  EXPECT_EQ(net.core(2).Status(net.group(2)).ops_kept, 0u);
}

// Flaw F14: a contribution that is still to be booked would miss it.
TEST(BucketTest, AFlushWaitsForWhatIsOwedFromBefore) {
  BucketNet ranks;
  ranks.Lose(PacketType::kResult, 3, 1, true);
  ranks.Submit(Bucketed(kCount, 1, 0));
  ranks.net().Run(Duration::Millis(30));
  for (size_t r = 0; r < kWorld; ++r) ranks.Use(r, 0);
  ranks.Draw();
  OpDescriptor flush = Bucketed(kCount, 1, 0);
  flush.mode = Mode::kFlush;
  EXPECT_EQ(ranks.SubmitOne(1, flush, false), SubmitResult::kWindowFull);
  EXPECT_EQ(ranks.SubmitOne(0, flush, false), SubmitResult::kAccepted);
  ranks.LoseNothing();
  ranks.net().Run(Duration::Millis(150));
  for (size_t r = 1; r < kWorld; ++r) {
    EXPECT_EQ(ranks.SubmitOne(r, flush, false), SubmitResult::kAccepted);
  }
  ranks.net().Run(Duration::Millis(30));
  for (size_t r = 0; r < kWorld; ++r) {
    ASSERT_NE(ranks.net().report(r, OpSeq(1)), nullptr);
    ranks.Use(r, 1);
  }
  EXPECT_TRUE(ranks.IsConserved(1));
}

TEST(BucketTest, AFlushIsOfABucketInPlaceAndOfNoStep) {
  BucketNet ranks;
  ranks.Draw();
  const BufferView buffers = ranks.buffers(0).View(0);
  OpDescriptor flush = Bucketed(kCount, 1, 3);
  flush.mode = Mode::kFlush;
  EXPECT_EQ(ranks.net().Submit(0, flush, buffers), SubmitResult::kUnsupported);
  flush.step = 0;
  flush.bucket = 0;
  EXPECT_EQ(ranks.net().Submit(0, flush, buffers), SubmitResult::kUnsupported);
  flush.bucket = 1;
  EXPECT_EQ(ranks.net().Submit(
                0, flush, {buffers.input, ranks.buffers(0).View(1).output}),
            SubmitResult::kBadBuffers);
}

// More buckets in one step than the group has places for ops.
TEST(BucketTest, OpsOfAnOpenStepOutliveTheirPlaces) {
  GroupConfig settings = FastSettings();
  settings.window = 4;
  BucketNet ranks(settings);
  constexpr uint64_t kBuckets = 30;
  ranks.Lose(PacketType::kData, 2, 1);
  for (uint64_t bucket = 1; bucket <= kBuckets; ++bucket) {
    ranks.Submit(Bucketed(kCount, bucket, 9), false);
    ranks.net().Run(Duration::Millis(30));
  }
  EXPECT_EQ(ranks.Status(2).ops_kept, 0u);
  EXPECT_FALSE(ranks.Status(2).ledger_quiet);
  for (size_t r = 0; r < kWorld; ++r) {
    EXPECT_EQ(Close(&ranks.net(), r, 9, StepOutcome::kSkipped), kBuckets);
    EXPECT_TRUE(ranks.Status(r).ledger_quiet);
  }
  for (uint64_t bucket = 1; bucket <= kBuckets; ++bucket) {
    EXPECT_TRUE(ranks.IsConserved(bucket));  // nothing at all
  }
}

// It would lose its place before anybody could be asked.
TEST(BucketTest, NewerOpsWaitForOneThatIsStillOwed) {
  GroupConfig settings = FastSettings();
  settings.window = 2;
  BucketNet ranks(settings);
  ranks.Lose(PacketType::kResult, 3, 1);
  ranks.Submit(Bucketed(kCount, 1, 0));
  ranks.net().Run(Duration::Micros(10'050));
  ranks.LoseNothing();
  constexpr size_t kOps = 8;
  for (size_t op = 1; op < kOps; ++op) {
    ranks.Draw();
    std::vector<bool> accepted(kWorld);
    for (int tries = 0; tries < 500; ++tries) {
      for (size_t r = 0; r < kWorld; ++r) {
        if (accepted[r]) continue;
        accepted[r] = ranks.SubmitOne(r, Bucketed(kCount, 1, 0)) ==
                      SubmitResult::kAccepted;
      }
      ranks.net().Run(Duration::Micros(50));
      if (std::ranges::count(accepted, true) == kWorld) break;
    }
    ASSERT_EQ(std::ranges::count(accepted, true), kWorld);
  }
  ranks.net().Run(Duration::Millis(50));
  for (size_t r = 0; r < kWorld; ++r) {
    for (size_t op = 0; op < kOps; ++op) ranks.Use(r, op);
  }
  EXPECT_TRUE(ranks.IsConserved(1));
}

// Its results were evicted before this rank came: the others may have imputed
// something for it.
TEST(BucketTest, WhatWasImputedForAnExpiredOpIsCounted) {
  GroupConfig settings = FastSettings();
  settings.window = 2;
  BucketNet ranks(settings);
  for (uint64_t op = 0; op < 12; ++op) {
    ranks.Submit(Bucketed(kCount, 1, 0), true, 2);
    ranks.net().Run(Duration::Millis(120));
  }
  ASSERT_EQ(ranks.SubmitOne(2, Bucketed(kCount, 1, 0)),
            SubmitResult::kAccepted);
  ranks.net().Run(Duration::Millis(1));
  const OpReport* report = ranks.net().report(2, OpSeq(0));
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->status, OpStatus::kExpired);
  EXPECT_EQ(ranks.Status(2)
                .forgiven[static_cast<size_t>(ForgivenFor::kEvicted)]
                .contributions,
            kCount);
}

TEST(BucketTest, LeavingFreesBuffersAndForgivesByName) {
  BucketNet ranks;
  ranks.Lose(PacketType::kResult, 3, 1, true);
  ranks.Submit(Bucketed(kCount, 1, 5));
  ranks.net().Run(Duration::Millis(20));
  ASSERT_TRUE(ranks.net().report(1, OpSeq(0))->holds_buffers);
  ranks.net().core(1).Leave(ranks.net().group(1), wire::LeaveReason::kLeft,
                            ranks.net().now());
  const std::vector<float> left = ranks.buffers(0).values[1];
  ranks.LoseNothing();
  ranks.net().Run(Duration::Millis(50));
  EXPECT_EQ(ranks.CountEvents(1, EventKind::kBuffersFree), 1u);
  EXPECT_EQ(ranks.buffers(0).values[1], left);
  EXPECT_EQ(ranks.Status(1)
                .forgiven[static_cast<size_t>(ForgivenFor::kReset)]
                .results,
            kCount / kWorld);
}

}  // namespace
}  // namespace optireduce::core
