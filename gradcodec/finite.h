// Whether a buffer holds NaN or infinities.
#ifndef OPTIREDUCE_GRADCODEC_FINITE_H_
#define OPTIREDUCE_GRADCODEC_FINITE_H_

#include <cstddef>

#include "gradcodec/dtype.h"

namespace optireduce::gradcodec {

// Whether all `n` elements are finite, at any byte alignment; reads no byte
// around them, and nothing if n == 0. Integers always are. A pure function.
bool AllFinite(Dtype dtype, const void* values, size_t n);

}  // namespace optireduce::gradcodec

#endif  // OPTIREDUCE_GRADCODEC_FINITE_H_
