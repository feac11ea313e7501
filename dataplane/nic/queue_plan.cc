#include "dataplane/nic/queue_plan.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace optireduce::nic {
namespace {

constexpr uint16_t kRxDescriptors = 1024;
constexpr uint16_t kTxDescriptors = 512;
// Ethernet header, a VLAN tag that a switch may add, FCS.
constexpr size_t kEthernetBytes = 14 + 4 + 4;
// Drivers like 2 KiB and more behind the headroom; payloads that we send start
// up to a cache line later.
constexpr size_t kLeastRoomBytes = 2048;
constexpr size_t kAlignmentBytes = 64;

// What drivers do not tell by their capabilities.
struct Quirk {
  const char* driver;
  size_t max_room_bytes = SIZE_MAX;  // behind the headroom
  const char* room_note = "";
  // Held beside one for each descriptor, and not given back at the end.
  size_t extra_rx_buffers = 0;
};
constexpr Quirk kQuirks[] = {
    {.driver = "net_gve",
     .max_room_bytes = 2048,
     .room_note = "The gve driver takes buffers of 2,048 bytes behind the "
                  "headroom and no larger ones."},
    // Fills a ring of 2,048 whatever it is asked for, and copies what it sends
    // into as many more.
    {.driver = "net_af_xdp", .extra_rx_buffers = 4096},
};

Quirk FindQuirk(const std::string& driver) {
  for (const Quirk& quirk : kQuirks) {
    if (driver == quirk.driver) return quirk;
  }
  return {.driver = ""};
}

absl::StatusOr<size_t> PlanBuffer(const DeviceCapabilities& device,
                                  uint16_t mtu,
                                  std::vector<std::string>* notes) {
  const size_t need = mtu + kEthernetBytes;
  const size_t room = std::max(kLeastRoomBytes, need) + kAlignmentBytes;
  const Quirk quirk = FindQuirk(device.driver);
  if (room <= quirk.max_room_bytes) {
    return kHeadroomBytes + room;
  }
  if (need > quirk.max_room_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("MTU ", mtu, " is too large for driver ", device.driver,
                     ": at most ", quirk.max_room_bytes - kEthernetBytes));
  }
  notes->push_back(quirk.room_note);
  return kHeadroomBytes + quirk.max_room_bytes;
}

}  // namespace

absl::StatusOr<QueuePlan> PlanQueues(const DeviceCapabilities& device,
                                     uint16_t mtu) {
  if (mtu < device.min_mtu || (device.max_mtu != 0 && mtu > device.max_mtu)) {
    return absl::InvalidArgumentError(
        absl::StrCat("MTU ", mtu, " does not fit the device, which takes ",
                     device.min_mtu, " to ", device.max_mtu));
  }
  QueuePlan plan;
  absl::StatusOr<size_t> buffer = PlanBuffer(device, mtu, &plan.notes);
  if (!buffer.ok()) return buffer.status();
  plan.buffer_bytes = *buffer;
  plan.rx_descriptors = std::min(kRxDescriptors, device.max_rx_descriptors);
  plan.tx_descriptors = std::min(kTxDescriptors, device.max_tx_descriptors);
  plan.rx_buffers_kept = FindQuirk(device.driver).extra_rx_buffers;
  plan.rx_buffers = plan.rx_descriptors + plan.rx_buffers_kept;
  plan.tx_fast_free = device.tx_fast_free;

  plan.rx_checksum = device.rx_ip_checksum && device.rx_udp_checksum;
  plan.notes.push_back(plan.rx_checksum
                           ? "Received checksums are checked by the device."
                           : "Received checksums are checked in software.");
  plan.tx_checksum = device.tx_udp_checksum;
  plan.notes.push_back(plan.tx_checksum
                           ? "UDP checksums to send are made by the device."
                           : "UDP checksums to send are made in software.");
  if (device.link_bps == 0) {
    plan.notes.push_back(
        "The device does not know its link speed: set the rate by "
        "configuration.");
  }
  return plan;
}

}  // namespace optireduce::nic
