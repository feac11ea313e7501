#include "control/data_port.h"

#include <glog/logging.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "control/daemon_options.h"
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

}  // namespace

absl::StatusOr<std::unique_ptr<DataPort>> DataPort::Open(
    const config::DaemonConfig& config) {
  std::unique_ptr<DataPort> result(new DataPort);
  if (absl::Status status = result->Start(config); !status.ok()) return status;
  return result;
}

DataPort::~DataPort() {
  if (port_ == nullptr) return;
  const absl::Status status = port_->Close();
  if (!status.ok()) LOG(WARNING) << status.message();
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
  auto eal = nic::Eal::Start(MakeEalConfig(config, *spec));
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
  auto port_config = MakePortConfig(config, interface, plan);
  if (!port_config.ok()) return port_config.status();
  port_config->port_id = *device;
  auto opened = nic::DpdkPort::Open(*port_config);
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
