// Faults that are named one by one.

#ifndef OPTIREDUCE_DATAPLANE_SIM_SCRIPT_H_
#define OPTIREDUCE_DATAPLANE_SIM_SCRIPT_H_

#include <cstdint>

#include "dataplane/sim/fault.h"
#include "dataplane/sim/group_run.h"
#include "dataplane/sim/scenario.h"

namespace optireduce::sim {

class Scripted : public Fault {
 public:
  // `group` is the one that the fault names; it outlives the object.
  Scripted(const ScriptedFault& spec, GroupRun* group)
      : Fault(Window()), spec_(spec), group_(group) {}

 private:
  void Act(const Packet& packet, Rng* rng, Treatment* treatment,
           FaultCounts* counts) override;
  bool Matches(const Packet& packet) const;
  bool InTail(const Packet& packet) const;

  ScriptedFault spec_;
  GroupRun* group_;
  uint32_t seen_ = 0;
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_SCRIPT_H_
