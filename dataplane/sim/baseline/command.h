// `optisim baseline`: experiments from the command line.

#ifndef OPTIREDUCE_DATAPLANE_SIM_BASELINE_COMMAND_H_
#define OPTIREDUCE_DATAPLANE_SIM_BASELINE_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dataplane/sim/baseline/experiment.h"

namespace optireduce::sim::baseline {

struct Command {
  // As named: one of the algorithms, or "nccl_like": the better one, by the
  // mean, of ring and tree.
  std::vector<std::string> algorithms;
  ExperimentSpec spec;  // but for the algorithm
  bool json = false;
  std::string samples;  // a file for SamplesLine of each algorithm; empty: none
};

// Without "baseline". Errors name the argument.
absl::StatusOr<Command> ParseCommand(const std::vector<std::string>& arguments);

// Runs one algorithm after the other; a table for people, or JSON.
absl::StatusOr<std::string> RunCommand(const Command& command);

}  // namespace optireduce::sim::baseline

#endif  // OPTIREDUCE_DATAPLANE_SIM_BASELINE_COMMAND_H_
