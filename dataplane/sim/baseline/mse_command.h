// `optisim mse`: what best-effort all-reduces get wrong, from the command line.

#ifndef OPTIREDUCE_DATAPLANE_SIM_BASELINE_MSE_COMMAND_H_
#define OPTIREDUCE_DATAPLANE_SIM_BASELINE_MSE_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace optireduce::sim::baseline {

// `arguments` without "mse". Returns the figures as text for people; --samples
// is a file for a line of JSON with algorithm, hosts, drop, ops, seed, dropped,
// squared_error (BestEffortResult) and trace_hash. Errors name the argument.
absl::StatusOr<std::string> RunMse(const std::vector<std::string>& arguments);

}  // namespace optireduce::sim::baseline

#endif  // OPTIREDUCE_DATAPLANE_SIM_BASELINE_MSE_COMMAND_H_
