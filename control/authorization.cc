#include "control/authorization.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace optireduce::control {
namespace {

template <class Id>
bool Allows(const std::vector<Id>& list, Id id) {
  return list.empty() || std::find(list.begin(), list.end(), id) != list.end();
}

}  // namespace

absl::StatusOr<PeerCredentials> ReadPeerCredentials(int socket) {
  ucred credentials = {};
  socklen_t length = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return absl::InternalError(
        absl::StrCat("reading a client's credentials: ", strerror(errno)));
  }
  return PeerCredentials{credentials.uid, credentials.gid, credentials.pid};
}

absl::Status Authorize(const AccessPolicy& policy,
                       const PeerCredentials& peer) {
  if (peer.uid == 0 || peer.uid == policy.own_uid) return absl::OkStatus();
  if (!Allows(policy.allowed_uids, peer.uid)) {
    return absl::PermissionDeniedError(
        absl::StrCat("user ", peer.uid, " is not among allowed_uid"));
  }
  if (!Allows(policy.allowed_gids, peer.gid)) {
    return absl::PermissionDeniedError(
        absl::StrCat("group ", peer.gid, " is not among allowed_gid"));
  }
  return absl::OkStatus();
}

}  // namespace optireduce::control
