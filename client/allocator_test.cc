#include "client/allocator.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace optireduce::client {
namespace {

constexpr uint64_t kAlign = Allocator::kAlignment;

TEST(AllocatorTest, FillsUpExactlyAndComesBackWhole) {
  Allocator allocator(10 * kAlign + 7);
  EXPECT_EQ(allocator.capacity(), 10 * kAlign);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(allocator.Allocate(kAlign), i * kAlign);
  }
  EXPECT_EQ(allocator.Allocate(1), std::nullopt);
  EXPECT_EQ(allocator.in_use(), 10 * kAlign);
  // Out of order, so that each kind of coalescing happens.
  for (uint64_t i : {1, 3, 2, 0, 9, 7, 8, 5, 4, 6}) {
    EXPECT_TRUE(allocator.Free(i * kAlign));
  }
  EXPECT_EQ(allocator.in_use(), 0u);
  EXPECT_EQ(allocator.Allocate(10 * kAlign), 0u);
}

TEST(AllocatorTest, ZeroBytesAreAnAllocationOfTheirOwn) {
  Allocator allocator(2 * kAlign);
  EXPECT_EQ(allocator.Allocate(0), 0u);
  EXPECT_EQ(allocator.Allocate(0), kAlign);
  EXPECT_EQ(allocator.Allocate(0), std::nullopt);
}

TEST(AllocatorTest, SizesNearTheTopOfTheRangeDoNotWrap) {
  Allocator allocator(4 * kAlign);
  EXPECT_EQ(allocator.Allocate(UINT64_MAX), std::nullopt);
  EXPECT_EQ(allocator.Allocate(UINT64_MAX - kAlign + 2), std::nullopt);
  ASSERT_EQ(allocator.Allocate(kAlign), 0u);
  EXPECT_FALSE(allocator.Contains(0, UINT64_MAX));
  EXPECT_FALSE(allocator.Contains(UINT64_MAX, 1));
}

TEST(AllocatorTest, RefusesWhatItDidNotHandOut) {
  Allocator allocator(4 * kAlign);
  ASSERT_EQ(allocator.Allocate(2 * kAlign), 0u);
  EXPECT_FALSE(allocator.Free(kAlign));
  EXPECT_FALSE(allocator.Free(2 * kAlign));
  EXPECT_TRUE(allocator.Free(0));
  EXPECT_FALSE(allocator.Free(0));
}

TEST(AllocatorTest, ContainsOnlyWhatLiesInOneAllocation) {
  Allocator allocator(4 * kAlign);
  ASSERT_EQ(allocator.Allocate(kAlign), 0u);
  ASSERT_EQ(allocator.Allocate(2 * kAlign), kAlign);
  EXPECT_TRUE(allocator.Contains(0, kAlign));
  EXPECT_FALSE(allocator.Contains(0, kAlign + 1));
  EXPECT_TRUE(allocator.Contains(kAlign + 3, 2 * kAlign - 3));
  EXPECT_FALSE(allocator.Contains(3 * kAlign, 1));
  EXPECT_EQ(allocator.SizeAt(kAlign), 2 * kAlign);
  EXPECT_EQ(allocator.SizeAt(2 * kAlign), 0u);
}

// Random use against a plain model: allocations are aligned, disjoint, inside,
// and the books agree.
TEST(AllocatorTest, RandomUseKeepsAllocationsDisjoint) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const uint64_t capacity = (1 + random() % 200) * kAlign;
    Allocator allocator(capacity);
    std::map<uint64_t, uint64_t> model;
    uint64_t in_use = 0;
    for (int step = 0; step < 2000; ++step) {
      if (random() % 2 == 0) {
        const uint64_t bytes = random() % (capacity / 4 + 1);
        const uint64_t gap = allocator.largest_gap();
        const auto offset = allocator.Allocate(bytes);
        const uint64_t rounded =
            (std::max<uint64_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign;
        ASSERT_EQ(offset.has_value(), rounded <= gap);
        if (!offset) continue;
        ASSERT_EQ(*offset % kAlign, 0u);
        ASSERT_LE(*offset + rounded, capacity);
        const auto next = model.lower_bound(*offset);
        ASSERT_TRUE(next == model.end() || *offset + rounded <= next->first);
        if (next != model.begin()) {
          const auto previous = std::prev(next);
          ASSERT_LE(previous->first + previous->second, *offset);
        }
        model[*offset] = rounded;
        in_use += rounded;
      } else if (!model.empty()) {
        auto victim = std::next(model.begin(), random() % model.size());
        ASSERT_EQ(allocator.SizeAt(victim->first), victim->second);
        ASSERT_TRUE(allocator.Free(victim->first));
        in_use -= victim->second;
        model.erase(victim);
      }
      ASSERT_EQ(allocator.in_use(), in_use);
    }
    for (const auto& [offset, bytes] : model) allocator.Free(offset);
    EXPECT_EQ(allocator.largest_gap(), capacity);
  }
}

}  // namespace
}  // namespace optireduce::client
