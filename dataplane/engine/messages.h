// What control asks of an engine, and what the engine tells control.

#ifndef OPTIREDUCE_DATAPLANE_ENGINE_MESSAGES_H_
#define OPTIREDUCE_DATAPLANE_ENGINE_MESSAGES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "dataplane/base/histogram.h"
#include "dataplane/base/strong_int.h"
#include "dataplane/base/time.h"
#include "dataplane/core/config.h"
#include "dataplane/core/engine_core.h"
#include "dataplane/core/op_record.h"
#include "dataplane/core/report.h"
#include "dataplane/core/types.h"
#include "dataplane/engine/session_port.h"
#include "dataplane/nic/address.h"
#include "dataplane/nic/packet_port.h"
#include "proto/wire.h"

namespace optireduce::engine {

// A client's session, as control numbers it. Never reused.
using SessionId = StrongInt<struct SessionIdTag, uint32_t>;

// ---- commands ---------------------------------------------------------------

// Answered by GroupAdded with the same `request`.
struct AddGroup {
  uint64_t request = 0;
  core::GroupConfig config;
  SessionId session;    // whose trainer is this rank; attached before
  uint32_t handle = 0;  // what the client calls it
};

// Takes no more ops; GroupRemoved follows when the peers need nothing more.
struct LeaveGroup {
  core::GroupId group;
  wire::LeaveReason reason{};
};

// Frees it at once: for groups that failed to form. GroupRemoved follows.
struct RemoveGroup {
  core::GroupId group;
};

// The port stays control's, and must live until SessionDetached.
struct AttachSession {
  SessionId session;
  SessionPort* port = nullptr;
};

// Leaves the session's groups (their GroupRemoved come later) and lets go of
// its rings and buffers. SessionDetached follows.
struct DetachSession {
  SessionId session;
  wire::LeaveReason reason{};
};

// Answered by Snapshot with the same `request`.
struct TakeSnapshot {
  uint64_t request = 0;
  bool with_ops = false;  // also how the groups' latest ops went
};

using Command = std::variant<AddGroup, LeaveGroup, RemoveGroup, AttachSession,
                             DetachSession, TakeSnapshot>;

// ---- notices ----------------------------------------------------------------

struct GroupAdded {
  uint64_t request = 0;
  SessionId session;
  absl::StatusOr<core::GroupId> group;
};

// Every event of the core but kOpDone and kGroupReleased.
struct GroupChanged {
  SessionId session;
  core::Event event;
};

// Nothing of the group is left.
struct GroupRemoved {
  SessionId session;
  core::GroupId group;
};

struct SessionDetached {
  SessionId session;
};

// The client broke the rules of its rings: control should end the session.
struct SessionBroken {
  SessionId session;
};

struct PortChanged {
  bool up = false;
};

// Of a group's steps: how many verdicts said what, and the last one.
struct VerdictCounts {
  uint64_t steps = 0;
  uint64_t bad = 0;  // below the floor, or not finite
  uint64_t below_floor = 0;
  uint64_t non_finite = 0;
  uint64_t halt_advised = 0;
  StepVerdict last;

  void Note(const StepVerdict& verdict) {
    ++steps;
    bad += verdict.below_floor || verdict.non_finite ? 1 : 0;
    below_floor += verdict.below_floor ? 1 : 0;
    non_finite += verdict.non_finite ? 1 : 0;
    halt_advised += verdict.halt_advised ? 1 : 0;
    last = verdict;
  }
};

struct GroupSnapshot {
  core::GroupId group;
  SessionId session;
  core::GroupStatus status;
  uint64_t ops_in_flight = 0;
  uint64_t ops_waiting = 0;  // for the window or for memory
  VerdictCounts verdicts;
  std::vector<core::OpRecord> ops;  // if asked for; the oldest first
};

struct Snapshot {
  uint64_t request = 0;
  Timestamp taken;
  // "engine_...", "core_..." and "port_...".
  std::vector<nic::NamedCounter> counters;
  std::vector<GroupSnapshot> groups;
  std::vector<nic::Ipv4Address> silent_next_hops;
  bool port_up = false;
  // Of the engine's thread since it started: what it ran, and what it waited
  // for a CPU although it had work.
  Duration cpu;
  Duration run_delay;
  // Nanoseconds, of ops that ended after their limit (Completion).
  Histogram wall_late;
  Histogram decision_late;
};

using Notice =
    std::variant<GroupAdded, GroupChanged, GroupRemoved, SessionDetached,
                 SessionBroken, PortChanged, std::unique_ptr<Snapshot>>;

}  // namespace optireduce::engine

#endif  // OPTIREDUCE_DATAPLANE_ENGINE_MESSAGES_H_
