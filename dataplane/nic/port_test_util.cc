#include "dataplane/nic/port_test_util.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

namespace optireduce::nic {

uint64_t CounterOf(const PacketPort& port, const std::string& name) {
  std::vector<NamedCounter> counters;
  port.AppendCounters(&counters);
  const auto found =
      std::find_if(counters.begin(), counters.end(),
                   [&](const NamedCounter& c) { return c.name == name; });
  EXPECT_NE(found, counters.end()) << "no counter " << name;
  return found == counters.end() ? 0 : found->value;
}

std::vector<std::vector<uint8_t>> ReceiveAll(PacketPort& port, Timestamp now) {
  std::vector<std::vector<uint8_t>> payloads;
  std::array<RxDatagram, 32> datagrams;
  RxResult result;
  do {
    result = port.Receive(datagrams, now);
    const auto received = std::span(datagrams).first(result.datagrams);
    for (const RxDatagram& d : received) {
      payloads.emplace_back(d.payload.begin(), d.payload.end());
    }
    port.Release(received);
  } while (result.more);
  return payloads;
}

bool SendOne(PacketPort& port, UdpEndpoint to, size_t bytes, Timestamp now) {
  TxDatagram datagram;
  if (port.Lend({&datagram, 1}) != 1) return false;
  const auto payload = datagram.buffer.first(bytes);
  std::iota(payload.begin(), payload.end(), 0);
  datagram.length = bytes;
  datagram.source_port = 50000;
  datagram.destination = to;
  port.Send({&datagram, 1}, now);
  return true;
}

}  // namespace optireduce::nic
