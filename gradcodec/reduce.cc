#include "gradcodec/reduce.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "gradcodec/element.h"

namespace optireduce::gradcodec {
namespace {

using internal::Load;
using internal::Store;

// Elements per strip: the accumulators (at most 8 KiB) stay in the first-level
// cache while one source after the other passes by.
constexpr size_t kStrip = 1024;

template <typename Element, typename Combine, typename Finish>
void ReduceStrips(const void* const* sources, size_t num_sources,
                  void* destination, size_t n, Combine combine, Finish finish) {
  using Storage = typename Element::Storage;
  using Accumulator = typename Element::Accumulator;
  Accumulator acc[kStrip];
  for (size_t base = 0; base < n; base += kStrip) {
    const size_t length = std::min(kStrip, n - base);
    for (size_t i = 0; i < length; ++i) {
      acc[i] = Element::Widen(Load<Storage>(sources[0], base + i));
    }
    for (size_t s = 1; s < num_sources; ++s) {
      const void* source = sources[s];
      for (size_t i = 0; i < length; ++i) {
        acc[i] =
            combine(acc[i], Element::Widen(Load<Storage>(source, base + i)));
      }
    }
    for (size_t i = 0; i < length; ++i) {
      Store(destination, base + i, Element::Narrow(finish(acc[i])));
    }
  }
}

// Written as selections over integer bits, not as branches: it vectorises.
template <typename T, typename Less>
T SelectFloating(T a, T b, bool want_minimum, Less less) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const Bits a_bits = std::bit_cast<Bits>(a);
  const Bits b_bits = std::bit_cast<Bits>(b);
  // Operands that compare equal have the same bits or are zeros that differ in
  // sign; then the minimum is negative if either is, the maximum if both are.
  const Bits equal = want_minimum ? (a_bits | b_bits) : (a_bits & b_bits);
  Bits result = std::bit_cast<Bits>(std::numeric_limits<T>::quiet_NaN());
  result = a == b ? equal : result;
  result = less(a, b) ? a_bits : result;
  result = less(b, a) ? b_bits : result;
  return std::bit_cast<T>(result);
}

template <typename T>
T Minimum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return SelectFloating(a, b, true, [](T x, T y) { return x < y; });
  } else {
    return b < a ? b : a;
  }
}

template <typename T>
T Maximum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return SelectFloating(a, b, false, [](T x, T y) { return x > y; });
  } else {
    return a < b ? b : a;
  }
}

template <typename T>
T Sum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a + b;
  } else {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(static_cast<Unsigned>(a) +
                                                static_cast<Unsigned>(b)));
  }
}

template <typename Element>
void ReduceAs(ReduceOp op, const void* const* sources, size_t num_sources,
              uint32_t world, void* destination, size_t n) {
  using T = typename Element::Accumulator;
  const auto identity = [](T value) { return value; };
  const auto sum = [](T a, T b) { return Sum(a, b); };
  switch (op) {
    case ReduceOp::kSum:
      return ReduceStrips<Element>(sources, num_sources, destination, n, sum,
                                   identity);
    case ReduceOp::kAvg:
      if constexpr (std::is_floating_point_v<T>) {
        const T divisor = static_cast<T>(world);
        return ReduceStrips<Element>(
            sources, num_sources, destination, n, sum,
            [divisor](T value) { return value / divisor; });
      }
      break;
    case ReduceOp::kMin:
      return ReduceStrips<Element>(
          sources, num_sources, destination, n,

          [](T a, T b) { return Minimum(a, b); }, identity);
    case ReduceOp::kMax:
      return ReduceStrips<Element>(
          sources, num_sources, destination, n,

          [](T a, T b) { return Maximum(a, b); }, identity);
  }
  __builtin_trap();
}

}  // namespace

void ReduceInRankOrder(Dtype dtype, ReduceOp op, const void* const* sources,
                       size_t num_sources, uint32_t world, void* destination,
                       size_t n) {
  if (!IsSupported(dtype, op, /*bounded=*/false)) __builtin_trap();
  if (n == 0) return;
  if (num_sources == 0) {
    std::memset(destination, 0, n * SizeOf(dtype));
    return;
  }
  if (num_sources == 1 && (op != ReduceOp::kAvg || world == 1)) {
    std::memcpy(destination, sources[0], n * SizeOf(dtype));
    return;
  }
  const auto reduce = [=]<typename Element>(Element) {
    ReduceAs<Element>(op, sources, num_sources, world, destination, n);
  };
  if (IsFloating(dtype)) {
    internal::VisitFloating(dtype, reduce);
  } else {
    internal::VisitInteger(dtype, reduce);
  }
}

}  // namespace optireduce::gradcodec
