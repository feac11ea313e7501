// "did you mean": the known name that a wrong one is likely a slip of.

#ifndef OPTIREDUCE_CONTROL_SUGGEST_H_
#define OPTIREDUCE_CONTROL_SUGGEST_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace optireduce::control {

// Letters to insert, remove, replace, or swap with a neighbour to get from one
// to the other.
size_t EditDistance(std::string_view a, std::string_view b);

// `; did you mean "NAME"?`, or nothing if no candidate is close. Case does not
// count. `prefix` is put before NAME ("--").
std::string Suggestion(std::string_view wrong,
                       const std::vector<std::string>& candidates,
                       std::string_view prefix = "");

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_SUGGEST_H_
