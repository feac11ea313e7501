// A bare client of the control socket, for tests.

#ifndef OPTIREDUCE_CONTROL_TESTING_CLIENT_H_
#define OPTIREDUCE_CONTROL_TESTING_CLIENT_H_

#include <optional>
#include <string>
#include <vector>

#include "control/event_loop.h"
#include "dataplane/base/unique_fd.h"
#include "proto/control.pb.h"

namespace optireduce::control::testing {

class Client {
 public:
  // Connects; aborts the test process if nobody listens.
  explicit Client(const std::string& path);

  static bool CanConnect(const std::string& path);

  int fd() const { return socket_.get(); }
  void Close() { socket_.Reset(); }
  // False if the server has closed the connection.
  bool SendBytes(const std::string& bytes);
  bool Send(const Request& request) {
    return SendBytes(request.SerializeAsString());
  }
  // The next frame if one is there now. Its descriptors are kept.
  std::optional<ServerFrame> Receive();
  std::vector<UniqueFd> TakeDescriptors() { return std::move(descriptors_); }
  // Whether the server has closed the connection and all frames are read.
  bool AtEnd();
  // Waits for a frame or the end.
  void WaitReadable();

 private:
  UniqueFd socket_;
  std::vector<UniqueFd> descriptors_;
};

// Runs until nothing is ready any more; timers in the future do not count.
void RunUntilIdle(EventLoop& loop);

}  // namespace optireduce::control::testing

#endif  // OPTIREDUCE_CONTROL_TESTING_CLIENT_H_
