// A buffer under the Hadamard codec: the trainer's input, encoded group by
// group as it is needed, and the results that replace it.

#ifndef OPTIREDUCE_DATAPLANE_CORE_COEFFICIENTS_H_
#define OPTIREDUCE_DATAPLANE_CORE_COEFFICIENTS_H_

#include <cstddef>
#include <cstdint>

#include "dataplane/base/bitmap.h"
#include "dataplane/core/types.h"
#include "gradcodec/hadamard.h"

namespace optireduce::core {

// Positions are those of the plan: coefficients in interleaved order, counted
// over the whole buffer. Results may be written in place of the input because a
// reduced coefficient is never sent again.
class Coefficients {
 public:
  Coefficients() = default;
  // `memory`: BytesNeeded(count) bytes, 64-byte aligned. `input` must stay as
  // it is until every group is encoded (EncodeAll).
  Coefficients(gradcodec::Dtype dtype, uint64_t count, uint64_t sign_seed,
               const uint8_t* input, uint8_t* memory);
  static size_t BytesNeeded(uint64_t count);

  void Read(uint64_t first, uint32_t count, uint8_t* payload);
  void Write(uint64_t first, uint32_t count, const uint8_t* payload);
  // Decodes the whole buffer.
  void DecodeTo(uint8_t* output);

 private:
  uint64_t GroupOf(uint64_t position) const;
  void EnsureEncoded(uint64_t group_index,
                     const gradcodec::HadamardGroup& group);
  template <class F>
  void ForEachPiece(uint64_t first, uint32_t count, F f);

  gradcodec::Dtype dtype_ = gradcodec::Dtype::kFloat32;
  uint64_t count_ = 0;
  uint64_t groups_ = 0;
  gradcodec::Signs signs_ = gradcodec::Signs::AllPositive();
  const uint8_t* input_ = nullptr;
  float* values_ = nullptr;
  BitmapView encoded_;  // by group
};

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_COEFFICIENTS_H_
