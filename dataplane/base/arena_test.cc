#include "dataplane/base/arena.h"

#include <gtest/gtest.h>
#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <numeric>
#include <vector>

#include "dataplane/base/rng.h"

// There only under AddressSanitizer.
#pragma weak __asan_address_is_poisoned

namespace optireduce {
namespace {

static_assert(ByteArena::Cost(0) == 64);
static_assert(ByteArena::Cost(1) == 128);
static_assert(ByteArena::Cost(64) == 128);
static_assert(ByteArena::Cost(65) == 192);

TEST(ByteArenaTest, FreshItIsOneFreeBlock) {
  for (const size_t budget : {64, 100, 128, 4096, 1 << 20}) {
    ByteArena arena(budget);
    EXPECT_EQ(arena.used(), 0u);
    EXPECT_EQ(arena.capacity(), budget / 64 * 64);
    EXPECT_EQ(arena.largest_free(), arena.capacity() - 64);
    void* all = arena.Allocate(arena.largest_free());
    ASSERT_NE(all, nullptr);
    EXPECT_EQ(arena.used(), arena.capacity());
    EXPECT_EQ(arena.largest_free(), 0u);
    EXPECT_EQ(arena.Allocate(0), nullptr);
    arena.Free(all);
    EXPECT_EQ(arena.used(), 0u);
    EXPECT_EQ(arena.largest_free(), arena.capacity() - 64);
  }
}

TEST(ByteArenaTest, WithoutBudgetNothingFits) {
  for (const size_t budget : {0, 1, 63}) {
    ByteArena arena(budget);
    EXPECT_EQ(arena.capacity(), 0u);
    EXPECT_EQ(arena.largest_free(), 0u);
    EXPECT_EQ(arena.Allocate(0), nullptr);
    EXPECT_EQ(arena.Allocate(1), nullptr);
  }
}

TEST(ByteArenaTest, WhatDoesNotFitIsRefusedAndChangesNothing) {
  ByteArena arena(4096);
  for (const size_t bytes : {size_t{4033}, size_t{4096}, size_t{1} << 40,
                             SIZE_MAX - 64, SIZE_MAX - 1, SIZE_MAX}) {
    EXPECT_EQ(arena.Allocate(bytes), nullptr) << bytes;
  }
  EXPECT_EQ(arena.used(), 0u);
  EXPECT_EQ(arena.largest_free(), 4032u);
}

TEST(ByteArenaTest, FreeingNullIsNothing) {
  ByteArena arena(4096);
  arena.Free(nullptr);
  EXPECT_EQ(arena.used(), 0u);
}

TEST(ByteArenaTest, UsedIsTheCost) {
  ByteArena arena(1 << 16);
  size_t cost = 0;
  std::vector<void*> blocks;
  for (const size_t bytes : {0, 1, 64, 65, 1000, 1472}) {
    blocks.push_back(arena.Allocate(bytes));
    ASSERT_NE(blocks.back(), nullptr);
    cost += ByteArena::Cost(bytes);
    EXPECT_EQ(arena.used(), cost);
  }
  for (void* block : blocks) arena.Free(block);
  EXPECT_EQ(arena.used(), 0u);
}

TEST(ByteArenaTest, NeighboursMergeInAnyOrder) {
  std::vector<size_t> order = {0, 1, 2, 3, 4};
  do {
    ByteArena arena(5 * ByteArena::Cost(192));
    std::vector<void*> blocks;
    for (size_t i = 0; i < order.size(); ++i) {
      blocks.push_back(arena.Allocate(192));
      ASSERT_NE(blocks.back(), nullptr);
    }
    ASSERT_EQ(arena.Allocate(0), nullptr);
    for (const size_t i : order) arena.Free(blocks[i]);
    ASSERT_EQ(arena.largest_free(), arena.capacity() - 64);
  } while (std::ranges::next_permutation(order).found);
}

TEST(ByteArenaTest, WhatIsNotAllocatedIsPoisoned) {
  if (__asan_address_is_poisoned == nullptr) {
    GTEST_SKIP() << "needs AddressSanitizer";
  }
  const auto poisoned = [](const std::byte* at) {
    return __asan_address_is_poisoned(at) != 0;
  };
  ByteArena arena(4096);
  auto* first = static_cast<std::byte*>(arena.Allocate(100));
  auto* second = static_cast<std::byte*>(arena.Allocate(128));
  EXPECT_FALSE(poisoned(first));
  EXPECT_FALSE(poisoned(first + 99));
  EXPECT_TRUE(poisoned(first + 100));
  EXPECT_TRUE(poisoned(first + 127));
  EXPECT_FALSE(poisoned(second + 127));
  EXPECT_TRUE(poisoned(second + 128));
  arena.Free(first);
  EXPECT_TRUE(poisoned(first));
  EXPECT_TRUE(poisoned(first + 99));
  arena.Free(second);
  EXPECT_TRUE(poisoned(second));
  EXPECT_TRUE(poisoned(second + 127));
  auto* whole = static_cast<std::byte*>(arena.Allocate(4032));
  EXPECT_FALSE(poisoned(whole));
  EXPECT_FALSE(poisoned(whole + 4031));
}

// The arena against a map of what is allocated where.
class ByteArenaProperty : public testing::TestWithParam<uint64_t> {
 protected:
  struct Block {
    size_t bytes;
    uint8_t fill;
  };

