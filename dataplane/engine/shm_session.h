// ShmSession: a client's rings in shared memory, as the engine sees them, and
// which of its buffers are the engine's.

#ifndef OPTIREDUCE_DATAPLANE_ENGINE_SHM_SESSION_H_
#define OPTIREDUCE_DATAPLANE_ENGINE_SHM_SESSION_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/base/counters.h"
#include "dataplane/engine/op_trace.h"
#include "dataplane/engine/session_port.h"
#include "dataplane/engine/submission_check.h"
#include "dataplane/shm/buffer_ranges.h"
#include "dataplane/shm/segment.h"
#include "dataplane/shm/session_rings.h"
#include "proto/shm_abi.h"

namespace optireduce::engine {

enum class ShmSessionCounter : uint8_t { kSubmitted, kRefused, kCompleted };
inline constexpr size_t kNumShmSessionCounters = 3;

class ShmSession final : public SessionPort {
 public:
  using Counters = CounterArray<ShmSessionCounter, kNumShmSessionCounters>;

  // The segment is sealed; it and both descriptors (see shm::Bells) outlive
  // this.
  ShmSession(const shm::Segment& segment, int engine_event, int client_bell);

  void AddGroup(core::GroupId group, uint16_t world, uint32_t handle) override;
  void LeaveGroup(core::GroupId group) override;
  void RemoveGroup(core::GroupId group) override;
  PullResult Pull(Submission* submission) override;
  size_t max_in_flight() const override { return kSlots; }
  void Complete(const Completion& completion) override;
  void Flush() override;
  bool PrepareToSleep() override { return rings_.PrepareToSleep(); }
  void WokeUp() override { rings_.WokeUp(); }
  int wakeup_fd() const override { return engine_event_; }

  // ---- any thread ----

  const Counters& counters() const { return counters_; }
  // Ops that have ended, refused ones included.
  const OpTrace& trace() const { return trace_; }
  // From now on new ops are refused; what is in flight goes on, and steps are
  // still closed.
  void StopTaking() { stopped_.store(true, std::memory_order_relaxed); }
  // Whether nothing is in flight (or was a moment ago). Open steps do not
  // count.
  bool idle() const {
    // In this order: an op counts as ended only if it was counted before.
    const uint64_t ended = counters_.Get(ShmSessionCounter::kCompleted) +
                           counters_.Get(ShmSessionCounter::kRefused);
    return ended == counters_.Get(ShmSessionCounter::kSubmitted);
  }
  // OPTIREDUCE_SHM_REASON_*: why Pull returned kBroken; else NONE.
  uint32_t broken_reason() const {
    return broken_reason_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr size_t kSlots = OPTIREDUCE_SHM_SUBMISSION_SLOTS;
  // What is outstanding, and ops whose step is open.
  static constexpr size_t kEntries = kSlots + OPTIREDUCE_SHM_MAX_STEP_OPS;
  // A poll must not be held up by one client's nonsense.
  static constexpr int kRefusalsPerPull = 16;

  struct GroupEntry {
    core::GroupId id{};
    uint32_t handle = 0;
    uint16_t world = 0;
  };
  // Whom an answer goes to: as the client wrote it.
  struct Sender {
    uint64_t cookie = 0;
    uint32_t handle = 0;
    uint8_t kind = 0;
  };
  // A submission that the engine has, or an op whose step is open; its index is
  // the cookie that the engine sees.
  struct Entry {
    enum class State : uint8_t {
      kFree,
      kOp,       // in flight
      kOpen,     // an op that has ended, but whose output is still held
      kClose,    // a step close in flight
      kState,    // the group's state is saved or loaded
      kVerdict,  // a verdict is noted
    };
    State state = State::kFree;
    bool stays_open = false;  // an op that is kOpen after its end
    Sender sender;
    uint64_t step = 0;
    uint64_t number = 0;  // in the order of submission
    CheckedOp checked{};
  };

  const GroupEntry* FindGroup(uint32_t handle) const;
  // Checks everything; on success the buffers are in flight.
  Refusal Admit(const OptireduceShmSubmission& entry, Submission* submission);
  Refusal AdmitOp(const OptireduceShmSubmission& entry, const GroupEntry& group,
                  Submission* submission);
  Refusal AdmitClose(const OptireduceShmSubmission& entry,
                     const GroupEntry& group, Submission* submission);
  Refusal AdmitState(const OptireduceShmSubmission& entry,
                     const GroupEntry& group, Submission* submission);
  Refusal AdmitVerdict(const OptireduceShmSubmission& entry,
                       const GroupEntry& group, Submission* submission);
  Refusal CheckInFlight(const CheckedOp& checked) const;
  void HoldBuffers(const CheckedOp& checked);
  void FreeBuffers(const CheckedOp& checked);
  // An entry for what the engine gets; fills in the submission's cookie.
  Entry& Reserve(Entry::State state, const OptireduceShmSubmission& entry,
                 Submission* submission);
  void Release(Entry* entry);
  void CompleteOp(Entry* op, const Completion& completion);
  void CompleteClose(Entry* close, const Completion& completion);
  void CompleteState(Entry* state, const Completion& completion);
  void CompleteVerdict(Entry* verdict);
  void CompleteRefused(Entry* entry, const Completion& completion);
  // Ops of the group are not held after their end, if `which` says so.
  template <class Predicate>
  void EndSteps(uint32_t handle, Predicate which);
  void Answer(OptireduceShmCompletion answer, const Sender& to);
  void Refuse(const Refusal& refusal, const Sender& to);

  uint8_t* const base_;
  const shm::BufferRange data_;
  const int engine_event_;
  const int client_bell_;
  shm::SessionRings rings_;
  shm::BufferRanges buffers_;
  std::vector<GroupEntry> groups_;
  std::array<Entry, kEntries> entries_{};
  std::vector<uint32_t> free_;   // indices of entries_
  size_t num_staying_open_ = 0;  // entries that are, or may become, kOpen
  uint64_t next_number_ = 0;
  bool answered_ = false;  // since the last Flush
  Counters counters_;
  OpTrace trace_;
  std::atomic<bool> stopped_ = false;
  std::atomic<uint32_t> broken_reason_{OPTIREDUCE_SHM_REASON_NONE};
};

}  // namespace optireduce::engine

#endif  // OPTIREDUCE_DATAPLANE_ENGINE_SHM_SESSION_H_
