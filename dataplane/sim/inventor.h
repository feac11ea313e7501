// Packets that no core sent, but might have: questions out of the blue, answers
// to questions nobody asked, contributions ahead of their time. What they say
// is true, so a core may believe them; nothing may go wrong by it.

#ifndef OPTIREDUCE_DATAPLANE_SIM_INVENTOR_H_
#define OPTIREDUCE_DATAPLANE_SIM_INVENTOR_H_

#include <optional>

#include "dataplane/sim/fault.h"
#include "dataplane/sim/group_run.h"
#include "dataplane/sim/host.h"
#include "dataplane/sim/packet_pool.h"

namespace optireduce::sim {

// Every so often a packet about an op is accompanied by an invented one, from
// the same rank to the same rank about the same op.
class Inventor : public Fault {
 public:
  // `pool` and `world` outlive the object.
  Inventor(Window window, double share, Duration longest, PacketPool* pool,
           World* world)
      : Fault(window),
        share_(share),
        longest_(longest),
        pool_(pool),
        world_(world) {}

 private:
  void Act(const Packet& packet, Rng* rng, Treatment* treatment,
           FaultCounts* counts) override;
  // Each writes a packet over a copy of a real one; false if it cannot.
  static bool Nack(OpRun* run, Rng* rng, Packet* packet);
  static bool Gone(const GroupRun& group, OpRun* run, Packet* packet);
  static bool AheadOfTime(OpRun* run, Packet* packet);

  double share_;
  Duration longest_;
  PacketPool* pool_;
  World* world_;
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_INVENTOR_H_
