// Every single packet of small runs lost, duplicated and delayed past each
// deadline, one at a time.

#ifndef OPTIREDUCE_DATAPLANE_SIM_SYSTEMATIC_H_
#define OPTIREDUCE_DATAPLANE_SIM_SYSTEMATIC_H_

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/sim/coverage.h"
#include "dataplane/sim/scenario.h"

namespace optireduce::sim {

// A small run without faults: two or three ranks, three ops in flight, few
// chunks. Half of the cases end with the trainers' exit at the last report.
struct SystematicCase {
  std::string name;
  Scenario scenario;
};
std::vector<SystematicCase> SystematicCases();

// What is done to one packet, counted from the first that any core sends.
struct SystematicFault {
  std::string name;
  ScriptAction action = ScriptAction::kDrop;
  Duration delay{};
};
// For one case: its bounds are among the delays.
std::vector<SystematicFault> SystematicFaults(const Scenario& scenario);

struct SystematicSummary {
  uint64_t cases = 0;
  uint64_t runs = 0;
  uint64_t failing = 0;
  Coverage coverage;
};

// Only the case, packet and fault that are given; all where nothing is. Each
// failing run puts its violations and the command that replays it on `out`.
//
// Beyond the oracles every op must end without an error, and exact ops complete
// on all ranks.
SystematicSummary RunSystematic(const std::optional<std::string>& only_case,
                                std::optional<uint64_t> only_packet,
                                const std::optional<std::string>& only_fault,
                                FILE* trace, FILE* out);

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_SYSTEMATIC_H_
