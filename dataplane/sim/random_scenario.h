// Scenarios drawn from a seed.

#ifndef OPTIREDUCE_DATAPLANE_SIM_RANDOM_SCENARIO_H_
#define OPTIREDUCE_DATAPLANE_SIM_RANDOM_SCENARIO_H_

#include <cstdint>

#include "dataplane/sim/scenario.h"

namespace optireduce::sim {

// The distribution is fixed; docs/TESTING.md ("The simulator's seeds") has it
// in words. In short:
//
//   world            2..64, log-uniform; in a fifth of the seeds hosts carry
//                    several ranks
//   groups           one; a quarter of the seeds have a second one on the same
//                    hosts, a sixth a second epoch of the first
//   ops              3..8 per group, at least 3 of them in flight at once, of
//                    all collectives, types and modes; counts from 0, many of
//                    them around the world size
//   first op number  half of the seeds: the ops cross 2^32 or 2^31
//   faults           a tenth of the seeds has none; in the others each kind is
//                    there with probability 0.4, on its own: independent loss,
//                    bursts, cut tails, duplicates, reordering, corruption, old
//                    epochs, stale copies, forgeries, true packets that
//                    nobody sent, a one-way partition,
//                    poller stalls, host stalls, trainer stalls, a death (of a
//                    trainer or a daemon), background traffic, short queues
Scenario RandomScenario(uint64_t seed);

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_RANDOM_SCENARIO_H_
