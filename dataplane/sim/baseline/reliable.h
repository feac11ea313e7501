// The baselines: a schedule over the reliable transport.

#ifndef OPTIREDUCE_DATAPLANE_SIM_BASELINE_RELIABLE_H_
#define OPTIREDUCE_DATAPLANE_SIM_BASELINE_RELIABLE_H_

#include "dataplane/sim/baseline/experiment.h"
#include "dataplane/sim/baseline/schedule.h"

namespace optireduce::sim::baseline {

// From when on ranks submit; the background begins before.
inline constexpr Duration kWarmUp = Duration::Millis(20);

// Of any algorithm but kOurs.
Schedule ScheduleOf(const ExperimentSpec& spec);
ExperimentResult RunReliable(const ExperimentSpec& spec);

}  // namespace optireduce::sim::baseline

#endif  // OPTIREDUCE_DATAPLANE_SIM_BASELINE_RELIABLE_H_
