// Short ways to write scenarios and to read outcomes in tests.

#ifndef OPTIREDUCE_DATAPLANE_SIM_TESTING_H_
#define OPTIREDUCE_DATAPLANE_SIM_TESTING_H_

#include <cstdint>
#include <vector>

#include "dataplane/core/types.h"
#include "dataplane/sim/outcome.h"
#include "dataplane/sim/scenario.h"

namespace optireduce::sim::testing {

// One group, one host for each rank, 10 Gb/s, fixed bounds of 20 and 30
// ms, no
// faults, no ops.
Scenario Ranks(size_t world);

// float32 sums of `count` elements, summable inputs, submitted at once.
OpSpec AllReduce(uint64_t count, core::Mode mode);
OpSpec Exact(core::Collective collective, uint64_t count);

// The same, for every rank to see.
OpSpec& Add(Scenario* scenario, OpSpec op);

// Every rank at once but this one.
void SubmitLate(OpSpec* op, size_t world, core::Rank rank, Duration late);

// A fault on data (stage 1) or results (stage 2) of op 0.
ScriptedFault& Script(Scenario* scenario, ScriptAction action, uint32_t stage);

inline core::Rank R(size_t rank) {
  return core::Rank(static_cast<uint16_t>(rank));
}

// Fails the test with every violation.
Outcome RunWell(const Scenario& scenario);

const OpOutcome& OpOf(const Outcome& outcome, size_t rank, size_t op = 0);
std::vector<float> Floats(const OpOutcome& op);
// From the submit.
Duration Took(const OpOutcome& op);
uint64_t Counted(const Outcome& outcome, core::Verdict verdict);
uint64_t Injected(const Outcome& outcome, FaultKind kind);
std::vector<uint16_t> Missing(const OpOutcome& op, size_t world);

}  // namespace optireduce::sim::testing

#endif  // OPTIREDUCE_DATAPLANE_SIM_TESTING_H_
