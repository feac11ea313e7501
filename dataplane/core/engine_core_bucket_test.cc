// Ops with residuals and debts, in whole groups.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "dataplane/core/engine_core.h"
#include "dataplane/core/group_testing.h"
#include "dataplane/core/testing.h"

namespace optireduce::core {
namespace {

OpDescriptor Bucketed(uint64_t count, uint64_t bucket, uint64_t step) {
  OpDescriptor op = AllReduce(count, Mode::kBounded, gradcodec::ReduceOp::kAvg);
  op.bucket = bucket;
  op.step = step;
  return op;
}

size_t Close(TestNet* net, size_t rank, uint64_t step, StepOutcome outcome) {
  return net->core(rank).CloseStep(net->group(rank), step, outcome, net->now());
}

using wire::PacketType;

constexpr size_t kWorld = 4;
constexpr uint64_t kCount = 400;

// Trainers that submit one op after the other of one bucket, in place, and know
// what they must have got of it in the end.
class BucketNet {
 public:
  explicit BucketNet(const GroupConfig& settings = FastSettings())
      : net_(kWorld, settings) {
    FormOrDie(&net_, kWorld);
    for (auto& sum : applied_) sum.resize(kCount);
    truth_.resize(kCount);
  }

  TestNet& net() { return net_; }
  Buffers& buffers(size_t op) { return buffers_[op]; }

  // New buffers. Inputs are whole numbers without order.
  void Draw() {
    Buffers& values = buffers_.emplace_back(kWorld, kCount);
    for (size_t r = 0; r < kWorld; ++r) {
      for (size_t i = 0; i < kCount; ++i) {
        values.values[r][i] = static_cast<float>(8 * (++drawn_ * 7919 % 97));
      }
      inputs_.push_back(values.values[r]);
    }
  }
  // All but `absent` submit an op with new buffers.
  void Submit(const OpDescriptor& op, bool counts = true,
              std::optional<size_t> absent = {}) {
    Draw();
    for (size_t r = 0; r < kWorld; ++r) {
      if (absent == r) continue;
      SubmitOne(r, op, counts);
    }
  }
  // Of the newest op.
  SubmitResult SubmitOne(size_t rank, const OpDescriptor& op,
                         bool counts = true) {
    const std::vector<float>& input = inputs_[inputs_.size() - kWorld + rank];
    if (counts) Add(input, 1.0 / kWorld, &truth_);
    return net_.Submit(rank, op, buffers_.back().View(rank));
  }
  // The rank uses its output of an op as it is now.
  void Use(size_t rank, size_t op) {
    Add(buffers_[op].values[rank], 1, &applied_[rank]);
  }
  // By how much the rank's parameters differ from what they should be, once
  // residuals and debts are in; the most over all elements.
  double Difference(size_t rank, uint64_t bucket) {
    std::vector<double> sum = applied_[rank];
    std::vector<float> residual(kCount);
    std::vector<float> debt(kCount);
    for (size_t r = 0; r < kWorld; ++r) {
      if (!net_.core(r).ReadBucket(net_.group(r), bucket, residual.data(),
                                   debt.data())) {
        continue;
      }
      Add(residual, 1.0 / kWorld, &sum);
      if (r == rank) Add(debt, 1, &sum);
    }
    double most = 0;
    for (size_t i = 0; i < kCount; ++i) {
      most = std::max(most, std::fabs(sum[i] - truth_[i]));
    }
    return most;
  }
  void ExpectConserved(uint64_t bucket) {
    for (size_t r = 0; r < kWorld; ++r) {
      EXPECT_LT(Difference(r, bucket), 1e-3) << "rank " << r;
      EXPECT_EQ(Status(r).forgiven, ForgivenCounts{});
    }
  }
  GroupStatus Status(size_t rank) {
    return net_.core(rank).Status(net_.group(rank));
  }
  size_t CountEvents(size_t rank, EventKind kind) {
    return static_cast<size_t>(std::ranges::count_if(
        net_.events(rank),
        [kind](const Event& event) { return event.kind == kind; }));
  }
  void Lose(PacketType type, size_t from, size_t to, bool repairs = false) {
    net_.set_filter([=](const wire::Header& header, Rank source, Rank target) {
      return header.type != type || source.index() != from ||
             target.index() != to ||
             (!repairs && (header.flags & wire::kFlagRepair) != 0);
    });
  }
  void LoseNothing() { net_.set_filter(nullptr); }

 private:
  template <typename T>
  static void Add(const std::vector<T>& values, double factor,
                  std::vector<double>* sum) {
    for (size_t i = 0; i < kCount; ++i) (*sum)[i] += values[i] * factor;
  }

  TestNet net_;
  std::deque<Buffers> buffers_;
  std::vector<std::vector<float>> inputs_;
  std::vector<double> applied_[kWorld];
  std::vector<double> truth_;
  uint64_t drawn_ = 0;
};

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
  ranks.Lose(PacketType::kData, 2, 1);
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
  ranks.ExpectConserved(1);
  ranks.LoseNothing();
  ranks.Submit(Bucketed(kCount, 1, 0));
  ranks.net().Run(Duration::Millis(30));
  for (size_t r = 0; r < kWorld; ++r) ranks.Use(r, 1);
  ranks.ExpectConserved(1);
  ASSERT_TRUE(ranks.net().core(2).ReadBucket(ranks.net().group(2), 1,
                                             residual.data(), debt.data()));
  EXPECT_EQ(std::ranges::count(residual, 0.0f), kCount) << "it is all out";
}

TEST(BucketTest, ALateResultIsPutInPlaceUntilTheStepIsClosed) {
  BucketNet ranks;
  ranks.Lose(PacketType::kResult, 3, 1);
  ranks.Submit(Bucketed(kCount, 1, 5));
  ranks.net().Run(Duration::Micros(10'200));
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
  ranks.ExpectConserved(1);
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
  ranks.ExpectConserved(1);
  ranks.Submit(Bucketed(kCount, 1, 6));
  ranks.net().Run(Duration::Millis(20));
  EXPECT_NE(ranks.buffers(1).values[1], ranks.buffers(1).values[0]);
  for (size_t r = 0; r < kWorld; ++r) ranks.Use(r, 1);
  ranks.ExpectConserved(1);
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
  ranks.ExpectConserved(1);
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
  ranks.ExpectConserved(1);
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
  ranks.ExpectConserved(1);
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
    ranks.ExpectConserved(bucket);  // nothing at all
  }
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
