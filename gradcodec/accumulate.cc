#include "gradcodec/accumulate.h"

#include <cstring>
#include <type_traits>

#include "gradcodec/element.h"

namespace optireduce::gradcodec {
namespace {

using internal::Load;
using internal::Store;
using internal::VisitFloating;

template <typename Element>
void FirstLoop(const void* __restrict source, void* __restrict acc, size_t n) {
  using Storage = typename Element::Storage;
  for (size_t i = 0; i < n; ++i) {
    Store(acc, i, Element::Widen(Load<Storage>(source, i)));
  }
}

template <typename Element>
void AddLoop(const void* __restrict source, void* __restrict acc, size_t n) {
  using Storage = typename Element::Storage;
  using Accumulator = typename Element::Accumulator;
  for (size_t i = 0; i < n; ++i) {
    Store<Accumulator>(
        acc, i,
        Load<Accumulator>(acc, i) + Element::Widen(Load<Storage>(source, i)));
  }
}

// Writing never overtakes reading when both begin at the same address: an
// element is at most as wide as its accumulator.
template <typename Element, typename Scale>
void RoundLoop(const void* acc, void* destination, size_t n, Scale scale) {
  using Accumulator = typename Element::Accumulator;
  for (size_t i = 0; i < n; ++i) {
    Store(destination, i, Element::Narrow(scale(Load<Accumulator>(acc, i))));
  }
}

// sum * world / contributors without an overflow that the result does not have
// itself: float32 goes through double, which holds the product exactly; float64
// divides first.
template <typename Element>
void ScaledSumLoop(const void* acc, uint32_t contributors, uint32_t world,
                   void* destination, size_t n) {
  using Accumulator = typename Element::Accumulator;
  const double divisor = contributors;
  const double factor = world;
  if constexpr (std::is_same_v<Accumulator, float>) {
    RoundLoop<Element>(acc, destination, n, [=](float sum) {
      return static_cast<float>(sum * factor / divisor);
    });
  } else {
    RoundLoop<Element>(acc, destination, n,
                       [=](double sum) { return sum / divisor * factor; });
  }
}

template <typename Element>
void ScaleLoop(ReduceOp op, const void* acc, uint32_t contributors,
               uint32_t world, void* destination, size_t n) {
  using Accumulator = typename Element::Accumulator;
  const bool unscaled =
      op == ReduceOp::kAvg ? contributors == 1 : contributors == world;
  if (unscaled) {
    RoundLoop<Element>(acc, destination, n,
                       [](Accumulator sum) { return sum; });
  } else if (op == ReduceOp::kAvg) {
    const auto divisor = static_cast<Accumulator>(contributors);
    RoundLoop<Element>(acc, destination, n,
                       [=](Accumulator sum) { return sum / divisor; });
  } else {
    ScaledSumLoop<Element>(acc, contributors, world, destination, n);
  }
}

}  // namespace

void AccumulateFirst(Dtype dtype, const void* source, void* acc, size_t n) {
  VisitFloating(dtype, [=]<typename Element>(Element) {
    FirstLoop<Element>(source, acc, n);
  });
}

void Accumulate(Dtype dtype, const void* source, void* acc, size_t n) {
  VisitFloating(dtype, [=]<typename Element>(Element) {
    AddLoop<Element>(source, acc, n);
  });
}

void ScaleAndRound(Dtype dtype, ReduceOp op, const void* acc,
                   uint32_t contributors, uint32_t world, void* destination,
                   size_t n) {
  if (op != ReduceOp::kSum && op != ReduceOp::kAvg) __builtin_trap();
  if (contributors == 0) {
    if (n != 0) std::memset(destination, 0, n * SizeOf(dtype));
    return;
  }
  VisitFloating(dtype, [=]<typename Element>(Element) {
    ScaleLoop<Element>(op, acc, contributors, world, destination, n);
  });
}

}  // namespace optireduce::gradcodec
