// The wires: hosts on one switch.
//
//   host NIC --queue--> link --delay--> switch port --queue--> link --> host
//
// A NIC's queue never overflows, its host waits for room; a port's queue drops
// what does not fit. Faults strike between the NIC and the switch.

#ifndef OPTIREDUCE_DATAPLANE_SIM_NETWORK_H_
#define OPTIREDUCE_DATAPLANE_SIM_NETWORK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/base/rng.h"
#include "dataplane/base/time.h"
#include "dataplane/sim/event_loop.h"
#include "dataplane/sim/fault.h"
#include "dataplane/sim/packet_pool.h"
#include "dataplane/sim/serial_link.h"
#include "dataplane/sim/trace.h"

namespace optireduce::sim {

// What a datagram takes on the wire beyond its own bytes: preamble, Ethernet
// header and check, gap, IPv4, UDP.
inline constexpr uint32_t kWireOverhead = 8 + 14 + 4 + 12 + 28;

// One host's cable, the same in both directions.
struct LinkSpec {
  uint64_t rate_bps = 10'000'000'000;
  Duration delay = Duration::Micros(2);  // NIC to switch, or switch to NIC
  uint64_t nic_queue_bytes = 64 << 10;
  uint64_t switch_queue_bytes = 512 << 10;
  // The switch marks cores' packets that find more in its queue; 0: none.
  uint64_t mark_above_bytes = 0;
};

// On/off traffic of somebody else into a host's switch port.
struct Background {
  uint16_t host = 0;
  Window window;
  Duration period = Duration::Micros(100);
  uint32_t load_permille = 500;  // of the link, while on
  uint32_t on_permille = 500;    // of the periods, in runs
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  // Takes the packet over.
  virtual void OnArrival(PacketPool::Ref packet) = 0;
};

// Not thread-safe. Draws from the caller's Rng in the order of events.
class Network : public Actor {
 public:
  Network(EventLoop* loop, PacketPool* pool, Rng* rng, Trace* trace,
          FaultCounts* counts, const std::vector<LinkSpec>& links);

  void Attach(uint16_t host, Receiver* receiver) {
    ports_[host].receiver = receiver;
  }
  // Where foreign packets go, whichever host they are for.
  void AttachForeign(Receiver* receiver) { foreign_ = receiver; }
  void AddFault(std::unique_ptr<Fault> fault) {
    faults_.push_back(std::move(fault));
  }
  void AddBackground(const Background& background);
  // Of a host's cable, in both directions.
  void SetRate(uint16_t host, uint64_t rate_bps);

  // How many datagrams of a length the NIC's send queue can take.
  uint64_t RoomFor(uint16_t host, uint32_t length) const {
    const SerialLink& out = ports_[host].out;
    const uint64_t backlog = out.Backlog(loop_->now());
    if (backlog >= out.queue_bytes()) return 0;
    return (out.queue_bytes() - backlog) / (length + kWireOverhead);
  }
  // When half of it is free again.
  Timestamp RoomAt(uint16_t host) const {
    return ports_[host].out.DrainedTo(ports_[host].out.queue_bytes() / 2);
  }
  // When all that is in its queue now has left.
  Timestamp EmptyAt(uint16_t host) const {
    return ports_[host].out.DrainedTo(0);
  }
  // Takes the packet over and puts it in the queue.
  void Send(PacketPool::Ref packet);
  uint64_t sent() const { return sent_; }

  void OnEvent(uint32_t code, uint64_t argument) override;

 private:
  enum Code : uint32_t { kAtSwitch, kAtHost, kBackgroundTick };

  struct Port {
    explicit Port(const LinkSpec& link)
        : out(link.rate_bps, link.nic_queue_bytes),
          in(link.rate_bps, link.switch_queue_bytes),
          spec(link) {}
    SerialLink out;  // host to switch
    SerialLink in;   // switch to host
    LinkSpec spec;
    Receiver* receiver = nullptr;
  };
  struct BackgroundState {
    Background spec;
    bool on = false;
  };

  // Where the NIC's part is over: `at` is when it reaches the switch.
  void Launch(PacketPool::Ref ref, Timestamp at);
  void LaunchCopy(PacketPool::Ref ref, Origin origin, Timestamp at);
  void Replay(const Treatment& treatment, PacketPool::Ref ref, Timestamp at);
  void LaunchForgery(Forgery forgery, PacketPool::Ref ref, Timestamp at);
  void Flip(Packet* packet);
  void Switch(PacketPool::Ref ref);
  void Burst(BackgroundState* background, uint64_t index);

  EventLoop* loop_;
  PacketPool* pool_;
  Rng* rng_;
  Trace* trace_;
  FaultCounts* counts_;
  uint64_t sent_ = 0;
  std::vector<Port> ports_;
  Receiver* foreign_ = nullptr;
  std::vector<std::unique_ptr<Fault>> faults_;
  std::vector<BackgroundState> backgrounds_;
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_NETWORK_H_
