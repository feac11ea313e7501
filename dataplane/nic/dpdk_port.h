// PacketPort over a DPDK ethdev.
//
// Software does everything that a device may lack: checksums, demultiplexing,
// ARP. One receive and one transmit queue.

#ifndef OPTIREDUCE_DATAPLANE_NIC_DPDK_PORT_H_
#define OPTIREDUCE_DATAPLANE_NIC_DPDK_PORT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataplane/nic/address.h"
#include "dataplane/nic/arp_table.h"
#include "dataplane/nic/kernel_interface.h"
#include "dataplane/nic/packet_port.h"

namespace optireduce::nic {

struct DpdkPortConfig {
  uint16_t port_id = 0;  // from Eal::AddDevice
  // The kernel interface beneath, if the port is over one.
  std::optional<KernelInterface> interface;
  bool restart_to_reconnect = false;  // from DevicePlan

  Ipv4Address ip;
  int prefix_length = 24;
  std::optional<Ipv4Address> gateway;
  // Empty: the device's own, or one made from `ip` if it has none.
  std::optional<MacAddress> mac;
  uint16_t mtu = 1500;
  // We receive on UDP ports [first_port, first_port + num_ports).
  uint16_t first_port = 0;
  uint16_t num_ports = 0;
  std::vector<std::pair<Ipv4Address, MacAddress>> static_neighbours;
  ArpSettings arp;
};

class DpdkPort : public PacketPort {
 public:
  // Configures and starts the device. Errors are plain sentences.
  static absl::StatusOr<std::unique_ptr<DpdkPort>> Open(
      const DpdkPortConfig& config);

  // Stops the device and frees what it holds. An error says how many buffers
  // did not come back. To be called once, before Eal goes; the destructor does
  // it if nobody has.
  virtual absl::Status Close() = 0;
};

}  // namespace optireduce::nic

#endif  // OPTIREDUCE_DATAPLANE_NIC_DPDK_PORT_H_
