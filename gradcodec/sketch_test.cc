#include "gradcodec/sketch.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gradcodec/half.h"
#include "gradcodec/testing.h"
#include "gtest/gtest.h"

namespace optireduce::gradcodec {
namespace {

using testing::kOffsets;
using testing::Misaligned;
using Sums = std::array<double, kSketchSums>;

Sums SketchOf(const std::vector<float>& values, uint64_t first = 0) {
  Sums sums{};
  AddToSketch(Dtype::kFloat32, values.data(), values.size(), first,
              sums.data());
  return sums;
}

double Length(const Sums& sums) {
  double squares = 0;
  for (const double sum : sums) squares += sum * sum;
  return std::sqrt(squares);
}

double Distance(const Sums& a, const Sums& b) {
  Sums difference;
  for (size_t i = 0; i < kSketchSums; ++i) difference[i] = a[i] - b[i];
  return Length(difference);
}

std::vector<float> Random(size_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(rng);
  return values;
}

// On average over many vectors, and each within what 16 sums can say.
TEST(SketchTest, ItHasTheLengthOfTheVector) {
  double squares = 0;
  constexpr int kVectors = 200;
  constexpr size_t kElements = 2000;
  for (uint32_t seed = 0; seed < kVectors; ++seed) {
    const double length = Length(SketchOf(Random(kElements, seed)));
    const double relative = length / std::sqrt(double{kElements});
    EXPECT_GT(relative, 1 / 3.0) << "seed " << seed;
    EXPECT_LT(relative, 2.0) << "seed " << seed;
    squares += relative * relative / kVectors;
  }
  EXPECT_NEAR(squares, 1, 0.1);
}

// Constant, alternating and periodic vectors are those that a bad choice of
// signs would cancel or pile up.
TEST(SketchTest, AlsoOfARegularOne) {
  for (const size_t period : {1u, 2u, 3u, 16u, 32u, 64u, 1024u}) {
    std::vector<float> values(1 << 16);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = i / period % 2 == 0 ? 1.0f : -1.0f;
    }
    const double relative = Length(SketchOf(values)) / 256;
    EXPECT_GT(relative, 1 / 3.0) << period;
    EXPECT_LT(relative, 2.0) << period;
  }
}

TEST(SketchTest, OneElementThatDiffersIsSeenExactly) {
  std::vector<float> values = Random(1000, 1);
  for (const size_t at : {0u, 1u, 15u, 16u, 17u, 998u, 999u}) {
    const Sums before = SketchOf(values);
    values[at] += 0.5f;
    EXPECT_NEAR(Distance(SketchOf(values), before), 0.5, 1e-6) << at;
  }
}

TEST(SketchTest, PartsAddUp) {
  const std::vector<float> values = Random(100, 2);
  Sums sums = SketchOf({values.begin(), values.begin() + 48});
  AddToSketch(Dtype::kFloat32, values.data() + 48, 52, 48, sums.data());
  EXPECT_EQ(sums, SketchOf(values));
  EXPECT_NE(SketchOf(values, 16), SketchOf(values));
}

TEST(SketchTest, TheSameValuesOfAnyTypeAnywhere) {
  const std::vector<float> values = {1, -2, 0.5f, 3, -0.25f, 8, 7};
  const Sums expected = SketchOf(values);
  std::vector<uint16_t> half;
  std::vector<uint16_t> bfloat16;
  for (const float value : values) {
    half.push_back(FloatToHalf(value));
    bfloat16.push_back(FloatToBfloat16(value));
  }
  const std::vector<double> doubles(values.begin(), values.end());
  for (const size_t offset : kOffsets) {
    const auto sketch = [&](Dtype dtype, const auto& elements) {
      const Misaligned moved(offset, elements);
      Sums sums{};
      AddToSketch(dtype, moved.data(), elements.size(), 0, sums.data());
      return sums;
    };
    EXPECT_EQ(sketch(Dtype::kFloat32, values), expected);
    EXPECT_EQ(sketch(Dtype::kFloat16, half), expected);
    EXPECT_EQ(sketch(Dtype::kBfloat16, bfloat16), expected);
    EXPECT_EQ(sketch(Dtype::kFloat64, doubles), expected);
  }
  EXPECT_EQ(SketchOf({}), Sums{});
}

TEST(SketchTest, NanIsNotHidden) {
  std::vector<float> values(40);
  values[33] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(Length(SketchOf(values))));
}

// The same on every host, so that replicas can be compared at all: by hand from
// SplitMix64's first two numbers, 0xe220a8397b1dcdaf and 0x6e789e6aa1b965f4.
TEST(SketchTest, GoldenSigns) {
  const Sums sums = SketchOf(std::vector<float>(17, 1));
  const Sums expected = {-1 + 1, -1, -1, 1, 1, 1, -1, 1,
                         1,      1,  -1, 1, 1, 1, 1,  1};
  EXPECT_EQ(sums, expected);
}

}  // namespace
}  // namespace optireduce::gradcodec
