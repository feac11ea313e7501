#include "control/config_rules.h"

#include <charconv>

#include "absl/strings/str_cat.h"
#include "dataplane/nic/address_text.h"
#include "dataplane/nic/port_spec.h"

namespace optireduce::control {
namespace {

absl::Status Invalid(const std::string& text) {
  return absl::InvalidArgumentError(text);
}

std::optional<int> ParseInt(const std::string& text, int min, int max) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < min || value > max) {
    return std::nullopt;
  }
  return value;
}

// Prefixes every message of `status` with the key it is about.
absl::Status About(const char* key, const absl::Status& status) {
  if (status.ok()) return status;
  return Invalid(absl::StrCat(key, ": ", std::string(status.message())));
}

bool SameSubnet(const AddressAndPrefix& own, nic::Ipv4Address other) {
  if (own.prefix_length == 0) return true;
  const uint32_t mask = ~uint32_t{0} << (32 - own.prefix_length);
  return ((own.ip.value() ^ other.value()) & mask) == 0;
}

absl::Status CheckNetwork(const config::DaemonConfig& config) {
  if (config.port().empty()) {
    return Invalid("port is not set: say which Ethernet port to use");
  }
  if (config.address().empty()) {
    return Invalid("address is not set: say which address the port has");
  }
  absl::Status status =
      About("port", nic::ParsePortSpec(config.port()).status());
  if (!status.ok()) return status;
  const auto own = ParseAddress(config.address());
  if (!own.ok()) return About("address", own.status());
  if (!config.gateway().empty()) {
    const auto gateway = nic::ParseIpv4(config.gateway());
    if (!gateway || !SameSubnet(*own, *gateway) || *gateway == own->ip) {
      return Invalid(absl::StrCat("gateway: \"", config.gateway(),
                                  "\" is not another address of the subnet ",
                                  config.address()));
    }
  }
  for (const std::string& text : config.static_neighbour()) {
    const auto neighbour = ParseNeighbour(text);
    if (!neighbour.ok()) return About("static_neighbour", neighbour.status());
  }
  if (config.udp_port_first() + uint64_t{config.udp_port_count()} > 65536) {
    return Invalid(absl::StrCat(
        "udp_port_first + udp_port_count: ", config.udp_port_first(), " + ",
        config.udp_port_count(), " goes beyond port 65535"));
  }
  return absl::OkStatus();
}

absl::Status CheckOrder(const char* low_key, uint64_t low, const char* high_key,
                        uint64_t high) {
  if (low <= high) return absl::OkStatus();
  return Invalid(absl::StrCat(low_key, " (", low, ") must not be above ",
                              high_key, " (", high, ")"));
}

}  // namespace

absl::Status CheckRules(const config::DaemonConfig& config) {
  absl::Status status = CheckNetwork(config);
  if (status.ok()) {
    status =
        About("engine_core", ParseEngineCore(config.engine_core()).status());
  }
  if (status.ok() &&
      (config.socket().empty() || config.socket().front() != '/')) {
    status = Invalid(absl::StrCat("socket: \"", config.socket(),
                                  "\" is not an absolute path"));
  }
  if (status.ok()) {
    status = CheckOrder("max_segment_mb", config.max_segment_mb(),
                        "max_total_segment_mb", config.max_total_segment_mb());
  }
  if (status.ok()) status = CheckGroupRules(config);
  return status;
}

absl::Status CheckGroupRules(const config::DaemonConfig& config) {
  absl::Status status =
      CheckOrder("group_stage1_bound_us", config.group_stage1_bound_us(),
                 "group_result_bound_us", config.group_result_bound_us());
  if (status.ok()) {
    status = CheckOrder("group_result_bound_us", config.group_result_bound_us(),
                        "group_hard_limit_us", config.group_hard_limit_us());
  }
  if (status.ok()) {
    status =
        CheckOrder("group_heartbeat_us", config.group_heartbeat_us(),
                   "group_suspect_after_us", config.group_suspect_after_us());
  }
  if (status.ok()) {
    status =
        CheckOrder("group_suspect_after_us", config.group_suspect_after_us(),
                   "group_dead_after_us", config.group_dead_after_us());
  }
  if (status.ok()) {
    status =
        CheckOrder("group_memory_mb + group_owed_mb",
                   uint64_t{config.group_memory_mb()} + config.group_owed_mb(),
                   "max_total_group_mb", config.max_total_group_mb());
  }
  return status;
}

absl::StatusOr<AddressAndPrefix> ParseAddress(const std::string& text) {
  const size_t slash = text.find('/');
  const auto ip = nic::ParseIpv4(text.substr(0, slash));
  const std::optional<int> prefix =
      ParseInt(slash == std::string::npos ? "" : text.substr(slash + 1), 1, 31);
  if (!ip || !prefix) {
    return Invalid(absl::StrCat("\"", text,
                                "\" is not an address with its prefix, like "
                                "10.0.0.1/24"));
  }
  if (ip->value() >> 24 == 127) {
    return Invalid(absl::StrCat(
        "\"", text, "\" is a loopback address, which no other host reaches"));
  }
  if (ip->value() >> 24 == 0 || nic::IsGroupOrReserved(*ip)) {
    return Invalid(absl::StrCat("\"", text, "\" is not a host's address"));
  }
  const uint32_t host = ip->value() & (~uint32_t{0} >> *prefix);
  const bool ends_count = *prefix < 31;
  if (ends_count && (host == 0 || host == ~uint32_t{0} >> *prefix)) {
    return Invalid(absl::StrCat("\"", text,
                                "\" is the subnet's own or its broadcast "
                                "address, not a host's"));
  }
  return AddressAndPrefix{*ip, *prefix};
}

absl::StatusOr<std::pair<nic::Ipv4Address, nic::MacAddress>> ParseNeighbour(
    const std::string& text) {
  const size_t equals = text.find('=');
  if (equals != std::string::npos) {
    const auto ip = nic::ParseIpv4(text.substr(0, equals));
    const auto mac = nic::ParseMac(text.substr(equals + 1));
    if (ip && mac && !mac->IsGroup()) return std::make_pair(*ip, *mac);
  }
  return Invalid(
      absl::StrCat("\"", text, "\" is not like 10.0.0.2=02:00:00:00:00:02"));
}

absl::StatusOr<std::optional<int>> ParseEngineCore(const std::string& text) {
  if (text == "shared") return std::optional<int>();
  const std::optional<int> core = ParseInt(text, 0, 4095);
  if (!core) {
    return Invalid(
        absl::StrCat("\"", text, "\" is neither shared nor a CPU's number"));
  }
  return core;
}

Duration DefaultStage1Bound(Duration result_bound) {
  return result_bound / 10 * 6;
}

Duration DefaultEarlyWait(Duration result_bound) { return result_bound / 10; }

}  // namespace optireduce::control
