// Who may use the control socket.

#ifndef OPTIREDUCE_CONTROL_AUTHORIZATION_H_
#define OPTIREDUCE_CONTROL_AUTHORIZATION_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace optireduce::control {

// Taken by the kernel when the peer connected. The pid is for people to read:
// it is 0 for a process of another container, and may be somebody else's soon.
struct PeerCredentials {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;
};

absl::StatusOr<PeerCredentials> ReadPeerCredentials(int socket);

struct AccessPolicy {
  uid_t own_uid = 0;
  std::vector<uid_t> allowed_uids{};  // empty: all
  std::vector<gid_t> allowed_gids{};  // empty: all
};

// PERMISSION_DENIED says which rule it was. Root and the daemon's own user
// always may.
absl::Status Authorize(const AccessPolicy& policy, const PeerCredentials& peer);

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_AUTHORIZATION_H_
