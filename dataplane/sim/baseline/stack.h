// The kernels of all hosts: flows over the simulated network.
//
//   Write > Sender --> [NIC share of the host] --> Network --> Acker >
//   delivered
//             ^                                       |
//             +------------- acknowledgements --------+

#ifndef OPTIREDUCE_DATAPLANE_SIM_BASELINE_STACK_H_
#define OPTIREDUCE_DATAPLANE_SIM_BASELINE_STACK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "dataplane/base/time.h"
#include "dataplane/sim/baseline/acker.h"
#include "dataplane/sim/baseline/segment.h"
#include "dataplane/sim/baseline/sender.h"
#include "dataplane/sim/event_loop.h"
#include "dataplane/sim/network.h"
#include "dataplane/sim/packet_pool.h"

namespace optireduce::sim::baseline {

using FlowId = uint32_t;

// Learns that a message has arrived in full.
class Listener {
 public:
  virtual ~Listener() = default;
  // May write to flows.
  virtual void OnDelivered(uint64_t message) = 0;
};

// How long a packet of a full MTU is on a line.
Duration TimeOnLine(uint32_t mtu, uint64_t rate_bps);

// A flow is a one-way connection that is set up already. All flows of a host
// share its NIC segment by segment in turn (as fq_codel does it), and keep at
// most kNicShare in the NIC's queue, so that others on the host get their part.
// Attaches itself to the network as the receiver of foreign packets.
//
// Each packet reaches the switch up to `jitter` late. Without it flows in step
// with each other would find a full queue with the same packet again and again
// (Floyd and Jacobson's phase effects); up to a packet's time on the line it
// does not let one overtake another of its flow. Not thread-safe.
class Stack : public Actor, public Receiver {
 public:
  static constexpr uint64_t kNicShare = uint64_t{32} << 10;

  // Everything pointed to must outlive the events of the stack.
  Stack(EventLoop* loop, PacketPool* pool, Network* network, size_t hosts,
        uint32_t mtu, Duration jitter);

  // Between two different hosts. `listener`, if not null, hears of the flow's
  // messages.
  FlowId Open(uint16_t source, uint16_t destination, Listener* listener);
  // More bytes, at least one; all together they are one message.
  void Write(FlowId flow, uint64_t bytes, uint64_t message);
  // Nothing is sent any more; what is on its way is lost.
  void Close(FlowId flow);

  // Bytes that have arrived without a gap.
  uint64_t Received(FlowId flow) const { return flows_[flow].acker.received(); }
  const Sender& sender(FlowId flow) const { return flows_[flow].sender; }
  // Of all flows.
  SenderCounters Totals() const;

  void OnArrival(PacketPool::Ref packet) override;
  void OnEvent(uint32_t code, uint64_t argument) override;

 private:
  enum Code : uint32_t { kNic, kSenderTimer, kAckerTimer };

  struct Message {
    uint64_t end = 0;  // in the stream
    uint64_t id = 0;
  };
  // Of several scheduled events only the last one counts.
  struct Timer {
    Timestamp when = Timestamp::Never();
    uint32_t generation = 0;
  };
  struct Flow {
    Flow(uint16_t from, uint16_t to, uint32_t segment_bytes, Listener* hears)
        : source(from),
          destination(to),
          listener(hears),
          sender(segment_bytes) {}

    uint16_t source;
    uint16_t destination;
    Listener* listener;
    Sender sender;
    Acker acker;
    std::deque<Message> messages;  // not delivered yet
    bool ready = false;            // waits for its turn at the NIC
    bool closed = false;
    Timer sender_timer;
    Timer acker_timer;
  };
  struct InNic {
    Timestamp leaves;
    uint64_t bytes = 0;
  };
  struct Nic {
    std::deque<FlowId> ready;
    std::deque<InNic> queue;
    uint64_t queued = 0;
    bool waiting = false;
  };

  void Kick(FlowId id);
  void Pump(uint16_t host);
  void Reap(Nic* nic);
  void WaitForRoom(uint16_t host);
  void Emit(uint16_t from, uint16_t to, const Segment& segment);
  void SendAck(FlowId id, const Ack& ack);
  void OnData(FlowId id, const Data& data);
  void Arm(FlowId id, Code code, Timestamp deadline, Timer* timer);
  void ArmSender(FlowId id);
  void ArmAcker(FlowId id);
  bool Expired(Timer* timer, uint32_t generation) const;

  EventLoop* loop_;
  PacketPool* pool_;
  Network* network_;
  uint32_t segment_bytes_;
  std::vector<Nic> nics_;
  std::deque<Flow> flows_;
};

}  // namespace optireduce::sim::baseline

#endif  // OPTIREDUCE_DATAPLANE_SIM_BASELINE_STACK_H_