  ByteArenaProperty()
      : rng_(GetParam()), arena_(64 * rng_.LogUniform(1, 4096)) {}

  size_t SomeSize() {
    // Few sizes meet often, as in a real arena; many sizes make a deep trie.
    if (rng_.Chance(0.5)) return 64 * rng_.Below(8);
    return rng_.LogUniform(1, 2 * arena_.capacity()) - 1;
  }

  static size_t Distance(const std::byte* from, const std::byte* to) {
    return static_cast<size_t>(to - from);
  }

  // Sizes of the gaps between the blocks, headers included.
  std::vector<size_t> Gaps() const {
    std::vector<size_t> gaps;
    const std::byte* end = base_;
    for (const auto& [address, block] : blocks_) {
      const std::byte* start = address - 64;
      if (start > end) gaps.push_back(Distance(end, start));
      end = start + ByteArena::Cost(block.bytes);
    }
    const std::byte* limit = base_ + arena_.capacity();
    if (limit > end) gaps.push_back(Distance(end, limit));
    return gaps;
  }

  void Allocate() {
    const size_t bytes = SomeSize();
    std::vector<size_t> before = Gaps();
    void* memory = arena_.Allocate(bytes);
    std::erase_if(before,
                  [&](size_t gap) { return gap < ByteArena::Cost(bytes); });
    ASSERT_EQ(memory != nullptr, !before.empty()) << bytes << " bytes";
    if (memory == nullptr) return;
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0u);
    auto* address = static_cast<std::byte*>(memory);
    ASSERT_GE(address, base_ + 64);
    ASSERT_LE(address + bytes, base_ + arena_.capacity());
    const auto fill = static_cast<uint8_t>(rng_.Next());
    std::memset(memory, fill, bytes);
    ASSERT_TRUE(blocks_.emplace(address, Block{bytes, fill}).second);
    // Best fit: one of the smallest gaps that were large enough has shrunk.
    const size_t chosen = *std::ranges::min_element(before);
    ASSERT_EQ(std::ranges::count(Gaps(), chosen),
              std::ranges::count(before, chosen) - 1);
  }

  void FreeOne() {
    if (blocks_.empty()) return;
    auto it = blocks_.begin();
    std::advance(it, rng_.Below(blocks_.size()));
    const auto* bytes = reinterpret_cast<const uint8_t*>(it->first);
    const Block block = it->second;
    ASSERT_TRUE(std::all_of(bytes, bytes + block.bytes, [&](uint8_t byte) {
      return byte == block.fill;
    })) << "somebody else wrote here";
    arena_.Free(it->first);
    blocks_.erase(it);
  }

  void CheckTotals() {
    size_t used = 0;
    for (const auto& [address, block] : blocks_) {
      used += ByteArena::Cost(block.bytes);
    }
    ASSERT_EQ(arena_.used(), used);
    const std::vector<size_t> gaps = Gaps();
    // Blocks that overlapped would leave too large a gap.
    ASSERT_EQ(std::accumulate(gaps.begin(), gaps.end(), used),
              arena_.capacity());
    const size_t largest =
        gaps.empty() ? 0 : *std::ranges::max_element(gaps) - 64;
    ASSERT_EQ(arena_.largest_free(), largest);
  }

  Rng rng_;
  ByteArena arena_;
  std::byte* base_ = nullptr;
  std::map<std::byte*, Block> blocks_;
};

TEST_P(ByteArenaProperty, AgreesWithAMap) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  // The first block of a fresh arena shows where it begins.
  void* first = arena_.Allocate(0);
  base_ = static_cast<std::byte*>(first) - 64;
  arena_.Free(first);
  for (int step = 0; step < 3000; ++step) {
    // Fills and empties in turn.
    const bool filling = step / 500 % 2 == 0;
    if (rng_.Chance(filling ? 0.7 : 0.35)) {
      ASSERT_NO_FATAL_FAILURE(Allocate()) << "step " << step;
    } else {
      ASSERT_NO_FATAL_FAILURE(FreeOne()) << "step " << step;
    }
    ASSERT_NO_FATAL_FAILURE(CheckTotals()) << "step " << step;
  }
  while (!blocks_.empty()) ASSERT_NO_FATAL_FAILURE(FreeOne());
  EXPECT_EQ(arena_.used(), 0u);
  EXPECT_EQ(arena_.largest_free(), arena_.capacity() - 64);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ByteArenaProperty,
                         testing::Range<uint64_t>(0, 40));

}  // namespace
}  // namespace optireduce
