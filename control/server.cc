#include "control/server.h"

#include <errno.h>
#include <glog/logging.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "control/frame_socket.h"

namespace optireduce::control {
namespace {

// Per wake-up of the loop; epoll comes back for the rest.
constexpr int kFramesPerWakeUp = 16;
constexpr int kAcceptsPerWakeUp = 16;
// Pause when there are no descriptors for new clients.
constexpr Duration kAcceptPause = Duration::Millis(100);
// Users whose refusal is logged, once each.
constexpr size_t kMaxRefusalsLogged = 100;

}  // namespace

Server::Server(const ServerOptions& options,
               std::unique_ptr<ListenSocket> socket, EventLoop* loop)
    : options_(options),
      socket_(std::move(socket)),
      loop_(loop),
      buffer_(kMaxFrameBytes) {}

void Server::Start(RequestHandler* handler) {
  handler_ = handler;
  loop_->Add(socket_->fd(), EPOLLIN, [this](uint32_t) { Accept(); });
}

Server::~Server() {
  StopAccepting();
  loop_->Cancel(close_doomed_);
  while (!clients_.empty()) Close(clients_.begin()->first);
}

void Server::StopAccepting() {
  loop_->Cancel(accept_again_);
  if (socket_ == nullptr) return;
  loop_->Remove(socket_->fd());
  socket_.reset();
}

Connection* Server::Find(uint64_t connection) {
  const auto it = clients_.find(connection);
  return it == clients_.end() ? nullptr : it->second.connection.get();
}

void Server::Send(uint64_t connection, const ServerFrame& frame,
                  std::vector<int> descriptors) {
  if (Connection* found = Find(connection)) {
    found->Send(frame, std::move(descriptors));
    Settle(connection);
  }
}

void Server::Drop(uint64_t connection, ErrorCode code,
                  const std::string& reason) {
  if (Connection* found = Find(connection)) {
    found->Drop(code, reason);
    Settle(connection);
  }
}

void Server::DropAll(ErrorCode code, const std::string& reason) {
  for (auto& [id, client] : clients_) {
    client.connection->Drop(code, reason);
    Settle(id);
  }
}

void Server::Accept() {
  for (int i = 0; i < kAcceptsPerWakeUp && socket_ != nullptr; ++i) {
    UniqueFd socket(
        accept4(socket_->fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) {
      Admit(std::move(socket));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno != EAGAIN) {
      // Out of descriptors or memory: clients wait in the backlog meanwhile.
      LOG_FIRST_N(WARNING, 10) << "accepting a client: " << strerror(errno);
      loop_->Change(socket_->fd(), 0);
      accept_again_ = loop_->At(Now() + kAcceptPause, [this] {
        if (socket_ != nullptr) loop_->Change(socket_->fd(), EPOLLIN);
      });
    }
    return;
  }
}

void Server::Admit(UniqueFd socket) {
  const auto peer = ReadPeerCredentials(socket.get());
  if (!peer.ok()) return;
  const uint64_t id = next_id_++;
  Client client;
  client.connection =
      std::make_unique<Connection>(id, std::move(socket), *peer);
  Connection& connection = *client.connection;
  const absl::Status allowed = Authorize(options_.policy, *peer);
  if (!allowed.ok()) {
    LogRefusal(*peer, std::string(allowed.message()));
    connection.Drop(ERROR_PERMISSION, std::string(allowed.message()));
    return;
  }
  if (clients_.size() >= options_.max_connections) {
    ++refused_;
    connection.Drop(ERROR_QUOTA,
                    absl::StrCat("there are ", clients_.size(),
                                 " connections already, the most allowed"));
    return;
  }
  if (!loop_->Add(connection.fd(), EPOLLIN,
                  [this, id](uint32_t events) { OnEvents(id, events); })) {
    return;
  }
  WatchProcess(id, peer->pid, &client);
  clients_[id] = std::move(client);
}

// A process that has forked leaves its end of the socket open when it dies.
// Nothing depends on the number naming the right process: whoever it names, the
// end of the connection is noticed as well.
void Server::WatchProcess(uint64_t id, pid_t pid, Client* client) {
  if (pid <= 0) return;  // of another container
  client->process =
      UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0u)));
  if (!client->process.valid()) return;
  const bool added =
      loop_->Add(client->process.get(), EPOLLIN, [this, id](uint32_t) {
        Drop(id, ERROR_UNKNOWN, "the client's process has ended");
      });
  if (!added) client->process.Reset();
}

