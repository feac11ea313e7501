// Ops with residuals and debts, to the last figure: every rank puts in one
// value everywhere, and what is read of one shard is known.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "dataplane/core/engine_core.h"
#include "dataplane/core/group_testing.h"
#include "dataplane/core/plan.h"
#include "dataplane/core/testing.h"

namespace optireduce::core {
namespace {

using gradcodec::ReduceOp;
using wire::PacketType;

using Values = std::vector<float>;  // by rank

// A group whose buffers are one packet for each shard. Its first shard is that
// which rank `owner` owns in op 0; in later ops others own it.
class ValueNet {
 public:
  explicit ValueNet(size_t world, uint16_t owner = 0)
      : world_(world), net_(world, FastSettings()) {
    FormOrDie(&net_, world);
    op_.count = world * kChunk;
    op_.reduce_op = ReduceOp::kAvg;
    op_.bucket = 1;
    watched_ = PlanOf(OpSeq(0)).ChunkOf(Rank(owner), 0).first;
  }

  TestNet& net() { return net_; }
  OpDescriptor& op() { return op_; }

  // All submit; the op is named by its number.
  void Submit(const Values& values) {
    Buffers& buffers = buffers_.emplace_back(world_, op_.count);
    for (size_t r = 0; r < world_; ++r) {
      std::fill(buffers.values[r].begin(), buffers.values[r].end(), values[r]);
    }
    for (size_t r = 0; r < world_; ++r) {
      EXPECT_EQ(net_.Submit(r, op_, buffers.View(r)), SubmitResult::kAccepted);
    }
  }
  // And the op ends everywhere.
  void Run(const Values& values, Duration span = Duration::Millis(30)) {
    Submit(values);
    net_.Run(span);
  }
  void Close(uint64_t step, StepOutcome outcome = StepOutcome::kUsed) {
    for (size_t r = 0; r < world_; ++r) {
      net_.core(r).CloseStep(net_.group(r), step, outcome, net_.now());
    }
  }

  // What a rank reads of the watched shard; of the others it must be `rest`.
  float Read(size_t op, size_t rank, std::optional<float> rest = {}) {
    const std::vector<float>& output = buffers_[op].values[rank];
    for (size_t i = 0; i < output.size(); ++i) {
      const bool watched = i >= watched_ && i < watched_ + kChunk;
      if (watched) {
        EXPECT_EQ(output[i], output[watched_]) << i;
      } else if (rest) {
        EXPECT_EQ(output[i], *rest) << i;
      }
    }
    return output[watched_];
  }
  Values ReadAll(size_t op, std::optional<float> rest = {}) {
    Values read;
    for (size_t r = 0; r < world_; ++r) read.push_back(Read(op, r, rest));
    return read;
  }
  // What a rank keeps of the watched shard: (residual, debt).
  std::pair<float, float> Kept(size_t rank) {
    std::vector<float> residual(op_.count);
    std::vector<float> debt(op_.count);
    EXPECT_TRUE(net_.core(rank).ReadBucket(net_.group(rank), op_.bucket,
                                           residual.data(), debt.data()));
    return {residual[watched_], debt[watched_]};
  }

  // Whether the packet is of the watched shard, and of this kind.
  bool IsOfShard(const wire::Header& header, PacketType type) const {
    const ChunkPlan plan = PlanOf(OpSeq(header.op_seq));
    return header.type == type && plan.Locate(header.chunk)->first == watched_;
  }
  // Loses contributions of these ranks to the watched shard, repairs too.
  void LoseData(std::vector<uint16_t> from) {
    net_.set_filter([this, from](const wire::Header& header, Rank, Rank) {
      return std::ranges::count(from, header.source) == 0 ||
             !IsOfShard(header, PacketType::kData);
    });
  }
  void LoseNothing() { net_.set_filter(nullptr); }

 private:
  ChunkPlan PlanOf(OpSeq seq) const {
    return ChunkPlan(op_, world_, kPayload, TestNet::kTag, seq);
  }

