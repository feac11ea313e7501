// Serial-number arithmetic (RFC 1982): order among counters that wrap.
//
// Two numbers exactly half the circle apart have no order: neither is less.
// The circle is the whole of the unsigned type; the ...24 forms look at the low
// 24 bits of a uint32_t only.

#ifndef OPTIREDUCE_DATAPLANE_BASE_SERIAL_H_
#define OPTIREDUCE_DATAPLANE_BASE_SERIAL_H_

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace optireduce {

// How far `b` is ahead of `a`: negative if it is behind. Half the circle is the
// most negative value, both ways round.
template <std::unsigned_integral T>
constexpr std::make_signed_t<T> SerialDistance(T a, T b) {
  return static_cast<std::make_signed_t<T>>(b - a);
}
constexpr int32_t SerialDistance24(uint32_t a, uint32_t b) {
  return static_cast<int32_t>((b - a) << 8) >> 8;
}

template <std::unsigned_integral T>
constexpr bool SerialLess(T a, T b) {
  return SerialDistance(a, b) > 0;
}
constexpr bool SerialLess24(uint32_t a, uint32_t b) {
  return SerialDistance24(a, b) > 0;
}

template <std::unsigned_integral T>
constexpr bool SerialLessEq(T a, T b) {
  return SerialDistance(a, b) >= 0;
}
constexpr bool SerialLessEq24(uint32_t a, uint32_t b) {
  return SerialDistance24(a, b) >= 0;
}

}  // namespace optireduce

#endif  // OPTIREDUCE_DATAPLANE_BASE_SERIAL_H_
