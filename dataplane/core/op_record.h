// How one op went at one rank, for people who ask why: when each stage opened
// and closed and for what reason, who was late, what was sent again, and what
// became of what lacked.
//
// It grows while the op goes on, and after the op's end as well: packets that
// come too late tell how much longer a wait for them would have been. Of fixed
// size, whatever the world. Times are those of the host's clock.

#ifndef OPTIREDUCE_DATAPLANE_CORE_OP_RECORD_H_
#define OPTIREDUCE_DATAPLANE_CORE_OP_RECORD_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/time.h"
#include "dataplane/core/coverage.h"
#include "dataplane/core/report.h"
#include "dataplane/core/types.h"

namespace optireduce::core {

// Stage 1 is what comes in for the own shard, stage 2 the results of all.
// Counts are of packets, this rank's own contributions and results included.
class StageRecord {
 public:
  // What of a rank lacked at the stage's close.
  struct Lack {
    Rank rank{};
    bool begun = false;  // it had begun the op
    uint32_t packets = 0;
    uint32_t late = 0;  // those of them that came too late
    Timestamp last_late;
  };

  // The first packet; Never() if there was none. The same for the close.
  Timestamp opened() const { return opened_; }
  Timestamp closed() const { return closed_; }
  // Once it is closed. kDeadline is the bound, or what ended the op before it.
  EndCause cause() const { return cause_; }
  uint64_t due() const { return due_; }
  uint64_t came() const { return came_; }          // in time
  uint64_t repaired() const { return repaired_; }  // only when sent again
  // After the close, or after the bound before anybody noticed that.
  uint64_t late() const { return late_; }
  // When all was here, the late ones too; Never() if it never was.
  Timestamp full() const {
    return closed_ != Timestamp::Never() && came_ + late_ >= due_
               ? last_
               : Timestamp::Never();
  }
  // How many ranks lacked something, and those that lacked most, worst first.
  size_t lacking_ranks() const { return lacking_ranks_; }
  std::span<const Lack> lacking() const {
    return std::span(lacking_).first(std::min(lacking_ranks_, kMost));
  }

  void OnPacket(Timestamp when) {
    if (opened_ == Timestamp::Never()) opened_ = when;
    last_ = std::max(last_, when);
  }
  void OnRepaired() { ++repaired_; }
  void OnClosed(EndCause cause, uint64_t due, uint64_t came, Timestamp when);
  // At the close. `late`: those of the packets that have come all the same.
  void OnLacking(Rank rank, bool begun, uint32_t packets, uint32_t late = 0);
  void OnLate(Rank rank, Timestamp when);

 private:
  static constexpr size_t kMost = 8;

  Timestamp opened_ = Timestamp::Never();
  Timestamp closed_ = Timestamp::Never();
  Timestamp last_;  // packet
  EndCause cause_{};
  uint64_t due_ = 0;
  uint64_t came_ = 0;
  uint64_t repaired_ = 0;
  uint64_t late_ = 0;
  size_t lacking_ranks_ = 0;
  std::array<Lack, kMost> lacking_{};
};

// The ranks that began an op last. In a large world many begin at about the
// same time; who holds the others up is among the last.
class Openers {
 public:
  struct Opener {
    Rank rank{};
    Timestamp at;
  };

  void Add(Rank rank, Timestamp at) { last_[count_++ % kMost] = {rank, at}; }
  size_t count() const { return count_; }  // of all
  size_t kept() const { return std::min(count_, kMost); }
  // 0: the last one; up to kept().
  const Opener& Last(size_t back) const {
    return last_[(count_ - 1 - back) % kMost];
  }

 private:
  static constexpr size_t kMost = 8;

  size_t count_ = 0;
  std::array<Opener, kMost> last_{};
};

// Of an op with residuals and debts, in elements.
struct OwedRecord {
  // Of the own contribution: not summed, so the residual takes it; and of which
  // nobody has said yet whether it was.
  uint64_t residual = 0;
  uint64_t held = 0;
  // Results that came after the op's end: still put in place; or too late for
  // that, and paid with a later op. And those that have not come yet.
  uint64_t in_place = 0;
  uint64_t debt = 0;
  uint64_t lacking = 0;
  // What nobody could or would answer for any more.
  uint64_t forgiven_contributions = 0;
  uint64_t forgiven_results = 0;
  // The step was thrown away: nothing of this is owed.
  bool skipped = false;

  bool operator==(const OwedRecord&) const = default;
};

struct OpHistory {
  // This host heard of it, by its own trainer or by another rank.
  Timestamp opened;
  Openers openers;
  std::array<StageRecord, 2> stages;
  OwedRecord owed;
};

struct OpRecord {
  OpSeq seq{};
  OpState state{};
  bool has_descriptor = false;
  OpDescriptor descriptor;
  OpReport report;  // whole once the op has ended; until then times only
  OpHistory history;

  bool is_submitted() const { return state == OpState::kActive || has_ended(); }
  // At the trainer.
  bool has_ended() const {
    return state == OpState::kReported || state == OpState::kClosed;
  }
  // When all that this rank was to get was here; Never() if it never was, or
  // the op has not ended.
  Timestamp FullArrival() const;
};

// Ops that a group remembers besides those that it still keeps.
inline constexpr size_t kPastRecords = 64;

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_OP_RECORD_H_
