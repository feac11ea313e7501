#include "control/connection.h"

#include <sys/socket.h>

#include <utility>

#include "control/frame_socket.h"

namespace optireduce::control {

void Connection::Send(const ServerFrame& frame, std::vector<int> descriptors) {
  if (!drop_reason_.empty()) return;
  std::string bytes = frame.SerializeAsString();
  unsent_bytes_ += bytes.size();
  unsent_.push_back({std::move(bytes), std::move(descriptors)});
  Flush();
  if (unsent_bytes_ > kMaxUnsentBytes) {
    drop_reason_ = "it does not read what it asked for";
  }
}

void Connection::Flush() {
  while (!unsent_.empty() && drop_reason_.empty()) {
    const Unsent& first = unsent_.front();
    switch (SendFrame(socket_.get(), first.bytes, first.descriptors)) {
      case FrameResult::kFrame:
        unsent_bytes_ -= first.bytes.size();
        unsent_.pop_front();
        break;
      case FrameResult::kAgain:
        return;
      case FrameResult::kTooLong:
      case FrameResult::kDescriptors:
        drop_reason_ = "an answer does not fit a frame";
        return;
      case FrameResult::kClosed:
        drop_reason_ = "the client is gone";
        return;
    }
  }
}

void Connection::Drop(ErrorCode code, const std::string& reason) {
  if (!drop_reason_.empty()) return;
  // Behind frames that are waiting it would wait, too.
  if (unsent_.empty()) {
    ServerFrame frame;
    frame.mutable_goodbye()->set_code(code);
    frame.mutable_goodbye()->set_message(reason);
    SendFrame(socket_.get(), frame.SerializeAsString());
  }
  drop_reason_ = reason;
  // If the socket were closed with requests unread, the client would be told of
  // a reset instead of the goodbye. Nothing more arrives from here on, so this
  // ends.
  shutdown(socket_.get(), SHUT_RD);
  char byte;
  while (recv(socket_.get(), &byte, 1, MSG_DONTWAIT | MSG_TRUNC) > 0) {
  }
}

}  // namespace optireduce::control
