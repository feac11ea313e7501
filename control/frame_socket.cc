#include "control/frame_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <cassert>

namespace optireduce::control {

FrameResult ReceiveFrame(int socket, std::span<uint8_t> buffer, size_t* bytes) {
  iovec data = {buffer.data(), buffer.size()};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  ssize_t received = 0;
  do {
    received = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0) {
    return errno == EAGAIN ? FrameResult::kAgain : FrameResult::kClosed;
  }
  if (received == 0) return FrameResult::kClosed;
  if ((message.msg_flags & MSG_TRUNC) != 0) return FrameResult::kTooLong;
  if ((message.msg_flags & MSG_CTRUNC) != 0) return FrameResult::kDescriptors;
  *bytes = static_cast<size_t>(received);
  return FrameResult::kFrame;
}

FrameResult SendFrame(int socket, const std::string& frame,
                      std::span<const int> descriptors) {
  assert(descriptors.size() <= kMaxFrameDescriptors);
  iovec data = {const_cast<char*>(frame.data()), frame.size()};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  alignas(cmsghdr)
      uint8_t control[CMSG_SPACE(kMaxFrameDescriptors * sizeof(int))] = {};
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return FrameResult::kFrame;
  if (errno == EAGAIN || errno == ENOBUFS) return FrameResult::kAgain;
  return errno == EMSGSIZE ? FrameResult::kTooLong : FrameResult::kClosed;
}

}  // namespace optireduce::control
