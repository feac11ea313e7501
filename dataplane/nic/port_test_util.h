// What tests of PacketPorts share.

#ifndef OPTIREDUCE_DATAPLANE_NIC_PORT_TEST_UTIL_H_
#define OPTIREDUCE_DATAPLANE_NIC_PORT_TEST_UTIL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/base/time.h"
#include "dataplane/nic/address.h"
#include "dataplane/nic/packet_port.h"

namespace optireduce::nic {

// A counter by its name; fails the test if there is none.
uint64_t CounterOf(const PacketPort& port, const std::string& name);

// Receives until the device is empty; the payloads.
std::vector<std::vector<uint8_t>> ReceiveAll(PacketPort& port, Timestamp now);

// Sends one datagram of `bytes` bytes 0, 1, 2, ...; false if the port lends no
// buffer.
bool SendOne(PacketPort& port, UdpEndpoint to, size_t bytes, Timestamp now);

}  // namespace optireduce::nic

#endif  // OPTIREDUCE_DATAPLANE_NIC_PORT_TEST_UTIL_H_
