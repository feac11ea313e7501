// float16 (IEEE 754 binary16) and bfloat16 as bit patterns, to and from
// float32. Widening is exact and keeps a NaN's sign and payload. Narrowing
// rounds once, to nearest, ties to even: too large becomes infinity, too small
// a subnormal or a zero of the same sign; a NaN stays a NaN of the same sign,
// quiet, with the upper bits of its payload.
//
// No branches, so that the compiler vectorises loops over these functions.
// They assume the default rounding mode and no flush-to-zero.
#ifndef OPTIREDUCE_GRADCODEC_HALF_H_
#define OPTIREDUCE_GRADCODEC_HALF_H_

#include <bit>
#include <cstdint>

namespace optireduce::gradcodec {

constexpr float HalfToFloat(uint16_t half) {
  constexpr uint32_t kExponentMask = 0x7c00u << 13;
  constexpr uint32_t kRebias = (127u - 15u) << 23;
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t shifted = (half & 0x7fffu) << 13;
  const uint32_t exponent = shifted & kExponentMask;
  const uint32_t normal = shifted + kRebias;
  const uint32_t special = normal + kRebias;  // infinity and NaN
  // A subnormal is m * 2^-24: with 2^-14 put on top it is a normal float, and
  // the subtraction that takes it off again is exact.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(normal + (1u << 23)) -
                              std::bit_cast<float>(kRebias + (1u << 23)));
  uint32_t bits = exponent == kExponentMask ? special : normal;
  bits = exponent == 0 ? subnormal : bits;
  return std::bit_cast<float>(sign | bits);
}

constexpr uint16_t FloatToHalf(float value) {
  constexpr uint32_t kInfinity = 255u << 23;
  constexpr uint32_t kOverflow = (127u + 16u) << 23;        // 2^16
  constexpr uint32_t kSmallestNormal = (127u - 14u) << 23;  // 2^-14
  // 0.5 has its last bit where a half subnormal has its own, 2^-24, so the
  // floating-point addition does the rounding.
  constexpr uint32_t kSubnormalMagic = 126u << 23;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits & 0x80000000u;
  const uint32_t magnitude = bits ^ sign;
  const uint32_t odd = (magnitude >> 13) & 1u;
  const uint32_t normal =
      (magnitude - ((127u - 15u) << 23) + 0xfffu + odd) >> 13;
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) +
                              std::bit_cast<float>(kSubnormalMagic)) -
      kSubnormalMagic;
  const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  const uint32_t special = magnitude > kInfinity ? nan : 0x7c00u;
  uint32_t half = magnitude < kSmallestNormal ? subnormal : normal;
  half = magnitude >= kOverflow ? special : half;
  return static_cast<uint16_t>((sign >> 16) | half);
}

constexpr float Bfloat16ToFloat(uint16_t bfloat) {
  return std::bit_cast<float>(static_cast<uint32_t>(bfloat) << 16);
}

constexpr uint16_t FloatToBfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t odd = (bits >> 16) & 1u;
  const uint32_t rounded = (bits + 0x7fffu + odd) >> 16;
  const uint32_t nan = (bits >> 16) | 0x40u;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>(is_nan ? nan : rounded);
}

}  // namespace optireduce::gradcodec

#endif  // OPTIREDUCE_GRADCODEC_HALF_H_
