// The daemon's data port, from the configuration to a device that sends and
// receives.

#ifndef OPTIREDUCE_CONTROL_DATA_PORT_H_
#define OPTIREDUCE_CONTROL_DATA_PORT_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataplane/nic/device_lock.h"
#include "dataplane/nic/dpdk_port.h"
#include "dataplane/nic/eal.h"
#include "dataplane/nic/quiet_kernel.h"
#include "proto/config.pb.h"

namespace optireduce::control {

// Owns everything beneath the port, and takes it down in the right order. One
// in a process: DPDK starts once.
class DataPort {
 public:
  // Locks the device before anything touches it. Errors are plain sentences.
  static absl::StatusOr<std::unique_ptr<DataPort>> Open(
      const config::DaemonConfig& config);
  ~DataPort();
  DataPort(const DataPort&) = delete;
  DataPort& operator=(const DataPort&) = delete;

  nic::PacketPort* port() const { return port_.get(); }
  // What was found and which fallbacks are in force, one sentence each.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  DataPort() = default;

  absl::Status Start(const config::DaemonConfig& config);
  absl::Status OpenPort(const config::DaemonConfig& config,
                        const nic::DevicePlan& plan,
                        const std::optional<nic::KernelInterface>& interface);
  absl::Status Quieten(const config::DaemonConfig& config);

  // In the order of their making; they go in the reverse order.
  std::optional<nic::DeviceLock> lock_;
  std::unique_ptr<nic::Eal> eal_;
  std::optional<nic::QuietKernel> quiet_;
  std::unique_ptr<nic::DpdkPort> port_;
  std::vector<std::string> notes_;
};

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_DATA_PORT_H_
