// `optisim calc`: the production pure functions, on the command line.

#ifndef OPTIREDUCE_DATAPLANE_SIM_CALC_H_
#define OPTIREDUCE_DATAPLANE_SIM_CALC_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace optireduce::sim {

// `name`: a function; `arguments`: key=value. Returns JSON, or an error that
// names the argument.
absl::StatusOr<std::string> Calculate(
    const std::string& name, const std::vector<std::string>& arguments);

// What can be calculated, for people.
std::string CalculateHelp();

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_CALC_H_
