#include "dataplane/base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dataplane/base/rng.h"

namespace optireduce {
namespace {

// On the heap, as it is large.
std::unique_ptr<Histogram> Of(const std::vector<uint64_t>& values) {
  auto histogram = std::make_unique<Histogram>();
  for (const uint64_t value : values) histogram->Record(value);
  return histogram;
}

void ExpectWithinOnePercent(uint64_t actual, uint64_t exact) {
  const uint64_t error = actual > exact ? actual - exact : exact - actual;
  if (exact < 128) {
    ASSERT_EQ(error, 0u) << actual << " for " << exact;
  } else {
    ASSERT_LE(error, exact / 100) << actual << " for " << exact;
  }
}

TEST(HistogramTest, EmptyIsAllZero) {
  const auto histogram = Of({});
  EXPECT_EQ(histogram->Count(), 0u);
  EXPECT_EQ(histogram->Min(), 0u);
  EXPECT_EQ(histogram->Max(), 0u);
  EXPECT_EQ(histogram->Mean(), 0.0);
  EXPECT_EQ(histogram->Percentile(50), 0u);
}

TEST(HistogramTest, NearestRank) {
  const auto histogram = Of({15, 20, 35, 40, 50});
  EXPECT_EQ(histogram->Percentile(0), 15u);
  EXPECT_EQ(histogram->Percentile(5), 15u);
  EXPECT_EQ(histogram->Percentile(30), 20u);
  EXPECT_EQ(histogram->Percentile(40), 20u);
  EXPECT_EQ(histogram->Percentile(40.1), 35u);
  EXPECT_EQ(histogram->Percentile(50), 35u);
  EXPECT_EQ(histogram->Percentile(100), 50u);
  EXPECT_EQ(histogram->Mean(), 32.0);
}

TEST(HistogramTest, NonsensePercentIsAnEnd) {
  const auto histogram = Of({1, 2, 3});
  EXPECT_EQ(histogram->Percentile(-1), 1u);
  EXPECT_EQ(histogram->Percentile(std::nan("")), 1u);
  EXPECT_EQ(histogram->Percentile(101), 3u);
}

TEST(HistogramTest, EveryPowerOfTwoAndItsNeighbours) {
  for (int bit = 0; bit < 64; ++bit) {
    for (const int64_t offset : {-1, 0, 1}) {
      const uint64_t value =
          (uint64_t{1} << bit) + static_cast<uint64_t>(offset);
      // The middle of three, so that the clamp to Min and Max cannot help.
      const auto histogram = Of({0, value, UINT64_MAX});
      ASSERT_NO_FATAL_FAILURE(
          ExpectWithinOnePercent(histogram->Percentile(50), value));
    }
  }
}

TEST(HistogramTest, MinMaxMeanAreExact) {
  const auto histogram = Of({UINT64_MAX, UINT64_MAX, 1'000'001});
  EXPECT_EQ(histogram->Min(), 1'000'001u);
  EXPECT_EQ(histogram->Max(), UINT64_MAX);
  EXPECT_DOUBLE_EQ(histogram->Mean(), (std::ldexp(1, 65) + 999'999) / 3);
  EXPECT_EQ(histogram->Percentile(0), 1'000'001u);
  EXPECT_EQ(histogram->Percentile(100), UINT64_MAX);
}

TEST(HistogramTest, ResetForgetsAll) {
  const auto histogram = Of({5, 500'000});
  histogram->Reset();
  EXPECT_EQ(histogram->Count(), 0u);
  EXPECT_EQ(histogram->Max(), 0u);
  histogram->Record(7);
  EXPECT_EQ(histogram->Percentile(50), 7u);
  EXPECT_EQ(histogram->Min(), 7u);
  EXPECT_EQ(histogram->Max(), 7u);
  EXPECT_EQ(histogram->Mean(), 7.0);
}

class HistogramProperty : public testing::TestWithParam<uint64_t> {};

std::vector<uint64_t> SomeValues(Rng& rng) {
  const uint64_t top = rng.LogUniform(1, UINT64_MAX);
  const bool uniform = rng.Chance(0.5);
  std::vector<uint64_t> values(1 + rng.Below(3000));
  for (uint64_t& value : values) {
    value = uniform ? rng.Below(top) : rng.LogUniform(1, top);
  }
  return values;
}

TEST_P(HistogramProperty, PercentilesAgreeWithASortedVector) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  Rng rng(GetParam());
  std::vector<uint64_t> values = SomeValues(rng);
  const auto histogram = Of(values);
  std::ranges::sort(values);
  ASSERT_EQ(histogram->Count(), values.size());
  ASSERT_EQ(histogram->Min(), values.front());
  ASSERT_EQ(histogram->Max(), values.back());
  for (size_t rank = 1; rank <= values.size(); ++rank) {
    const double percent = (static_cast<double>(rank) - 0.5) * 100 /
                           static_cast<double>(values.size());
    ASSERT_NO_FATAL_FAILURE(ExpectWithinOnePercent(
        histogram->Percentile(percent), values[rank - 1]));
  }
}

TEST_P(HistogramProperty, MergedIsAsIfRecordedTogether) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  Rng rng(GetParam());
  std::vector<uint64_t> values = SomeValues(rng);
  const std::vector<uint64_t> more = SomeValues(rng);
  const auto merged = Of(values);
  merged->Merge(*Of(more));
  merged->Merge(*Of({}));
  values.insert(values.end(), more.begin(), more.end());
  const auto together = Of(values);
  EXPECT_EQ(merged->Count(), together->Count());
  EXPECT_EQ(merged->Min(), together->Min());
  EXPECT_EQ(merged->Max(), together->Max());
  EXPECT_EQ(merged->Mean(), together->Mean());
  for (double percent = 0; percent <= 100; percent += 0.5) {
    ASSERT_EQ(merged->Percentile(percent), together->Percentile(percent));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, HistogramProperty,
                         testing::Range<uint64_t>(0, 30));

}  // namespace
}  // namespace optireduce
