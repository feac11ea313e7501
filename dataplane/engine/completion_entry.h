// From the engine's account of an op to the entry that the client reads.

#ifndef OPTIREDUCE_DATAPLANE_ENGINE_COMPLETION_ENTRY_H_
#define OPTIREDUCE_DATAPLANE_ENGINE_COMPLETION_ENTRY_H_

#include <cstddef>
#include <cstdint>

#include "dataplane/engine/session_port.h"
#include "dataplane/engine/submission_check.h"
#include "proto/shm_abi.h"

namespace optireduce::engine {

// The core has said no to an op with these buffers.
Refusal MakeRefusal(core::SubmitResult result, const shm::BufferRange& input,
                    const shm::BufferRange& output);

// All but `cookie`, `group` and `kind`, which are the client's. Pure functions.
OptireduceShmCompletion MakeReportEntry(const Completion& completion);
OptireduceShmCompletion MakeStepClosedEntry(size_t closed_ops);
OptireduceShmCompletion MakeStateEntry(const Completion& completion);
// Of what has no result.
OptireduceShmCompletion MakeDoneEntry();
OptireduceShmCompletion MakeRefusalEntry(const Refusal& refusal);

}  // namespace optireduce::engine

#endif  // OPTIREDUCE_DATAPLANE_ENGINE_COMPLETION_ENTRY_H_
