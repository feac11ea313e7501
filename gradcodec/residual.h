// Bucketed ops: nothing that a packet loses is lost for good. What an owner did
// not sum is kept as a residual e and added to the next contribution of the
// bucket; what a rank did not receive in time is kept as a debt d and added to
// a later result. These are the steps of one chunk; when each of them happens
// is the protocol's business.
//
//     contribute   v = g + e;  w = v in the wire type, what the owner gets
//     result       R = mean of the c received if imputed, else S / N
//     book         summed: e' = v - w;  not summed: e' = v - a, with a the
//                  imputed mean, or 0;  the owner, besides: what rounding R has
//                  left of S
//     pay          out += d
//
// Residuals, debts and held contributions are float32 whatever the gradient's
// type, so that half precision loses nothing on the way round: w and R are
// rounded, and what that takes comes again.
//
// Values that are not finite are sent and put in outputs as they are, where the
// trainer looks for them, but never stored:
//  * a finite v beyond the wire type's range is sent as the largest finite
//  value
//    of its sign; the rest is its residual, so that no e ever makes an
//    infinity;
//  * an addition to a stored value that would not be finite leaves that value
//  as
//    it was, and is counted as dropped. A residual booked from a v or a mean
//    that is not finite is 0, and counted;
//  * a debt is not paid into an element that is not finite, or would not be
//    then: it stays a debt.
//
// dtype is the buffers' type, wire the type in packets: each one of float32,
// float16, bfloat16 (anything else is a broken invariant and traps); a wire
// type is never wider than dtype. void pointers may have any byte alignment,
// float pointers are aligned. Ranges do not overlap unless it says so. `n`
// counts elements; with n == 0 nothing is read. Pure functions; no buffer is
// kept.
#ifndef OPTIREDUCE_GRADCODEC_RESIDUAL_H_
#define OPTIREDUCE_GRADCODEC_RESIDUAL_H_

#include <cstddef>
#include <cstdint>

#include "gradcodec/dtype.h"

namespace optireduce::gradcodec {

// The types that have residuals and debts.
constexpr bool HasResidual(Dtype dtype) {
  return dtype == Dtype::kFloat32 || dtype == Dtype::kFloat16 ||
         dtype == Dtype::kBfloat16;
}

// Whether an owner counts its missing contributions as the mean of those it
// has: only with three quarters of them, and never for a rank that was removed,
// as that one would not book what was imputed for it.
constexpr bool IsImputed(uint32_t contributors, uint32_t world,
                         bool any_removed) {
  return contributors > 0 &&
         4 * uint64_t{contributors} >= 3 * uint64_t{world} && !any_removed;
}

// R of a chunk from the sum `acc` (float32) of `contributors` of `world`
// contributions: for AVG acc / contributors if imputed, else acc / world; for
// SUM `world` times that. Without contributors it is zero, and `acc` is not
// read. `destination` may be `acc` itself.
void BucketedResult(Dtype wire, ReduceOp op, const float* acc,
                    uint32_t contributors, uint32_t world, bool imputed,
                    void* destination, size_t n);

// What the rounding of R to the wire type has left of the sum: sum -= k R, k
// being the contributions that R stands for, `world` or, imputed,
// `contributors`; for SUM k R / world. It goes to the owner's residual. Not for
// a chunk without contributions.
void SubtractResult(Dtype wire, ReduceOp op, const void* result,
                    uint32_t contributors, uint32_t world, bool imputed,
                    float* sum, size_t n);

// value = gradient + residual. `residual` null: zero.
void AddResidual(Dtype dtype, const void* gradient, const float* residual,
                 float* value, size_t n);

// w: `value` rounded to the wire type, see above for its range.
void RoundToWire(Dtype wire, const float* value, void* destination, size_t n);

// value = value - w: the residual of a contribution that was summed.
void BookSummed(Dtype wire, float* value, size_t n);

// value = value - result / divisor: the residual of one that was not summed.
// `result` null: a = 0. `divisor` is 1 for AVG, the world for SUM. Returns the
// elements that were dropped.
uint64_t BookMissing(Dtype wire, const void* result, float divisor,
                     float* value, size_t n);

// stored += amount * scale. Returns the elements that were dropped.
uint64_t AddToStored(const float* amount, float scale, float* stored, size_t n);

// The same with a result off the wire.
uint64_t AddResultToStored(Dtype wire, const void* result, float scale,
                           float* stored, size_t n);

// stored *= factor, when the loss scale of the gradients changes. What
// overflows becomes 0; returns how many did.
uint64_t Rescale(float factor, float* stored, size_t n);

// out = result, widened.
void StoreResult(Dtype dtype, Dtype wire, const void* result, void* out,
                 size_t n);

// out += result, for a chunk that comes late and is put in place. What the
// output's type cannot hold of the sum goes to `remainder`, a debt; true if any
// of it is not 0. Sums in float32 are rounded without a remainder.
bool AddResultToOutput(Dtype dtype, Dtype wire, const void* result, void* out,
                       float* remainder, size_t n);

// out += debt. `debt` becomes what was paid, `remainder` what is still owed;
// true if any of it is not 0.
bool PayDebt(Dtype dtype, void* out, float* debt, float* remainder, size_t n);

// Whether any element is not 0.
bool AnyNonZero(const float* values, size_t n);

}  // namespace optireduce::gradcodec

#endif  // OPTIREDUCE_GRADCODEC_RESIDUAL_H_
