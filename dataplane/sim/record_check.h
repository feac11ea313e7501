// The oracle for what a group remembers of an op: it agrees with itself, and
// with what the trainer was told.

#ifndef OPTIREDUCE_DATAPLANE_SIM_RECORD_CHECK_H_
#define OPTIREDUCE_DATAPLANE_SIM_RECORD_CHECK_H_

#include <string>

#include "dataplane/core/op_record.h"
#include "dataplane/core/report.h"

namespace optireduce::sim {

// Each returns what is wrong, or nothing.
std::string CheckRecord(const core::OpRecord& record);
std::string CheckRecordOf(const core::OpRecord& record,
                          const core::OpReport& report);

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_RECORD_CHECK_H_
