// Dispatcher: brings requests of clients and notices of the engine to the
// tables that they are about.

#ifndef OPTIREDUCE_CONTROL_DISPATCHER_H_
#define OPTIREDUCE_CONTROL_DISPATCHER_H_

#include <cstdint>
#include <string>

#include "control/admin.h"
#include "control/config_loader.h"
#include "control/engine_link.h"
#include "control/group_table.h"
#include "control/outbox.h"
#include "control/server.h"
#include "control/session_table.h"
#include "control/worker.h"
#include "dataplane/engine/messages.h"

namespace optireduce::control {

// One thread.
class Dispatcher : public RequestHandler {
 public:
  // All outlive it.
  Dispatcher(const LoadedConfig& config, const DaemonFacts& facts,
             EngineLink* engine, Outbox* outbox, Worker* worker);

  void OnRequest(const Asker& asker, const PeerCredentials& peer,
                 const Request& request) override;
  void OnClosed(uint64_t connection, const std::string& reason) override;
  void OnNotice(const engine::Notice& notice);

  // The daemon stops: what is in flight may end, nothing new begins.
  void BeginDrain();
  // Nothing is in flight.
  bool Drained() const { return sessions_.Idle(); }
  // The engine holds nothing of any session or group.
  bool Empty() const {
    return sessions_.sessions().empty() && groups_.num_groups() == 0;
  }

  const SessionTable& sessions() const { return sessions_; }
  const GroupTable& groups() const { return groups_; }

 private:
  void OnGroupRequest(const Asker& asker, const Request& request);
  void OnAdminRequest(const Asker& asker, const Request& request);
  // `fill(snapshot, reply)` once there is a snapshot.
  template <class Fill>
  void AnswerWithSnapshot(const Asker& asker, Fill fill);
  void AnswerOps(const Asker& asker, const OpsRequest& request);

  const LoadedConfig config_;
  const DaemonFacts facts_;
  EngineLink* const engine_;
  Outbox* const outbox_;
  SessionTable sessions_;
  GroupTable groups_;
  bool draining_ = false;
};

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_DISPATCHER_H_
