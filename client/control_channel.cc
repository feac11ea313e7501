#include "client/control_channel.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include <string>

#include "client/error.h"

namespace optireduce::client {
namespace {

constexpr size_t kMaxFrameBytes = 196608;  // proto/control.proto
// More than any frame brings, so that a wrong number is seen as such.
constexpr size_t kMaxDescriptors = 16;

bool IsWorthAnotherAttempt(int error) {
  return error == ENOENT || error == ECONNREFUSED || error == EAGAIN ||
         error == EINTR || error == ECONNRESET;
}

// Takes every descriptor of the message, so that none leaks.
void TakeDescriptors(msghdr* message, std::vector<UniqueFd>* fds) {
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr;
       part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      fds->push_back(UniqueFd(fd));
    }
  }
}

}  // namespace

or_status ControlChannel::Connect(const char* path, ControlChannel* channel) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (strlen(path) >= sizeof(address.sun_path)) {
    return Fail(OR_ERR_UNREACHABLE,
                "socket path %s is longer than the %zu bytes that the kernel "
                "allows",
                path, sizeof(address.sun_path) - 1);
  }
  memcpy(address.sun_path, path, strlen(path) + 1);
  UniqueFd fd(
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Fail(OR_ERR_SYSTEM, "socket: %s", strerror(errno));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0) {
    const int error = errno;
    if (IsWorthAnotherAttempt(error)) {
      fd.Reset();
      errno = error;
      return OR_PENDING;
    }
    return Fail(
        OR_ERR_UNREACHABLE, "daemon at %s: %s%s", path, strerror(error),
        error == EACCES ? " (is this user in the socket's group?)" : "");
  }
  channel->fd_ = std::move(fd);
  channel->buffer_.resize(kMaxFrameBytes);
  return OR_OK;
}

ControlChannel::Result ControlChannel::TrySend(
    const control::Request& request) {
  std::string bytes;
  if (!request.SerializeToString(&bytes)) return Result::kEnd;
  ssize_t sent = 0;
  do {
    sent = send(fd_.get(), bytes.data(), bytes.size(),
                MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return Result::kDone;
  return errno == EAGAIN || errno == ENOBUFS ? Result::kWouldBlock
                                             : Result::kEnd;
}

ControlChannel::Result ControlChannel::TryReceive(control::ServerFrame* frame,
                                                  std::vector<UniqueFd>* fds) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))];
  iovec part{buffer_.data(), buffer_.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t got = 0;
  do {
    got = recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) return Result::kWouldBlock;
  if (got <= 0) return Result::kEnd;
  fds->clear();
  TakeDescriptors(&message, fds);
  const bool whole = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  return whole && frame->ParseFromArray(buffer_.data(), static_cast<int>(got))
             ? Result::kDone
             : Result::kEnd;
}

bool ControlChannel::WaitFor(int16_t events, const Deadline& deadline) const {
  pollfd waited{fd_.get(), events, 0};
  for (;;) {
    const timespec left = ToTimespec(deadline.Left());
    const int ready = ppoll(&waited, 1, &left, nullptr);
    if (ready > 0) return true;
    if (ready == 0 && deadline.Passed()) return false;
  }
}

void ControlChannel::Shutdown() {
  if (fd_.valid()) shutdown(fd_.get(), SHUT_RDWR);
}

}  // namespace optireduce::client
