#include "dataplane/nic/address_text.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_format.h"

namespace optireduce::nic {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::optional<Ipv4Address> ParseIpv4(const std::string& text) {
  in_addr address{};
  if (text.find('\0') != std::string::npos ||
      inet_pton(AF_INET, text.c_str(), &address) != 1) {
    return std::nullopt;
  }
  return Ipv4Address(ntohl(address.s_addr));
}

std::string ToText(Ipv4Address address) {
  const uint32_t value = address.value();
  return absl::StrFormat("%d.%d.%d.%d", value >> 24, value >> 16 & 0xff,
                         value >> 8 & 0xff, value & 0xff);
}

std::optional<MacAddress> ParseMac(const std::string& text) {
  MacAddress mac;
  if (text.size() != 3 * mac.bytes.size() - 1) return std::nullopt;
  for (size_t i = 0; i < mac.bytes.size(); ++i) {
    const int high = HexDigit(text[3 * i]);
    const int low = HexDigit(text[3 * i + 1]);
    const bool last = i + 1 == mac.bytes.size();
    if (high < 0 || low < 0 || (!last && text[3 * i + 2] != ':')) {
      return std::nullopt;
    }
    mac.bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return mac;
}

std::string ToText(const MacAddress& mac) {
  const auto& b = mac.bytes;
  return absl::StrFormat("%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2],
                         b[3], b[4], b[5]);
}

}  // namespace optireduce::nic