  size_t world_;
  TestNet net_;
  OpDescriptor op_;
  uint64_t watched_ = 0;
  std::deque<Buffers> buffers_;
};

Values Constant(size_t world, float value) { return Values(world, value); }

// ---- contributions that lack

TEST(BucketValues, FromThreeQuartersOnWhatLacksIsImputed) {
  for (const auto reduce_op : {ReduceOp::kAvg, ReduceOp::kSum}) {
    const float scale = reduce_op == ReduceOp::kSum ? 8 : 1;
    for (const bool imputed : {true, false}) {
      ValueNet ranks(8);
      ranks.op().reduce_op = reduce_op;
      ranks.LoseData(imputed ? std::vector<uint16_t>{6, 7}
                             : std::vector<uint16_t>{5, 6, 7});
      ranks.Run({1, 2, 3, 4, 5, 6, 7, 8});
      ranks.LoseNothing();
      ranks.Run(Constant(8, 0));
      const float first = imputed ? 3.5f : 1.875f;
      EXPECT_EQ(ranks.ReadAll(0, 4.5f * scale), Constant(8, first * scale));
      EXPECT_EQ(ranks.ReadAll(1, 0.0f), Constant(8, (4.5f - first) * scale));
    }
  }
}

TEST(BucketValues, WhatEqualsTheMeanIsNeverMissed) {
  ValueNet ranks(4, 1);
  for (size_t op = 0; op < 100; ++op) {
    if (op % 2 == 0) ranks.LoseData({2});
    ranks.Run(Constant(4, 1), Duration::Millis(15));
    ranks.LoseNothing();
    ASSERT_EQ(ranks.ReadAll(op, 1.0f), Constant(4, 1)) << op;
  }
}

TEST(BucketValues, TheDifferenceFromWhatWasImputedComesNext) {
  ValueNet ranks(4);
  ranks.LoseData({3});
  ranks.Run({1, 2, 3, 6});
  ranks.LoseNothing();
  EXPECT_EQ(ranks.ReadAll(0, 3.0f), Constant(4, 2));
  EXPECT_EQ(ranks.Kept(3), std::pair(4.0f, 0.0f));
  for (size_t r = 0; r < 3; ++r)
    EXPECT_EQ(ranks.Kept(r), std::pair(0.0f, 0.0f));
  ranks.Run(Constant(4, 0));
  EXPECT_EQ(ranks.ReadAll(1, 0.0f), Constant(4, 1));
  EXPECT_EQ(ranks.Kept(3), std::pair(0.0f, 0.0f));
}

// After its owner closed the shard, and while the op still waits for another
// one; or when it is over.
TEST(BucketValues, WhatComesAfterTheCloseIsNotSummed) {
  for (const auto late : {Duration::Micros(6'200), Duration::Millis(20)}) {
    ValueNet ranks(4);
    ranks.net().set_delay([&](const wire::Header& header, Rank from, Rank to) {
      if (header.op_seq != 0) return Duration();
      if (header.type == PacketType::kResult && from == Rank(1) &&
          to == Rank(0)) {
        return Duration::Millis(8);
      }
      return from == Rank(3) && ranks.IsOfShard(header, PacketType::kData)
                 ? late
                 : Duration();
    });
    ranks.Run({1, 2, 3, 6});
    ranks.Run(Constant(4, 0));
    EXPECT_EQ(ranks.ReadAll(0, 3.0f), Constant(4, 2));
    EXPECT_EQ(ranks.ReadAll(1, 0.0f), Constant(4, 1));
  }
}

// ---- accounts that lack, and copies

// Rank 3 hears of op 0's shard only after op 3: neither whether it was summed,
// nor the result.
TEST(BucketValues, AnAccountThatLacksHoldsNothingUp) {
  for (const bool summed : {false, true}) {
    ValueNet ranks(4);
    bool lose = true;
    ranks.net().set_filter([&](const wire::Header& header, Rank, Rank to) {
      if (header.op_seq != 0 || !lose) return true;
      if (!summed && header.source == 3 &&
          ranks.IsOfShard(header, PacketType::kData)) {
        return false;
      }
      return to != Rank(3) || !ranks.IsOfShard(header, PacketType::kResult);
    });
    for (int op = 0; op < 4; ++op) ranks.Run({1, 2, 3, 6});
    EXPECT_EQ(ranks.Kept(3), std::pair(0.0f, 0.0f)) << "it is held";
    lose = false;
    ranks.net().Run(Duration::Millis(200));
    ranks.Run({1, 2, 3, 6});
    const float owed = summed ? 3 : 2;
    std::vector<Values> read;
    for (size_t op = 0; op < 5; ++op) read.push_back(ranks.ReadAll(op, 3.0f));
    EXPECT_EQ(read[0], (Values{owed, owed, owed, 0}));
    for (size_t op = 1; op < 4; ++op) EXPECT_EQ(read[op], Constant(4, 3)) << op;
    const float last = summed ? 3 : 4;
    EXPECT_EQ(read[4], (Values{last, last, last, 6}));
  }
}

TEST(BucketValues, ACopyOfAnAccountChangesNothing) {
  ValueNet ranks(4);
  ranks.LoseData({3});
  ranks.net().set_copy([&](const wire::Header& header, Rank, Rank to) {
    return header.op_seq == 0 && to == Rank(3) &&
                   ranks.IsOfShard(header, PacketType::kResult)
               ? Duration::Millis(45)  // after op 1
               : Duration();
  });
  ranks.Run({1, 2, 3, 6});
  ranks.LoseNothing();
  for (int op = 1; op < 5; ++op) ranks.Run({1, 2, 3, 6});
  for (size_t op = 0; op < 5; ++op) {
    const float expected = op == 0 ? 2 : op == 1 ? 4 : 3;
    EXPECT_EQ(ranks.ReadAll(op, 3.0f), Constant(4, expected)) << op;
  }
}

// ---- results that lack

// One that never comes again, with a bucket and without.
TEST(BucketValues, ALostResultIsPaidOnceOrNeverIfItHasNoBucket) {
  for (const uint64_t bucket : {1, 0}) {
    ValueNet ranks(4, 3);
    ranks.op().bucket = bucket;
    bool lose = true;
    ranks.net().set_filter([&](const wire::Header& header, Rank, Rank to) {
      return !lose || header.op_seq != 0 || to != Rank(1) ||
             !ranks.IsOfShard(header, PacketType::kResult);
    });
    ranks.Run({1, 2, 3, 4});
    lose = false;
    ranks.net().Run(Duration::Millis(200));
    EXPECT_EQ(ranks.ReadAll(0, 2.5f), (Values{2.5, 0, 2.5, 2.5}));
    for (size_t op = 1; op < 5; ++op) {
      ranks.Run({1, 2, 3, 4});
      const float paid = op == 1 && bucket != 0 ? 5 : 2.5;
      EXPECT_EQ(ranks.ReadAll(op, 2.5f), (Values{2.5, paid, 2.5, 2.5})) << op;
    }
  }
}

// The result of owner 3 reaches rank 1 some time after the op's bound, and a
// copy after that; the step is closed before, between or after the two.
TEST(BucketValues, ALateResultAndItsCopyCountOnce) {
  for (const int close_at : {12, 16, 18}) {
    ValueNet ranks(4, 3);
    ranks.net().set_filter([&](const wire::Header& header, Rank, Rank to) {
      return header.op_seq != 0 || to != Rank(1) ||
             !ranks.IsOfShard(header, PacketType::kResult) ||
             (header.flags & wire::kFlagRepair) == 0;
    });
    const auto slower = [&](int64_t millis) {
      return [&ranks, millis](const wire::Header& header, Rank, Rank to) {
        return header.op_seq == 0 && to == Rank(1) &&
                       ranks.IsOfShard(header, PacketType::kResult)
                   ? Duration::Millis(millis)
                   : Duration();
      };
    };
    ranks.net().set_delay(slower(15));
    ranks.net().set_copy(slower(17));
    ranks.op().step = 1;
    ranks.Run({1, 2, 3, 4}, Duration::Millis(close_at));
    const float read = close_at == 12 ? 0 : 2.5;
    EXPECT_EQ(ranks.Read(0, 1, 2.5f), read) << close_at;
    ranks.Close(1);
    ranks.net().Run(Duration::Millis(30));
    EXPECT_EQ(ranks.Read(0, 1, 2.5f), read) << "nothing is written any more";
    for (uint64_t step = 2; step < 4; ++step) {
      ranks.op().step = step;
      ranks.Run({1, 2, 3, 4});
      ranks.Close(step);
      const float expected = step == 2 && close_at == 12 ? 5 : 2.5;
      EXPECT_EQ(ranks.Read(step - 1, 1, 2.5f), expected) << close_at;
    }
  }
}

// ---- steps and flushes

// A residual of 4 at rank 3 and a debt of 2 at rank 1 come through a step that
// is skipped because of a NaN, summed or not.
TEST(BucketValues, ASkippedStepWithANanLeavesWhatWasOwed) {
  for (const bool summed : {false, true}) {
    ValueNet ranks(4);
    ranks.op().step = 1;
    ranks.net().set_filter([&](const wire::Header& header, Rank, Rank to) {
      return !(header.source == 3 &&
               ranks.IsOfShard(header, PacketType::kData)) &&
             !(to == Rank(1) && ranks.IsOfShard(header, PacketType::kResult));
    });
    ranks.Run({1, 2, 3, 6}, Duration::Millis(15));
    ranks.Close(1);
    ranks.LoseNothing();
    ranks.net().Run(Duration::Millis(200));
    ASSERT_EQ(ranks.Kept(3), std::pair(4.0f, 0.0f));
    ASSERT_EQ(ranks.Kept(1), std::pair(0.0f, 2.0f));
    ranks.op().step = 2;
    if (!summed) ranks.LoseData({3});
    ranks.Run({1, 2, 3, std::numeric_limits<float>::quiet_NaN()});
    ranks.LoseNothing();
    ranks.Close(2, StepOutcome::kSkipped);
    EXPECT_EQ(ranks.Kept(3), std::pair(4.0f, 0.0f));
    EXPECT_EQ(ranks.Kept(1), std::pair(0.0f, 2.0f));
    ranks.op().step = 3;
    ranks.Run(Constant(4, 0));
    ranks.Close(3);
    EXPECT_EQ(ranks.ReadAll(2, 0.0f), (Values{1, 3, 1, 1}));
  }
}

TEST(BucketValues, AFlushBringsEverybodyToTheTrueMean) {
  for (const bool imputed : {false, true}) {
    ValueNet ranks(4);
    const Rank without(imputed ? 3 : 1);
    ranks.net().set_filter([&](const wire::Header& header, Rank, Rank to) {
      const bool lacks = header.source == 3 || (header.source == 2 && !imputed);
      return !(lacks && ranks.IsOfShard(header, PacketType::kData)) &&
             !(to == without && ranks.IsOfShard(header, PacketType::kResult));
    });
    ranks.Run({1, 2, 3, 6}, Duration::Millis(15));
    ranks.LoseNothing();
    ranks.net().Run(Duration::Millis(200));
    const OpDescriptor bounded = ranks.op();
    ranks.op().mode = Mode::kFlush;
    ranks.Run(Constant(4, 77));  // what is in the buffers does not count
    ranks.op() = bounded;
    const Values first = ranks.ReadAll(0, 3.0f);
    const Values rest = ranks.ReadAll(1, 0.0f);
    for (size_t r = 0; r < 4; ++r) {
      const float read = Rank(static_cast<uint16_t>(r)) == without ? 0
                         : imputed                                 ? 2
                                                                   : 0.75f;
      EXPECT_EQ(first[r], read) << r;
      EXPECT_EQ(first[r] + rest[r], 3) << r;
      EXPECT_EQ(ranks.Kept(r), std::pair(0.0f, 0.0f)) << r;
    }
  }
}

}  // namespace
}  // namespace optireduce::core
