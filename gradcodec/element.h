// Internal to gradcodec: how each dtype is loaded, widened, narrowed, stored.
#ifndef OPTIREDUCE_GRADCODEC_ELEMENT_H_
#define OPTIREDUCE_GRADCODEC_ELEMENT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "gradcodec/dtype.h"
#include "gradcodec/half.h"

namespace optireduce::gradcodec::internal {

// Loads and stores at any alignment; the compiler turns the copies into plain
// vector moves.
template <typename T>
inline T Load(const void* base, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(base) + index * sizeof(T),
              sizeof(T));
  return value;
}

template <typename T>
inline void Store(void* base, size_t index, T value) {
  std::memcpy(static_cast<char*>(base) + index * sizeof(T), &value, sizeof(T));
}

// An element that is combined in the type in which it is stored.
template <typename T>
struct PlainElement {
  using Storage = T;
  using Accumulator = T;
  static T Widen(T value) { return value; }
  static T Narrow(T value) { return value; }
};

struct HalfElement {
  using Storage = uint16_t;
  using Accumulator = float;
  static float Widen(uint16_t value) { return HalfToFloat(value); }
  static uint16_t Narrow(float value) { return FloatToHalf(value); }
};

struct Bfloat16Element {
  using Storage = uint16_t;
  using Accumulator = float;
  static float Widen(uint16_t value) { return Bfloat16ToFloat(value); }
  static uint16_t Narrow(float value) { return FloatToBfloat16(value); }
};

// Calls visitor(Element{}) with the element of a floating dtype; traps on any
// other.
template <typename Visitor>
void VisitFloating(Dtype dtype, Visitor visitor) {
  switch (dtype) {
    case Dtype::kFloat32:
      return visitor(PlainElement<float>{});
    case Dtype::kFloat16:
      return visitor(HalfElement{});
    case Dtype::kBfloat16:
      return visitor(Bfloat16Element{});
    case Dtype::kFloat64:
      return visitor(PlainElement<double>{});
    default:
      __builtin_trap();
  }
}

// The same for an integer dtype.
template <typename Visitor>
void VisitInteger(Dtype dtype, Visitor visitor) {
  switch (dtype) {
    case Dtype::kInt8:
      return visitor(PlainElement<int8_t>{});
    case Dtype::kUint8:
      return visitor(PlainElement<uint8_t>{});
    case Dtype::kInt16:
      return visitor(PlainElement<int16_t>{});
    case Dtype::kUint16:
      return visitor(PlainElement<uint16_t>{});
    case Dtype::kInt32:
      return visitor(PlainElement<int32_t>{});
    case Dtype::kUint32:
      return visitor(PlainElement<uint32_t>{});
    case Dtype::kInt64:
      return visitor(PlainElement<int64_t>{});
    case Dtype::kUint64:
      return visitor(PlainElement<uint64_t>{});
    default:
      __builtin_trap();
  }
}

}  // namespace optireduce::gradcodec::internal

#endif  // OPTIREDUCE_GRADCODEC_ELEMENT_H_
