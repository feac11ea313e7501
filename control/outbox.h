// Outbox: how answers that come later find their client.

#ifndef OPTIREDUCE_CONTROL_OUTBOX_H_
#define OPTIREDUCE_CONTROL_OUTBOX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace optireduce::control {

// A request that waits for its answer.
struct Asker {
  uint64_t connection = 0;
  uint64_t request = 0;
};

// Connections are named by number; one that is closed by now takes nothing and
// is no error.
class Outbox {
 public:
  virtual ~Outbox() = default;

  // `descriptors` stay open until the connection is closed.
  virtual void Send(uint64_t connection, const ServerFrame& frame,
                    std::vector<int> descriptors) = 0;
  // Says goodbye and closes, soon after this has returned.
  virtual void Drop(uint64_t connection, ErrorCode code,
                    const std::string& reason) = 0;

  void Reply(const Asker& asker, control::Reply reply,
             std::vector<int> descriptors = {}) {
    ServerFrame frame;
    *frame.mutable_reply() = std::move(reply);
    frame.mutable_reply()->set_id(asker.request);
    Send(asker.connection, frame, std::move(descriptors));
  }
  void Fail(const Asker& asker, Error error) {
    control::Reply reply;
    *reply.mutable_error() = std::move(error);
    Reply(asker, std::move(reply));
  }
  void Fail(const Asker& asker, ErrorCode code, const std::string& message) {
    Error error;
    error.set_code(code);
    error.set_message(message);
    Fail(asker, std::move(error));
  }
};

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_OUTBOX_H_
