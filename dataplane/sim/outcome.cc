#include "dataplane/sim/outcome.h"

#include "absl/strings/str_format.h"

namespace optireduce::sim {

void Violations::Add(Timestamp now, const std::string& what) {
  if (lines_.size() >= kMost) return;
  lines_.push_back(absl::StrFormat(
      "%.3f us: %s", static_cast<double>(now.nanos()) / 1e3, what));
}

}  // namespace optireduce::sim
