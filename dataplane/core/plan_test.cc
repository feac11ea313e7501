#include "dataplane/core/plan.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "dataplane/base/rng.h"
#include "gradcodec/hadamard.h"

namespace optireduce::core {
namespace {

OpDescriptor Op(uint64_t count, Collective collective = Collective::kAllReduce,
                Codec codec = Codec::kNone) {
  OpDescriptor op;
  op.count = count;
  op.collective = collective;
  op.codec = codec;
  return op;
}

// Every rank of every version must draw the same: XXH64, seed 0, over the
// little-endian fields. Reference values from the xxhsum tool.
TEST(DrawTest, GoldenVectors) {
  // xxh64 of 78 56 34 12 07 00 00 00 is 0xc78f83cddc177a9c.
  EXPECT_EQ(Rotation(0x12345678, OpSeq(7), 5), 0xc78f83cddc177a9cu % 5);
  // xxh64 of 78 56 34 12 07 00 00 00 02 00 03 00 is 0x921aa37670af9329.
  EXPECT_EQ(StreamOffset(0x12345678, OpSeq(7), Rank(2), Rank(3), 1000),
            0x921aa37670af9329u % 1000);
  EXPECT_EQ(StreamOffset(1, OpSeq(1), Rank(0), Rank(1), 0), 0u);
}

TEST(DrawTest, NoNumberOfBucketsPerStepResonates) {
  // With a rotation by op number, 8 ranks and 8 buckets fix every owner again.
  constexpr uint32_t kWorld = 8;
  for (uint32_t buckets : {1u, 7u, 8u, 16u, 64u}) {
    std::vector<int> owned(kWorld);
    for (uint32_t step = 0; step < 800; ++step) {
      ++owned[Rotation(99, OpSeq(step * buckets), kWorld)];
    }
    for (int times : owned) EXPECT_NEAR(times, 100, 50) << buckets;
  }
}

// The last half of each of a rank's streams is cut, op after op.
TEST(DrawTest, ATailThatIsCutForEverTakesAllPacketsAlike) {
  constexpr uint32_t kWorld = 8;
  constexpr uint32_t kChunks = 64;  // of a shard
  constexpr int kOps = 240;
  constexpr int kLongest = 24;  // in a row
  const Rank cut(3);
  OpDescriptor op;
  op.count = kWorld * kChunks * 356;
  for (const uint32_t buckets : {1u, 5u, 8u}) {
    std::vector<int> lost(kWorld * kChunks);
    std::vector<int> in_a_row(lost.size());
    for (uint32_t i = 0; i < kOps; ++i) {
      const OpSeq seq(i * buckets);
      const ChunkPlan plan(op, kWorld, 1424, 0xABCD, seq);
      for (uint16_t owner = 0; owner < kWorld; ++owner) {
        ASSERT_EQ(plan.ChunksOf(Rank(owner)), kChunks);
        const uint32_t offset =
            StreamOffset(0xABCD, seq, cut, Rank(owner), kChunks);
        for (uint32_t local = 0; local < kChunks; ++local) {
          const size_t packet = plan.ChunkOf(Rank(owner), local).first / 356;
          const bool is_lost =
              Rank(owner) != cut &&
              (local + kChunks - offset) % kChunks >= kChunks / 2;
          lost[packet] += is_lost;
          in_a_row[packet] = is_lost ? in_a_row[packet] + 1 : 0;
          ASSERT_LE(in_a_row[packet], kLongest) << buckets;
        }
      }
    }
    for (const int times : lost) {
      EXPECT_GE(times, kOps * 25 / 100) << buckets;
      EXPECT_LE(times, kOps * 60 / 100) << buckets;
    }
  }
}

TEST(FingerprintTest, EveryAgreedFieldCounts) {
  const OpDescriptor base = Op(1000);
  std::vector<OpDescriptor> others(11, base);
  others[0].collective = Collective::kBroadcast;
  others[1].reduce_op = gradcodec::ReduceOp::kAvg;
  others[2].dtype = gradcodec::Dtype::kInt8;
  others[3].mode = Mode::kExact;
  others[4].codec = Codec::kHadamard;
  others[5].root = Rank(1);
  others[6].count = 1001;
  others[7].bucket = 5;
  others[8].step = 5;
  others[9].codec = Codec::kBfloat16;
  others[10].codec = Codec::kFloat16;
  std::set<uint32_t> seen = {Fingerprint(base)};
  for (const OpDescriptor& op : others) {
    EXPECT_TRUE(seen.insert(Fingerprint(op)).second);
  }
  OpDescriptor other_limits = base;
  other_limits.soft_limit = Duration::Millis(5);
  EXPECT_EQ(Fingerprint(other_limits), Fingerprint(base))
      << "limits bind one rank only";
}

// Shards and chunks are disjoint, cover the buffer, and are found again by
// their number; numbers that do not exist are refused.
TEST(ChunkPlanTest, CoversTheBufferOnce) {
  const uint64_t seed = 20'261'201;
  Rng rng(seed);
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (int round = 0; round < 300; ++round) {
    const size_t world = 1 + rng.Below(40);
    const bool hadamard = rng.Chance(0.3);
    const uint64_t count = rng.Below(hadamard ? 200'000 : 30'000);
    const uint32_t payload = static_cast<uint32_t>(496 + 16 * rng.Below(100));
    OpDescriptor op = Op(count, Collective::kAllReduce,
                         hadamard ? Codec::kHadamard : Codec::kNone);
    const ChunkPlan plan(op, world, payload, 77,
                         OpSeq(static_cast<uint32_t>(rng.Next())));
    ASSERT_EQ(plan.elements(), hadamard ? gradcodec::PaddedSize(count) : count);
    uint64_t next = 0;
    uint32_t chunks = 0;
    for (uint32_t chunk = 0; chunk < plan.chunk_limit(); ++chunk) {
      const auto info = plan.Locate(chunk);
      if (!info.has_value()) continue;
      ASSERT_EQ(info->first, next) << "no gap, no overlap";
      ASSERT_GT(info->elements, 0u);
      ASSERT_LE(info->bytes, payload);
      ASSERT_EQ(info->bytes, info->elements * plan.element_bytes());
      const ChunkInfo again = plan.ChunkOf(info->owner, info->local);
      ASSERT_EQ(again.chunk, chunk);
      ASSERT_EQ(again.first, info->first);
      next += info->elements;
      ++chunks;
    }
    ASSERT_EQ(next, plan.elements());
    ASSERT_EQ(chunks, plan.total_chunks());
    EXPECT_FALSE(plan.Locate(plan.chunk_limit()).has_value());
    EXPECT_FALSE(plan.Locate(UINT32_MAX).has_value());
  }
}

TEST(ChunkPlanTest, FewerElementsThanRanksLeaveShardsEmpty) {
  const ChunkPlan plan(Op(1), 4, 1424, 1, OpSeq(0));
  uint32_t owners = 0;
  for (uint16_t rank = 0; rank < 4; ++rank) {
    owners += plan.ChunksOf(Rank(rank)) > 0;
  }
  EXPECT_EQ(owners, 1u);
  EXPECT_EQ(plan.total_chunks(), 1u);
}

TEST(ChunkPlanTest, CountsBeyondFourGigabytes) {
  OpDescriptor op = Op(kMaxCount);
  op.dtype = gradcodec::Dtype::kFloat64;
  const ChunkPlan plan(op, 3, 1424, 1, OpSeq(0));
  uint64_t elements = 0;
  for (uint16_t rank = 0; rank < 3; ++rank) {
    elements += plan.ElementsOf(Rank(rank));
    const uint32_t last = plan.ChunksOf(Rank(rank)) - 1;
    const ChunkInfo info = plan.ChunkOf(Rank(rank), last);
    EXPECT_EQ(plan.Locate(info.chunk)->first, info.first);
  }
  EXPECT_EQ(elements, kMaxCount);
}

TEST(ChunkPlanTest, ScatterAndGatherKeepTheCallersLayout) {
  for (Collective collective :
       {Collective::kReduceScatter, Collective::kAllGather}) {
    const ChunkPlan plan(Op(4000, collective), 4, 1424, 5, OpSeq(9));
    for (uint16_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(plan.ChunkOf(Rank(rank), 0).first, rank * 1000u);
    }
  }
  OpDescriptor op = Op(4000, Collective::kBroadcast);
  op.root = Rank(2);
  const ChunkPlan plan(op, 4, 1424, 5, OpSeq(9));
  EXPECT_EQ(plan.ElementsOf(Rank(2)), 4000u);
  EXPECT_EQ(plan.ElementsOf(Rank(0)), 0u);
}

TEST(ChunkPlanTest, NarrowCodecsTakeHalfAsManyChunks) {
  const ChunkPlan wide(Op(4000), 4, 400, 5, OpSeq(9));
  for (Codec codec : {Codec::kBfloat16, Codec::kFloat16}) {
    const ChunkPlan plan(Op(4000, Collective::kAllReduce, codec), 4, 400, 5,
                         OpSeq(9));
    EXPECT_EQ(plan.elements_per_chunk(), 200u);
    EXPECT_EQ(plan.total_chunks(), wide.total_chunks() / 2);
    for (uint16_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(plan.ElementsOf(Rank(rank)), wide.ElementsOf(Rank(rank)));
      EXPECT_EQ(plan.ChunkOf(Rank(rank), 4).bytes, 400u);
    }
  }
}

TEST(TailTest, AtLeastFourOrOneInAHundred) {
  EXPECT_EQ(TailLength(0), 0u);
  EXPECT_EQ(TailLength(3), 3u);
  EXPECT_EQ(TailLength(100), 4u);
  EXPECT_EQ(TailLength(1000), 10u);
}

}  // namespace
}  // namespace optireduce::core
