// Keeps the kernel from answering datagrams that are ours.
//
// Over a kernel interface (net_af_packet) the kernel sees our datagrams, too.
// If it owns their destination address and nobody is bound to the port, it
// tells each sender that the port is unreachable. A socket bound to the port
// that takes nothing keeps it quiet, needs no privilege, and keeps others from
// being given the port.

#ifndef OPTIREDUCE_DATAPLANE_NIC_QUIET_KERNEL_H_
#define OPTIREDUCE_DATAPLANE_NIC_QUIET_KERNEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "dataplane/base/unique_fd.h"
#include "dataplane/nic/address.h"

namespace optireduce::nic {

class QuietKernel {
 public:
  // Binds [first_port, first_port + num_ports) of `ip`. Does nothing if the
  // kernel does not own the address. AlreadyExists names a port that somebody
  // else uses.
  static absl::StatusOr<QuietKernel> Bind(Ipv4Address ip, uint16_t first_port,
                                          uint16_t num_ports);
  bool active() const { return !sockets_.empty(); }

 private:
  QuietKernel() = default;

  std::vector<UniqueFd> sockets_;
};

}  // namespace optireduce::nic

#endif  // OPTIREDUCE_DATAPLANE_NIC_QUIET_KERNEL_H_
