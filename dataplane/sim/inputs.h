// What trainers put in, and what must come out.

#ifndef OPTIREDUCE_DATAPLANE_SIM_INPUTS_H_
#define OPTIREDUCE_DATAPLANE_SIM_INPUTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/core/types.h"
#include "dataplane/sim/scenario.h"

namespace optireduce::sim {

// Writes a number as an element; one that does not fit saturates.
void StoreNumber(gradcodec::Dtype dtype, double number, uint8_t* to);

// The input of one rank: a pure function of its arguments. `salt` differs from
// op to op.
std::vector<uint8_t> MakeInput(const OpSpec& spec, const core::OpDescriptor& op,
                               core::Rank rank, size_t world, uint64_t salt);

// The inputs of all ranks, by rank.
using Inputs = std::vector<std::vector<uint8_t>>;

// The result of an exact op at one rank, or of a bounded one of which nothing
// was lost, without a codec. Not for a mismatch.
std::vector<uint8_t> ExactResult(const core::OpDescriptor& op,
                                 const Inputs& inputs, core::Rank rank);

// The result of elements [first, first + count) of a bounded op from the
// inputs of the given ranks, not under the Hadamard codec. Elements of a
// reduce-scatter count over the whole input. No rank: zeros.
std::vector<uint8_t> PartialResult(const core::OpDescriptor& op,
                                   const Inputs& inputs,
                                   std::span<const core::Rank> contributors,
                                   uint64_t first, uint64_t count);

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_INPUTS_H_
