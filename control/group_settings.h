// What a group is run with: the client's wishes over the configuration's
// defaults, within the ranges that the configuration's schema gives.

#ifndef OPTIREDUCE_CONTROL_GROUP_SETTINGS_H_
#define OPTIREDUCE_CONTROL_GROUP_SETTINGS_H_

#include "absl/status/statusor.h"
#include "dataplane/core/config.h"
#include "proto/config.pb.h"
#include "proto/control.pb.h"

namespace optireduce::control {

// All fields set. `port_mtu` bounds the MTU. INVALID_ARGUMENT names the
// setting, what was asked for and what is accepted.
absl::StatusOr<GroupSettings> ResolveSettings(
    const config::DaemonConfig& defaults, uint32_t port_mtu,
    const GroupSettings& wishes);

// `settings` as resolved. Leaves out what only the formation brings: payload,
// tag, rank and members.
core::GroupConfig ToGroupConfig(const GroupSettings& settings);

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_GROUP_SETTINGS_H_