void Server::LogRefusal(const PeerCredentials& peer,
                        const std::string& reason) {
  ++refused_;
  if (refusals_logged_.size() < kMaxRefusalsLogged &&
      refusals_logged_.insert({peer.uid, peer.gid}).second) {
    LOG(WARNING) << "a client was refused: " << reason;
  }
}

void Server::OnEvents(uint64_t id, uint32_t events) {
  Connection* connection = Find(id);
  if (connection == nullptr) return;
  if ((events & EPOLLOUT) != 0) connection->Flush();
  // A hang-up shows as an end when it is read, after the last frames.
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) ReadFrom(*connection);
  Settle(id);
}

void Server::ReadFrom(Connection& connection) {
  for (int i = 0; i < kFramesPerWakeUp && connection.drop_reason().empty();
       ++i) {
    size_t bytes = 0;
    switch (ReceiveFrame(connection.fd(), buffer_, &bytes)) {
      case FrameResult::kFrame:
        HandleFrame(connection, bytes);
        break;
      case FrameResult::kAgain:
        return;
      case FrameResult::kClosed:
        connection.Drop(ERROR_UNKNOWN, "the client has closed it");
        return;
      case FrameResult::kTooLong:
        connection.Drop(
            ERROR_BAD_REQUEST,
            absl::StrCat("a frame is longer than ", kMaxFrameBytes, " bytes"));
        return;
      case FrameResult::kDescriptors:
        connection.Drop(ERROR_BAD_REQUEST,
                        "a frame came with descriptors; none are expected");
        return;
    }
  }
}

void Server::HandleFrame(Connection& connection, size_t bytes) {
  Request request;
  if (!request.ParseFromArray(buffer_.data(), static_cast<int>(bytes))) {
    connection.Drop(ERROR_BAD_REQUEST, "a frame is no Request");
    return;
  }
  const Asker asker = {connection.id(), request.id()};
  if (request.body_case() == Request::BODY_NOT_SET) {
    // Well-formed, but of a newer protocol: the client may want to go on.
    Fail(asker, ERROR_BAD_REQUEST, "this daemon knows no such request");
    return;
  }
  handler_->OnRequest(asker, connection.peer(), request);
}

void Server::Settle(uint64_t id) {
  const auto it = clients_.find(id);
  if (it == clients_.end() || it->second.doomed) return;
  const Connection& connection = *it->second.connection;
  if (connection.drop_reason().empty()) {
    uint32_t wanted = EPOLLIN;
    if (connection.has_unsent()) wanted |= EPOLLOUT;
    loop_->Change(connection.fd(), wanted);
    return;
  }
  it->second.doomed = true;
  loop_->Remove(connection.fd());
  if (doomed_.empty()) {
    close_doomed_ = loop_->At(Timestamp(), [this] { CloseDoomed(); });
  }
  doomed_.push_back(id);
}

void Server::CloseDoomed() {
  for (const uint64_t id : std::exchange(doomed_, {})) Close(id);
}

void Server::Close(uint64_t id) {
  const auto it = clients_.find(id);
  const Client client = std::move(it->second);
  clients_.erase(it);
  if (!client.doomed) loop_->Remove(client.connection->fd());
  if (client.process.valid()) loop_->Remove(client.process.get());
  handler_->OnClosed(id, client.connection->drop_reason());
}

}  // namespace optireduce::control
