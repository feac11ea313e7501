// One rank of a group: the trainer on its host, and the part of the control
// plane that joins and leaves for it.

#ifndef OPTIREDUCE_DATAPLANE_SIM_TRAINER_H_
#define OPTIREDUCE_DATAPLANE_SIM_TRAINER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dataplane/base/time.h"
#include "dataplane/core/engine_core.h"
#include "dataplane/sim/buffers.h"
#include "dataplane/sim/group_run.h"
#include "dataplane/sim/host_clock.h"
#include "dataplane/sim/outcome.h"
#include "dataplane/sim/trace.h"

namespace optireduce::sim {

// Acts only in its host's polls. Checks every report as it comes.
class Trainer {
 public:
  // Everything pointed to must outlive the trainer.
  Trainer(GroupRun* group, core::Rank rank, const HostClock* clock,
          bool keep_outputs, Trace* trace, Violations* violations);

  core::Rank rank() const { return rank_; }
  const GroupRun& group() const { return *group_; }
  // From AddGroup to RemoveGroup.
  std::optional<core::GroupId> id() const { return id_; }
  bool over() const { return phase_ == Phase::kOver; }

  // When there is something to do; Never: only after an event.
  Timestamp next_action() const;
  // Joins, submits, leaves: what is due now.
  void Act(core::EngineCore* core, Timestamp now);
  // True if others of the group may have something to do now.
  bool OnEvent(const core::Event& event, Timestamp now);

  // The process is gone (kill -9): its daemon cancels what is in flight.
  void Die(Timestamp now);
  // The daemon under it is gone: no report comes any more.
  void LoseDaemon(Timestamp now);

  // Once all is over: no buffer was touched after its report.
  void CheckBuffers(Timestamp now);
  const RankOutcome& outcome() const { return outcome_; }

 private:
  enum class Phase : uint8_t {
    kOutside,  // not joined yet
    kForming,
    kRunning,
    kDraining,  // all reported; waits until nothing is kept
    kLeaving,   // Leave was called
    kOver,
  };

  Timestamp DueAt(size_t op) const;

  void Join(core::EngineCore* core, Timestamp now);
  void SubmitDue(core::EngineCore* core, Timestamp now);
  bool SubmitNext(core::EngineCore* core, Timestamp now);
  void Retry(Timestamp now);
  Duration NextWait();
  void MaybeFinish(Timestamp now);
  void CheckDrained(core::EngineCore* core, Timestamp now);
  void StartLeaving(core::EngineCore* core, Timestamp now);
  void CheckRecords(const core::EngineCore& core, Timestamp now);
  void Remove(core::EngineCore* core, Timestamp now);

  // ---- steps
  bool IsStepOp(size_t op) const;
  void NoteUnclosed(size_t op);
  bool MustClose() const;
  bool AreUnclosedReported() const;
  void CloseSteps(core::EngineCore* core, Timestamp now);
  void UseOutput(size_t op, Timestamp now);

  void OnOpDone(const core::OpReport& report, Timestamp now);
  void OnBuffersFree(core::OpSeq seq, Timestamp now);
  void ReleaseBuffers(size_t op, Timestamp now);
  void CheckBuffersOf(size_t op, Timestamp now);
  void Complain(const std::string& what, Timestamp now);

  GroupRun* group_;
  core::Rank rank_;
  const HostClock* clock_;
  bool keep_outputs_;
  Trace* trace_;
  Violations* violations_;

  Phase phase_ = Phase::kOutside;
  std::optional<core::GroupId> id_;
  size_t memory_at_first_ = 0;
  Timestamp ready_at_ = Timestamp::Never();
  size_t next_op_ = 0;
  size_t in_flight_ = 0;
  // Places of bucketed ops of steps that are not closed, and from when on they
  // may be.
  std::vector<size_t> unclosed_;
  bool bucket_again_ = false;  // one of them is closed already
  Timestamp close_at_ = Timestamp::Never();
  bool stopped_ = false;  // submits nothing more
  bool dying_ = false;
  bool released_ = false;
  Timestamp retry_at_ = Timestamp::Never();
  Duration wait_;
  Timestamp refused_since_ = Timestamp::Never();  // for want of room
  Timestamp drain_by_ = Timestamp::Never();
  Timestamp complain_at_ = Timestamp::Never();       // unless it is released
  std::vector<std::unique_ptr<OpBuffers>> buffers_;  // by op
  // By op: its output from when the core had no use for it any more.
  std::vector<std::vector<uint8_t>> finished_;
  RankOutcome outcome_;
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_TRAINER_H_
