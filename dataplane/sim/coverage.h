// Which (op state, event) pairs and which verdicts runs have reached.

#ifndef OPTIREDUCE_DATAPLANE_SIM_COVERAGE_H_
#define OPTIREDUCE_DATAPLANE_SIM_COVERAGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "dataplane/core/coverage.h"
#include "dataplane/core/drop.h"
#include "dataplane/core/engine_core.h"

namespace optireduce::sim {

class Coverage {
 public:
  void Add(const core::EngineCore& core);
  void Add(const Coverage& other);

  uint64_t Of(core::OpState state, core::OpEvent event) const {
    return pairs_[static_cast<size_t>(state)][static_cast<size_t>(event)];
  }
  uint64_t Of(core::Verdict verdict) const {
    return verdicts_[static_cast<size_t>(verdict)];
  }
  const std::array<uint64_t, core::kNumVerdicts>& verdicts() const {
    return verdicts_;
  }

  // Pairs that the rules allow, and those of them that were reached.
  size_t possible() const;
  size_t reached() const;
  // What was not reached: "state x event" or the name of a verdict.
  std::vector<std::string> Missing() const;
  // Pairs that were reached although the rules exclude them.
  std::vector<std::string> Impossible() const;

  // 95 % of the possible pairs, no impossible one, and every verdict.
  bool Suffices() const;

  void Print(FILE* out) const;

 private:
  std::array<std::array<uint64_t, core::kNumOpEvents>, core::kNumOpStates>
      pairs_{};
  std::array<uint64_t, core::kNumVerdicts> verdicts_{};
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_COVERAGE_H_
