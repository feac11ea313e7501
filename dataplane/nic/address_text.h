// Addresses as text, for configuration and messages.

#ifndef OPTIREDUCE_DATAPLANE_NIC_ADDRESS_TEXT_H_
#define OPTIREDUCE_DATAPLANE_NIC_ADDRESS_TEXT_H_

#include <optional>
#include <string>

#include "dataplane/nic/address.h"

namespace optireduce::nic {

// "10.0.0.1"; nothing but four decimal numbers is taken.
std::optional<Ipv4Address> ParseIpv4(const std::string& text);
std::string ToText(Ipv4Address address);

// "02:99:00:00:00:01", in either case.
std::optional<MacAddress> ParseMac(const std::string& text);
std::string ToText(const MacAddress& address);

}  // namespace optireduce::nic

#endif  // OPTIREDUCE_DATAPLANE_NIC_ADDRESS_TEXT_H_
