#include "dataplane/core/reduction.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "gradcodec/residual.h"

namespace optireduce::core {
namespace {

constexpr uint32_t kPayload = 496;
constexpr uint64_t kChunk = kPayload / sizeof(float);

// Rank 0's shard of a two-rank op, in a memory of exactly the bytes it asks
// for.
struct Shard {
  Shard(Mode mode, size_t world, uint64_t count) {
    op.mode = mode;
    op.count = count;
    op.collective = Collective::kReduceScatter;  // rank 0 owns shard 0
    plan = ChunkPlan(op, world, kPayload, 1, OpSeq(0));
    memory.resize(Reduction::BytesNeeded(op, plan, Rank(0), world) / 8);
    reduction = Reduction(op, plan, Rank(0), world,
                          reinterpret_cast<uint8_t*>(memory.data()));
  }
  Reduction::AddResult Add(uint32_t local, uint16_t source, float value) {
    std::vector<float> payload(plan.elements_per_chunk(), value);
    return reduction.Add(local, Rank(source),
                         reinterpret_cast<uint8_t*>(payload.data()));
  }
  float FirstOf(uint32_t local) const {
    float value = 0;
    std::memcpy(&value, reduction.Result(local).data(), sizeof value);
    return value;
  }
  OpDescriptor op;
  ChunkPlan plan;
  std::vector<uint64_t> memory;
  Reduction reduction;
};

TEST(BoundedReductionTest, CountsEachContributionOnce) {
  Shard shard(Mode::kBounded, 3, 3 * (2 * kChunk));
  ASSERT_EQ(shard.reduction.chunks(), 2u);
  EXPECT_EQ(shard.Add(0, 0, 1), Reduction::AddResult::kAdded);
  EXPECT_EQ(shard.Add(0, 1, 2), Reduction::AddResult::kAdded);
  EXPECT_EQ(shard.Add(0, 1, 2), Reduction::AddResult::kDuplicate);
  EXPECT_EQ(shard.reduction.Contributors(0), 2);
  EXPECT_EQ(shard.Add(0, 2, 4), Reduction::AddResult::kAdded);
  shard.reduction.Freeze(0, nullptr);
  EXPECT_EQ(shard.FirstOf(0), 7);
}

TEST(BoundedReductionTest, FrozenIsFinal) {
  Shard shard(Mode::kBounded, 3, 3 * (2 * kChunk));
  shard.Add(1, 0, 2);
  shard.Add(1, 2, 2);
  shard.reduction.Freeze(1, nullptr);
  EXPECT_EQ(shard.FirstOf(1), 6) << "SUM of 2 of 3, scaled by 3 / 2";
  EXPECT_EQ(shard.Add(1, 1, 2), Reduction::AddResult::kFrozen) << "too late";
  EXPECT_EQ(shard.Add(1, 2, 2), Reduction::AddResult::kDuplicate);
  EXPECT_EQ(shard.reduction.Contributors(1), 2);
  EXPECT_FALSE(shard.reduction.HasArrived(1, Rank(1)));
  EXPECT_EQ(shard.reduction.prefix(), 0u) << "chunk 0 is open";
  shard.reduction.Freeze(0, nullptr);
  EXPECT_EQ(shard.FirstOf(0), 0) << "of nothing, zero";
  EXPECT_EQ(shard.reduction.prefix(), 2u);
  EXPECT_TRUE(shard.reduction.all_frozen());
}

// The shard of rank 0 of four, in a bucket.
class BucketedReductionTest : public ::testing::Test {
 protected:
  void Make(Codec codec, gradcodec::Dtype dtype, gradcodec::ReduceOp op) {
    op_.bucket = 5;
    op_.codec = codec;
    op_.dtype = dtype;
    op_.reduce_op = op;
    op_.count = 4 * kShard;
    plan_ = ChunkPlan(op_, 4, kPayload, 1, OpSeq(0));
    memory_.assign(Reduction::BytesNeeded(op_, plan_, Rank(0), 4) / 8, ~0ull);
    reduction_ = Reduction(op_, plan_, Rank(0), 4,
                           reinterpret_cast<uint8_t*>(memory_.data()));
  }
  // All elements of a chunk.
  void Add(uint32_t local, uint16_t source, float value) {
    const size_t elements = plan_.ChunkOf(Rank(0), local).elements;
    const std::vector<float> wide(elements, value);
    std::vector<uint8_t> payload(elements * plan_.element_bytes());
    gradcodec::RoundToWire(plan_.wire_dtype(), wide.data(), payload.data(),
                           elements);
    reduction_.Add(local, Rank(source), payload.data());
  }
  // Its last element.
  float ResultOf(uint32_t local) const {
    const size_t elements = plan_.ChunkOf(Rank(0), local).elements;
    std::vector<float> wide(elements);
    gradcodec::StoreResult(gradcodec::Dtype::kFloat32, plan_.wire_dtype(),
                           reduction_.Result(local).data(), wide.data(),
                           elements);
    return wide.back();
  }

