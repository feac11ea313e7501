#include "dataplane/sim/trainer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dataplane/sim/alloc_trap.h"
#include "dataplane/sim/record_check.h"
#include "dataplane/sim/report_check.h"
#include "dataplane/sim/result_check.h"

namespace optireduce::sim {

namespace {

using core::EventKind;
using core::SubmitResult;

// How often a refused submit is tried again, and how often it is looked whether
// anything is kept: the longer it takes the rarer.
constexpr Duration kFirstWait = Duration::Micros(50);
constexpr Duration kLongestWait = Duration::Millis(2);

// How long a rank that has all its reports may keep state once all have: some
// rounds of questions, and until a rank that is gone is known to be: a farewell
// can be lost.
Duration DrainTime(const GroupRun& group) {
  const core::GroupConfig& config = group.spec().config;
  const Duration rounds = config.feedback_interval * 60 +
                          config.nack_interval * 20 + Duration::Millis(50);
  return rounds + config.dead_after * (group.may_be_cut() ? 2 : 1);
}

}  // namespace

Trainer::Trainer(GroupRun* group, core::Rank rank, const HostClock* clock,
                 bool keep_outputs, Trace* trace, Violations* violations)
    : group_(group),
      rank_(rank),
      clock_(clock),
      keep_outputs_(keep_outputs),
      trace_(trace),
      violations_(violations),
      wait_(kFirstWait),
      buffers_(group->spec().ops.size()),
      finished_(group->spec().ops.size()) {
  outcome_.ops.resize(group->spec().ops.size());
}

Timestamp Trainer::DueAt(size_t op) const {
  const Timestamp start = group_->StartAt(ready_at_);
  const OpSpec& spec = group_->spec().ops[op];
  return spec.submit_after.empty() ? start
                                   : start + spec.submit_after[rank_.index()];
}

Timestamp Trainer::next_action() const {
  switch (phase_) {
    case Phase::kOutside: {
      const GroupSpec& spec = group_->spec();
      const Duration after =
          spec.join_after.empty() ? Duration() : spec.join_after[rank_.index()];
      return group_->opens_at() + after;
    }
    case Phase::kForming:
      return dying_ ? Timestamp() : Timestamp::Never();
    case Phase::kRunning:
      if (dying_) return Timestamp();
      if (MustClose()) {
        return AreUnclosedReported() ? close_at_ : Timestamp::Never();
      }
      if (stopped_ || next_op_ == outcome_.ops.size() ||
          in_flight_ >= group_->spec().max_in_flight) {
        return Timestamp::Never();
      }
      if (retry_at_ != Timestamp::Never()) return retry_at_;
      return DueAt(next_op_);
    case Phase::kDraining:
      return retry_at_;
    case Phase::kLeaving:
      return released_ ? Timestamp() : complain_at_;
    case Phase::kOver:
      return Timestamp::Never();
  }
  return Timestamp::Never();
}

void Trainer::Act(core::EngineCore* core, Timestamp now) {
  if (next_action() > now) return;
  switch (phase_) {
    case Phase::kOutside:
      Join(core, now);
      break;
    case Phase::kForming:
    case Phase::kRunning:
      if (dying_) {
        StartLeaving(core, now);
      } else {
        SubmitDue(core, now);
      }
      break;
    case Phase::kDraining:
      CheckDrained(core, now);
      break;
    case Phase::kLeaving:
      Remove(core, now);
      break;
    case Phase::kOver:
      break;
  }
}

void Trainer::Join(core::EngineCore* core, Timestamp now) {
  if (dying_) {
    phase_ = Phase::kOver;
    group_->OnRankFinished(now);
    group_->OnRankOver();
    return;
  }
  const auto id = core->AddGroup(group_->ConfigOf(rank_), clock_->ToHost(now));
  trace_->Note(now, "join", rank_.value());
  if (!id.ok()) {
    Complain(absl::StrCat("not joined: ", id.status().ToString()), now);
    phase_ = Phase::kOver;
    group_->OnRankFinished(now);
    group_->OnRankOver();
    return;
  }
  id_ = *id;
  memory_at_first_ = core->Status(*id_).memory_used;
  phase_ = Phase::kForming;
}

void Trainer::SubmitDue(core::EngineCore* core, Timestamp now) {
  retry_at_ = Timestamp::Never();
  while (phase_ == Phase::kRunning && next_action() <= now) {
    if (MustClose()) {
      CloseSteps(core, now);
    } else if (!SubmitNext(core, now)) {
      return;
    }
  }
}

// ---- steps

bool Trainer::IsStepOp(size_t op) const {
  const core::OpDescriptor& descriptor = group_->DescriptorOf(op, rank_);
  return descriptor.step != 0 &&
         Conservation::IsWatched(descriptor, group_->world());
}

// An op is closed by the next one of its bucket, whatever its step.
void Trainer::NoteUnclosed(size_t op) {
  const core::OpDescriptor& descriptor = group_->DescriptorOf(op, rank_);
  if (!Conservation::IsWatched(descriptor, group_->world())) return;
  for (const size_t other : unclosed_) {
    bucket_again_ |=
        group_->DescriptorOf(other, rank_).bucket == descriptor.bucket;
  }
  if (descriptor.step != 0) unclosed_.push_back(op);
}

// Before the next step begins, and at the end.
bool Trainer::MustClose() const {
  if (unclosed_.empty()) return false;
  if (stopped_ || next_op_ == outcome_.ops.size()) return true;
  const core::OpDescriptor& next = group_->DescriptorOf(next_op_, rank_);
  return next.mode == core::Mode::kFlush ||
         (IsStepOp(next_op_) &&
          next.step != group_->DescriptorOf(unclosed_.front(), rank_).step);
}

bool Trainer::AreUnclosedReported() const {
  return std::ranges::all_of(
      unclosed_, [this](size_t op) { return outcome_.ops[op].reported(); });
}

void Trainer::CloseSteps(core::EngineCore* core, Timestamp now) {
  const uint64_t step = group_->DescriptorOf(unclosed_.front(), rank_).step;
  size_t open = 0;
  bool sure = !bucket_again_;
  for (const size_t op : unclosed_) {
    sure = sure && group_->Op(op).agreed;
    if (outcome_.ops[op].report.status != core::OpStatus::kExpired) ++open;
  }
  size_t closed = 0;
  {
    const NoAllocation trap;
    closed = core->CloseStep(*id_, step, group_->OutcomeOf(step),
                             clock_->ToHost(now));
  }
  if (closed > open || (sure && closed != open)) {
    Complain(absl::StrCat("step ", step, " closes ", closed, " ops of ", open),
             now);
  }
  for (const size_t op : unclosed_) UseOutput(op, now);
  unclosed_.clear();
  bucket_again_ = false;
  close_at_ = Timestamp::Never();
  MaybeFinish(now);
}

// The trainer reads what it has got of an op, and that is that.
void Trainer::UseOutput(size_t op, Timestamp now) {
  const core::OpDescriptor& descriptor = group_->DescriptorOf(op, rank_);
  const OpOutcome& outcome = outcome_.ops[op];
  OpBuffers& buffers = *buffers_[op];
  const auto check = [&](const std::string& wrong) {
    if (wrong.empty()) return;
    Complain(absl::StrCat("place ", op, ": ", wrong), now);
  };
  check(buffers.CheckGuards());
  if (!outcome.report.holds_buffers &&
      !std::ranges::equal(finished_[op], buffers.output())) {
    check("its output has changed after the core had no use for it");
  }
  std::vector<uint8_t>().swap(finished_[op]);
  const bool has_output = outcome.report.status == core::OpStatus::kComplete ||
                          outcome.report.status == core::OpStatus::kPartial;
  Conservation& conservation = group_->conservation();
  if (!group_->Op(op).agreed) {
    conservation.Ignore(descriptor.bucket);
  } else if (outcome.report.status == core::OpStatus::kExpired) {
    // Never took part.
  } else if (group_->OutcomeOf(descriptor.step) ==
             core::StepOutcome::kSkipped) {
    conservation.OnSkipped(descriptor, rank_);
  } else {
    conservation.OnUsed(
        descriptor, rank_, group_->Op(op).inputs[rank_.index()],
        has_output ? buffers.output() : std::span<const uint8_t>());
  }
  buffers.Overwrite();
}

void Trainer::OnBuffersFree(core::OpSeq seq, Timestamp now) {
  if (phase_ == Phase::kLeaving) return;
  const OpRun* const run = group_->Find(seq.value());
  const size_t op = run == nullptr ? 0 : group_->PlaceOf(seq.value());
  if (run == nullptr || !outcome_.ops[op].reported()) {
    Complain("buffers freed of an op that is not reported", now);
    return;
  }
  if (std::ranges::count(unclosed_, op) == 0) return;  // closed by the trainer
  outcome_.ops[op].report.holds_buffers = false;
  const auto output = buffers_[op]->output();
  finished_[op].assign(output.begin(), output.end());
}

bool Trainer::SubmitNext(core::EngineCore* core, Timestamp now) {
  const size_t op = next_op_;
  const core::OpDescriptor& descriptor = group_->DescriptorOf(op, rank_);
  const OpSpec& spec = group_->spec().ops[op];
  std::unique_ptr<OpBuffers>& buffers = buffers_[op];
  if (buffers == nullptr) {
    buffers = std::make_unique<OpBuffers>(
        group_->Op(op).inputs[rank_.index()],
        core::OutputBytes(descriptor, group_->world()), spec.in_place,
        spec.misalignment);
  }
  core::OpSeq seq;
  SubmitResult result;
  {
    const NoAllocation trap;
    result = core->Submit(*id_, descriptor, buffers->view(),
                          clock_->ToHost(now), &seq);
  }
  OpOutcome& outcome = outcome_.ops[op];
  if (outcome.submit != result) {
    trace_->Submit(now, static_cast<uint32_t>(group_->index()), rank_, seq,
                   result);
  }
  outcome.submit = result;
  switch (result) {
    case SubmitResult::kAccepted:
      outcome.submitted_at = now;
      refused_since_ = Timestamp::Never();
      wait_ = kFirstWait;
      ++next_op_;
      ++in_flight_;
      group_->OnSubmitted(op, rank_, seq, now);
      NoteUnclosed(op);
      return true;
    case SubmitResult::kWindowFull:
    case SubmitResult::kMemoryFull:
      Retry(now);
      return false;
    case SubmitResult::kPeerLost:
    case SubmitResult::kLeft:
      stopped_ = true;
      MaybeFinish(now);
      return false;
    default:
      // Final for this op alone; all ranks get the same answer.
      ++next_op_;
      MaybeFinish(now);
      return true;
  }
}

// There is room again at the latest when the ops in front have run into their
// hard limits; those that wait for a quorum, when all trainers are there.
void Trainer::Retry(Timestamp now) {
  refused_since_ = std::min(refused_since_, now);
  const Timestamp all_there =
      group_->StartAt(ready_at_) + group_->last_submit_after();
  if (now > std::max(refused_since_, all_there) +
                group_->spec().config.hard_limit * 2 +
                group_->longest_stall()) {
    Complain("has been refused for want of room for two hard limits", now);
    stopped_ = true;
    MaybeFinish(now);
    return;
  }
  retry_at_ = now + NextWait();
}

Duration Trainer::NextWait() {
  const Duration wait = wait_;
  wait_ = std::min(wait_ * 2, kLongestWait);
  return wait;
}

bool Trainer::OnEvent(const core::Event& event, Timestamp now) {
  bool wake_others = false;
  trace_->Event(now, static_cast<uint32_t>(group_->index()), rank_, event);
  switch (event.kind) {
    case EventKind::kGroupReady:
      outcome_.ready = true;
      ready_at_ = now;
      wake_others = group_->OnReady(now);
      if (phase_ == Phase::kForming) phase_ = Phase::kRunning;
      MaybeFinish(now);
      break;
    case EventKind::kGroupFailed:
      outcome_.failed = true;
      if (!group_->may_be_cut() && !group_->anyone_left()) {
        Complain("group not formed", now);
      }
      stopped_ = true;
      if (phase_ == Phase::kForming) phase_ = Phase::kRunning;
      MaybeFinish(now);
      break;
    case EventKind::kOpDone:
      OnOpDone(event.report, now);
      break;
    case EventKind::kPeerSuspect:
    case EventKind::kPeerHealthy:
      break;
    case EventKind::kContributionsLost:
      group_->OnContributionsLost(rank_, event.report.op_seq);
      break;
    case EventKind::kBuffersFree:
      OnBuffersFree(event.report.op_seq, now);
      break;
    case EventKind::kPeerLost:
      outcome_.peer_lost = true;
      // If not all ranks were ready before, they never will be.
      if (group_->StartAt(ready_at_) == Timestamp::Never()) stopped_ = true;
      MaybeFinish(now);
      break;
    case EventKind::kGroupReleased:
      outcome_.released = released_ = true;
      if (phase_ != Phase::kLeaving) Complain("released, but not left", now);
      break;
  }
  return wake_others;
}

void Trainer::OnOpDone(const core::OpReport& report, Timestamp now) {
  OpRun* const run = group_->Find(report.op_seq.value());
  if (run == nullptr) {
    Complain(absl::StrCat("report of op ", report.op_seq.value(),
                          " that was never submitted"),
             now);
    return;
  }
  const size_t op = group_->PlaceOf(report.op_seq.value());
  OpOutcome& outcome = outcome_.ops[op];
  if (outcome.submit != SubmitResult::kAccepted || outcome.reported()) {
    Complain(absl::StrCat("op ", report.op_seq.value(),
                          ": reported twice, or not submitted here"),
             now);
    return;
  }
  outcome.reported_at = now;
  outcome.report = report;
  --in_flight_;

  const core::OpDescriptor& descriptor = group_->DescriptorOf(op, rank_);
  const ReportContext context{
      group_->spec().config, descriptor, *clock_,
      outcome.submitted_at,  now,        phase_ == Phase::kLeaving};
  const auto check = [&](const std::string& wrong) {
    if (wrong.empty()) return;
    Complain(absl::StrCat("op ", report.op_seq.value(), ": ", wrong), now);
  };
  check(CheckStatus(context, report, *group_, *run));
  if (report.cause == core::EndCause::kError) run->failed_somewhere = true;
  if (phase_ == Phase::kLeaving) return;  // cancelled: the memory is ours
  check(CheckTimes(context, report, *group_, *run));
  check(CheckQuestions(context, report, rank_, run));
  OpBuffers& buffers = *buffers_[op];
  const bool has_result = report.status == core::OpStatus::kComplete ||
                          report.status == core::OpStatus::kPartial;
  if (has_result && run->agreed) {
    check(CheckResult(descriptor, group_->spec().config, rank_,
                      buffers.output(), report, run));
  }
  check(buffers.CheckGuards());
  if (keep_outputs_) {
    outcome.output.assign(buffers.output().begin(), buffers.output().end());
  }
  if (IsStepOp(op)) {
    if (!report.holds_buffers) {
      finished_[op].assign(buffers.output().begin(), buffers.output().end());
    }
    close_at_ = now + group_->spec().close_after;
    return;
  }
  if (Conservation::IsWatched(descriptor, group_->world())) {
    finished_[op].assign(buffers.output().begin(), buffers.output().end());
    UseOutput(op, now);
  }
  buffers.Overwrite();
  if (!group_->spec().keep_buffers) ReleaseBuffers(op, now);
  MaybeFinish(now);
}

// Those of the op before the one that was reported just now.
void Trainer::ReleaseBuffers(size_t op, Timestamp now) {
  group_->OnReported(op);
  if (op == 0 || !outcome_.ops[op - 1].reported()) return;
  CheckBuffersOf(op - 1, now);
  buffers_[op - 1].reset();
}

void Trainer::MaybeFinish(Timestamp now) {
  if (phase_ != Phase::kRunning || in_flight_ > 0) return;
  if (!unclosed_.empty()) return;
  if (next_op_ < outcome_.ops.size() && !stopped_) return;
  group_->OnRankFinished(now);
  phase_ = Phase::kDraining;
  retry_at_ = now;
  wait_ = kFirstWait;
}

void Trainer::CheckDrained(core::EngineCore* core, Timestamp now) {
  const bool wait = group_->spec().ending == Ending::kDrain &&
                    !outcome_.peer_lost && !outcome_.failed && !dying_;
  if (!wait) {
    StartLeaving(core, now);
    return;
  }
  const core::GroupStatus status = core->Status(*id_);
  if (status.ops_kept == 0) {
    if (status.memory_used != memory_at_first_) {
      Complain(absl::StrCat("no op is kept, but ", status.memory_used,
                            " bytes, not ", memory_at_first_),
               now);
    }
    if (std::string wrong =
            group_->conservation().OnSettled(rank_, *id_, *core);
        !wrong.empty()) {
      Complain(wrong, now);
    }
    StartLeaving(core, now);
    return;
  }
  const Timestamp settled =
      std::max(group_->all_finished(), group_->calm_from());
  if (now > settled + DrainTime(*group_) + group_->longest_stall()) {
    Complain(absl::StrCat("all is reported, and still ", status.ops_kept,
                          " ops are kept"),
             now);
    StartLeaving(core, now);
    return;
  }
  retry_at_ = now + NextWait();
}

// What the group remembers of its ops.
void Trainer::CheckRecords(const core::EngineCore& core, Timestamp now) {
  for (const core::OpRecord& record : core.Records(*id_)) {
    std::string wrong = CheckRecord(record);
    if (group_->Find(record.seq.value()) != nullptr) {
      const OpOutcome& outcome =
          outcome_.ops[group_->PlaceOf(record.seq.value())];
      if (wrong.empty() && outcome.reported()) {
        wrong = CheckRecordOf(record, outcome.report);
      }
    }
    if (wrong.empty()) continue;
    Complain(absl::StrCat("record of op ", record.seq.value(), ": ", wrong),
             now);
  }
}

void Trainer::StartLeaving(core::EngineCore* core, Timestamp now) {
  CheckRecords(*core, now);
  if (phase_ != Phase::kDraining) group_->OnRankFinished(now);
  group_->OnRankLeaves(next_op_);
  phase_ = Phase::kLeaving;
  complain_at_ = clock_->LastPoll(now + group_->spec().config.hard_limit) +
                 Duration::Nanos(1);
  trace_->Note(now, "leave", rank_.value());
  {
    const NoAllocation trap;
    core->Leave(
        *id_,
        dying_ ? wire::LeaveReason::kClientDied : wire::LeaveReason::kLeft,
        clock_->ToHost(now));
  }
  for (const auto& buffers : buffers_) {
    if (buffers != nullptr) buffers->Overwrite();
  }
}

void Trainer::Remove(core::EngineCore* core, Timestamp now) {
  if (!released_) Complain("left, and not released by the hard limit", now);
  for (size_t op = 0; op < outcome_.ops.size(); ++op) {
    const OpOutcome& outcome = outcome_.ops[op];
    if (outcome.submit == SubmitResult::kAccepted && !outcome.reported()) {
      Complain(absl::StrCat("place ", op, " was never reported"), now);
    }
  }
  const bool refused =
      std::ranges::any_of(outcome_.ops, [](const OpOutcome& outcome) {
        return outcome.submit == SubmitResult::kPeerLost;
      });
  if (refused && !outcome_.peer_lost) {
    Complain("refused for a lost peer without an event", now);
  }
  core->RemoveGroup(*id_);
  trace_->Note(now, "remove", rank_.value());
  id_.reset();
  phase_ = Phase::kOver;
  group_->OnRankOver();
}

void Trainer::Die(Timestamp now) {
  trace_->Note(now, "trainer dies", rank_.value());
  outcome_.died = dying_ = true;
}

void Trainer::LoseDaemon(Timestamp now) {
  if (phase_ == Phase::kOver) return;
  outcome_.died = true;
  group_->OnRankLeaves(next_op_);
  if (phase_ != Phase::kDraining && phase_ != Phase::kLeaving) {
    group_->OnRankFinished(now);
  }
  for (const auto& buffers : buffers_) {
    if (buffers != nullptr) buffers->Overwrite();
  }
  id_.reset();
  phase_ = Phase::kOver;
  group_->OnRankOver();
}

void Trainer::CheckBuffers(Timestamp now) {
  for (size_t op = 0; op < buffers_.size(); ++op) {
    if (buffers_[op] == nullptr || !outcome_.ops[op].reported()) continue;
    CheckBuffersOf(op, now);
  }
}

void Trainer::CheckBuffersOf(size_t op, Timestamp now) {
  if (buffers_[op] == nullptr) return;
  if (std::string wrong = buffers_[op]->CheckOverwritten(); !wrong.empty()) {
    Complain(absl::StrCat("place ", op, ": ", wrong), now);
  }
}

void Trainer::Complain(const std::string& what, Timestamp now) {
  violations_->Add(now, absl::StrCat("group ", group_->index(), " rank ",
                                     rank_.value(), ": ", what));
}

}  // namespace optireduce::sim
