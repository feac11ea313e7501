#include "dataplane/nic/quiet_kernel.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "dataplane/nic/address_text.h"

namespace optireduce::nic {
namespace {

// Drops everything before it is queued.
bool TakeNothing(int fd) {
  sock_filter program[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
  const sock_fprog filter = {1, program};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter,
                    sizeof(filter)) == 0;
}

bool BindTo(int fd, Ipv4Address ip, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(ip.value());
  return bind(fd, reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) == 0;
}

}  // namespace

absl::StatusOr<QuietKernel> QuietKernel::Bind(Ipv4Address ip,
                                              uint16_t first_port,
                                              uint16_t num_ports) {
  QuietKernel result;
  for (int i = 0; i < num_ports; ++i) {
    const auto port = static_cast<uint16_t>(first_port + i);
    UniqueFd owned(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const int fd = owned.get();
    if (!owned.valid()) {
      return absl::InternalError(
          absl::StrCat("cannot open a socket: ", std::strerror(errno)));
    }
    result.sockets_.push_back(std::move(owned));
    if (TakeNothing(fd) && BindTo(fd, ip, port)) continue;
    if (errno == EADDRNOTAVAIL) return QuietKernel();
    const std::string where = absl::StrCat(ToText(ip), ", UDP port ", port);
    if (errno == EADDRINUSE) {
      return absl::AlreadyExistsError(
          absl::StrCat(where, " is in use by another process"));
    }
    return absl::InternalError(
        absl::StrCat("cannot reserve ", where, ": ", std::strerror(errno)));
  }
  return result;
}

}  // namespace optireduce::nic
