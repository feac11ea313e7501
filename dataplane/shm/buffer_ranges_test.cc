#include "dataplane/shm/buffer_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "dataplane/base/rng.h"

namespace optireduce::shm {
namespace {

TEST(BufferRangeTest, InsideCoversEdgesAndOverflow) {
  const BufferRange area{100, 50};
  EXPECT_TRUE((BufferRange{100, 50}.IsInside(area)));
  EXPECT_TRUE((BufferRange{149, 1}.IsInside(area)));
  EXPECT_TRUE((BufferRange{150, 0}.IsInside(area)));
  EXPECT_FALSE((BufferRange{99, 1}.IsInside(area)));
  EXPECT_FALSE((BufferRange{149, 2}.IsInside(area)));
  EXPECT_FALSE((BufferRange{100, 51}.IsInside(area)));
  // offset + bytes wraps.
  EXPECT_FALSE((BufferRange{UINT64_MAX - 1, 10}.IsInside(area)));
  EXPECT_FALSE((BufferRange{120, UINT64_MAX - 60}.IsInside(area)));
}

TEST(BufferRangesTest, FindsOverlapsAtEachSide) {
  BufferRanges ranges(4);
  ranges.Insert({10, 10});
  ranges.Insert({30, 10});
  EXPECT_EQ(ranges.FindOverlap({0, 10}), std::nullopt);
  EXPECT_EQ(ranges.FindOverlap({20, 10}), std::nullopt);
  EXPECT_EQ(ranges.FindOverlap({40, 100}), std::nullopt);
  EXPECT_EQ(ranges.FindOverlap({0, 11}), (BufferRange{10, 10}));
  EXPECT_EQ(ranges.FindOverlap({19, 1}), (BufferRange{10, 10}));
  EXPECT_EQ(ranges.FindOverlap({15, 2}), (BufferRange{10, 10}));
  EXPECT_EQ(ranges.FindOverlap({25, 100}), (BufferRange{30, 10}));
  EXPECT_EQ(ranges.FindOverlap({15, 0}), std::nullopt);
}

TEST(BufferRangesTest, RemovedRangesAreFree) {
  BufferRanges ranges(2);
  ranges.Insert({10, 10});
  ranges.Insert({0, 0});  // empty: not kept
  EXPECT_EQ(ranges.size(), 1u);
  ranges.Remove({10, 10});
  ranges.Remove({0, 0});
  EXPECT_EQ(ranges.FindOverlap({0, 100}), std::nullopt);
  EXPECT_EQ(ranges.size(), 0u);
}

TEST(BufferRangesTest, AgreesWithALinearSearch) {
  constexpr uint64_t kSeed = 20250611;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  BufferRanges ranges(64);
  std::vector<BufferRange> naive;
  for (int i = 0; i < 20000; ++i) {
    if (!naive.empty() && (naive.size() == 64 || rng.Chance(0.4))) {
      const size_t victim = rng.Below(naive.size());
      ranges.Remove(naive[victim]);
      naive.erase(naive.begin() + static_cast<ptrdiff_t>(victim));
      continue;
    }
    const BufferRange range{rng.Below(1000), rng.Below(40)};
    const bool overlaps =
        std::any_of(naive.begin(), naive.end(),
                    [&](const BufferRange& r) { return r.Overlaps(range); });
    const auto found = ranges.FindOverlap(range);
    ASSERT_EQ(found.has_value(), overlaps);
    if (overlaps) {
      ASSERT_TRUE(found->Overlaps(range));
    } else if (range.bytes != 0) {
      ranges.Insert(range);
      naive.push_back(range);
    }
    ASSERT_EQ(ranges.size(), naive.size());
  }
}

}  // namespace
}  // namespace optireduce::shm
