// ShmSession: a client's rings in shared memory, as the engine sees them.

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
  // From now on everything new is refused; what is in flight goes on.
  void StopTaking() { stopped_.store(true, std::memory_order_relaxed); }
  // Whether nothing is in flight (or was a moment ago).
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
  // A poll must not be held up by one client's nonsense.
  static constexpr int kRefusalsPerPull = 16;

  struct GroupEntry {
    core::GroupId id{};
    uint32_t handle = 0;
    uint16_t world = 0;
  };
  // One op that the engine has; its index is the cookie that the engine sees.
  struct InFlight {
    uint64_t cookie = 0;  // the client's
    uint32_t handle = 0;
    bool used = false;
    CheckedSubmission checked;
  };

  const GroupEntry* FindGroup(uint32_t handle) const;
  // Checks everything; on success the buffers are in flight.
  Refusal Admit(const OptireduceShmSubmission& entry, Submission* submission);
  Refusal CheckInFlight(const CheckedSubmission& checked) const;
  void HoldBuffers(const CheckedSubmission& checked);
  void FreeBuffers(const CheckedSubmission& checked);
  void Reserve(const OptireduceShmSubmission& entry,
               const CheckedSubmission& checked, core::GroupId group,
               Submission* submission);
  void Answer(OptireduceShmCompletion entry, uint64_t cookie, uint32_t handle);

  uint8_t* const base_;
  const shm::BufferRange data_;
  const int engine_event_;
  const int client_bell_;
  shm::SessionRings rings_;
  shm::BufferRanges buffers_;
  std::vector<GroupEntry> groups_;
  std::array<InFlight, kSlots> in_flight_{};
  std::vector<uint32_t> free_;  // indices of in_flight_
  bool answered_ = false;       // since the last Flush
  Counters counters_;
  OpTrace trace_;
  std::atomic<bool> stopped_ = false;
  std::atomic<uint32_t> broken_reason_{OPTIREDUCE_SHM_REASON_NONE};
};

}  // namespace optireduce::engine

#endif  // OPTIREDUCE_DATAPLANE_ENGINE_SHM_SESSION_H_
