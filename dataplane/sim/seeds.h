// Many seeds, one after the other.

#ifndef OPTIREDUCE_DATAPLANE_SIM_SEEDS_H_
#define OPTIREDUCE_DATAPLANE_SIM_SEEDS_H_

#include <cstdint>
#include <cstdio>
#include <vector>

#include "dataplane/sim/coverage.h"
#include "dataplane/sim/fault.h"

namespace optireduce::sim {

struct SeedsSummary {
  uint64_t seeds = 0;
  std::vector<uint64_t> failing;
  // Seeds in which a fault of the kind struck at least once.
  FaultCounts struck{};
  uint64_t trace_hash = 0;  // over the traces of all seeds, in order
  uint64_t events = 0;
  double median_ms = 0;  // CPU time per seed
  double worst_ms = 0;
  double total_ms = 0;  // wall time
  Coverage coverage;
};

// Runs seeds first .. first + count - 1. Each failing one puts its violations
// and the command that replays it on `out`; with `progress` a line comes every
// few seconds to stderr.
SeedsSummary RunSeeds(uint64_t first, uint64_t count, bool progress, FILE* out);

// The summary in a few lines.
void PrintSummary(const SeedsSummary& summary, FILE* out);

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_SEEDS_H_
