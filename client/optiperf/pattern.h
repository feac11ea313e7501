// What every rank contributes: a function of rank, element and iteration, so
// that each rank can compute what the others sent.

#ifndef OPTIREDUCE_CLIENT_OPTIPERF_PATTERN_H_
#define OPTIREDUCE_CLIENT_OPTIPERF_PATTERN_H_

#include <cstddef>
#include <cstdint>

#include "gradcodec/dtype.h"

namespace optireduce::optiperf {

enum class Pattern {
  // Floats of many exponents and both signs, whose sum depends on the order:
  // for exact mode. Integers of all bits.
  kRough,
  // Whole numbers 1..64: every sum of up to 1024 of them is exact in float32,
  // in any order, and not 0. For bounded mode.
  kSmooth,
};

// Elements [first, first + n) of what `rank` contributes in `iteration`.
void FillPattern(Pattern pattern, gradcodec::Dtype dtype, uint32_t rank,
                 uint64_t iteration, uint64_t first, size_t n, void* out);

}  // namespace optireduce::optiperf

#endif  // OPTIREDUCE_CLIENT_OPTIPERF_PATTERN_H_
