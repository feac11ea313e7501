#include "gradcodec/finite.h"

#include <algorithm>
#include <cstdint>

#include "gradcodec/element.h"

namespace optireduce::gradcodec {
namespace {

// Looked at without a branch, so that the loop is one of vectors; then whether
// that was enough.
constexpr size_t kBlock = 1024;

// An element is not finite if all bits of its exponent are set.
template <typename Bits>
bool AllFiniteLoop(const void* values, size_t n, Bits exponent) {
  for (size_t start = 0; start < n; start += kBlock) {
    const size_t end = std::min(n, start + kBlock);
    Bits found = 0;
    for (size_t i = start; i < end; ++i) {
      const Bits bits = internal::Load<Bits>(values, i);
      found |= static_cast<Bits>((bits & exponent) == exponent);
    }
    if (found != 0) return false;
  }
  return true;
}

}  // namespace

bool AllFinite(Dtype dtype, const void* values, size_t n) {
  switch (dtype) {
    case Dtype::kFloat32:
      return AllFiniteLoop<uint32_t>(values, n, 0x7f800000u);
    case Dtype::kFloat16:
      return AllFiniteLoop<uint16_t>(values, n, 0x7c00u);
    case Dtype::kBfloat16:
      return AllFiniteLoop<uint16_t>(values, n, 0x7f80u);
    case Dtype::kFloat64:
      return AllFiniteLoop<uint64_t>(values, n, 0x7ff0000000000000u);
    default:
      return true;
  }
}

}  // namespace optireduce::gradcodec
