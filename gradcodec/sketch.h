// A short summary of a long vector from which the distance of two such vectors
// can be told, within a factor of about 1.5: how far replicas have come apart,
// without sending them.
//
// Element i is added to one of 16 sums, the (i mod 16)th, with a sign drawn
// from a hash of i. The sketch is linear, so the difference of two sketches is
// the sketch of the difference, and the mean of its squared length over all
// signs is the squared length of that.
#ifndef OPTIREDUCE_GRADCODEC_SKETCH_H_
#define OPTIREDUCE_GRADCODEC_SKETCH_H_

#include <cstddef>
#include <cstdint>

#include "gradcodec/dtype.h"

namespace optireduce::gradcodec {

inline constexpr size_t kSketchSums = 16;

// Adds `n` elements of a floating dtype (any other traps) to `sums`, numbered
// from `first`, a multiple of kSketchSums. Any byte alignment. Sums in float64;
// the same bits on every host. A pure function.
void AddToSketch(Dtype dtype, const void* values, size_t n, uint64_t first,
                 double* sums);

}  // namespace optireduce::gradcodec

#endif  // OPTIREDUCE_GRADCODEC_SKETCH_H_
