// Server: accepts clients of the control socket, reads their requests, hands
// them on, and sends what is to be sent.
//
// One malformed frame, one slow reader, one client too many: each costs that
// connection only. The work per wake-up is bounded, so that no client can keep
// the others waiting.

#ifndef OPTIREDUCE_CONTROL_SERVER_H_
#define OPTIREDUCE_CONTROL_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/authorization.h"
#include "control/connection.h"
#include "control/event_loop.h"
#include "control/listen_socket.h"
#include "control/outbox.h"
#include "dataplane/base/unique_fd.h"
#include "proto/control.pb.h"

namespace optireduce::control {

class RequestHandler {
 public:
  virtual ~RequestHandler() = default;

  // Every request is to be answered once, now or later, through the Outbox.
  virtual void OnRequest(const Asker& asker, const PeerCredentials& peer,
                         const Request& request) = 0;
  // Nobody listens there any more.
  virtual void OnClosed(uint64_t connection, const std::string& reason) = 0;
};

struct ServerOptions {
  AccessPolicy policy{};
  size_t max_connections = 256;
};

// One thread.
class Server : public Outbox {
 public:
  // `loop` outlives it.
  Server(const ServerOptions& options, std::unique_ptr<ListenSocket> socket,
         EventLoop* loop);
  ~Server() override;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Lets clients in; those that came earlier have waited. `handler` outlives
  // the server. Called once.
  void Start(RequestHandler* handler);
  // From now on nobody is let in; those that are in stay.
  void StopAccepting();
  void Send(uint64_t connection, const ServerFrame& frame,
            std::vector<int> descriptors) override;
  void Drop(uint64_t connection, ErrorCode code,
            const std::string& reason) override;
  void DropAll(ErrorCode code, const std::string& reason);
  size_t num_connections() const { return clients_.size(); }
  uint64_t num_refused() const { return refused_; }

 private:
  struct Client {
    std::unique_ptr<Connection> connection;
    UniqueFd process;  // a pidfd, if the client's process can be named
    bool doomed = false;
  };

  void Accept();
  void Admit(UniqueFd socket);
  void WatchProcess(uint64_t id, pid_t pid, Client* client);
  void LogRefusal(const PeerCredentials& peer, const std::string& reason);
  void OnEvents(uint64_t id, uint32_t events);
  void ReadFrom(Connection& connection);
  void HandleFrame(Connection& connection, size_t bytes);
  Connection* Find(uint64_t connection);
  // Waits for what the connection needs; or has it closed, if it is to be. That
  // is done a little later, so that nobody's tables change under his hands.
  void Settle(uint64_t id);
  void CloseDoomed();
  void Close(uint64_t id);

  const ServerOptions options_;
  std::unique_ptr<ListenSocket> socket_;
  EventLoop* const loop_;
  RequestHandler* handler_ = nullptr;
  std::map<uint64_t, Client> clients_;
  std::vector<uint8_t> buffer_;
  uint64_t next_id_ = 1;
  std::vector<uint64_t> doomed_;
  EventLoop::TimerId close_doomed_ = 0;
  uint64_t refused_ = 0;
  std::set<std::pair<uid_t, gid_t>> refusals_logged_;
  EventLoop::TimerId accept_again_ = 0;
};

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_SERVER_H_
