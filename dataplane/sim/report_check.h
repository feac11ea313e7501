// The oracle for time and status: may an op end like this, now?

#ifndef OPTIREDUCE_DATAPLANE_SIM_REPORT_CHECK_H_
#define OPTIREDUCE_DATAPLANE_SIM_REPORT_CHECK_H_

#include <string>

#include "dataplane/base/time.h"
#include "dataplane/core/config.h"
#include "dataplane/core/report.h"
#include "dataplane/core/types.h"
#include "dataplane/sim/group_run.h"
#include "dataplane/sim/host_clock.h"

namespace optireduce::sim {

struct ReportContext {
  const core::GroupConfig& config;
  const core::OpDescriptor& op;
  const HostClock& clock;
  Timestamp submitted_at;  // simulation time, as are all below
  Timestamp reported_at;
  bool leaving;  // this rank has left or died
};

// The limit that holds for an op, on its host's clock; past for one that its
// daemon had closed before the submit. What the report says of quorum and
// submit is taken for granted here, and checked below.
Timestamp LimitOf(const core::GroupConfig& config, const core::OpDescriptor& op,
                  const core::OpReport& report);

// Each returns what is wrong, or nothing.
std::string CheckTimes(const ReportContext& context,
                       const core::OpReport& report, const GroupRun& group,
                       const OpRun& run);
std::string CheckStatus(const ReportContext& context,
                        const core::OpReport& report, const GroupRun& group,
                        const OpRun& run);
// Questions for what lacks stopped at the deadlines; `run` will tell if more
// come.
std::string CheckQuestions(const ReportContext& context,
                           const core::OpReport& report, core::Rank rank,
                           OpRun* run);

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_REPORT_CHECK_H_
