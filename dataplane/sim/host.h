// A host: the NIC's receive ring, an engine that polls the real core, and the
// trainers that use it.

#ifndef OPTIREDUCE_DATAPLANE_SIM_HOST_H_
#define OPTIREDUCE_DATAPLANE_SIM_HOST_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "dataplane/base/time.h"
#include "dataplane/core/engine_core.h"
#include "dataplane/sim/event_loop.h"
#include "dataplane/sim/group_run.h"
#include "dataplane/sim/host_clock.h"
#include "dataplane/sim/network.h"
#include "dataplane/sim/outcome.h"
#include "dataplane/sim/packet_pool.h"
#include "dataplane/sim/trace.h"
#include "dataplane/sim/trainer.h"

namespace optireduce::sim {

// What all hosts of a simulation share. All of it outlives them.
struct World {
  EventLoop* loop = nullptr;
  PacketPool* pool = nullptr;
  Network* network = nullptr;
  Trace* trace = nullptr;
  FaultCounts* injected = nullptr;
  Violations* violations = nullptr;
  std::vector<std::unique_ptr<GroupRun>> groups;
  // Some rank's change may be news for all hosts.
  std::function<void()> wake_all;

  // The group that a datagram of this tag belongs to, if any.
  GroupRun* FindGroup(uint32_t tag);
};

// Drives the core as engine_core.h says: one poll is receive, submit, advance,
// events, send. It is polled when a datagram is there, when the core asked for
// it, when a trainer has something to do and when the NIC has room again, but
// not more often than the host's poll interval.
class Host : public Actor, public Receiver {
 public:
  Host(World* world, uint16_t index, const HostSpec& spec,
       const std::vector<Stall>& stalls);

  const HostClock& clock() const { return clock_; }
  // Trainers, in any order.
  void Add(std::unique_ptr<Trainer> trainer);
  const std::vector<std::unique_ptr<Trainer>>& trainers() const {
    return trainers_;
  }

  // Polls now, or as soon as it may.
  void Wake() { PollAt(world_->loop->now()); }
  void OnArrival(PacketPool::Ref packet) override;
  void OnEvent(uint32_t code, uint64_t argument) override;

  // The daemon dies, and all that it knew.
  void Kill();
  // It starts again, if it is dead, with nothing.
  void Start();

  // What there is to say once all is over.
  HostOutcome Finish();
  const Coverage& coverage() const { return coverage_; }

 private:
  enum Code : uint32_t { kPoll };

  void PollAt(Timestamp when);
  void Poll();
  void Receive(Timestamp now);
  // Whether there were any.
  bool HandleEvents(Timestamp now);
  void Deliver(PacketPool::Ref ref, Timestamp now);
  void HandIn(const Packet& packet, Timestamp now);
  void CheckVerdict(const Packet& packet, core::Verdict verdict, Timestamp now);
  bool Send(Timestamp now);
  void SendOne(PacketPool::Ref ref, const core::TxDescriptor& descriptor,
               Timestamp now);
  void ScheduleNext(Timestamp now);
  void FoldCounters();

  World* world_;
  uint16_t index_;
  HostSpec spec_;
  HostClock clock_;
  std::vector<Stall> whole_stalls_;
  std::unique_ptr<core::EngineCore> core_;  // null while dead
  std::vector<std::unique_ptr<Trainer>> trainers_;
  std::deque<PacketPool::Ref> ring_;
  // Packets to be filled, and how the core sees them.
  std::vector<PacketPool::Ref> spare_;
  std::vector<core::TxDescriptor> descriptors_;

  Timestamp last_poll_;
  Timestamp next_poll_ = Timestamp::Never();
  uint64_t poll_generation_ = 0;
  bool news_ = false;        // for all hosts
  uint32_t idle_polls_ = 0;  // one after the other, at the core's own wish

  uint64_t delivered_ = 0;  // to this core
  HostOutcome outcome_;
  Coverage coverage_;
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_HOST_H_
