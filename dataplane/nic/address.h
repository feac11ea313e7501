// Ethernet and IPv4 addresses as values of their own types.

#ifndef OPTIREDUCE_DATAPLANE_NIC_ADDRESS_H_
#define OPTIREDUCE_DATAPLANE_NIC_ADDRESS_H_

#include <array>
#include <compare>
#include <cstdint>

#include "dataplane/base/strong_int.h"

namespace optireduce::nic {

// In the order of the wire.
struct MacAddress {
  std::array<uint8_t, 6> bytes{};

  // Multicast and broadcast.
  constexpr bool IsGroup() const { return (bytes[0] & 1) != 0; }
  constexpr auto operator<=>(const MacAddress&) const = default;
};

inline constexpr MacAddress kBroadcastMac = {
    {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

// In host order: 10.0.0.1 is 0x0a000001.
struct Ipv4AddressTag;
using Ipv4Address = StrongInt<Ipv4AddressTag, uint32_t>;

// 224.0.0.0/4, the reserved 240.0.0.0/4 and the broadcast address in it: never
// the address of one host.
constexpr bool IsGroupOrReserved(Ipv4Address address) {
  return address.value() >= 0xe0000000;
}

}  // namespace optireduce::nic

#endif  // OPTIREDUCE_DATAPLANE_NIC_ADDRESS_H_
