#include "dataplane/nic/af_packet_socket.h"

#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>

namespace optireduce::nic {
namespace {

bool IsPacketSocketOn(int fd, int interface_index) {
  int domain = 0;
  socklen_t size = sizeof(domain);
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 ||
      domain != AF_PACKET) {
    return false;
  }
  sockaddr_ll address{};
  size = sizeof(address);
  return getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
         address.sll_ifindex == interface_index;
}

}  // namespace

std::optional<AfPacketSocket> AfPacketSocket::Find(int interface_index) {
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::string name = entry.path().filename().string();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    if (fd < 0 || !IsPacketSocketOn(fd, interface_index)) continue;
    int bytes = 0;
    socklen_t size = sizeof(bytes);
    getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &size);
    return AfPacketSocket(fd, static_cast<size_t>(std::max(bytes, 0)));
  }
  return std::nullopt;
}

bool AfPacketSocket::SetFilter(Ipv4Address ours) const {
  constexpr auto kPacketType =
      static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_PKTTYPE);
  constexpr uint32_t kAll = 0xffffffff;
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kPacketType),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 8, 0),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),  // EtherType
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_ARP, 5, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 5),
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),  // protocol
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 30),  // destination
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ours.value(), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, kAll),
      BPF_STMT(BPF_RET | BPF_K, 0),
  };
  const sock_fprog filter = {static_cast<uint16_t>(std::size(program)),
                             program};
  return setsockopt(fd_, SOL_SOCKET, SO_ATTACH_FILTER, &filter,
                    sizeof(filter)) == 0;
}

size_t AfPacketSocket::SendRoom(size_t frame_bytes) const {
  // What the kernel keeps beside each frame.
  constexpr size_t kOverheadBytes = 1024;
  int queued = 0;
  if (ioctl(fd_, SIOCOUTQ, &queued) != 0) return 0;
  const auto used = static_cast<size_t>(std::max(queued, 0));
  if (used >= send_buffer_bytes_) return 0;
  return (send_buffer_bytes_ - used) / (frame_bytes + kOverheadBytes);
}

}  // namespace optireduce::nic
