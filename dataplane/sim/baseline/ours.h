// The real core on the network and under the load of the baselines.

#ifndef OPTIREDUCE_DATAPLANE_SIM_BASELINE_OURS_H_
#define OPTIREDUCE_DATAPLANE_SIM_BASELINE_OURS_H_

#include "dataplane/sim/baseline/experiment.h"
#include "dataplane/sim/scenario.h"

namespace optireduce::sim::baseline {

// What each host has to send, and to receive, with all headers, at the line
// rate.
Duration IdealTime(const ExperimentSpec& spec);

// Bounded averages, one in flight, no pacing but at the share cap, all settings
// as by default. But where the bytes take so long under that cap, the ceilings
// of the adaptive bounds are twice (stage 1) and three times that.
Scenario OursScenario(const ExperimentSpec& spec);
ExperimentResult RunOurs(const ExperimentSpec& spec);

}  // namespace optireduce::sim::baseline

#endif  // OPTIREDUCE_DATAPLANE_SIM_BASELINE_OURS_H_
