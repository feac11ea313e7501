#include "control/testing/client.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdlib>

#include "control/frame_socket.h"

namespace optireduce::control::testing {
namespace {

UniqueFd Connect(const std::string& path) {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address),
              sizeof(address)) != 0) {
    fd.Reset();
  }
  return fd;
}

}  // namespace

Client::Client(const std::string& path) : socket_(Connect(path)) {
  if (!socket_.valid()) abort();
}

bool Client::CanConnect(const std::string& path) {
  return Connect(path).valid();
}

bool Client::SendBytes(const std::string& bytes) {
  return SendFrame(socket_.get(), bytes) == FrameResult::kFrame;
}

std::optional<ServerFrame> Client::Receive() {
  std::vector<char> buffer(kMaxFrameBytes);
  iovec data = {buffer.data(), buffer.size()};
  alignas(cmsghdr) uint8_t control[256] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t bytes =
      recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (bytes <= 0) return std::nullopt;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr;
       c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; at + CMSG_LEN(0) < c->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
      descriptors_.emplace_back(fd);
    }
  }
  ServerFrame frame;
  if (!frame.ParseFromArray(buffer.data(), static_cast<int>(bytes))) abort();
  return frame;
}

bool Client::AtEnd() {
  char byte;
  return recv(socket_.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

void Client::WaitReadable() {
  pollfd wait = {socket_.get(), POLLIN, 0};
  poll(&wait, 1, 20'000);
}

void RunUntilIdle(EventLoop& loop) {
  while (loop.RunOnce(Duration::Nanos(0))) {
  }
}

}  // namespace optireduce::control::testing
