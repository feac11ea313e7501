// Scenarios and outcomes as JSON: the input and output of `optisim run FILE`.
// docs/TESTING.md describes the keys.

#ifndef OPTIREDUCE_DATAPLANE_SIM_SCENARIO_JSON_H_
#define OPTIREDUCE_DATAPLANE_SIM_SCENARIO_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "dataplane/sim/outcome.h"
#include "dataplane/sim/scenario.h"

namespace optireduce::sim {

// The error names the key.
absl::StatusOr<Scenario> ScenarioFromJson(const std::string& text);

// `outcome` of `scenario`, run with its outputs kept.
std::string OutcomeToJson(const Scenario& scenario, const Outcome& outcome);

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_SCENARIO_JSON_H_
