// The real core on the network and under the load of the baselines.

#ifndef OPTIREDUCE_DATAPLANE_SIM_BASELINE_OURS_H_
#define OPTIREDUCE_DATAPLANE_SIM_BASELINE_OURS_H_

#include "dataplane/sim/baseline/experiment.h"
#include "dataplane/sim/scenario.h"

namespace optireduce::sim::baseline {

// Bounded averages, one in flight, no pacing below the line rate. The two
// bounds are fixed multiples of the time that the bytes take on an idle line.
Scenario OursScenario(const ExperimentSpec& spec);
ExperimentResult RunOurs(const ExperimentSpec& spec);

}  // namespace optireduce::sim::baseline

#endif  // OPTIREDUCE_DATAPLANE_SIM_BASELINE_OURS_H_
