// What must hold between the keys of a configuration, and the forms of its
// texts: what the schema cannot say.

#ifndef OPTIREDUCE_CONTROL_CONFIG_RULES_H_
#define OPTIREDUCE_CONTROL_CONFIG_RULES_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataplane/base/time.h"
#include "dataplane/nic/address.h"
#include "proto/config.pb.h"

namespace optireduce::control {

// INVALID_ARGUMENT names the keys, what was found and what is expected.
absl::Status CheckRules(const config::DaemonConfig& config);
// The part of it about the group_ keys.
absl::Status CheckGroupRules(const config::DaemonConfig& config);

// The address of the data port and its subnet, from "10.0.0.1/24".
struct AddressAndPrefix {
  nic::Ipv4Address ip;
  int prefix_length = 0;
};
absl::StatusOr<AddressAndPrefix> ParseAddress(const std::string& text);

// From "10.0.0.2=02:00:00:00:00:02".
absl::StatusOr<std::pair<nic::Ipv4Address, nic::MacAddress>> ParseNeighbour(
    const std::string& text);

// The CPU that the engine gets; nothing for "shared".
absl::StatusOr<std::optional<int>> ParseEngineCore(const std::string& text);

// What a configured 0 stands for.
Duration DefaultStage1Bound(Duration result_bound);
Duration DefaultEarlyWait(Duration result_bound);

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_CONFIG_RULES_H_
