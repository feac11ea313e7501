// The reference for ops under the Hadamard codec.

#ifndef OPTIREDUCE_DATAPLANE_SIM_CODEC_CHECK_H_
#define OPTIREDUCE_DATAPLANE_SIM_CODEC_CHECK_H_

#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/core/plan.h"
#include "dataplane/core/types.h"
#include "dataplane/sim/inputs.h"

namespace optireduce::sim {

// A chunk of coefficients at one rank: whose are in it. Nobody: absent, zero.
struct CodedChunk {
  core::ChunkInfo info;
  std::vector<core::Rank> contributors;
};

class CodecReference {
 public:
  // `seed`: of the op's signs.
  CodecReference(const core::OpDescriptor& op, const Inputs& inputs,
                 uint64_t seed);

  // Whether the output is the decoded sum of these chunks, but for the
  // rounding of single precision (the order of additions is not known).
  bool Fits(std::span<const CodedChunk> chunks,
            std::span<const uint8_t> output) const;

 private:
  core::OpDescriptor op_;
  size_t world_;
  uint64_t seed_;
  std::vector<std::vector<float>> coded_;  // by rank and position
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_CODEC_CHECK_H_
