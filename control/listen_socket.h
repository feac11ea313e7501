// The control socket's place in the file system: one daemon per path.

#ifndef OPTIREDUCE_CONTROL_LISTEN_SOCKET_H_
#define OPTIREDUCE_CONTROL_LISTEN_SOCKET_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "dataplane/base/unique_fd.h"

namespace optireduce::control {

struct ListenOptions {
  std::string path;
  mode_t mode = 0660;
  std::string group;  // name or number; empty: as it comes
};

// Listens until it is destroyed, and takes the socket's file away then.
class ListenSocket {
 public:
  // Takes the lock PATH.lock first, so that of daemons that start at once one
  // wins. Under it, a socket at PATH is replaced if nobody answers there;
  // anything else at PATH is left alone. Makes the last folder of PATH if it is
  // missing. FAILED_PRECONDITION says what is in the way.
  static absl::StatusOr<std::unique_ptr<ListenSocket>> Open(
      const ListenOptions& options);
  ~ListenSocket();
  ListenSocket(const ListenSocket&) = delete;
  ListenSocket& operator=(const ListenSocket&) = delete;

  int fd() const { return socket_.get(); }
  const std::string& path() const { return path_; }

 private:
  ListenSocket() = default;

  std::string path_;
  UniqueFd lock_;
  UniqueFd socket_;
  // Of the file made here: another daemon's would not be removed.
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_LISTEN_SOCKET_H_
