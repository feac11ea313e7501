// Runs one scenario around the real core and checks everything that can be
// checked about it.
//
//   +- Host ----------------+        +- Network ----------------------+
//   | Trainer  Trainer ...  |  tx    | NIC queue > faults > switch    |
//   |    EngineCore         |------->|   queue > link                 |
//   |    receive ring       |<-------|                                |
//   +-----------------------+  rx    +--------------------------------+
//
// The oracles, and where they are:
//   no op outlives its bound by more than a tick          report_check
//   every output is the result over its contributors      result_check, ledger
//   reports, counters and what was injected agree         result_check, host
//   nothing is written outside a buffer or after a report buffers
//   state is freed, memory returns to its first level     trainer
//   the core allocates nothing after a group's formation  alloc_trap, here
//   the core does not spin                                host
//   without faults nothing is lost, and it is fast        here

#ifndef OPTIREDUCE_DATAPLANE_SIM_SIMULATION_H_
#define OPTIREDUCE_DATAPLANE_SIM_SIMULATION_H_

#include <cstdio>

#include "dataplane/sim/event_loop.h"
#include "dataplane/sim/network.h"
#include "dataplane/sim/outcome.h"
#include "dataplane/sim/packet_pool.h"
#include "dataplane/sim/scenario.h"

namespace optireduce::sim {

// Somebody else on the same network, with packets of kForeignGroup.
class Bystander {
 public:
  virtual ~Bystander() = default;
  // Before the first event. What is handed over outlives the run only.
  virtual void Start(EventLoop* loop, PacketPool* pool, Network* network) = 0;
};

struct RunOptions {
  // Copies every output into the outcome.
  bool keep_outputs = false;
  // A line for every datagram and event; null: none.
  FILE* trace = nullptr;
  // Null: none. With one the run ends when all groups are over.
  Bystander* bystander = nullptr;
};

// Pure but for the trace: equal scenarios give equal outcomes.
Outcome RunScenario(const Scenario& scenario, const RunOptions& options = {});

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_SIMULATION_H_
