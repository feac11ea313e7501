#include "dataplane/nic/kernel_interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "dataplane/base/unique_fd.h"

namespace optireduce::nic {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string KnownInterfaces() {
  std::string names;
  struct if_nameindex* list = if_nameindex();
  if (list == nullptr) return "unknown";
  for (const struct if_nameindex* i = list; i->if_index != 0; ++i) {
    if (!names.empty()) names += ", ";
    names += i->if_name;
  }
  if_freenameindex(list);
  return names.empty() ? "none" : names;
}

// The speed in Mb/s that the driver reports; virtual ones say nothing or -1.
uint64_t LinkBitsPerSecond(const std::string& name) {
  std::istringstream text(ReadFile("/sys/class/net/" + name + "/speed"));
  int64_t mbps = 0;
  if (!(text >> mbps) || mbps <= 0) return 0;
  return static_cast<uint64_t>(mbps) * 1'000'000;
}

void ReadIpv4(KernelInterface* interface) {
  struct ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return;
  for (const struct ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_netmask == nullptr ||
        i->ifa_addr->sa_family != AF_INET || interface->name != i->ifa_name) {
      continue;
    }
    sockaddr_in address{};
    sockaddr_in mask{};
    std::memcpy(&address, i->ifa_addr, sizeof(address));
    std::memcpy(&mask, i->ifa_netmask, sizeof(mask));
    interface->ip = Ipv4Address(ntohl(address.sin_addr.s_addr));
    interface->prefix_length = std::popcount(mask.sin_addr.s_addr);
    break;
  }
  freeifaddrs(list);
}

absl::Status ReadLinkLayer(KernelInterface* interface) {
  const UniqueFd owned(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int fd = owned.get();
  if (!owned.valid()) {
    return absl::InternalError(
        absl::StrCat("cannot open a socket: ", std::strerror(errno)));
  }
  struct ifreq request {};
  std::memcpy(request.ifr_name, interface->name.data(),
              std::min(interface->name.size(), size_t{IFNAMSIZ - 1}));
  absl::Status status;
  if (ioctl(fd, SIOCGIFHWADDR, &request) == 0) {
    std::memcpy(interface->mac.bytes.data(), request.ifr_hwaddr.sa_data,
                interface->mac.bytes.size());
  } else {
    status = absl::InternalError(
        absl::StrCat("cannot read the hardware address of ", interface->name,
                     ": ", std::strerror(errno)));
  }
  if (ioctl(fd, SIOCGIFMTU, &request) == 0) {
    interface->mtu =
        static_cast<uint16_t>(std::clamp(request.ifr_mtu, 0, 65535));
  }
  return status;
}

}  // namespace

DefaultRoute FindIpv4DefaultRoute(const std::string& table,
                                  const std::string& name) {
  // Iface Destination Gateway Flags RefCnt Use Metric Mask ...; numbers in hex,
  // addresses as they lie in memory.
  std::istringstream lines(table);
  std::string line;
  DefaultRoute route;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string iface, destination, gateway, flags, skipped, mask;
    words >> iface >> destination >> gateway >> flags >> skipped >> skipped >>
        skipped >> mask;
    if (!words || iface != name || destination != "00000000" ||
        mask != "00000000") {
      continue;
    }
    route.exists = true;
    uint32_t raw = 0;
    std::istringstream(gateway) >> std::hex >> raw;
    if (raw != 0 && !route.gateway) route.gateway = Ipv4Address(ntohl(raw));
  }
  return route;
}

bool HasIpv6DefaultRoute(const std::string& table, const std::string& name) {
  // destination length source length next-hop metric refs use flags iface
  constexpr unsigned kReject = 0x200;  // RTF_REJECT: "unreachable", on lo
  std::istringstream lines(table);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string destination, length, skipped, flags_text, iface;
    words >> destination >> length;
    for (int i = 0; i < 6; ++i) words >> skipped;
    words >> flags_text >> iface;
    if (!words || iface != name || length != "00" ||
        destination.find_first_not_of('0') != std::string::npos) {
      continue;
    }
    unsigned flags = 0;
    std::istringstream(flags_text) >> std::hex >> flags;
    if ((flags & kReject) == 0) return true;
  }
  return false;
}

absl::StatusOr<KernelInterface> ReadKernelInterface(const std::string& name) {
  KernelInterface interface;
  interface.name = name;
  interface.index = static_cast<int>(if_nametoindex(name.c_str()));
  if (interface.index == 0) {
    return absl::NotFoundError(
        absl::StrCat("there is no network interface \"", name,
                     "\"; there are: ", KnownInterfaces()));
  }
  const absl::Status status = ReadLinkLayer(&interface);
  if (!status.ok()) return status;
  ReadIpv4(&interface);
  interface.link_bps = LinkBitsPerSecond(name);
  const DefaultRoute route =
      FindIpv4DefaultRoute(ReadFile("/proc/net/route"), name);
  interface.gateway = route.gateway;
  interface.has_default_route =
      route.exists ||
      HasIpv6DefaultRoute(ReadFile("/proc/net/ipv6_route"), name);
  struct stat netns {};
  if (stat("/proc/self/ns/net", &netns) == 0) interface.netns = netns.st_ino;
  return interface;
}

}  // namespace optireduce::nic
