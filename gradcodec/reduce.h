// Exact mode: reduces a chunk of which every contribution is present.
//
// Contributions are combined in the order given, so equal inputs in equal order
// give equal bits, whatever arrived when and however a buffer is cut.
//
//  * float16 and bfloat16 are combined in float32 and rounded once; float32 and
//    float64 in their own type. AVG divides the sum by `world`, before the
//    rounding.
//  * Integer SUM wraps (two's complement).
//  * MIN and MAX: -0 is less than +0; if any operand is a NaN, the result is
//    the positive quiet NaN without payload. They do not depend on the order.
//  * A NaN among the terms of SUM and AVG gives a NaN; its sign and payload are
//    unspecified.
//  * A single contribution passes bit for bit (AVG: in a world of one).
//
// Pure functions; no buffer is kept.
#ifndef OPTIREDUCE_GRADCODEC_REDUCE_H_
#define OPTIREDUCE_GRADCODEC_REDUCE_H_

#include <cstddef>
#include <cstdint>

#include "gradcodec/dtype.h"

namespace optireduce::gradcodec {

// `sources` holds `num_sources` pointers to `n` elements each. Every pointer
// may have any byte alignment; with n == 0 none is read. `destination` overlaps
// no source. Without sources the result is zero. `world` is not zero and below
// 2^24; only AVG uses it. The combination must satisfy IsSupported(dtype, op,
// false); anything else is a broken invariant of the caller and traps.
void ReduceInRankOrder(Dtype dtype, ReduceOp op, const void* const* sources,
                       size_t num_sources, uint32_t world, void* destination,
                       size_t n);

}  // namespace optireduce::gradcodec

#endif  // OPTIREDUCE_GRADCODEC_REDUCE_H_
