// The packet socket behind a net_af_packet port.
//
// The driver keeps it to itself, but it is an ordinary descriptor of this
// process. Knowing it, the engine can sleep until a frame arrives, the kernel
// can drop for us what we would drop anyway, and the driver is never given so
// much that it would block: with its transmit ring full, it waits for the
// kernel without limit.

#ifndef OPTIREDUCE_DATAPLANE_NIC_AF_PACKET_SOCKET_H_
#define OPTIREDUCE_DATAPLANE_NIC_AF_PACKET_SOCKET_H_

#include <cstddef>
#include <optional>

#include "dataplane/nic/address.h"

namespace optireduce::nic {

class AfPacketSocket {
 public:
  // Looks through this process's descriptors for a packet socket bound to the
  // interface.
  static std::optional<AfPacketSocket> Find(int interface_index);

  // Readable when a frame has arrived. Owned by the driver.
  int fd() const { return fd_; }

  // From now on the kernel puts only ARP and UDP to `ours` into the ring, and
  // nothing that this host sends itself. Saves work; the port's own checks do
  // not rely on it. False if the kernel refuses.
  bool SetFilter(Ipv4Address ours) const;

  // How many frames of at most `frame_bytes` the kernel takes at once now.
  size_t SendRoom(size_t frame_bytes) const;

 private:
  AfPacketSocket(int fd, size_t send_buffer_bytes)
      : fd_(fd), send_buffer_bytes_(send_buffer_bytes) {}

  int fd_;
  size_t send_buffer_bytes_;
};

}  // namespace optireduce::nic

#endif  // OPTIREDUCE_DATAPLANE_NIC_AF_PACKET_SOCKET_H_
