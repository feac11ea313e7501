// The real core on the network and under the load of the baselines.

#ifndef OPTIREDUCE_DATAPLANE_SIM_BASELINE_OURS_H_
#define OPTIREDUCE_DATAPLANE_SIM_BASELINE_OURS_H_

#include "dataplane/sim/baseline/experiment.h"
#include "dataplane/sim/scenario.h"

namespace optireduce::sim::baseline {

// What each host has to send, and to receive, with all headers, at the line
// rate.
Duration IdealTime(const ExperimentSpec& spec);

// Bounded averages, one in flight, paced only for a share cap and congestion
// control; bounds that adapt, with the ceilings of a line of 100 Mb/s.
Scenario OursScenario(const ExperimentSpec& spec);
ExperimentResult RunOurs(const ExperimentSpec& spec);

}  // namespace optireduce::sim::baseline

#endif  // OPTIREDUCE_DATAPLANE_SIM_BASELINE_OURS_H_
