// SessionTable: the client processes of this daemon.
//
// A session belongs to one connection. It ends in two steps: first the engine
// lets go of it, then its memory is unmapped; in between only this table knows
// it.

#ifndef OPTIREDUCE_CONTROL_SESSION_TABLE_H_
#define OPTIREDUCE_CONTROL_SESSION_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "control/authorization.h"
#include "control/engine_link.h"
#include "control/outbox.h"
#include "control/worker.h"
#include "dataplane/engine/messages.h"
#include "dataplane/engine/shm_session.h"
#include "dataplane/shm/bell.h"
#include "dataplane/shm/segment.h"
#include "proto/config.pb.h"
#include "proto/control.pb.h"
#include "proto/wire.h"

namespace optireduce::control {

// Of the control protocol and the shared-memory ABI together.
inline constexpr uint32_t kProtocolVersion = 4;
inline constexpr size_t kMaxClientNameBytes = 64;

struct SessionTableOptions {
  config::DaemonConfig config;
  std::string daemon_version;
  shm::MemoryLimits limits;
};

// What the key `hugepages` says.
shm::HugePages HugePagesOf(const config::DaemonConfig& config);

// One thread.
class SessionTable {
 public:
  enum class State {
    kCreating,  // memory is being reserved
    kMapping,   // the client maps it
    kSealing,
    kLive,
    kEnding,  // the engine lets go
  };
  struct Session {
    engine::SessionId id;
    State state = State::kCreating;
    uint64_t connection = 0;  // 0 once it is closed
    PeerCredentials peer;
    std::string client;
    uint64_t asked_bytes = 0;
    std::unique_ptr<shm::Segment> segment;
    shm::Bells bells;
    std::unique_ptr<engine::ShmSession> port;  // while the engine has it
  };

  // All outlive it.
  SessionTable(const SessionTableOptions& options, EngineLink* engine,
               Outbox* outbox, Worker* worker);
  // The engine has let go of everything by now, or is stopped.
  ~SessionTable() = default;

  void Hello(const Asker& asker, const PeerCredentials& peer,
             const control::Hello& hello);
  void Mapped(const Asker& asker);
  // The session of a connection, if it is live.
  std::optional<engine::SessionId> LiveSessionOf(uint64_t connection) const;
  bool HasSession(uint64_t connection) const;

  // The connection is closed, whoever did it. Returns the session that is about
  // to be detached: its groups are to be told first, then Detach() is due.
  std::optional<engine::SessionId> OnClosed(uint64_t connection);
  void Detach(engine::SessionId session, wire::LeaveReason reason);

  void OnSessionDetached(const engine::SessionDetached& notice);
  void OnSessionBroken(const engine::SessionBroken& notice);

  // New submissions of all sessions are refused from now on.
  void StopTaking();
  // Whether nothing is in flight.
  bool Idle() const;
  // What ends from now on ends because the daemon stops.
  void BeginShutdown() { shutting_down_ = true; }

  const std::map<engine::SessionId, Session>& sessions() const {
    return sessions_;
  }
  uint64_t bytes_in_use() const { return bytes_in_use_; }

 private:
  Session* FindByConnection(uint64_t connection);
  const Session* FindByConnection(uint64_t connection) const;
  // Nothing, or why not.
  std::optional<Error> CheckHello(const PeerCredentials& peer,
                                  const control::Hello& hello) const;
  std::optional<Error> CheckQuota(const PeerCredentials& peer,
                                  uint64_t bytes) const;
  void OnCreated(const Asker& asker, engine::SessionId id,
                 absl::StatusOr<std::unique_ptr<shm::Segment>> segment);
  void OnSealed(const Asker& asker, engine::SessionId id,
                const absl::Status& status);
  void SendHelloReply(const Asker& asker, const Session& session);
  void Attach(Session* session);
  // Frees everything, beside this thread.
  void Erase(engine::SessionId id);

  const SessionTableOptions options_;
  EngineLink* const engine_;
  Outbox* const outbox_;
  Worker* const worker_;
  std::map<engine::SessionId, Session> sessions_;
  uint32_t next_id_ = 1;
  uint64_t bytes_in_use_ = 0;
  bool shutting_down_ = false;
};

std::string Name(SessionTable::State state);

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_SESSION_TABLE_H_
