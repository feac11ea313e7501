// Connection: one client of the control socket.

#ifndef OPTIREDUCE_CONTROL_CONNECTION_H_
#define OPTIREDUCE_CONTROL_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "control/authorization.h"
#include "dataplane/base/unique_fd.h"
#include "proto/control.pb.h"

namespace optireduce::control {

// What a client may leave unread before it is dropped.
inline constexpr size_t kMaxUnsentBytes = size_t{1} << 20;

// One thread. Nothing here blocks.
class Connection {
 public:
  Connection(uint64_t id, UniqueFd socket, const PeerCredentials& peer)
      : id_(id), socket_(std::move(socket)), peer_(peer) {}

  uint64_t id() const { return id_; }
  int fd() const { return socket_.get(); }
  const PeerCredentials& peer() const { return peer_; }

  // Sends now or, while the client does not read, later. `descriptors` go with
  // the frame and stay open until the connection is closed.
  void Send(const ServerFrame& frame, std::vector<int> descriptors = {});

  // Sends what is waiting, as far as the client reads.
  void Flush();
  bool has_unsent() const { return !unsent_.empty(); }

  // Says goodbye, if that can be sent at once. The server closes it then.
  void Drop(ErrorCode code, const std::string& reason);
  // Why it is to be closed; empty while it is not.
  const std::string& drop_reason() const { return drop_reason_; }

 private:
  struct Unsent {
    std::string bytes;
    std::vector<int> descriptors;
  };

  const uint64_t id_;
  const UniqueFd socket_;
  const PeerCredentials peer_;
  std::deque<Unsent> unsent_;
  size_t unsent_bytes_ = 0;
  std::string drop_reason_;
};

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_CONNECTION_H_
