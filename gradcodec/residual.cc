#include "gradcodec/residual.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "gradcodec/accumulate.h"
#include "gradcodec/element.h"

namespace optireduce::gradcodec {
namespace {

using internal::Bfloat16Element;
using internal::HalfElement;
using internal::Load;
using internal::PlainElement;
using internal::Store;

using FloatElement = PlainElement<float>;

template <typename Visitor>
auto Visit(Dtype dtype, Visitor visitor) {
  switch (dtype) {
    case Dtype::kFloat32:
      return visitor(FloatElement{});
    case Dtype::kFloat16:
      return visitor(HalfElement{});
    case Dtype::kBfloat16:
      return visitor(Bfloat16Element{});
    default:
      __builtin_trap();
  }
}

inline bool IsFinite(float value) {
  return (std::bit_cast<uint32_t>(value) & 0x7f800000u) != 0x7f800000u;
}

template <typename Element>
constexpr float Largest() {
  if constexpr (std::is_same_v<Element, HalfElement>) {
    return 0x1.ffcp15f;
  } else if constexpr (std::is_same_v<Element, Bfloat16Element>) {
    return 0x1.fep127f;
  } else {
    return 0x1.fffffep127f;
  }
}

// Rounded to Element; a finite value stays finite.
template <typename Element>
inline typename Element::Storage NarrowFinite(float value) {
  const float largest = Largest<Element>();
  const float limited = std::min(std::max(value, -largest), largest);
  return Element::Narrow(IsFinite(value) ? limited : value);
}

// acc + amount if that is finite, else acc.
inline float AddFinite(float acc, float amount, uint64_t* dropped) {
  const float sum = acc + amount;
  const bool finite = IsFinite(sum);
  *dropped += finite ? 0 : 1;
  return finite ? sum : acc;
}

template <typename Element>
void AddResidualLoop(const void* __restrict gradient,
                     const float* __restrict residual, float* __restrict value,
                     size_t n) {
  for (size_t i = 0; i < n; ++i) {
    value[i] = Element::Widen(Load<typename Element::Storage>(gradient, i)) +
               residual[i];
  }
}

template <typename Element>
uint64_t BookMissingLoop(const void* __restrict result, float divisor,
                         float* __restrict value, size_t n) {
  uint64_t dropped = 0;
  for (size_t i = 0; i < n; ++i) {
    const float imputed =
        Element::Widen(Load<typename Element::Storage>(result, i)) / divisor;
    const float rest = value[i] - imputed;
    const bool finite = IsFinite(rest);
    dropped += finite ? 0 : 1;
    value[i] = finite ? rest : 0.0f;
  }
  return dropped;
}

uint64_t ClearNonFinite(float* value, size_t n) {
  uint64_t dropped = 0;
  for (size_t i = 0; i < n; ++i) {
    const bool finite = IsFinite(value[i]);
    dropped += finite ? 0 : 1;
    value[i] = finite ? value[i] : 0.0f;
  }
  return dropped;
}

// What is left of `sum` once it is rounded to the output.
template <typename Element>
inline float RestOf(float sum, typename Element::Storage rounded) {
  const float rest = sum - Element::Widen(rounded);
  return IsFinite(rest) ? rest : 0.0f;
}

template <typename Out, typename Wire>
void AddResultToOutputLoop(const void* __restrict result, void* __restrict out,
                           float* __restrict remainder, size_t n) {
  using Storage = typename Out::Storage;
  for (size_t i = 0; i < n; ++i) {
    const float sum = Out::Widen(Load<Storage>(out, i)) +
                      Wire::Widen(Load<typename Wire::Storage>(result, i));
    const Storage rounded = NarrowFinite<Out>(sum);
    remainder[i] = RestOf<Out>(sum, rounded);
    Store(out, i, rounded);
  }
}

template <typename Out>
void PayDebtLoop(void* __restrict out, float* __restrict debt,
                 float* __restrict remainder, size_t n) {
  using Storage = typename Out::Storage;
  for (size_t i = 0; i < n; ++i) {
    const Storage before = Load<Storage>(out, i);
    const float sum = Out::Widen(before) + debt[i];
    const bool finite = IsFinite(sum);
    const Storage rounded = NarrowFinite<Out>(sum);
    const float rest = finite ? sum - Out::Widen(rounded) : debt[i];
    Store(out, i, finite ? rounded : before);
    remainder[i] = rest;
    debt[i] -= rest;
  }
}

}  // namespace

void BucketedResult(Dtype wire, ReduceOp op, const float* acc,
                    uint32_t contributors, uint32_t world, bool imputed,
                    void* destination, size_t n) {
  if (!HasResidual(wire)) __builtin_trap();
  const uint32_t divisor = imputed || contributors == 0 ? contributors : world;
  ScaleAndRound(wire, op, acc, divisor, world, destination, n);
}

// In double, which holds k R exactly.
void SubtractResult(Dtype wire, ReduceOp op, const void* result,
                    uint32_t contributors, uint32_t world, bool imputed,
                    float* sum, size_t n) {
  const double factor = imputed ? contributors : world;
  const double divisor = op == ReduceOp::kSum ? world : 1;
  Visit(wire, [=]<typename Element>(Element) {
    for (size_t i = 0; i < n; ++i) {
      const double mean =
          Element::Widen(Load<typename Element::Storage>(result, i));
      sum[i] = static_cast<float>(sum[i] - mean * factor / divisor);
    }
  });
}

void AddResidual(Dtype dtype, const void* gradient, const float* residual,
                 float* value, size_t n) {
  if (!HasResidual(dtype)) __builtin_trap();
  if (residual == nullptr) {
    AccumulateFirst(dtype, gradient, value, n);
    return;
  }
  Visit(dtype, [=]<typename Element>(Element) {
    AddResidualLoop<Element>(gradient, residual, value, n);
  });
}

void RoundToWire(Dtype wire, const float* value, void* destination, size_t n) {
  Visit(wire, [=]<typename Element>(Element) {
    for (size_t i = 0; i < n; ++i) {
      Store(destination, i, NarrowFinite<Element>(value[i]));
    }
  });
}

void BookSummed(Dtype wire, float* value, size_t n) {
  Visit(wire, [=]<typename Element>(Element) {
    for (size_t i = 0; i < n; ++i) {
      value[i] = RestOf<Element>(value[i], NarrowFinite<Element>(value[i]));
    }
  });
}

uint64_t BookMissing(Dtype wire, const void* result, float divisor,
                     float* value, size_t n) {
  if (result == nullptr) return ClearNonFinite(value, n);
  return Visit(wire, [=]<typename Element>(Element) {
    return BookMissingLoop<Element>(result, divisor, value, n);
  });
}

uint64_t AddToStored(const float* amount, float scale, float* stored,
                     size_t n) {
  uint64_t dropped = 0;
  for (size_t i = 0; i < n; ++i) {
    stored[i] = AddFinite(stored[i], amount[i] * scale, &dropped);
  }
  return dropped;
}

uint64_t AddResultToStored(Dtype wire, const void* result, float scale,
                           float* stored, size_t n) {
  return Visit(wire, [=]<typename Element>(Element) {
    uint64_t dropped = 0;
    for (size_t i = 0; i < n; ++i) {
      const float amount =
          Element::Widen(Load<typename Element::Storage>(result, i));
      stored[i] = AddFinite(stored[i], amount * scale, &dropped);
    }
    return dropped;
  });
}

uint64_t Rescale(float factor, float* stored, size_t n) {
  for (size_t i = 0; i < n; ++i) stored[i] *= factor;
  return ClearNonFinite(stored, n);
}

void StoreResult(Dtype dtype, Dtype wire, const void* result, void* out,
                 size_t n) {
  if (dtype == wire) {
    if (n != 0) std::memcpy(out, result, n * SizeOf(dtype));
    return;
  }
  if (dtype != Dtype::kFloat32) __builtin_trap();
  AccumulateFirst(wire, result, out, n);
}

bool AddResultToOutput(Dtype dtype, Dtype wire, const void* result, void* out,
                       float* remainder, size_t n) {
  if (dtype != wire && dtype != Dtype::kFloat32) __builtin_trap();
  Visit(dtype, [=]<typename Out>(Out) {
    Visit(wire, [=]<typename Wire>(Wire) {
      AddResultToOutputLoop<Out, Wire>(result, out, remainder, n);
    });
  });
  return AnyNonZero(remainder, n);
}

bool PayDebt(Dtype dtype, void* out, float* debt, float* remainder, size_t n) {
  Visit(dtype,
        [=]<typename Out>(Out) { PayDebtLoop<Out>(out, debt, remainder, n); });
  return AnyNonZero(remainder, n);
}

bool AnyNonZero(const float* values, size_t n) {
  bool any = false;
  for (size_t i = 0; i < n; ++i) any |= values[i] != 0.0f;
  return any;
}

}  // namespace optireduce::gradcodec