  static constexpr uint64_t kShard = 3 * kPayload / 2 - 5;
  OpDescriptor op_;
  ChunkPlan plan_;
  std::vector<uint64_t> memory_;
  Reduction reduction_;
};

TEST_F(BucketedReductionTest, WhatRoundingTakesFromAResultIsKept) {
  using gradcodec::Dtype;
  struct Case {
    Codec codec;
    Dtype dtype;
  };
  for (const Case& c : {Case{Codec::kBfloat16, Dtype::kFloat32},
                        Case{Codec::kNone, Dtype::kBfloat16}}) {
    Make(c.codec, c.dtype, gradcodec::ReduceOp::kAvg);
    ASSERT_EQ(reduction_.chunks(), 3u);
    for (uint32_t local = 0; local < 3; ++local) {
      for (uint16_t rank = 0; rank < 3; ++rank) Add(local, rank, 256);
    }
    Add(0, 3, 258);
    Add(2, 3, 258);
    reduction_.FreezeBucketed(0, true);
    reduction_.FreezeBucketed(1, false);
    reduction_.FreezeBucketed(2, true);
    // 1026 / 4 and 768 / 4.
    EXPECT_EQ(ResultOf(0), 256);
    EXPECT_EQ(ResultOf(1), 192);
    ASSERT_EQ(reduction_.Remainder(0).size(), kPayload / 2);
    ASSERT_EQ(reduction_.Remainder(2).size(), kPayload / 2 - 5);
    EXPECT_EQ(reduction_.Remainder(0).back(), 2);
    EXPECT_EQ(reduction_.Remainder(1).front(), 0);
    EXPECT_EQ(reduction_.Remainder(2).back(), 2);
    EXPECT_EQ(ResultOf(2), 256) << "beside its remainder";
  }
}

TEST_F(BucketedReductionTest, NothingIsKeptWhereNothingWasTaken) {
  Make(Codec::kFloat16, gradcodec::Dtype::kFloat32, gradcodec::ReduceOp::kAvg);
  reduction_.FreezeBucketed(1, false);
  EXPECT_EQ(ResultOf(1), 0);
  EXPECT_TRUE(reduction_.Remainder(1).empty()) << "nobody contributed";
  Make(Codec::kNone, gradcodec::Dtype::kFloat32, gradcodec::ReduceOp::kAvg);
  Add(0, 1, 1);
  reduction_.FreezeBucketed(0, false);
  EXPECT_EQ(ResultOf(0), 0.25f);
  EXPECT_TRUE(reduction_.Remainder(0).empty());
}

// The trainer's float32 could hold more than the wire.
TEST_F(BucketedReductionTest, ACodecsResultIsLimitedNotInfinite) {
  Make(Codec::kFloat16, gradcodec::Dtype::kFloat32, gradcodec::ReduceOp::kSum);
  for (uint16_t rank = 0; rank < 4; ++rank) Add(0, rank, 60000);
  reduction_.FreezeBucketed(0, true);
  EXPECT_EQ(ResultOf(0), 65504);
  EXPECT_EQ(reduction_.Remainder(0).back(), 240000 - 65504);
}

TEST(ExactReductionTest, SumsInRankOrderWhateverTheArrival) {
  const float big = 1e8f;
  Shard shard(Mode::kExact, 3, 3 * kChunk);
  const std::vector<float> own(kChunk, big);
  EXPECT_EQ(shard.Add(0, 2, 1), Reduction::AddResult::kAdded);
  EXPECT_EQ(shard.Add(0, 1, -big), Reduction::AddResult::kAdded);
  EXPECT_EQ(shard.reduction.Add(0, Rank(0), nullptr),
            Reduction::AddResult::kAdded);
  shard.reduction.Freeze(0, reinterpret_cast<const uint8_t*>(own.data()));
  EXPECT_EQ(shard.FirstOf(0), 1) << "(big - big) + 1, not big + (1 - big)";
}

TEST(ExactReductionTest, TheStashSlidesAndRefusesWhatIsAhead) {
  const size_t world = 1024;
  Shard shard(Mode::kExact, world, kChunk * 40 * world);
  const uint32_t window = Reduction::CreditWindow(kPayload, world);
  ASSERT_GT(shard.reduction.chunks(), 2 * window);
  EXPECT_EQ(shard.reduction.credit_limit(), window);
  EXPECT_EQ(shard.Add(window, 5, 1), Reduction::AddResult::kBeyondCredit);
  const std::vector<float> own(kChunk, 1.0f);
  const auto* input = reinterpret_cast<const uint8_t*>(own.data());
  for (uint32_t local = 0; local < shard.reduction.chunks(); ++local) {
    for (uint16_t rank = 0; rank < world; ++rank) {
      ASSERT_FALSE(shard.reduction.HasArrived(local, Rank(rank)));
      ASSERT_EQ(shard.Add(local, rank, 1), Reduction::AddResult::kAdded);
    }
    shard.reduction.Freeze(local, input);
    ASSERT_EQ(shard.FirstOf(local), 1024);
    EXPECT_EQ(shard.reduction.prefix(), local + 1);
  }
}

}  // namespace
}  // namespace optireduce::core
