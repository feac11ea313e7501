#include "control/daemon_options.h"

#include <unistd.h>

#include <charconv>

#include "absl/strings/str_cat.h"
#include "control/config_rules.h"
#include "control/session_table.h"
#include "dataplane/nic/address_text.h"

namespace optireduce::control {
namespace {

constexpr uint16_t kEthernetMtu = 1500;
// Beside sessions, for those who only ask.
constexpr size_t kSpareConnections = 64;

absl::StatusOr<uint16_t> ChooseMtu(
    const config::DaemonConfig& config,
    const std::optional<nic::KernelInterface>& interface) {
  const uint16_t device = interface ? interface->mtu : kEthernetMtu;
  if (config.mtu() == 0) return device;
  if (interface && config.mtu() > device) {
    return absl::InvalidArgumentError(
        absl::StrCat("mtu: ", config.mtu(), " is above that of ",
                     interface->name, ", which is ", device));
  }
  return static_cast<uint16_t>(config.mtu());
}

}  // namespace

ListenOptions MakeListenOptions(const config::DaemonConfig& config) {
  ListenOptions options;
  options.path = config.socket();
  const std::string& octal = config.socket_mode();
  std::from_chars(octal.data(), octal.data() + octal.size(), options.mode, 8);
  options.group = config.socket_group();
  return options;
}

ServerOptions MakeServerOptions(const config::DaemonConfig& config) {
  ServerOptions options;
  options.policy.own_uid = geteuid();
  options.policy.allowed_uids = {config.allowed_uid().begin(),
                                 config.allowed_uid().end()};
  options.policy.allowed_gids = {config.allowed_gid().begin(),
                                 config.allowed_gid().end()};
  options.max_connections = config.max_sessions() + kSpareConnections;
  return options;
}

engine::EngineOptions MakeEngineOptions(const config::DaemonConfig& config) {
  engine::EngineOptions options;
  options.core.rate_bps = config.rate_bps();
  options.core.burst_bytes = config.burst_bytes();
  options.dedicated_core = config.engine_core() != "shared";
  return options;
}

nic::EalConfig MakeEalConfig(const config::DaemonConfig& config,
                             const nic::PortSpec& spec) {
  nic::EalConfig eal;
  switch (HugePagesOf(config)) {
    case shm::HugePages::kAuto:
      eal.pages = nic::PageMode::kAuto;
      break;
    case shm::HugePages::kOn:
      eal.pages = nic::PageMode::kHuge;
      break;
    case shm::HugePages::kOff:
      eal.pages = nic::PageMode::kSmall;
      break;
  }
  eal.memory_mb = static_cast<int>(config.memory_mb());
  if (spec.kind == nic::PortKind::kPci) eal.pci_allow = {spec.device};
  return eal;
}

absl::StatusOr<nic::DpdkPortConfig> MakePortConfig(
    const config::DaemonConfig& config,
    const std::optional<nic::KernelInterface>& interface,
    const nic::DevicePlan& plan) {
  const auto mtu = ChooseMtu(config, interface);
  if (!mtu.ok()) return mtu.status();
  const auto own = ParseAddress(config.address());
  if (!own.ok()) return own.status();
  nic::DpdkPortConfig port;
  port.interface = interface;
  port.ip = own->ip;
  port.prefix_length = own->prefix_length;
  if (!config.gateway().empty()) {
    port.gateway = nic::ParseIpv4(config.gateway());
  }
  port.mtu = *mtu;
  port.restart_to_reconnect = plan.restart_to_reconnect;
  port.first_port = static_cast<uint16_t>(config.udp_port_first());
  port.num_ports = static_cast<uint16_t>(config.udp_port_count());
  for (const std::string& text : config.static_neighbour()) {
    const auto neighbour = ParseNeighbour(text);
    if (!neighbour.ok()) return neighbour.status();
    port.static_neighbours.push_back(*neighbour);
  }
  return port;
}

}  // namespace optireduce::control
