#include "dataplane/base/rng.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace optireduce {
namespace {

constexpr std::array<uint64_t, 4> FirstFour(uint64_t seed) {
  Rng rng(seed);
  std::array<uint64_t, 4> numbers{};
  for (uint64_t& number : numbers) number = rng.Next();
  return numbers;
}

// From another implementation of splitmix64 and xoshiro256**, itself checked
// against their authors' vectors. Proven by the compiler, so the same for each.
static_assert(FirstFour(0) ==
              std::array<uint64_t, 4>{0x99EC5F36CB75F2B4, 0xBF6E1F784956452A,
                                      0x1A5F849D4933E6E0, 0x6AA594F1262D2D2C});
static_assert(FirstFour(1) ==
              std::array<uint64_t, 4>{0xB3F2AF6D0FC710C5, 0x853B559647364CEA,
                                      0x92F89756082A4514, 0x642E1C7BC266A3A7});
static_assert(FirstFour(UINT64_MAX) ==
              std::array<uint64_t, 4>{0x8F5520D52A7EAD08, 0xC476A018CAA1802D,
                                      0x81DE31C0D260469E, 0xBF658D7E065F3C2F});

TEST(RngTest, GoldenTrace) {
  Rng rng(2026);
  std::vector<uint64_t> trace;
  trace.reserve(13);
  for (int i = 0; i < 4; ++i) trace.push_back(rng.Below(1000));
  for (int i = 0; i < 4; ++i) trace.push_back(rng.LogUniform(2, 64));
  for (int i = 0; i < 2; ++i) trace.push_back(rng.LogUniform(1, UINT64_MAX));
  trace.push_back(rng.LogUniform(1'000'000'000'000, 1'000'000'000'005));
  trace.push_back(rng.Below(uint64_t{3} << 62));
  trace.push_back(rng.Next());
  EXPECT_EQ(trace, (std::vector<uint64_t>{
                       573, 283, 812, 893, 59, 13, 6, 2, 15560, 54463,
                       1000000000001, 0xD922A1F50813036, 0x9C232109D964C310}));
}

TEST(RngTest, BelowStaysBelowAndReachesAll) {
  Rng rng(1);
  for (uint64_t n = 1; n <= 40; ++n) {
    std::vector<int> seen(n);
    for (uint64_t i = 0; i < 40 * n; ++i) {
      const uint64_t value = rng.Below(n);
      ASSERT_LT(value, n);
      ++seen[value];
    }
    for (const int times : seen) EXPECT_GT(times, 0) << "below " << n;
  }
}

// With n at 3/4 of the range, the remainder of a 64-bit number would give the
// lower third twice the share, and the high half of its product with n every
// third number.
TEST(RngTest, BelowIsUnbiasedForLargeBounds) {
  constexpr uint64_t kThird = uint64_t{1} << 62;
  constexpr int kThirdOfDraws = 10'000;
  Rng rng(2);
  std::array<int, 3> thirds{};
  std::array<int, 3> remainders{};
  for (int i = 0; i < 3 * kThirdOfDraws; ++i) {
    const uint64_t value = rng.Below(3 * kThird);
    ++thirds[value / kThird];
    ++remainders[value % 3];
  }
  for (const int times : thirds) EXPECT_NEAR(times, kThirdOfDraws, 500);
  for (const int times : remainders) EXPECT_NEAR(times, kThirdOfDraws, 500);
}

TEST(RngTest, BetweenIncludesBothEnds) {
  Rng rng(3);
  std::map<int64_t, int> seen;
  for (int i = 0; i < 1000; ++i) ++seen[rng.Between(-2, 3)];
  ASSERT_EQ(seen.size(), 6u);
  EXPECT_EQ(seen.begin()->first, -2);
  EXPECT_EQ(seen.rbegin()->first, 3);
  EXPECT_EQ(rng.Between(7, 7), 7);
  EXPECT_EQ(rng.Between(INT64_MIN, INT64_MIN), INT64_MIN);
}

TEST(RngTest, BetweenTakesTheWholeRange) {
  Rng rng(4);
  int negative = 0;
  for (int i = 0; i < 1000; ++i) {
    negative += rng.Between(INT64_MIN, INT64_MAX) < 0 ? 1 : 0;
  }
  EXPECT_NEAR(negative, 500, 100);
}

TEST(RngTest, UnitIsUniformInZeroToOne) {
  Rng rng(5);
  double sum = 0;
  std::array<int, 10> tenths{};
  for (int i = 0; i < 100'000; ++i) {
    const double unit = rng.Unit();
    ASSERT_GE(unit, 0);
    ASSERT_LT(unit, 1);
    sum += unit;
    ++tenths[static_cast<size_t>(unit * 10)];
  }
  EXPECT_NEAR(sum / 100'000, 0.5, 0.005);
  for (const int times : tenths) EXPECT_NEAR(times, 10'000, 500);
}

TEST(RngTest, ChanceIsItsProbability) {
  Rng rng(6);
  int hits = 0;
  for (int i = 0; i < 100'000; ++i) {
    hits += rng.Chance(0.01) ? 1 : 0;
    ASSERT_FALSE(rng.Chance(0));
    ASSERT_TRUE(rng.Chance(1));
  }
  EXPECT_NEAR(hits, 1000, 150);
}

class LogUniformTest
    : public testing::TestWithParam<std::pair<uint64_t, uint64_t>> {};

TEST_P(LogUniformTest, EachNumberInInverseProportionToItself) {
  constexpr double kDraws = 50'000;
  const auto [lo, hi] = GetParam();
  Rng rng(lo * 1000 + hi);
  std::map<uint64_t, int> seen;
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t x = rng.LogUniform(lo, hi);
    ASSERT_GE(x, lo);
    ASSERT_LE(x, hi);
    ++seen[x];
  }
  double total = 0;
  for (uint64_t x = lo; x <= hi; ++x) total += 1 / static_cast<double>(x);
  for (uint64_t x = lo; x <= hi; ++x) {
    const double expected = kDraws / static_cast<double>(x) / total;
    EXPECT_NEAR(seen[x], expected, 5 * std::sqrt(expected)) << x;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranges, LogUniformTest,
                         testing::Values(std::pair(1, 1), std::pair(1, 2),
                                         std::pair(1, 20), std::pair(2, 64),
                                         std::pair(5, 7), std::pair(3, 6),
                                         std::pair(10, 19),
                                         std::pair(1000, 1003)));

TEST(RngTest, LogUniformOverTheWholeRangeIsEvenInBits) {
  Rng rng(8);
  std::array<int, 65> widths{};
  for (int i = 0; i < 64'000; ++i) {
    ++widths[static_cast<size_t>(
        std::bit_width(rng.LogUniform(1, UINT64_MAX)))];
  }
  // One is a fraction of the octave above it: 1 against ln 2.
  EXPECT_GT(widths[1], widths[64]);
  for (size_t width = 8; width <= 64; ++width) {
    EXPECT_NEAR(widths[width], 1000, 160) << width;
  }
  EXPECT_EQ(rng.LogUniform(UINT64_MAX, UINT64_MAX), UINT64_MAX);
}

TEST(RngTest, LogUniformDoesNotWrapAtTheTop) {
  constexpr uint64_t kLow = uint64_t{3} << 61;
  Rng rng(9);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_GE(rng.LogUniform(kLow, UINT64_MAX), kLow);
  }
}

}  // namespace
}  // namespace optireduce
