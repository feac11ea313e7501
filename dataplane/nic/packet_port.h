// PacketPort: UDP datagrams in and out of one network port, as the engine needs
// them.
//
// Below it, the port does Ethernet, IPv4, UDP, checksums and ARP. Every call
// does a bounded amount of work and none waits: what the device does not take
// now stays queued in the port, and when the queue is full the port lends no
// buffers until it has drained. Whatever is dropped is counted by reason.
//
// One thread uses a port. AppendCounters() and link_up() may be called from any
// thread.

#ifndef OPTIREDUCE_DATAPLANE_NIC_PACKET_PORT_H_
#define OPTIREDUCE_DATAPLANE_NIC_PACKET_PORT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/time.h"
#include "dataplane/nic/address.h"

namespace optireduce::nic {

struct UdpEndpoint {
  Ipv4Address ip;
  uint16_t port = 0;

  constexpr bool operator==(const UdpEndpoint&) const = default;
};

// A received datagram whose checksums were right and whose destination is ours.
struct RxDatagram {
  UdpEndpoint source;
  uint16_t destination_port = 0;
  bool congestion_experienced = false;  // ECN
  std::span<const uint8_t> payload;     // until Release()
  // When it reached the device, on this host's monotonic clock; empty if the
  // device does not say.
  std::optional<Timestamp> arrival;

  void* frame = nullptr;  // the port's own
};

// A buffer lent for a datagram to send.
struct TxDatagram {
  // At least max_payload() bytes; the payload starts at its front.
  std::span<uint8_t> buffer;

  // To be filled in before Send().
  size_t length = 0;
  uint16_t source_port = 0;
  UdpEndpoint destination;

  void* frame = nullptr;  // the port's own
};

struct PortInfo {
  std::string name;    // of the device
  std::string driver;  // as DPDK calls it
  MacAddress mac;
  Ipv4Address ip;
  uint16_t mtu = 0;
  uint64_t link_bps = 0;  // 0: the device does not know
  // What was found and which fallbacks are in force, one sentence each.
  std::vector<std::string> notes;
};

struct NamedCounter {
  std::string name;
  uint64_t value = 0;
};

struct RxResult {
  size_t datagrams = 0;
  // True if the device may hold more; false if its queue was seen empty.
  bool more = false;
};

class PacketPort {
 public:
  virtual ~PacketPort() = default;

  virtual const PortInfo& info() const = 0;
  // Largest UDP payload that fits the MTU.
  size_t max_payload() const { return info().mtu - kIpv4UdpBytes; }

  // Takes at most out.size() frames from the device; those that are datagrams
  // for us are put in front of `out`. Answers ARP.
  virtual RxResult Receive(std::span<RxDatagram> out, Timestamp now) = 0;
  // To be called for every datagram received, in any order.
  virtual void Release(std::span<const RxDatagram> datagrams) = 0;

  // Lends at most out.size() buffers and returns how many; fewer while the
  // device takes nothing or while buffers are short.
  virtual size_t Lend(std::span<TxDatagram> out) = 0;
  // Takes lent buffers back: Send() to transmit them, GiveBack() unused. What
  // cannot be sent (no route, next hop not resolved yet) is dropped.
  virtual void Send(std::span<const TxDatagram> datagrams, Timestamp now) = 0;
  virtual void GiveBack(std::span<const TxDatagram> datagrams) = 0;

  // Housekeeping: queued frames, ARP requests, the link. To be called at least
  // at NextTick(), and after every poll.
  virtual void Tick(Timestamp now) = 0;
  virtual Timestamp NextTick() const = 0;

  // Becomes readable when a frame arrives (poll it edge-triggered, never read
  // it); -1 if this device can only be polled.
  virtual int wait_fd() const = 0;
  virtual bool link_up() const = 0;

  // Hosts that we have something to send to and that answer no ARP request.
  virtual std::vector<Ipv4Address> SilentNextHops() const = 0;
  virtual void AppendCounters(std::vector<NamedCounter>* out) const = 0;

 private:
  static constexpr size_t kIpv4UdpBytes = 28;
};

}  // namespace optireduce::nic

#endif  // OPTIREDUCE_DATAPLANE_NIC_PACKET_PORT_H_
