// Bounded mode: an owner sums the contributions of a chunk as they arrive and
// scales what it has when the chunk closes.
//
// Elements are summed and scaled in the accumulator type and rounded once, to
// the output type. Buffers are untyped: every pointer may have any byte
// alignment, because elements lie in packets and in user memory. `n` counts
// elements; with n == 0 no pointer is read (null is allowed). The dtype must be
// floating, anything else is a broken invariant of the caller and traps.
//
// Pure functions; no buffer is kept.
#ifndef OPTIREDUCE_GRADCODEC_ACCUMULATE_H_
#define OPTIREDUCE_GRADCODEC_ACCUMULATE_H_

#include <cstddef>
#include <cstdint>

#include "gradcodec/dtype.h"

namespace optireduce::gradcodec {

// float64 for float64, float32 for every other type (integers have no use for
// it).
constexpr Dtype AccumulatorType(Dtype dtype) {
  return dtype == Dtype::kFloat64 ? Dtype::kFloat64 : Dtype::kFloat32;
}

// acc[i] = source[i] in the accumulator type (exact). Also the way to widen a
// buffer for its own sake. The ranges must not overlap.
void AccumulateFirst(Dtype dtype, const void* source, void* acc, size_t n);

// acc[i] += source[i]. The ranges must not overlap.
void Accumulate(Dtype dtype, const void* source, void* acc, size_t n);

// Count-aware one-shot result of a chunk in which `contributors` of `world`
// ranks were summed: AVG is acc / contributors, SUM is acc * world /
// contributors. With nothing to scale (SUM of all, or one contributor's AVG)
// the value is only rounded, so a float32 passes bit for bit. Without
// contributors the result is zero and `acc` is not read. `op` is kSum or kAvg;
// both counts are below 2^24 (float32 holds them exactly).
//
// `destination` may be `acc` itself, but must not overlap it in another way.
// Narrowing for its own sake is kSum with contributors == world.
void ScaleAndRound(Dtype dtype, ReduceOp op, const void* acc,
                   uint32_t contributors, uint32_t world, void* destination,
                   size_t n);

}  // namespace optireduce::gradcodec

#endif  // OPTIREDUCE_GRADCODEC_ACCUMULATE_H_
