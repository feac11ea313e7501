// The oracle for values: is an output what the report and the packets say?

#ifndef OPTIREDUCE_DATAPLANE_SIM_RESULT_CHECK_H_
#define OPTIREDUCE_DATAPLANE_SIM_RESULT_CHECK_H_

#include <cstdint>
#include <span>
#include <string>

#include "dataplane/core/config.h"
#include "dataplane/core/report.h"
#include "dataplane/core/types.h"
#include "dataplane/sim/group_run.h"

namespace optireduce::sim {

// Of an op that all ranks agree on and that ended without an error. Returns
// what is wrong, or nothing.
std::string CheckResult(const core::OpDescriptor& op,
                        const core::GroupConfig& config, core::Rank rank,
                        std::span<const uint8_t> output,
                        const core::OpReport& report, OpRun* run);

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_RESULT_CHECK_H_
