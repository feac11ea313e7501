// What all-reduces get wrong if nobody repeats what the network drops.

#ifndef OPTIREDUCE_DATAPLANE_SIM_BASELINE_BEST_EFFORT_H_
#define OPTIREDUCE_DATAPLANE_SIM_BASELINE_BEST_EFFORT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/sim/baseline/experiment.h"

namespace optireduce::sim::baseline {

// Averages of one value for each shard, a packet each, random and of mean
// square
// 1. Every packet is dropped with the same chance, on each hop anew. Whatever
// is not there counts as zero, and the divisor stays N.
//   ring       a rank that did not get the sum so far goes on with its own
//   value
//              alone, and a result that a rank lacks does not go on from there
//   transpose  contributions to the shard's owner, results from there
//   server     the same, where rank 0 owns all shards
struct BestEffortSpec {
  Algorithm algorithm = Algorithm::kTranspose;  // or kRing, kParameterServer
  size_t hosts = 8;                             // 2 to 1024
  double drop = 0.001;
  uint64_t ops = 100'000;  // a multiple of kBatches
  uint64_t seed = 1;
};

inline constexpr uint64_t kBatches = 100;

struct BestEffortResult {
  // Over all ranks and shards, the mean square of the distance from the true
  // average: of the first hundredth of the ops, of the next, and so on.
  std::vector<double> squared_error;
  uint64_t dropped = 0;
  uint64_t trace_hash = 0;  // of which packets were dropped
};

// Equal specifications give equal results.
BestEffortResult RunBestEffort(const BestEffortSpec& spec);

}  // namespace optireduce::sim::baseline

#endif  // OPTIREDUCE_DATAPLANE_SIM_BASELINE_BEST_EFFORT_H_
