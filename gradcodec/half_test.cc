#include "gradcodec/half.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace optireduce::gradcodec {
namespace {

// A 16-bit format by its numbers; the reference works on them in double.
struct Format {
  int mantissa_bits;
  int smallest_exponent;  // of a normal number
  int largest_exponent;
};
constexpr Format kHalf = {10, -14, 15};
constexpr Format kBfloat16 = {7, -126, 127};

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The value of a pattern, from the definition of the format.
double ReferenceValue(Format format, uint16_t pattern) {
  const int mantissa = pattern & ((1 << format.mantissa_bits) - 1);
  const int exponent = (pattern & 0x7fff) >> format.mantissa_bits;
  const int special = format.largest_exponent - format.smallest_exponent + 2;
  const double sign = (pattern & 0x8000) != 0 ? -1.0 : 1.0;
  const int last_bit = format.smallest_exponent - format.mantissa_bits;
  if (exponent == special) {
    return mantissa == 0 ? sign * kInfinity : std::nan("");
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, last_bit);
  return sign * std::ldexp(mantissa + (1 << format.mantissa_bits),
                           last_bit + exponent - 1);
}

// Nearest value of the format, ties to even (nearbyint's rule), of a finite
// number.
double ReferenceRound(Format format, double value) {
  if (value == 0) return value;
  const int exponent = std::max(std::ilogb(value), format.smallest_exponent);
  const double unit = std::ldexp(1.0, exponent - format.mantissa_bits);
  const double rounded = std::nearbyint(value / unit) * unit;
  const double limit = std::ldexp(1.0, format.largest_exponent + 1);
  return std::abs(rounded) >= limit ? std::copysign(kInfinity, value) : rounded;
}

bool SameNumber(double a, double b) {
  return a == b && std::signbit(a) == std::signbit(b);
}

bool IsNan(Format format, uint16_t pattern) {
  return std::isnan(ReferenceValue(format, pattern));
}

template <typename Widen>
void WidensEveryPattern(Format format, Widen widen) {
  for (uint32_t p = 0; p < 65536; ++p) {
    const auto pattern = static_cast<uint16_t>(p);
    const float value = widen(pattern);
    if (IsNan(format, pattern)) {
      const uint32_t mantissa = p & ((1u << format.mantissa_bits) - 1);
      EXPECT_EQ(std::bit_cast<uint32_t>(value),
                (p & 0x8000u) << 16 | 0x7f800000u |
                    mantissa << (23 - format.mantissa_bits))
          << p;
    } else {
      EXPECT_TRUE(SameNumber(value, ReferenceValue(format, pattern))) << p;
    }
  }
}

template <typename Widen, typename Narrow>
void EveryPatternComesBack(Format format, Widen widen, Narrow narrow) {
  for (uint32_t p = 0; p < 65536; ++p) {
    const auto pattern = static_cast<uint16_t>(p);
    const uint16_t back = narrow(widen(pattern));
    const auto quiet = static_cast<uint16_t>(1u << (format.mantissa_bits - 1));
    // A NaN comes back quiet, otherwise as it was.
    EXPECT_EQ(back, IsNan(format, pattern) ? (pattern | quiet) : pattern) << p;
  }
}

template <typename Narrow>
void NarrowsLikeReference(Format format, Narrow narrow, float value) {
  const double result = ReferenceValue(format, narrow(value));
  EXPECT_TRUE(SameNumber(result, ReferenceRound(format, value)))
      << std::hexfloat << value << " gave " << result;
}

// Each neighbour's midpoint decides a tie; the floats beside it do not tie.
template <typename Narrow>
void RoundsAroundEveryMidpoint(Format format, Narrow narrow) {
  const auto infinity = static_cast<uint16_t>(
      (format.largest_exponent - format.smallest_exponent + 2)
      << format.mantissa_bits);
  for (uint16_t p = 0; p < infinity; ++p) {
    const double low = ReferenceValue(format, p);
    const double high = p + 1 == infinity
                            ? std::ldexp(1.0, format.largest_exponent + 1)
                            : ReferenceValue(format, p + 1);
    const auto middle = static_cast<float>(low + (high - low) / 2);
    for (float value : {middle, std::nextafter(middle, 0.0f),
                        std::nextafter(middle, kInfinity)}) {
      NarrowsLikeReference(format, narrow, value);
      NarrowsLikeReference(format, narrow, -value);
    }
  }
}

template <typename Narrow>
void RoundsRandomBits(Format format, Narrow narrow, uint32_t seed) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 300000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isfinite(value)) NarrowsLikeReference(format, narrow, value);
  }
}

TEST(HalfTest, WidensEveryPattern) { WidensEveryPattern(kHalf, HalfToFloat); }

TEST(HalfTest, EveryPatternComesBack) {
  EveryPatternComesBack(kHalf, HalfToFloat, FloatToHalf);
}

TEST(HalfTest, RoundsToNearestEvenAroundEveryMidpoint) {
  RoundsAroundEveryMidpoint(kHalf, FloatToHalf);
}

TEST(HalfTest, RoundsRandomBits) { RoundsRandomBits(kHalf, FloatToHalf, 11); }

TEST(HalfTest, Extremes) {
  EXPECT_EQ(FloatToHalf(65504.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65519.996f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(FloatToHalf(-kInfinity), 0xfc00);
  EXPECT_EQ(FloatToHalf(0x1p-24f), 0x0001);
  EXPECT_EQ(FloatToHalf(0x1p-25f), 0x0000);
  EXPECT_EQ(FloatToHalf(-0x1p-149f), 0x8000);
}

TEST(HalfTest, NanStaysNanWhateverItsPayload) {
  for (uint32_t bits : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff801fffu}) {
    const uint16_t half = FloatToHalf(std::bit_cast<float>(bits));
    EXPECT_TRUE(IsNan(kHalf, half)) << std::hex << bits;
    EXPECT_EQ(half >> 15, bits >> 31);
    const uint16_t bfloat = FloatToBfloat16(std::bit_cast<float>(bits));
    EXPECT_TRUE(IsNan(kBfloat16, bfloat)) << std::hex << bits;
    EXPECT_EQ(bfloat >> 15, bits >> 31);
  }
}

TEST(Bfloat16Test, WidensEveryPattern) {
  WidensEveryPattern(kBfloat16, Bfloat16ToFloat);
}

TEST(Bfloat16Test, EveryPatternComesBack) {
  EveryPatternComesBack(kBfloat16, Bfloat16ToFloat, FloatToBfloat16);
}

TEST(Bfloat16Test, RoundsToNearestEvenAroundEveryMidpoint) {
  RoundsAroundEveryMidpoint(kBfloat16, FloatToBfloat16);
}

TEST(Bfloat16Test, RoundsRandomBits) {
  RoundsRandomBits(kBfloat16, FloatToBfloat16, 12);
}

TEST(Bfloat16Test, Extremes) {
  EXPECT_EQ(FloatToBfloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(FloatToBfloat16(kInfinity), 0x7f80);
  EXPECT_EQ(FloatToBfloat16(0x1p-133f), 0x0001);
  EXPECT_EQ(FloatToBfloat16(0x1p-134f), 0x0000);
}

}  // namespace
}  // namespace optireduce::gradcodec
