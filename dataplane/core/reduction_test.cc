#include "dataplane/core/reduction.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

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
