// What the keys of the configuration mean to the parts of the daemon. Each
// function translates for one part; none does anything else.

#ifndef OPTIREDUCE_CONTROL_DAEMON_OPTIONS_H_
#define OPTIREDUCE_CONTROL_DAEMON_OPTIONS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "control/listen_socket.h"
#include "control/server.h"
#include "dataplane/engine/engine.h"
#include "dataplane/nic/dpdk_port.h"
#include "dataplane/nic/eal.h"
#include "dataplane/nic/kernel_interface.h"
#include "dataplane/nic/port_spec.h"
#include "proto/config.pb.h"

namespace optireduce::control {

ListenOptions MakeListenOptions(const config::DaemonConfig& config);
ServerOptions MakeServerOptions(const config::DaemonConfig& config);
engine::EngineOptions MakeEngineOptions(const config::DaemonConfig& config);
nic::EalConfig MakeEalConfig(const config::DaemonConfig& config,
                             const nic::PortSpec& spec);

// `interface` is what the port is over, if it is over one. INVALID_ARGUMENT for
// an MTU that it does not have. `port_id` is left out.
absl::StatusOr<nic::DpdkPortConfig> MakePortConfig(
    const config::DaemonConfig& config,
    const std::optional<nic::KernelInterface>& interface,
    const nic::DevicePlan& plan);

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_DAEMON_OPTIONS_H_
