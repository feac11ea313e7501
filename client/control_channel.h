// One connection to the daemon's control socket: whole frames in, whole frames
// out.

#ifndef OPTIREDUCE_CLIENT_CONTROL_CHANNEL_H_
#define OPTIREDUCE_CLIENT_CONTROL_CHANNEL_H_

#include <cstdint>
#include <vector>

#include "client/control.pb.h"
#include "client/deadline.h"
#include "client/optireduce.h"
#include "dataplane/base/unique_fd.h"

namespace optireduce::client {

// Not thread-safe. Raises no signal.
class ControlChannel {
 public:
  // A value without a connection; every use fails.
  ControlChannel() = default;

  // One attempt, which does not block. OR_PENDING: nobody listens there (yet);
  // errno says in what way. OR_ERR_UNREACHABLE: another attempt will not help.
  static or_status Connect(const char* path, ControlChannel* channel);

  enum class Result {
    kDone,
    kWouldBlock,
    kEnd,  // the connection is over, or its other end breaks the protocol
  };
  Result TrySend(const control::Request& request);
  // The next frame, and the descriptors that came with it.
  Result TryReceive(control::ServerFrame* frame, std::vector<UniqueFd>* fds);

  // Waits until TrySend (`events` POLLOUT) or TryReceive (POLLIN) has something
  // to do; false when the deadline came first.
  bool WaitFor(int16_t events, const Deadline& deadline) const;

  int fd() const { return fd_.get(); }
  // Ends the connection for good, also for forked copies of the descriptor. The
  // descriptor stays valid, as another thread may be waiting on it.
  void Shutdown();

 private:
  UniqueFd fd_;
  std::vector<char> buffer_;
};

}  // namespace optireduce::client

#endif  // OPTIREDUCE_CLIENT_CONTROL_CHANNEL_H_
