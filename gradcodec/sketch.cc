#include "gradcodec/sketch.h"

#include <algorithm>

#include "gradcodec/element.h"

namespace optireduce::gradcodec {
namespace {

// The signs of a row of kSketchSums elements, one bit each, in the high bits.
// The finalizer of SplitMix64.
uint64_t SignsOf(uint64_t row) {
  uint64_t x = (row + 1) * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

template <typename Element>
void AddRow(const void* values, size_t start, size_t n, uint64_t signs,
            double* __restrict sums) {
  for (size_t i = 0; i < n; ++i) {
    const double value = static_cast<double>(Element::Widen(
        internal::Load<typename Element::Storage>(values, start + i)));
    sums[i] += (signs >> (63 - i) & 1) != 0 ? -value : value;
  }
}

}  // namespace

void AddToSketch(Dtype dtype, const void* values, size_t n, uint64_t first,
                 double* sums) {
  internal::VisitFloating(dtype, [=]<typename Element>(Element) {
    uint64_t row = first / kSketchSums;
    for (size_t start = 0; start < n; start += kSketchSums) {
      AddRow<Element>(values, start, std::min(kSketchSums, n - start),
                      SignsOf(row++), sums);
    }
  });
}

}  // namespace optireduce::gradcodec
