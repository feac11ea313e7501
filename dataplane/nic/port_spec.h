// Which device a port is, from one line of configuration to what DPDK is told.
//
//   af_packet:eth0           a kernel interface, shared with the kernel
//   af_xdp:eth0              the same by AF_XDP; needs root
//   memif:/run/x.sock,id=0,role=server
//                            shared memory to another process on this host
//   ring:0                   a queue within this process: no NIC at all
//   pci:0000:3b:00.0         a NIC bound to a DPDK driver

#ifndef OPTIREDUCE_DATAPLANE_NIC_PORT_SPEC_H_
#define OPTIREDUCE_DATAPLANE_NIC_PORT_SPEC_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "dataplane/nic/kernel_interface.h"

namespace optireduce::nic {

enum class PortKind : uint8_t { kAfPacket, kAfXdp, kMemif, kRing, kPci };

struct PortSpec {
  PortKind kind{};
  std::string device;  // interface, socket, number or PCI address
  std::map<std::string, std::string> options;

  // The device is a kernel interface.
  bool OverKernelInterface() const {
    return kind == PortKind::kAfPacket || kind == PortKind::kAfXdp;
  }
};

// InvalidArgument says what is wrong and what would be right.
absl::StatusOr<PortSpec> ParsePortSpec(const std::string& text);

// What EAL is told about a device.
struct DevicePlan {
  std::string bus;        // "vdev" or "pci"
  std::string name;       // of the device on that bus
  std::string arguments;  // of the driver
  // Names the device to DeviceLock, the same in all daemons that could clash.
  std::string lock_name;
  // Finds a peer that came later, or again, only when it is started again.
  bool restart_to_reconnect = false;
};

// Plans the device; `interface` is what ReadKernelInterface says if the spec is
// over one, else null. `index` makes names distinct within this process.
// FailedPrecondition for the interface with the default route, unless
// `allow_default_route`.
absl::StatusOr<DevicePlan> PlanDevice(const PortSpec& spec,
                                      const KernelInterface* interface,
                                      int index, bool allow_default_route);

}  // namespace optireduce::nic

#endif  // OPTIREDUCE_DATAPLANE_NIC_PORT_SPEC_H_
