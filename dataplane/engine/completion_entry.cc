#include "dataplane/engine/completion_entry.h"

namespace optireduce::engine {
namespace {

using core::EndCause;
using core::OpStatus;
using core::SubmitResult;

template <class Enum>
constexpr bool Same(Enum value, int abi) {
  return static_cast<int>(value) == abi;
}
static_assert(Same(OpStatus::kComplete, OPTIREDUCE_SHM_COMPLETE));
static_assert(Same(OpStatus::kPartial, OPTIREDUCE_SHM_PARTIAL));
static_assert(Same(OpStatus::kHardLimit, OPTIREDUCE_SHM_HARD_LIMIT));
static_assert(Same(OpStatus::kPeerLost, OPTIREDUCE_SHM_PEER_LOST));
static_assert(Same(OpStatus::kMismatch, OPTIREDUCE_SHM_MISMATCH));
static_assert(Same(OpStatus::kExpired, OPTIREDUCE_SHM_EXPIRED));
static_assert(Same(OpStatus::kCancelled, OPTIREDUCE_SHM_CANCELLED));
static_assert(Same(EndCause::kAllIn, OPTIREDUCE_SHM_CAUSE_ALL_IN));
static_assert(Same(EndCause::kEarly, OPTIREDUCE_SHM_CAUSE_EARLY));
static_assert(Same(EndCause::kDeadline, OPTIREDUCE_SHM_CAUSE_DEADLINE));
static_assert(Same(EndCause::kError, OPTIREDUCE_SHM_CAUSE_ERROR));
static_assert(wire::kMaxWorld == OPTIREDUCE_SHM_MAX_WORLD);
static_assert(Timestamp::Never().nanos() == OPTIREDUCE_SHM_NEVER);

uint8_t ReasonOf(SubmitResult result) {
  switch (result) {
    case SubmitResult::kAccepted:
      return OPTIREDUCE_SHM_REFUSAL_NONE;
    // The engine waits for these by itself; if it gives up, the group is not
    // ready for the op.
    case SubmitResult::kWindowFull:
    case SubmitResult::kMemoryFull:
    case SubmitResult::kNotReady:
      return OPTIREDUCE_SHM_REFUSAL_NOT_READY;
    case SubmitResult::kUnsupported:
      return OPTIREDUCE_SHM_REFUSAL_UNSUPPORTED;
    case SubmitResult::kBadScale:
      return OPTIREDUCE_SHM_REFUSAL_LOSS_SCALE;
    case SubmitResult::kBadRoot:
      return OPTIREDUCE_SHM_REFUSAL_ROOT;
    case SubmitResult::kBadCount:
      return OPTIREDUCE_SHM_REFUSAL_COUNT;
    case SubmitResult::kBadLimits:
      return OPTIREDUCE_SHM_REFUSAL_LIMITS;
    case SubmitResult::kBadBuffers:
      return OPTIREDUCE_SHM_REFUSAL_OVERLAP;
    case SubmitResult::kTooLarge:
      return OPTIREDUCE_SHM_REFUSAL_TOO_LARGE;
    case SubmitResult::kPeerLost:
      return OPTIREDUCE_SHM_REFUSAL_PEER_LOST;
    case SubmitResult::kLeft:
      return OPTIREDUCE_SHM_REFUSAL_LEFT;
  }
  return OPTIREDUCE_SHM_REFUSAL_NOT_READY;
}

uint8_t ReasonOf(StateResult result) {
  switch (result) {
    case StateResult::kDone:
      return OPTIREDUCE_SHM_REFUSAL_NONE;
    case StateResult::kNotQuiet:
      return OPTIREDUCE_SHM_REFUSAL_NOT_QUIET;
    case StateResult::kNoRoom:
      return OPTIREDUCE_SHM_REFUSAL_STATE_ROOM;
    case StateResult::kDamaged:
      return OPTIREDUCE_SHM_REFUSAL_STATE_DAMAGED;
    case StateResult::kVersion:
      return OPTIREDUCE_SHM_REFUSAL_STATE_VERSION;
    case StateResult::kOtherGroup:
      return OPTIREDUCE_SHM_REFUSAL_STATE_GROUP;
    case StateResult::kNoMemory:
      return OPTIREDUCE_SHM_REFUSAL_STATE_MEMORY;
  }
  return OPTIREDUCE_SHM_REFUSAL_STATE_DAMAGED;
}

void CopyMismatch(const core::OpReport& report,
                  OptireduceShmCompletion* entry) {
  const core::OpDescriptor& other = report.mismatch_descriptor;
  entry->mismatch_rank = report.mismatch_rank.value();
  entry->mismatch_root = other.root.value();
  entry->mismatch_collective = static_cast<uint8_t>(other.collective);
  entry->mismatch_reduce_op = static_cast<uint8_t>(other.reduce_op);
  entry->mismatch_dtype = static_cast<uint8_t>(other.dtype);
  entry->mismatch_mode = static_cast<uint8_t>(other.mode);
  entry->mismatch_codec = static_cast<uint8_t>(other.codec);
  entry->mismatch_count = other.count;
  entry->mismatch_bucket = other.bucket;
  entry->mismatch_step = other.step;
}

OptireduceShmRange ToAbi(const shm::BufferRange& range) {
  return {.offset = range.offset, .bytes = range.bytes};
}

}  // namespace

OptireduceShmCompletion MakeRefusalEntry(const Refusal& refusal) {
  OptireduceShmCompletion entry{};
  entry.status = OPTIREDUCE_SHM_REFUSED;
  entry.cause = OPTIREDUCE_SHM_CAUSE_ERROR;
  entry.refusal = refusal.reason;
  entry.quorum_ns = OPTIREDUCE_SHM_NEVER;
  entry.deadline_ns = OPTIREDUCE_SHM_NEVER;
  entry.wanted = ToAbi(refusal.wanted);
  entry.conflict = ToAbi(refusal.conflict);
  return entry;
}

OptireduceShmCompletion MakeDoneEntry() {
  OptireduceShmCompletion entry{};
  entry.status = OPTIREDUCE_SHM_COMPLETE;
  entry.quorum_ns = OPTIREDUCE_SHM_NEVER;
  entry.deadline_ns = OPTIREDUCE_SHM_NEVER;
  return entry;
}

OptireduceShmCompletion MakeStepClosedEntry(size_t closed_ops) {
  OptireduceShmCompletion entry = MakeDoneEntry();
  entry.closed_ops = static_cast<uint32_t>(closed_ops);
  return entry;
}

OptireduceShmCompletion MakeStateEntry(const Completion& completion) {
  const uint8_t refusal = ReasonOf(completion.state);
  OptireduceShmCompletion entry = refusal == OPTIREDUCE_SHM_REFUSAL_NONE
                                      ? MakeDoneEntry()
                                      : MakeRefusalEntry({.reason = refusal});
  entry.elements = completion.state_bytes;
  return entry;
}

Refusal MakeRefusal(SubmitResult result, const shm::BufferRange& input,
                    const shm::BufferRange& output) {
  Refusal refusal = {.reason = ReasonOf(result)};
  if (refusal.reason == OPTIREDUCE_SHM_REFUSAL_OVERLAP) {
    refusal.wanted = output;
    refusal.conflict = input;
  }
  return refusal;
}

OptireduceShmCompletion MakeReportEntry(const Completion& completion) {
  const core::OpReport& report = completion.report;
  OptireduceShmCompletion entry{};
  entry.op_seq = report.op_seq.value();
  entry.status = static_cast<uint8_t>(report.status);
  entry.cause = static_cast<uint8_t>(report.cause);
  entry.world = report.world;
  entry.min_contributors = report.min_contributors;
  entry.elements = report.elements;
  entry.absent = report.absent;
  entry.contributions = report.contributions;
  entry.repaired = report.repaired;
  entry.submitted_ns = report.submitted.nanos();
  entry.quorum_ns = report.quorum.nanos();
  entry.deadline_ns = report.deadline.nanos();
  entry.closed_ns = report.closed.nanos();
  entry.wall_late_ns = completion.wall_late.nanos();
  entry.decision_late_ns = completion.decision_late.nanos();
  if (report.status == OpStatus::kMismatch) CopyMismatch(report, &entry);
  for (uint16_t r = 0; r < report.world; ++r) {
    if (report.missing.Contains(core::Rank(r))) {
      entry.missing[r / 64] |= uint64_t{1} << (r % 64);
    }
  }
  return entry;
}

}  // namespace optireduce::engine
