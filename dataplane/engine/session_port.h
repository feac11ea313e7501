// SessionPort: the engine's side of one client's submission and completion
// rings.
//
// dataplane/shm implements it over shared memory, tests over plain queues. What
// a client wrote is untrusted; what comes out of Pull() is not: the
// implementation copies each descriptor once and validates the copy.
//
// All methods are called by the engine's thread alone, from AttachSession until
// the engine has acknowledged DetachSession; after that the engine holds
// nothing of the session, its buffers included. None of them blocks.

#ifndef OPTIREDUCE_DATAPLANE_ENGINE_SESSION_PORT_H_
#define OPTIREDUCE_DATAPLANE_ENGINE_SESSION_PORT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "dataplane/base/time.h"
#include "dataplane/core/engine_core.h"
#include "dataplane/core/report.h"
#include "dataplane/core/types.h"

namespace optireduce::engine {

// An op to be done.
struct OpRequest {
  core::OpDescriptor op;
  // Inside the session's own memory, of the sizes that core::InputBytes and
  // core::OutputBytes tell for the group's world. Valid until Complete(); the
  // output of an op whose step stays open until the step's close is completed,
  // or LeaveGroup().
  core::BufferView buffers;
};

// A step to be closed: of all its ops that were pulled before.
struct StepClose {
  uint64_t step = 0;
  core::StepOutcome outcome{};
};

// The group's residuals and debts are to be saved, or replaced. In the
// session's own memory, valid until Complete(). What is loaded the client may
// change at any time: it is to be copied before it is believed.
struct StateSave {
  std::span<uint8_t> out;
};
struct StateLoad {
  std::span<const uint8_t> state;
};

// What the ranks of the group have come to about a step, for telemetry: they do
// it among themselves (client/verdict.h), and it is as true as the client is.
struct StepVerdict {
  uint64_t step = 0;
  bool below_floor = false;
  bool non_finite = false;
  bool halt_advised = false;
  uint32_t bad_steps = 0;       // in a row, this one included
  uint32_t present_ppm = 0;     // the least share of a rank's results
  uint32_t divergence_ppb = 0;  // of the replicas
};

// What a client wants done.
struct Submission {
  core::GroupId group{};
  std::variant<OpRequest, StepClose, StateSave, StateLoad, StepVerdict> request;
  uint64_t cookie = 0;  // names it to the session; handed back as it is
};

enum class StateResult : uint8_t {
  kDone,
  kNotQuiet,  // ops are open, or owed something: later
  kNoRoom,    // what is to be saved has `state_bytes`
  // core::ImportResult.
  kDamaged,
  kVersion,
  kOtherGroup,
  kNoMemory,
};

// How it ended: one for each Submission.
struct Completion {
  uint64_t cookie = 0;
  core::GroupId group{};
  // kAccepted: `report` says how the op ended, or `closed_ops` of how many ops
  // the step was open. Never kWindowFull, kMemoryFull: the engine retries those
  // by itself.
  core::SubmitResult submit = core::SubmitResult::kAccepted;
  core::OpReport report;
  size_t closed_ops = 0;
  StateResult state = StateResult::kDone;
  size_t state_bytes = 0;  // saved or loaded

  // Time from the op's limit (the later of report.deadline and
  // report.submitted) to this completion, zero if it ended before. `wall_late`
  // is the plain difference; `decision_late` leaves out what passed while the
  // engine had no CPU.
  Duration wall_late;
  Duration decision_late;
};

enum class PullResult : uint8_t {
  kEmpty,   // nothing now
  kPulled,  // *submission is filled in
  // The client broke the ring's rules. Nothing is pulled from it any more; the
  // engine tells control, which ends the session.
  kBroken,
};

class SessionPort {
 public:
  virtual ~SessionPort() = default;

  // The groups that this session's ops may name, and their number of ranks.
  // `handle` is what the client calls the group: control has told it before the
  // core knew the group (PrepareGroupReply.group), and hands it to the engine
  // together with the group's configuration.
  virtual void AddGroup(core::GroupId group, uint16_t world,
                        uint32_t handle) = 0;
  // The group takes no more ops, and the core writes to no output of an op that
  // was completed before.
  virtual void LeaveGroup(core::GroupId group) = 0;
  virtual void RemoveGroup(core::GroupId group) = 0;

  // Takes the next submission, in the client's order. A descriptor that is
  // invalid by itself (bounds, group, dtype, alignment, overlap with buffers in
  // flight) is answered by the implementation and never seen here. Returns
  // kEmpty, too, while the completion ring has no room for the answer: at most
  // max_in_flight() submissions are ever pulled and not completed.
  virtual PullResult Pull(Submission* submission) = 0;
  virtual size_t max_in_flight() const = 0;

  // Never fails (see Pull). May come in any order.
  virtual void Complete(const Completion& completion) = 0;
  // After a batch of Complete: wakes the client if it sleeps.
  virtual void Flush() = 0;

  // Around the engine's sleep. From PrepareToSleep() to WokeUp() a submit makes
  // wakeup_fd() readable. PrepareToSleep() returns false if something is to be
  // pulled already; then the engine does not sleep.
  virtual bool PrepareToSleep() = 0;
  virtual void WokeUp() = 0;
  // An eventfd shared with the client. The engine polls it edge-triggered and
  // never reads it, so the client cannot block or spin the engine with it.
  virtual int wakeup_fd() const = 0;
};

}  // namespace optireduce::engine

#endif  // OPTIREDUCE_DATAPLANE_ENGINE_SESSION_PORT_H_
