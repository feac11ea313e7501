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
const BufferRange& Larger(const CheckedSubmission& checked) {
  return checked.input.bytes < checked.output.bytes ? checked.output
                                                    : checked.input;
}

}  // namespace

ShmSession::ShmSession(const shm::Segment& segment, int engine_event,
                       int client_bell)
    : base_(segment.base()),
      data_{segment.data_offset(), segment.data_bytes()},
      engine_event_(engine_event),
      client_bell_(client_bell),
      rings_(segment),
      buffers_(2 * kSlots) {
  free_.reserve(kSlots);
  for (uint32_t i = 0; i < kSlots; ++i) free_.push_back(kSlots - 1 - i);
}

void ShmSession::AddGroup(core::GroupId group, uint16_t world,
                          uint32_t handle) {
  groups_.push_back({group, handle, world});
}

void ShmSession::RemoveGroup(core::GroupId group) {
  std::erase_if(groups_,
                [group](const GroupEntry& g) { return g.id == group; });
}

const ShmSession::GroupEntry* ShmSession::FindGroup(uint32_t handle) const {
  const auto it = std::find_if(
      groups_.begin(), groups_.end(),
      [handle](const GroupEntry& g) { return g.handle == handle; });
  return it == groups_.end() ? nullptr : &*it;
}

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
    counters_.Increment(ShmSessionCounter::kRefused);
    Answer(MakeRefusalEntry(refusal), entry.cookie, entry.group);
  }
  Flush();
  // PrepareToSleep says that there is more.
  return PullResult::kEmpty;
}

Refusal ShmSession::Admit(const OptireduceShmSubmission& entry,
                          Submission* submission) {
  if (stopped_.load(std::memory_order_relaxed)) {
    return {.reason = OPTIREDUCE_SHM_REFUSAL_SHUTDOWN};
  }
  const GroupEntry* group = FindGroup(entry.group);
  if (group == nullptr) return {.reason = OPTIREDUCE_SHM_REFUSAL_GROUP};
  CheckedSubmission checked;
  Refusal refusal = CheckSubmission(entry, group->world, data_, &checked);
  if (refusal.reason == OPTIREDUCE_SHM_REFUSAL_NONE) {
    refusal = CheckInFlight(checked);
  }
  if (refusal.reason == OPTIREDUCE_SHM_REFUSAL_NONE) {
    Reserve(entry, checked, group->id, submission);
  }
  return refusal;
}

Refusal ShmSession::CheckInFlight(const CheckedSubmission& checked) const {
  for (const BufferRange& range : {checked.input, checked.output}) {
    const std::optional<BufferRange> conflict = buffers_.FindOverlap(range);
    if (conflict) return {OPTIREDUCE_SHM_REFUSAL_IN_FLIGHT, range, *conflict};
  }
  return {};
}

void ShmSession::HoldBuffers(const CheckedSubmission& checked) {
  if (checked.InPlace()) {
    buffers_.Insert(Larger(checked));
  } else {
    buffers_.Insert(checked.input);
    buffers_.Insert(checked.output);
  }
}

void ShmSession::FreeBuffers(const CheckedSubmission& checked) {
  if (checked.InPlace()) {
    buffers_.Remove(Larger(checked));
  } else {
    buffers_.Remove(checked.input);
    buffers_.Remove(checked.output);
  }
}

void ShmSession::Reserve(const OptireduceShmSubmission& entry,
                         const CheckedSubmission& checked, core::GroupId group,
                         Submission* submission) {
  // Outstanding submissions are bounded by the rings: there is a slot.
  assert(!free_.empty());
  const uint32_t index = free_.back();
  free_.pop_back();
  InFlight& op = in_flight_[index];
  op = {.cookie = entry.cookie,
        .handle = entry.group,
        .used = true,
        .checked = checked};
  HoldBuffers(checked);

  submission->group = group;
  submission->op = checked.op;
  submission->cookie = index;
  const auto address = [this](const BufferRange& range) {
    return range.bytes == 0 ? nullptr : base_ + range.offset;
  };
  submission->buffers = {address(checked.input), address(checked.output)};
}

void ShmSession::Complete(const Completion& completion) {
  assert(completion.cookie < kSlots && in_flight_[completion.cookie].used);
  InFlight& op = in_flight_[completion.cookie];
  FreeBuffers(op.checked);
  op.used = false;
  free_.push_back(static_cast<uint32_t>(completion.cookie));
  if (completion.submit == core::SubmitResult::kAccepted) {
    counters_.Increment(ShmSessionCounter::kCompleted);
    Answer(MakeReportEntry(completion), op.cookie, op.handle);
  } else {
    counters_.Increment(ShmSessionCounter::kRefused);
    Answer(MakeRefusalEntry(MakeRefusal(completion.submit, op.checked.input,
                                        op.checked.output)),
           op.cookie, op.handle);
  }
}

void ShmSession::Answer(OptireduceShmCompletion entry, uint64_t cookie,
                        uint32_t handle) {
  entry.cookie = cookie;
  entry.group = handle;
  rings_.PushCompletion(entry);
  trace_.Record(entry);
  answered_ = true;
}

void ShmSession::Flush() {
  if (!answered_) return;
  answered_ = false;
  if (rings_.TakeClientSleeps()) shm::Ring(client_bell_);
}

}  // namespace optireduce::engine
