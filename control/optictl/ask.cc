#include "control/optictl/ask.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/event_loop.h"
#include "control/frame_socket.h"
#include "dataplane/base/unique_fd.h"

namespace optireduce::control {
namespace {

absl::Status Unreachable(const std::string& path, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("no daemon at ", path, ": ", why));
}

// A full backlog makes connect() fail at once on a socket that does not block,
// and wait for ever on one that does: so it is tried again until the limit.
absl::StatusOr<UniqueFd> Connect(const std::string& path, Timestamp end) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Unreachable(path, "the path is too long for a socket");
  }
  memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Unreachable(path, strerror(errno));
  while (connect(fd.get(), reinterpret_cast<sockaddr*>(&address),
                 sizeof(address)) != 0) {
    if (errno != EAGAIN || Now() >= end) {
      return Unreachable(path, strerror(errno));
    }
    poll(nullptr, 0, 10);
  }
  return fd;
}

absl::StatusOr<ServerFrame> ReceiveOne(const std::string& path, int fd,
                                       Timestamp end) {
  std::vector<uint8_t> buffer(kMaxFrameBytes);
  while (true) {
    size_t bytes = 0;
    switch (ReceiveFrame(fd, buffer, &bytes)) {
      case FrameResult::kFrame: {
        ServerFrame frame;
        if (frame.ParseFromArray(buffer.data(), static_cast<int>(bytes))) {
          return frame;
        }
        return Unreachable(path, "what answers there is no optireduced");
      }
      case FrameResult::kAgain:
        break;
      default:
        return Unreachable(path, "the connection has ended");
    }
    const int64_t left = (end - Now()).nanos() / 1'000'000;
    if (left <= 0) return Unreachable(path, "it does not answer");
    pollfd wait = {fd, POLLIN, 0};
    poll(&wait, 1, static_cast<int>(std::min<int64_t>(left, 10'000)));
  }
}

absl::Status ToStatus(ErrorCode code, const std::string& message) {
  switch (code) {
    case ERROR_PERMISSION:
      return absl::PermissionDeniedError(message);
    case ERROR_SHUTTING_DOWN:
      return absl::UnavailableError(message);
    default:
      return absl::FailedPreconditionError(message);
  }
}

}  // namespace

absl::StatusOr<Reply> AskDaemon(const std::string& socket_path,
                                const Request& request, Duration limit) {
  const Timestamp end = Now() + limit;
  const auto fd = Connect(socket_path, end);
  if (!fd.ok()) return fd.status();
  // If it cannot be sent, a goodbye says why, or the end is read below.
  SendFrame(fd->get(), request.SerializeAsString());
  while (true) {
    auto frame = ReceiveOne(socket_path, fd->get(), end);
    if (!frame.ok()) return frame.status();
    if (frame->has_goodbye()) {
      return ToStatus(frame->goodbye().code(), frame->goodbye().message());
    }
    if (!frame->has_reply() || frame->reply().id() != request.id()) continue;
    if (frame->reply().has_error()) {
      return ToStatus(frame->reply().error().code(),
                      frame->reply().error().message());
    }
    return std::move(*frame->mutable_reply());
  }
}

}  // namespace optireduce::control
