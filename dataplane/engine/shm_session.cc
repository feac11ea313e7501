#include "dataplane/engine/shm_session.h"

#include <algorithm>
#include <cassert>
#include <optional>

#include "dataplane/engine/completion_entry.h"
#include "dataplane/shm/bell.h"

namespace optireduce::engine {

using shm::BufferRange;

namespace {

// Of an op in place: the buffer that the other one is part of.
const BufferRange& Larger(const CheckedOp& checked) {
  return checked.input.bytes < checked.output.bytes ? checked.output
                                                    : checked.input;
}

bool HasResult(core::OpStatus status) {
  return status == core::OpStatus::kComplete ||
         status == core::OpStatus::kPartial;
}

}  // namespace

ShmSession::ShmSession(const shm::Segment& segment, int engine_event,
                       int client_bell)
    : base_(segment.base()),
      data_{segment.data_offset(), segment.data_bytes()},
      engine_event_(engine_event),
      client_bell_(client_bell),
      rings_(segment),
      buffers_(2 * kEntries) {
  free_.reserve(kEntries);
  for (uint32_t i = 0; i < kEntries; ++i) free_.push_back(kEntries - 1 - i);
}

// ---- groups -----------------------------------------------------------------

void ShmSession::AddGroup(core::GroupId group, uint16_t world,
                          uint32_t handle) {
  groups_.push_back({group, handle, world});
}

void ShmSession::LeaveGroup(core::GroupId group) {
  for (const GroupEntry& entry : groups_) {
    if (entry.id != group) continue;
    EndSteps(entry.handle, [](const Entry&) { return true; });
  }
}

void ShmSession::RemoveGroup(core::GroupId group) {
  LeaveGroup(group);
  std::erase_if(groups_,
                [group](const GroupEntry& g) { return g.id == group; });
}

const ShmSession::GroupEntry* ShmSession::FindGroup(uint32_t handle) const {
  const auto it = std::find_if(
      groups_.begin(), groups_.end(),
      [handle](const GroupEntry& g) { return g.handle == handle; });
  return it == groups_.end() ? nullptr : &*it;
}

// ---- submissions ------------------------------------------------------------

PullResult ShmSession::Pull(Submission* submission) {
  for (int i = 0; i < kRefusalsPerPull; ++i) {
    OptireduceShmSubmission entry;
    switch (rings_.TakeSubmission(&entry)) {
      case shm::TakeResult::kEmpty:
        Flush();  // of the refusals
        return PullResult::kEmpty;
      case shm::TakeResult::kBroken:
        Flush();
        broken_reason_.store(rings_.broken_reason(), std::memory_order_relaxed);
        return PullResult::kBroken;
      case shm::TakeResult::kTaken:
        break;
    }
    counters_.Increment(ShmSessionCounter::kSubmitted);
    const Refusal refusal = Admit(entry, submission);
    if (refusal.reason == OPTIREDUCE_SHM_REFUSAL_NONE) {
      return PullResult::kPulled;
    }
    Refuse(refusal, {entry.cookie, entry.group, entry.kind});
  }
  Flush();
  // PrepareToSleep says that there is more.
  return PullResult::kEmpty;
}

Refusal ShmSession::Admit(const OptireduceShmSubmission& entry,
                          Submission* submission) {
  const GroupEntry* group = FindGroup(entry.group);
  if (group == nullptr) return {.reason = OPTIREDUCE_SHM_REFUSAL_GROUP};
  switch (entry.kind) {
    case OPTIREDUCE_SHM_OP:
      return AdmitOp(entry, *group, submission);
    case OPTIREDUCE_SHM_STEP_CLOSE:
      return AdmitClose(entry, *group, submission);
    case OPTIREDUCE_SHM_STATE_SAVE:
    case OPTIREDUCE_SHM_STATE_LOAD:
      return AdmitState(entry, *group, submission);
    case OPTIREDUCE_SHM_VERDICT:
      return AdmitVerdict(entry, *group, submission);
    default:
      return {.reason = OPTIREDUCE_SHM_REFUSAL_KIND};
  }
}

Refusal ShmSession::AdmitOp(const OptireduceShmSubmission& entry,
                            const GroupEntry& group, Submission* submission) {
  if (stopped_.load(std::memory_order_relaxed)) {
    return {.reason = OPTIREDUCE_SHM_REFUSAL_SHUTDOWN};
  }
  CheckedOp checked;
  Refusal refusal = CheckOp(entry, group.world, data_, &checked);
  if (refusal.reason == OPTIREDUCE_SHM_REFUSAL_NONE) {
    refusal = CheckInFlight(checked);
  }
  if (refusal.reason != OPTIREDUCE_SHM_REFUSAL_NONE) return refusal;
  const bool stays_open = StaysOpen(checked.op);
  if (stays_open && num_staying_open_ == OPTIREDUCE_SHM_MAX_STEP_OPS) {
    return {.reason = OPTIREDUCE_SHM_REFUSAL_STEPS_OPEN};
  }
  Entry& op = Reserve(Entry::State::kOp, entry, submission);
  op.checked = checked;
  op.stays_open = stays_open;
  if (stays_open) ++num_staying_open_;
  HoldBuffers(checked);
  const auto address = [this](const BufferRange& range) {
    return range.bytes == 0 ? nullptr : base_ + range.offset;
  };
  submission->group = group.id;
  submission->request =
      OpRequest{checked.op, {address(checked.input), address(checked.output)}};
  return {};
}

Refusal ShmSession::AdmitClose(const OptireduceShmSubmission& entry,
                               const GroupEntry& group,
                               Submission* submission) {
  StepClose close;
  const Refusal refusal = CheckStepClose(entry, &close);
  if (refusal.reason != OPTIREDUCE_SHM_REFUSAL_NONE) return refusal;
  Reserve(Entry::State::kClose, entry, submission);
  submission->group = group.id;
  submission->request = close;
  return {};
}

Refusal ShmSession::AdmitState(const OptireduceShmSubmission& entry,
                               const GroupEntry& group,
                               Submission* submission) {
  CheckedOp checked;
  Refusal refusal = CheckState(entry, data_, &checked);
  if (refusal.reason == OPTIREDUCE_SHM_REFUSAL_NONE) {
    refusal = CheckInFlight(checked);
  }
  if (refusal.reason != OPTIREDUCE_SHM_REFUSAL_NONE) return refusal;
  Reserve(Entry::State::kState, entry, submission).checked = checked;
  HoldBuffers(checked);
  submission->group = group.id;
  if (entry.kind == OPTIREDUCE_SHM_STATE_SAVE) {
    const BufferRange& out = checked.output;
    submission->request = StateSave{{base_ + out.offset, out.bytes}};
  } else {
    const BufferRange& state = checked.input;
    submission->request = StateLoad{{base_ + state.offset, state.bytes}};
  }
  return {};
}

Refusal ShmSession::AdmitVerdict(const OptireduceShmSubmission& entry,
                                 const GroupEntry& group,
                                 Submission* submission) {
  StepVerdict verdict;
  const Refusal refusal = CheckVerdict(entry, &verdict);
  if (refusal.reason != OPTIREDUCE_SHM_REFUSAL_NONE) return refusal;
  Reserve(Entry::State::kVerdict, entry, submission);
  submission->group = group.id;
  submission->request = verdict;
  return {};
}

Refusal ShmSession::CheckInFlight(const CheckedOp& checked) const {
  for (const BufferRange& range : {checked.input, checked.output}) {
    const std::optional<BufferRange> conflict = buffers_.FindOverlap(range);
    if (conflict) return {OPTIREDUCE_SHM_REFUSAL_IN_FLIGHT, range, *conflict};
  }
  return {};
}

ShmSession::Entry& ShmSession::Reserve(Entry::State state,
                                       const OptireduceShmSubmission& entry,
                                       Submission* submission) {
  // Outstanding submissions are bounded by the rings: there is one.
  assert(!free_.empty());
  submission->cookie = free_.back();
  free_.pop_back();
  Entry& reserved = entries_[submission->cookie];
  reserved = {.state = state,
              .sender = {entry.cookie, entry.group, entry.kind},
              .step = entry.step,
              .number = next_number_++};
  return reserved;
}

void ShmSession::Release(Entry* entry) {
  if (entry->stays_open) --num_staying_open_;
  *entry = {};
  free_.push_back(static_cast<uint32_t>(entry - entries_.data()));
}

// ---- buffers ----------------------------------------------------------------

void ShmSession::HoldBuffers(const CheckedOp& checked) {
  if (checked.InPlace()) {
    buffers_.Insert(Larger(checked));
  } else {
    buffers_.Insert(checked.input);
    buffers_.Insert(checked.output);
  }
}

void ShmSession::FreeBuffers(const CheckedOp& checked) {
  if (checked.InPlace()) {
    buffers_.Remove(Larger(checked));
  } else {
    buffers_.Remove(checked.input);
    buffers_.Remove(checked.output);
  }
}

template <class Predicate>
void ShmSession::EndSteps(uint32_t handle, Predicate which) {
  for (Entry& entry : entries_) {
    if (!entry.stays_open || entry.sender.handle != handle || !which(entry)) {
      continue;
    }
    if (entry.state == Entry::State::kOpen) {
      buffers_.Remove(entry.checked.output);
      Release(&entry);
    } else {
      entry.stays_open = false;
      --num_staying_open_;
    }
  }
}

// ---- answers ----------------------------------------------------------------

void ShmSession::Complete(const Completion& completion) {
  assert(completion.cookie < kEntries);
  Entry& entry = entries_[completion.cookie];
  FreeBuffers(entry.checked);
  if (completion.submit != core::SubmitResult::kAccepted) {
    CompleteRefused(&entry, completion);
    return;
  }
  counters_.Increment(ShmSessionCounter::kCompleted);
  switch (entry.state) {
    case Entry::State::kOp:
      return CompleteOp(&entry, completion);
    case Entry::State::kClose:
      return CompleteClose(&entry, completion);
    case Entry::State::kState:
      return CompleteState(&entry, completion);
    case Entry::State::kVerdict:
      return CompleteVerdict(&entry);
    case Entry::State::kFree:
    case Entry::State::kOpen:
      break;
  }
  assert(false);
}

void ShmSession::CompleteRefused(Entry* entry, const Completion& completion) {
  const Sender sender = entry->sender;
  const Refusal refusal = MakeRefusal(completion.submit, entry->checked.input,
                                      entry->checked.output);
  Release(entry);
  Refuse(refusal, sender);
}

void ShmSession::CompleteOp(Entry* op, const Completion& completion) {
  const Sender sender = op->sender;
  OptireduceShmCompletion answer = MakeReportEntry(completion);
  answer.bucket = op->checked.op.bucket;
  answer.step = op->step;
  // After an error nothing is put in place any more.
  const bool is_open = op->stays_open && HasResult(completion.report.status);
  if (is_open) {
    answer.step_open = 1;
    op->state = Entry::State::kOpen;
    buffers_.Insert(op->checked.output);
  } else {
    Release(op);
  }
  Answer(answer, sender);
}

void ShmSession::CompleteClose(Entry* close, const Completion& completion) {
  const Entry closed = *close;
  Release(close);
  EndSteps(closed.sender.handle, [&closed](const Entry& op) {
    return op.step == closed.step && op.number < closed.number;
  });
  Answer(MakeStepClosedEntry(completion.closed_ops), closed.sender);
}

void ShmSession::CompleteState(Entry* state, const Completion& completion) {
  const Sender sender = state->sender;
  Release(state);
  Answer(MakeStateEntry(completion), sender);
}

void ShmSession::CompleteVerdict(Entry* verdict) {
  const Sender sender = verdict->sender;
  Release(verdict);
  Answer(MakeDoneEntry(), sender);
}

void ShmSession::Refuse(const Refusal& refusal, const Sender& to) {
  counters_.Increment(ShmSessionCounter::kRefused);
  Answer(MakeRefusalEntry(refusal), to);
}

void ShmSession::Answer(OptireduceShmCompletion answer, const Sender& to) {
  answer.cookie = to.cookie;
  answer.group = to.handle;
  answer.kind = to.kind;
  rings_.PushCompletion(answer);
  if (to.kind == OPTIREDUCE_SHM_OP) trace_.Record(answer);
  answered_ = true;
}

void ShmSession::Flush() {
  if (!answered_) return;
  answered_ = false;
  if (rings_.TakeClientSleeps()) shm::Ring(client_bell_);
}

}  // namespace optireduce::engine
