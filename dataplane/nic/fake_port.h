// Ports without a device, for tests: what they can do and what they refuse is
// set by the test, and no time passes but the test's.

#ifndef OPTIREDUCE_DATAPLANE_NIC_FAKE_PORT_H_
#define OPTIREDUCE_DATAPLANE_NIC_FAKE_PORT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "dataplane/base/counters.h"
#include "dataplane/base/time.h"
#include "dataplane/nic/address.h"
#include "dataplane/nic/packet_port.h"

namespace optireduce::nic {

class FakePort;

// Joins FakePorts; a datagram sent is there at once. Not thread-safe.
class FakeWire {
 public:
  struct Datagram {
    UdpEndpoint source;
    UdpEndpoint destination;
    Timestamp sent;
    std::vector<uint8_t> payload;
  };
  // Sees each datagram before it is delivered; false loses it.
  using Filter = std::function<bool(const Datagram&)>;

  void set_filter(Filter filter) { filter_ = std::move(filter); }

 private:
  friend class FakePort;

  void Deliver(Datagram datagram);

  std::unordered_map<uint32_t, FakePort*> ports_;  // by IP
  Filter filter_;
};

class FakePort final : public PacketPort {
 public:
  struct Options {
    Ipv4Address ip;
    uint16_t mtu = 1500;
    bool stamps_arrivals = false;  // as by hardware
    size_t queue_frames = 4096;    // received and not yet taken
    size_t backlog_frames = 128;   // sent and not yet taken by the device
    size_t buffers = 1024;         // to lend
  };

  FakePort(FakeWire* wire, const Options& options);
  ~FakePort() override;

  // The device takes no frames, as with a full ring; they wait in the port.
  void set_refuses_transmit(bool refuses) { refuses_transmit_ = refuses; }
  // The device is gone: it takes frames to nowhere and receives none.
  void set_away(bool away) {
    away_ = away;
    link_up_.store(!away, std::memory_order_relaxed);
  }
  // Nobody answers ARP for the address.
  void SetSilent(Ipv4Address ip) { silent_.insert(ip); }
  // The number of buffers that are lent out now.
  size_t lent() const { return lent_; }
  // The number of received datagrams that were not released.
  size_t held() const { return held_; }

  const PortInfo& info() const override { return info_; }
  RxResult Receive(std::span<RxDatagram> out, Timestamp now) override;
  void Release(std::span<const RxDatagram> datagrams) override;
  size_t Lend(std::span<TxDatagram> out) override;
  void Send(std::span<const TxDatagram> datagrams, Timestamp now) override;
  void GiveBack(std::span<const TxDatagram> datagrams) override;
  void Tick(Timestamp now) override;
  Timestamp NextTick() const override { return next_tick_; }
  int wait_fd() const override { return -1; }
  bool link_up() const override {
    return link_up_.load(std::memory_order_relaxed);
  }
  std::vector<Ipv4Address> SilentNextHops() const override {
    return {silent_.begin(), silent_.end()};
  }
  void AppendCounters(std::vector<NamedCounter>* out) const override;

 private:
  friend class FakeWire;

  enum class Count : uint8_t { kRx, kRxOverflow, kTx, kTxUnresolved, kTxAway };

  void Arrive(FakeWire::Datagram datagram);
  void Flush();

  FakeWire* const wire_;
  const Options options_;
  PortInfo info_;
  std::deque<FakeWire::Datagram> received_;
  std::deque<FakeWire::Datagram> backlog_;
  std::set<Ipv4Address> silent_;
  size_t lent_ = 0;
  size_t held_ = 0;
  bool refuses_transmit_ = false;
  bool away_ = false;
  std::atomic<bool> link_up_ = true;
  Timestamp next_tick_ = Timestamp::Never();
  CounterArray<Count, 5> counters_;
};

}  // namespace optireduce::nic

#endif  // OPTIREDUCE_DATAPLANE_NIC_FAKE_PORT_H_
