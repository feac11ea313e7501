// From what a client wrote into a slot to an op that the core may be given.

#ifndef OPTIREDUCE_DATAPLANE_ENGINE_SUBMISSION_CHECK_H_
#define OPTIREDUCE_DATAPLANE_ENGINE_SUBMISSION_CHECK_H_

#include <cstdint>

#include "dataplane/core/types.h"
#include "dataplane/engine/session_port.h"
#include "dataplane/shm/buffer_ranges.h"
#include "proto/shm_abi.h"

namespace optireduce::engine {

// An op and its two buffers, as ranges of the session's segment. A buffer of 0
// bytes is the empty range at 0.
struct CheckedOp {
  core::OpDescriptor op;
  shm::BufferRange input;
  shm::BufferRange output;

  // One buffer is (part of) the other.
  bool InPlace() const {
    return input.Overlaps(output) &&
           (input.IsInside(output) || output.IsInside(input));
  }
};

// Why not (OPTIREDUCE_SHM_REFUSAL_*) and, where buffers are the reason, which
// range does not go with which.
struct Refusal {
  uint8_t reason = OPTIREDUCE_SHM_REFUSAL_NONE;
  shm::BufferRange wanted{};
  shm::BufferRange conflict{};
};

// All check a private copy with any content, but for its group, cookie and
// kind. With a refusal the result is unspecified. Pure functions.

// Of an op all that can be known without the group's state: that every field
// has one of its values and that both buffers lie in `data`. Whether the fields
// go together, and which part of the input an output may be, is for the core to
// say.
Refusal CheckOp(const OptireduceShmSubmission& entry, uint16_t world,
                const shm::BufferRange& data, CheckedOp* checked);
Refusal CheckStepClose(const OptireduceShmSubmission& entry, StepClose* close);
// Of a state save or load: the buffer alone; *checked has no op.
Refusal CheckState(const OptireduceShmSubmission& entry,
                   const shm::BufferRange& data, CheckedOp* checked);

Refusal CheckVerdict(const OptireduceShmSubmission& entry,
                     StepVerdict* verdict);

// Whether results of such an op may still be put in place after its end, until
// its step is closed.
bool StaysOpen(const core::OpDescriptor& op);

}  // namespace optireduce::engine

#endif  // OPTIREDUCE_DATAPLANE_ENGINE_SUBMISSION_CHECK_H_
