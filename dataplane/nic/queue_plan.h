// What to ask a device for, given what it says it can do: the one place for
// fallbacks and drivers' quirks. Pure.

#ifndef OPTIREDUCE_DATAPLANE_NIC_QUEUE_PLAN_H_
#define OPTIREDUCE_DATAPLANE_NIC_QUEUE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace optireduce::nic {

struct DeviceCapabilities {
  std::string driver;
  uint16_t min_mtu = 0;
  uint16_t max_mtu = 0;   // 0: not said
  uint64_t link_bps = 0;  // 0: not said
  bool rx_ip_checksum = false;
  bool rx_udp_checksum = false;
  bool tx_udp_checksum = false;
  bool tx_fast_free = false;
  bool tx_multi_segment = false;
  uint16_t max_rx_descriptors = UINT16_MAX;
  uint16_t max_tx_descriptors = UINT16_MAX;
};

struct QueuePlan {
  // Never multi-segment with fast free: they exclude each other, and a frame
  // of ours is always in one piece.
  bool rx_checksum = false;
  bool tx_checksum = false;
  bool tx_fast_free = false;
  bool tx_multi_segment = false;
  uint16_t rx_descriptors = 0;
  uint16_t tx_descriptors = 0;
  // What the driver itself takes from the receive buffers at most.
  size_t rx_buffers = 0;
  // How many of them it does not give back when it is closed.
  size_t rx_buffers_kept = 0;
  // Bytes of a buffer, headroom included.
  size_t buffer_bytes = 0;
  std::vector<std::string> notes;
};

inline constexpr size_t kHeadroomBytes = 128;

// InvalidArgument if the MTU does not fit the device.
absl::StatusOr<QueuePlan> PlanQueues(const DeviceCapabilities& device,
                                     uint16_t mtu);

}  // namespace optireduce::nic

#endif  // OPTIREDUCE_DATAPLANE_NIC_QUEUE_PLAN_H_
