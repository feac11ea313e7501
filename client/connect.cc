#include "client/connect.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <utility>
#include <vector>

#include "client/error.h"

namespace optireduce::client {
namespace {

constexpr char kDefaultSocket[] = "/run/optireduce/control.sock";
constexpr uint64_t kDefaultDataBytes = uint64_t{64} << 20;
constexpr uint32_t kProtocolVersion = 4;
constexpr size_t kMaxClientName = 64;
constexpr Duration kFirstRetry = Duration::Millis(10);
constexpr Duration kLastRetry = Duration::Millis(250);

std::string SocketPath(const or_connect_options& options) {
  if (options.socket_path != nullptr) return options.socket_path;
  const char* variable = getenv("OPTIREDUCE_SOCKET");
  return variable != nullptr && *variable != '\0' ? variable : kDefaultSocket;
}

// A daemon that goes away in the middle of this may come back.
or_status EndedEarly() {
  return Fail(OR_PENDING, "it closed the connection at once");
}

or_status FailWith(control::ErrorCode code, const std::string& message,
                   const std::string& path) {
  if (code == control::ERROR_SHUTTING_DOWN) {
    return Fail(OR_PENDING, "%s", message.c_str());
  }
  return Fail(StatusOf(code), "daemon at %s: %s", path.c_str(),
              message.c_str());
}

// One request and its reply. OR_PENDING: worth another connection.
or_status Exchange(Connection* connection, const control::Request& request,
                   const Deadline& deadline, control::Reply* reply,
                   std::vector<UniqueFd>* fds) {
  ControlChannel& channel = connection->control;
  if (channel.TrySend(request) != ControlChannel::Result::kDone) {
    return EndedEarly();
  }
  control::ServerFrame frame;
  for (;;) {
    const auto result = channel.TryReceive(&frame, fds);
    if (result == ControlChannel::Result::kEnd) return EndedEarly();
    if (result == ControlChannel::Result::kDone) break;
    if (!channel.WaitFor(POLLIN, deadline)) {
      return Fail(OR_ERR_UNREACHABLE,
                  "daemon at %s: it took the connection, but did not answer "
                  "within the limit; it is stopped or overloaded",
                  connection->path.c_str());
    }
  }
  if (frame.has_goodbye()) {
    return FailWith(frame.goodbye().code(), frame.goodbye().message(),
                    connection->path);
  }
  *reply = std::move(*frame.mutable_reply());
  if (reply->has_error()) {
    return FailWith(reply->error().code(), reply->error().message(),
                    connection->path);
  }
  return OR_OK;
}

or_status BadAnswer(const std::string& path, const char* what) {
  return Fail(OR_ERR_VERSION, "daemon at %s: %s; is it optireduced?",
              path.c_str(), what);
}

control::Request MakeHello(const or_connect_options& options) {
  control::Request request;
  request.set_id(1);
  control::Hello& hello = *request.mutable_hello();
  hello.set_min_version(kProtocolVersion);
  hello.set_max_version(kProtocolVersion);
  hello.set_client(options.client_name != nullptr
                       ? options.client_name
                       : program_invocation_short_name);
  hello.mutable_client()->resize(
      std::min(hello.client().size(), kMaxClientName));
  hello.set_data_bytes(options.segment_bytes != 0 ? options.segment_bytes
                                                  : kDefaultDataBytes);
  return request;
}

or_status Handshake(const or_connect_options& options, const Deadline& deadline,
                    Connection* connection) {
  control::Reply reply;
  std::vector<UniqueFd> fds;
  or_status status =
      Exchange(connection, MakeHello(options), deadline, &reply, &fds);
  if (status != OR_OK) return status;
  if (!reply.has_hello() || fds.size() != 3) {
    return BadAnswer(connection->path, "its answer is not one to Hello");
  }
  const control::HelloReply& hello = reply.hello();
  if (hello.version() != kProtocolVersion) {
    return Fail(OR_ERR_VERSION,
                "daemon at %s speaks protocol version %u, this liboptireduce "
                "%u: upgrade the older of the two",
                connection->path.c_str(), hello.version(), kProtocolVersion);
  }
  status = Segment::Map(fds[0], hello.segment_bytes(), std::move(fds[1]),
                        std::move(fds[2]), &connection->segment);
  if (status != OR_OK) return status;

  control::Request mapped;
  mapped.set_id(2);
  mapped.mutable_mapped();
  status = Exchange(connection, mapped, deadline, &reply, &fds);
  if (status != OR_OK) return status;
  return reply.has_mapped()
             ? OR_OK
             : BadAnswer(connection->path, "its answer is not one to Mapped");
}

}  // namespace

or_status StatusOf(control::ErrorCode code) {
  switch (code) {
    case control::ERROR_VERSION:
      return OR_ERR_VERSION;
    case control::ERROR_NO_MEMORY:
      return OR_ERR_NO_MEMORY;
    case control::ERROR_INVALID_SETTING:
      return OR_ERR_ARGUMENT;
    case control::ERROR_MEMBERS:
    case control::ERROR_FORMATION:
      return OR_ERR_FORMATION;
    case control::ERROR_NOT_FOUND:
      return OR_ERR_CLOSED;
    default:
      return OR_ERR_REFUSED;
  }
}

or_status Connect(const or_connect_options& options, Connection* connection) {
  const Deadline deadline = Deadline::In(options.limit_ns);
  const std::string path = SocketPath(options);
  BackOff back_off(kFirstRetry, kLastRetry);
  for (;;) {
    Connection attempt;
    attempt.path = path;
    or_status status = ControlChannel::Connect(path.c_str(), &attempt.control);
    if (status == OR_PENDING) Fail(OR_PENDING, "%s", strerror(errno));
    if (status == OR_OK) status = Handshake(options, deadline, &attempt);
    if (status == OR_OK) *connection = std::move(attempt);
    if (status != OR_PENDING) return status;
    if (deadline.Passed()) break;
    back_off.Wait(deadline);
  }
  return Fail(OR_ERR_UNREACHABLE,
              "no daemon at %s within %.3g s (%s): start optireduced, or set "
              "OPTIREDUCE_SOCKET to where it listens",
              path.c_str(), static_cast<double>(options.limit_ns) / 1e9,
              LastError());
}

}  // namespace optireduce::client
