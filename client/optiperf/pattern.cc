#include "client/optiperf/pattern.h"

#include <bit>
#include <cstring>

#include "gradcodec/half.h"

namespace optireduce::optiperf {
namespace {

using gradcodec::Dtype;

// Mixes well enough that neighbours look unrelated; a few instructions that the
// compiler vectorises.
inline uint32_t Mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

// 32 random bits for an element, of which there are fewer than 2^32.
inline uint32_t BitsAt(uint32_t seed, uint64_t element) {
  return Mix(static_cast<uint32_t>(element) + seed);
}

uint32_t SeedOf(uint32_t rank, uint64_t iteration) {
  return Mix(Mix(rank + 0x9e3779b9u) ^ static_cast<uint32_t>(iteration));
}

// Sign and mantissa at random, exponents -6..9.
inline float RoughFloat(uint32_t bits) {
  const uint32_t exponent = 127 - 6 + (bits >> 27 & 15);
  return std::bit_cast<float>((bits & 0x80000000u) | exponent << 23 |
                              (bits & 0x7fffffu));
}

// The same with all of a double's mantissa.
inline double RoughDouble(uint32_t bits) {
  const uint64_t more = uint64_t{Mix(bits)} << 32 | Mix(~bits);
  const uint64_t exponent = 1023 - 6 + (bits >> 27 & 15);
  return std::bit_cast<double>(uint64_t{bits & 0x80000000u} << 32 |
                               exponent << 52 | (more >> 12));
}

// 1..64, which every type holds.
inline uint32_t Smooth(uint32_t bits) { return (bits & 63) + 1; }

template <class T, class Convert>
void Fill(uint32_t seed, uint64_t first, size_t n, void* out, Convert convert) {
  auto* bytes = static_cast<unsigned char*>(out);
  for (size_t i = 0; i < n; ++i) {
    const T value = convert(BitsAt(seed, first + i));
    std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
  }
}

template <class T>
void FillInteger(Pattern pattern, uint32_t seed, uint64_t first, size_t n,
                 void* out) {
  if (pattern == Pattern::kSmooth) {
    return Fill<T>(seed, first, n, out,
                   [](uint32_t bits) { return static_cast<T>(Smooth(bits)); });
  }
  Fill<T>(seed, first, n, out, [](uint32_t bits) {
    return static_cast<T>(uint64_t{bits} << 32 | Mix(bits));
  });
}

void FillFloating(Pattern pattern, Dtype dtype, uint32_t seed, uint64_t first,
                  size_t n, void* out) {
  const bool rough = pattern == Pattern::kRough;
  const auto make = [rough](uint32_t bits) {
    return rough ? RoughFloat(bits) : static_cast<float>(Smooth(bits));
  };
  switch (dtype) {
    case Dtype::kFloat16:
      return Fill<uint16_t>(seed, first, n, out, [make](uint32_t bits) {
        return gradcodec::FloatToHalf(make(bits));
      });
    case Dtype::kBfloat16:
      return Fill<uint16_t>(seed, first, n, out, [make](uint32_t bits) {
        return gradcodec::FloatToBfloat16(make(bits));
      });
    case Dtype::kFloat64:
      return Fill<double>(seed, first, n, out, [rough](uint32_t bits) {
        return rough ? RoughDouble(bits) : static_cast<double>(Smooth(bits));
      });
    default:
      return Fill<float>(seed, first, n, out, make);
  }
}

}  // namespace

void FillPattern(Pattern pattern, Dtype dtype, uint32_t rank,
                 uint64_t iteration, uint64_t first, size_t n, void* out) {
  const uint32_t seed = SeedOf(rank, iteration);
  switch (dtype) {
    case Dtype::kInt8:
    case Dtype::kUint8:
      return FillInteger<uint8_t>(pattern, seed, first, n, out);
    case Dtype::kInt16:
    case Dtype::kUint16:
      return FillInteger<uint16_t>(pattern, seed, first, n, out);
    case Dtype::kInt32:
    case Dtype::kUint32:
      return FillInteger<uint32_t>(pattern, seed, first, n, out);
    case Dtype::kInt64:
    case Dtype::kUint64:
      return FillInteger<uint64_t>(pattern, seed, first, n, out);
    default:
      return FillFloating(pattern, dtype, seed, first, n, out);
  }
}

}  // namespace optireduce::optiperf
