// What the kernel knows about one of its network interfaces.

#ifndef OPTIREDUCE_DATAPLANE_NIC_KERNEL_INTERFACE_H_
#define OPTIREDUCE_DATAPLANE_NIC_KERNEL_INTERFACE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dataplane/nic/address.h"

namespace optireduce::nic {

struct KernelInterface {
  std::string name;
  int index = 0;
  MacAddress mac;
  uint16_t mtu = 0;
  uint64_t link_bps = 0;  // 0: unknown
  // The first IPv4 address, if it has one.
  std::optional<Ipv4Address> ip;
  int prefix_length = 0;
  std::optional<Ipv4Address> gateway;  // of a default route over it
  bool has_default_route = false;      // IPv4 or IPv6
  // The network namespace: interfaces of different ones may share a name.
  uint64_t netns = 0;
};

// Reads it, in the caller's network namespace. NotFound names the interfaces
// that exist.
absl::StatusOr<KernelInterface> ReadKernelInterface(const std::string& name);

// The table in /proc/net/route: is there a default route over `name`, and by
// which gateway.
struct DefaultRoute {
  bool exists = false;
  std::optional<Ipv4Address> gateway;
};
DefaultRoute FindIpv4DefaultRoute(const std::string& table,
                                  const std::string& name);
// The same for /proc/net/ipv6_route, without the gateway.
bool HasIpv6DefaultRoute(const std::string& table, const std::string& name);

}  // namespace optireduce::nic

#endif  // OPTIREDUCE_DATAPLANE_NIC_KERNEL_INTERFACE_H_
