// OpLedger: which client's submission each op in flight is, and which
// submissions still wait to become ops.
//
// A submission that the core cannot take yet (window or memory full) waits in
// its group's queue, in the client's order, and holds up no other group. The
// time it waits counts against its limits: they run from the client's submit. A
// step's close waits behind the ops that were submitted before it.
//
// Not thread-safe: the engine's.

#ifndef OPTIREDUCE_DATAPLANE_ENGINE_OP_LEDGER_H_
#define OPTIREDUCE_DATAPLANE_ENGINE_OP_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "dataplane/base/time.h"
#include "dataplane/core/engine_core.h"
#include "dataplane/engine/messages.h"
#include "dataplane/engine/session_port.h"

namespace optireduce::engine {

class OpLedger {
 public:
  explicit OpLedger(core::EngineCore* core) : core_(core) {}

  // False if there is such a session already.
  bool AttachSession(SessionId session, SessionPort* port);
  // Forgets the port and all of the session's submissions. Its groups stay, as
  // nobody's, until they are removed.
  void DetachSession(SessionId session);
  bool HasSession(SessionId session) const;

  void AddGroup(core::GroupId group, const core::GroupConfig& config,
                SessionId session, uint32_t handle);
  // The core has left the group.
  void LeaveGroup(core::GroupId group);
  // Cancels what is in flight or waits.
  void RemoveGroup(core::GroupId group);
  // Of the session's groups, attached or not.
  std::vector<core::GroupId> GroupsOf(SessionId session) const;
  bool HasGroup(core::GroupId group) const { return groups_.contains(group); }
  // Whose group it is (or was).
  SessionId OwnerOf(core::GroupId group) const;

  struct PullResult {
    size_t pulled = 0;
    bool more = false;  // the budget ended first
  };
  // Takes new submissions of all sessions, at most `budget` of each.
  PullResult Pull(size_t budget, Timestamp now);
  // Offers the waiting ones to the core again. True if some still wait.
  bool RetryWaiting(Timestamp now);
  // The op's end, to whoever submitted it.
  void OnOpDone(core::GroupId group, const core::OpReport& report,
                Duration wall_late, Duration decision_late);
  // After a batch of the above: wakes clients that wait.
  void Flush();
  // A session that has broken its rules and was not named before.
  std::optional<SessionId> TakeBroken();

  // For all sessions; PrepareToSleep() is false if one has something to pull.
  bool PrepareToSleep();
  void WokeUp();

  size_t InFlight(core::GroupId group) const;
  size_t Waiting(core::GroupId group) const;
  VerdictCounts Verdicts(core::GroupId group) const;

 private:
  struct Session {
    SessionPort* port = nullptr;
    bool broken = false;
  };
  struct InFlightOp {
    core::OpSeq op_seq;
    uint64_t cookie = 0;
  };
  struct WaitingSubmission {
    Submission submission;
    Timestamp since;
  };
  struct Group {
    SessionId owner;
    SessionPort* port = nullptr;  // null once the session is detached
    Duration hard_limit;
    std::vector<InFlightOp> in_flight;
    std::deque<WaitingSubmission> waiting;
    VerdictCounts verdicts;
  };

  void Accept(const Submission& submission, Timestamp now);
  // False if it has to wait.
  bool Offer(core::GroupId id, Group& group, const Submission& submission,
             Duration waited, Timestamp now);
  bool OfferOp(core::GroupId id, Group& group, const Submission& submission,
               Duration waited, Timestamp now);
  // What is no op is done at once.
  void Save(core::GroupId id, const StateSave& save, Completion* completion);
  void Load(core::GroupId id, const StateLoad& load, Completion* completion);
  static void Refuse(SessionPort* port, const Submission& submission,
                     core::SubmitResult why);

  core::EngineCore* const core_;
  std::map<SessionId, Session> sessions_;
  std::map<core::GroupId, Group> groups_;
  std::vector<SessionId> broken_;
};

}  // namespace optireduce::engine

#endif  // OPTIREDUCE_DATAPLANE_ENGINE_OP_LEDGER_H_
