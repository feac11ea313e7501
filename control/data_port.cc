#include "control/data_port.h"

#include <glog/logging.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "control/config_rules.h"
#include "dataplane/nic/address_text.h"
#include "dataplane/nic/kernel_interface.h"
#include "dataplane/nic/port_spec.h"

namespace optireduce::control {
namespace {

// Writable for everybody who may run a daemon, and gone with the next boot.
std::string LockDirectory() {
  for (const char* directory : {"/run/lock", "/tmp"}) {
    if (access(directory, W_OK | X_OK) == 0) return directory;
  }
  return "/run/lock";
}

nic::PageMode PagesOf(const config::DaemonConfig& config) {
  if (config.hugepages() == "on") return nic::PageMode::kHuge;
  if (config.hugepages() == "off") return nic::PageMode::kSmall;
  return nic::PageMode::kAuto;
}

constexpr uint16_t kEthernetMtu = 1500;

// What the port is set to.
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

absl::StatusOr<std::unique_ptr<DataPort>> DataPort::Open(
    const config::DaemonConfig& config) {
  std::unique_ptr<DataPort> result(new DataPort);
  if (absl::Status status = result->Start(config); !status.ok()) return status;
  return result;
}

DataPort::~DataPort() {
  if (port_ != nullptr) {
    const absl::Status status = port_->Close();
    if (!status.ok()) LOG(WARNING) << status.message();
  }
  port_.reset();
  eal_.reset();
}

absl::Status DataPort::Start(const config::DaemonConfig& config) {
  const auto spec = nic::ParsePortSpec(config.port());
  if (!spec.ok()) return spec.status();
  std::optional<nic::KernelInterface> interface;
  if (spec->OverKernelInterface()) {
    auto read = nic::ReadKernelInterface(spec->device);
    if (!read.ok()) return read.status();
    interface = *std::move(read);
  }
  const auto plan = nic::PlanDevice(*spec, interface ? &*interface : nullptr, 0,
                                    config.force_default_route());
  if (!plan.ok()) return plan.status();
  if (!plan->lock_name.empty()) {
    auto lock = nic::DeviceLock::Take(LockDirectory(), plan->lock_name);
    if (!lock.ok()) return lock.status();
    lock_ = *std::move(lock);
  }
  nic::EalConfig eal_config;
  eal_config.pages = PagesOf(config);
  eal_config.memory_mb = static_cast<int>(config.memory_mb());
  if (spec->kind == nic::PortKind::kPci) {
    eal_config.pci_allow = {spec->device};
  }
  auto eal = nic::Eal::Start(eal_config);
  if (!eal.ok()) return eal.status();
  eal_ = *std::move(eal);
  notes_ = eal_->notes();
  absl::Status status = OpenPort(config, *plan, interface);
  if (status.ok() && interface) status = Quieten(config);
  return status;
}

absl::Status DataPort::OpenPort(
    const config::DaemonConfig& config, const nic::DevicePlan& plan,
    const std::optional<nic::KernelInterface>& interface) {
  const auto device = eal_->AddDevice(plan);
  if (!device.ok()) return device.status();
  const auto mtu = ChooseMtu(config, interface);
  if (!mtu.ok()) return mtu.status();
  const auto own = ParseAddress(config.address());
  if (!own.ok()) return own.status();

  nic::DpdkPortConfig port;
  port.port_id = *device;
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
  auto opened = nic::DpdkPort::Open(port);
  if (!opened.ok()) return opened.status();
  port_ = *std::move(opened);
  for (const std::string& note : port_->info().notes) notes_.push_back(note);
  return absl::OkStatus();
}

absl::Status DataPort::Quieten(const config::DaemonConfig& config) {
  auto quiet = nic::QuietKernel::Bind(
      port_->info().ip, static_cast<uint16_t>(config.udp_port_first()),
      static_cast<uint16_t>(config.udp_port_count()));
  if (!quiet.ok()) return quiet.status();
  if (quiet->active()) {
    notes_.push_back(
        "The kernel has the data address, too; its answers to our datagrams "
        "are suppressed.");
  }
  quiet_.emplace(*std::move(quiet));
  return absl::OkStatus();
}

}  // namespace optireduce::control
