// The names of the core's enumerations, as counters and reports show them.

#include "dataplane/core/coverage.h"
#include "dataplane/core/drop.h"
#include "dataplane/core/forgiven.h"

namespace optireduce::core {

std::string_view Name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kAccepted:
      return "accepted";
    case Verdict::kTruncated:
      return "truncated";
    case Verdict::kBadMagic:
      return "bad_magic";
    case Verdict::kBadVersion:
      return "bad_version";
    case Verdict::kUnknownType:
      return "unknown_type";
    case Verdict::kReservedFlag:
      return "reserved_flag";
    case Verdict::kBadLength:
      return "bad_length";
    case Verdict::kBadCrc:
      return "bad_crc";
    case Verdict::kBadBody:
      return "bad_body";
    case Verdict::kUnknownTag:
      return "unknown_tag";
    case Verdict::kUnknownSource:
      return "unknown_source";
    case Verdict::kOwnSource:
      return "own_source";
    case Verdict::kRemovedSource:
      return "removed_source";
    case Verdict::kStaleOp:
      return "stale_op";
    case Verdict::kBeyondWindow:
      return "beyond_window";
    case Verdict::kNoMemory:
      return "no_memory";
    case Verdict::kNoDescriptor:
      return "no_descriptor";
    case Verdict::kFingerprint:
      return "fingerprint";
    case Verdict::kBadChunk:
      return "bad_chunk";
    case Verdict::kBadChunkLength:
      return "bad_chunk_length";
    case Verdict::kBeyondCredit:
      return "beyond_credit";
    case Verdict::kDuplicate:
      return "duplicate";
    case Verdict::kConflict:
      return "conflict";
    case Verdict::kLate:
      return "late";
    case Verdict::kUnexpected:
      return "unexpected";
  }
  return "unknown";
}

std::string_view Name(ForgivenFor reason) {
  switch (reason) {
    case ForgivenFor::kOwnerGone:
      return "owner_gone";
    case ForgivenFor::kNoHolder:
      return "no_holder";
    case ForgivenFor::kEvicted:
      return "evicted";
    case ForgivenFor::kNoMemory:
      return "no_memory";
    case ForgivenFor::kReset:
      return "reset";
    case ForgivenFor::kOverwritten:
      return "overwritten";
    case ForgivenFor::kNonFinite:
      return "non_finite";
  }
  return "unknown";
}

std::string_view Name(OpState state) {
  switch (state) {
    case OpState::kFree:
      return "free";
    case OpState::kHeard:
      return "heard";
    case OpState::kServing:
      return "serving";
    case OpState::kActive:
      return "active";
    case OpState::kReported:
      return "reported";
    case OpState::kLate:
      return "late";
    case OpState::kClosed:
      return "closed";
  }
  return "unknown";
}

std::string_view Name(OpEvent event) {
  switch (event) {
    case OpEvent::kSubmit:
      return "submit";
    case OpEvent::kOpen:
      return "open";
    case OpEvent::kData:
      return "data";
    case OpEvent::kResult:
      return "result";
    case OpEvent::kNack:
      return "nack";
    case OpEvent::kGone:
      return "gone";
    case OpEvent::kWatermark:
      return "watermark";
    case OpEvent::kQuorum:
      return "quorum";
    case OpEvent::kStage1Bound:
      return "stage1_bound";
    case OpEvent::kStage1Early:
      return "stage1_early";
    case OpEvent::kResultBound:
      return "result_bound";
    case OpEvent::kResultEarly:
      return "result_early";
    case OpEvent::kLimit:
      return "limit";
    case OpEvent::kHardLimit:
      return "hard_limit";
    case OpEvent::kPeerLost:
      return "peer_lost";
    case OpEvent::kCancel:
      return "cancel";
    case OpEvent::kEvict:
      return "evict";
    case OpEvent::kRelease:
      return "release";
  }
  return "unknown";
}

bool IsPossible(OpState state, OpEvent event) {
  if (state == OpState::kFree) return false;
  const bool live = state < OpState::kLate;
  const bool submitted = state == OpState::kActive ||
                         state == OpState::kReported ||
                         state == OpState::kClosed;
  switch (event) {
    case OpEvent::kSubmit:
      return !submitted;
    case OpEvent::kOpen:
    case OpEvent::kData:
    case OpEvent::kResult:
    case OpEvent::kNack:
    case OpEvent::kGone:
    case OpEvent::kWatermark:
      return true;
    case OpEvent::kQuorum:
    case OpEvent::kPeerLost:
      return live;
    case OpEvent::kStage1Bound:
    case OpEvent::kStage1Early:
    case OpEvent::kResultBound:
      return live && state != OpState::kHeard;
    case OpEvent::kResultEarly:
    case OpEvent::kLimit:
    case OpEvent::kHardLimit:
    case OpEvent::kCancel:
      return state == OpState::kActive;
    case OpEvent::kEvict:
      return !live || state == OpState::kServing;
    case OpEvent::kRelease:
      return state == OpState::kClosed || state == OpState::kLate;
  }
  return false;
}

}  // namespace optireduce::core
