// One question to a daemon, and its answer.

#ifndef OPTIREDUCE_CONTROL_OPTICTL_ASK_H_
#define OPTIREDUCE_CONTROL_OPTICTL_ASK_H_

#include <string>

#include "absl/status/statusor.h"
#include "dataplane/base/time.h"
#include "proto/control.pb.h"

namespace optireduce::control {

// UNAVAILABLE if no daemon is there or it does not answer within the limit;
// PERMISSION_DENIED, FAILED_PRECONDITION, ... if it says no. Messages name the
// socket.
absl::StatusOr<Reply> AskDaemon(const std::string& socket_path,
                                const Request& request, Duration limit);

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_OPTICTL_ASK_H_
