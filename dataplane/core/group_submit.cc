// The trainer's side: submits and reports.

#include <algorithm>
#include <array>
#include <cstring>

#include "dataplane/core/group.h"
#include "dataplane/core/ledger.h"
#include "gradcodec/accumulate.h"

namespace optireduce::core {
namespace {

bool IsKnown(const OpDescriptor& op) {
  return op.collective >= Collective::kAllReduce &&
         op.collective <= Collective::kBarrier && op.mode >= Mode::kBounded &&
         op.mode <= Mode::kFlush && op.codec <= Codec::kFloat16;
}

bool Reduces(const OpDescriptor& op) {
  return op.collective == Collective::kAllReduce ||
         op.collective == Collective::kReduceScatter;
}

// Only a bounded op may be encoded; and only one of which all goes on the wire.
bool MayBeEncoded(const OpDescriptor& op) {
  if (op.collective != Collective::kAllReduce) return false;
  return IsNarrowing(op.codec) ? op.dtype == gradcodec::Dtype::kFloat32
                               : gradcodec::SizeOf(op.dtype) <= 4;
}

}  // namespace

// A flush goes in full width, so that it leaves nothing behind.
bool Group::IsSupported(const OpDescriptor& op) {
  if (!IsKnown(op)) return false;
  if (op.mode == Mode::kFlush) {
    return op.collective == Collective::kAllReduce && op.step == 0 &&
           op.codec == Codec::kNone && Ledger::Supports(op);
  }
  if (op.collective == Collective::kBarrier) return op.mode == Mode::kExact;
  if (gradcodec::SizeOf(op.dtype) == 0) return false;
  const bool bounded = op.mode == Mode::kBounded;
  if (bounded && !Reduces(op)) return false;
  if (Reduces(op) && !gradcodec::IsSupported(op.dtype, op.reduce_op, bounded)) {
    return false;
  }
  return op.codec == Codec::kNone || (bounded && MayBeEncoded(op));
}

SubmitResult Group::CheckSubmit(const OpDescriptor& op,
                                BufferView buffers) const {
  if (phase_ >= Phase::kLeaving) return SubmitResult::kLeft;
  if (phase_ != Phase::kReady) return SubmitResult::kNotReady;
  if (lost_count_ > 0) return SubmitResult::kPeerLost;
  if (!IsSupported(op)) return SubmitResult::kUnsupported;
  const bool split = op.collective == Collective::kReduceScatter ||
                     op.collective == Collective::kAllGather;
  if (op.count > kMaxCount || (split && op.count % world() != 0) ||
      (op.collective == Collective::kBarrier && op.count != 0)) {
    return SubmitResult::kBadCount;
  }
  if (op.collective == Collective::kBroadcast && op.root.index() >= world()) {
    return SubmitResult::kBadRoot;
  }
  const Duration hard =
      op.hard_limit == Duration() ? config_.hard_limit : op.hard_limit;
  if (op.soft_limit < Duration() || op.hard_limit < Duration() ||
      op.soft_limit > hard ||
      (op.mode != Mode::kBounded && op.soft_limit != Duration())) {
    return SubmitResult::kBadLimits;
  }
  if (!Ledger::IsValidScale(op.loss_scale)) return SubmitResult::kBadScale;
  if (op.mode == Mode::kFlush && buffers.input != buffers.output) {
    return SubmitResult::kBadBuffers;
  }
  if (!BuffersAllowed(op, world(), config_.self, buffers)) {
    return SubmitResult::kBadBuffers;
  }
  return SubmitResult::kAccepted;
}

SubmitResult Group::Submit(const OpDescriptor& descriptor, BufferView buffers,
                           Timestamp now, OpSeq* seq) {
  if (const SubmitResult check = CheckSubmit(descriptor, buffers);
      check != SubmitResult::kAccepted) {
    return check;
  }
  if (!HasEventRoom()) return SubmitResult::kWindowFull;
  *seq = next_submit_;
  if (next_submit_.IsBefore(floor_)) {
    SubmitExpired(descriptor, now);
    return SubmitResult::kAccepted;
  }
  if (next_submit_.Since(low_) >= static_cast<int32_t>(config_.window)) {
    return SubmitResult::kWindowFull;
  }
  if (descriptor.mode == Mode::kFlush) {
    if (done_ != next_submit_) return SubmitResult::kWindowFull;  // rule 22
    std::memset(buffers.output, 0, OutputBytes(descriptor, world()));
  }
  const bool trivial =
      world() == 1 ||
      (descriptor.count == 0 && descriptor.collective != Collective::kBarrier);
  const ChunkPlan plan(descriptor, world(), config_.payload_bytes, config_.tag,
                       next_submit_);
  if (!trivial && !MayEverFit(descriptor, plan)) return SubmitResult::kTooLarge;
  Verdict ignored{};
  Op* op = FindOrOpen(next_submit_, now, &ignored);
  if (op == nullptr) return SubmitResult::kMemoryFull;
  if (trivial) {
    SubmitTrivial(op, descriptor, buffers, now);
    return SubmitResult::kAccepted;
  }
  if (op->has_descriptor && op->fingerprint != Fingerprint(descriptor)) {
    op->mismatched = true;
    op->mismatch_rank = op->descriptor_from;
    op->mismatch_descriptor = op->descriptor;
  }
  if (op->mismatched) {
    SubmitMismatched(op, descriptor, now);
    return SubmitResult::kAccepted;
  }
  if (op->evicted) {
    SubmitEvicted(op, descriptor, now);
    return SubmitResult::kAccepted;
  }
  if (!op->has_descriptor) SetDescriptor(op, descriptor);
  op->descriptor = descriptor;  // its limits are the trainer's own
  if (!AttachMemory(op, now) ||
      (op->is_bucketed() && !OpenAccount(op, buffers))) {
    // It is known now, and its clocks run, although the trainer has to wait.
    if (op->state == OpState::kHeard) op->state = OpState::kServing;
    return SubmitResult::kMemoryFull;
  }
  ActivateOp(op, buffers, now);
  return SubmitResult::kAccepted;
}

// Its state is gone, evicted while the trainer was away (rule 21).
void Group::SubmitExpired(const OpDescriptor& descriptor, Timestamp now) {
  PendingEvent event{EventKind::kOpDone, config_.self, {}};
  event.report.op_seq = next_submit_;
  event.report.status = OpStatus::kExpired;
  event.report.cause = EndCause::kError;
  event.report.world = static_cast<uint16_t>(world());
  event.report.elements = event.report.absent = descriptor.count;
  event.report.submitted = event.report.closed = now;
  PushEvent(event);
  NoteExpired(descriptor);
  next_submit_ = next_submit_.Next();
  AdvanceWindow(now);
}

// The same, while older ops still have their slots.
void Group::SubmitEvicted(Op* op, const OpDescriptor& descriptor,
                          Timestamp now) {
  BeginReport(op, now);
  op->state = OpState::kActive;
  op->report.elements = op->report.absent = descriptor.count;
  Report(op, OpStatus::kExpired, EndCause::kError, now);
  NoteExpired(descriptor);
  CloseOp(op, now);
}

// What owners may have imputed for this rank's contribution is in the results
// of the others, and never booked: nobody can say how much it was.
void Group::NoteExpired(const OpDescriptor& op) {
  if (IsBucketed(op)) ledger_.NoteExpired(op.count);
}

void Group::BeginReport(Op* op, Timestamp now) {
  Count(*op, OpEvent::kSubmit);
  op->report.op_seq = op->seq;
  op->report.world = static_cast<uint16_t>(world());
  op->report.submitted = now;
  op->hard_limit = now + (op->descriptor.hard_limit == Duration()
                              ? config_.hard_limit
                              : op->descriptor.hard_limit);
  next_submit_ = next_submit_.Next();
  NoteOpened(op, config_.self, now);
}

// A world of one, or nothing to reduce: no packet, no wait.
void Group::SubmitTrivial(Op* op, const OpDescriptor& descriptor,
                          BufferView buffers, Timestamp now) {
  if (!op->has_descriptor) SetDescriptor(op, descriptor);
  op->local_only = true;
  BeginReport(op, now);
  const size_t bytes = OutputBytes(descriptor, world());
  if (bytes > 0 && buffers.output != buffers.input) {
    std::memcpy(buffers.output, buffers.input, bytes);
  }
  op->report.status = OpStatus::kComplete;
  op->report.closed = now;
  op->report.elements = descriptor.count;
  op->report.contributions = descriptor.count * world();
  op->report.min_contributors = static_cast<uint16_t>(world());
  op->state = OpState::kReported;
  PushEvent({EventKind::kOpDone, config_.self, op->report});
  CloseOp(op, now);
}

// Ranks disagree: everybody gets an error with both descriptions. The op is
// kept as a stub, so that our OPEN reaches those who have not heard.
void Group::SubmitMismatched(Op* op, const OpDescriptor& descriptor,
                             Timestamp now) {
  FreeMemory(op);
  op->sending = OpSending();
  SetDescriptor(op, descriptor);
  BeginReport(op, now);
  op->sending.opens = 0;
  maybe_sendable_ = true;
  op->state = OpState::kActive;
  Report(op, OpStatus::kMismatch, EndCause::kError, now);
  CloseOp(op, now);
}

void Group::ActivateOp(Op* op, BufferView buffers, Timestamp now) {
  const bool late = op->state == OpState::kLate;
  BeginReport(op, now);
  op->buffers = buffers;
  op->state = OpState::kActive;
  if (op->memory.coefficients != nullptr) {
    op->coefficients =
        Coefficients(op->descriptor.dtype, op->descriptor.count,
                     SignSeed(config_.tag, op->seq, op->descriptor.bucket),
                     buffers.input, op->memory.coefficients);
  }
  TakeRetained(op);
  if (op->account != nullptr && op->has_accounts()) TakeEarlyAccounts(op);
  if (op->has_stage1()) PlaceOwnShard(op);
  if (late) {  // rule 7: at once, with what was kept
    End(op, EndCause::kDeadline, now);
    CloseOp(op, now);
    return;
  }
  maybe_sendable_ = true;
  if (op->is_exact()) {
    op->last_progress = now;
    op->repair_at = now + config_.nack_interval;
    if (!op->has_stage1()) QueueGathered(op);
  } else {
    RepairBy(op, now);
    if (op->descriptor.soft_limit != Duration()) {
      op->limit = std::min(op->limit, now + op->descriptor.soft_limit);
    }
  }
  FeedbackSoon(now);
  MaybeStartClocks(op, now);
  MaybeComplete(op, now);
  Rearm(op);
}

// Results that came before the submit.
void Group::TakeRetained(Op* op) {
  if (op->memory.retained == nullptr) return;
  if (op->account != nullptr) {
    TakeRetainedResults(op);
    FreeRetained(op);
    return;
  }
  for (uint32_t chunk = 0; chunk < op->plan.chunk_limit(); ++chunk) {
    if (!op->assembly.Has(chunk)) continue;
    const ChunkInfo info = *op->plan.Locate(chunk);
    StoreResult(op, info,
                op->memory.retained + info.first * op->plan.element_bytes());
  }
  FreeRetained(op);
}

void Group::FreeRetained(Op* op) {
  arena_.Free(op->memory.retained);
  op->memory.retained = nullptr;
}

void Group::PlaceOwnShard(Op* op) {
  for (uint32_t local = 0; local < op->reduction.chunks(); ++local) {
    if (op->reduction.IsFrozen(local)) PlaceOwnChunk(op, local);
  }
}

void Group::PlaceOwnChunk(Op* op, uint32_t local) {
  if (op->account != nullptr) {
    TakeOwnResult(op, local);
    return;
  }
  const ChunkInfo info = op->plan.ChunkOf(config_.self, local);
  StoreResult(op, info, op->reduction.Result(local).data());
  op->assembly.Note(info, op->reduction.Contributors(local));
}

// All-gather and broadcast: the own shard is its own result.
void Group::QueueGathered(Op* op) {
  for (uint32_t local = 0; local < op->plan.ChunksOf(config_.self); ++local) {
    const ChunkInfo info = op->plan.ChunkOf(config_.self, local);
    const uint8_t* from = op->buffers.input + op->InputOffset(info);
    uint8_t* to = op->buffers.output + op->OutputOffset(info);
    if (to != from) std::memcpy(to, from, info.bytes);
    op->assembly.Note(info, static_cast<uint16_t>(world()));
    op->StageOf(Stage::kTwo).OnPacket(op->report.submitted);
    QueueResult(op, local);
  }
}

bool Group::HasAllAcknowledged(const Op& op) const {
  if (!op.is_exact()) return true;
  switch (op.descriptor.collective) {
    case Collective::kAllReduce:
      return true;  // a result says that the contribution was used
    case Collective::kBarrier:
      return op.opened_count == world();
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kBroadcast:
      break;
  }
  for (size_t i = 0; i < world(); ++i) {
    const Rank rank = RankAt(i);
    if (IsSelf(rank)) continue;
    const uint32_t due =
        op.plan.ChunksOf(op.has_stage1() ? rank : config_.self);
    if (op.acknowledged[i] < due) return false;
  }
  return true;
}

void Group::MaybeComplete(Op* op, Timestamp now) {
  if (op->state != OpState::kActive || !op->assembly.complete() ||
      !HasAllAcknowledged(*op)) {
    return;
  }
  NoteStage2(*op, EndCause::kAllIn);
  End(op, EndCause::kAllIn, now);
  if (op->is_exact() || op->reduction.all_frozen()) CloseOp(op, now);
}

// The op ends normally, with all or with a part.
void Group::End(Op* op, EndCause cause, Timestamp now) {
  op->assembly.Summarize(&op->report);
  const OpReport& report = op->report;
  const bool whole =
      report.absent == 0 &&
      report.contributions == report.elements * uint64_t{report.world};
  Report(op, whole ? OpStatus::kComplete : OpStatus::kPartial, cause, now);
}

void Group::Report(Op* op, OpStatus status, EndCause cause, Timestamp now) {
  OpReport& report = op->report;
  report.status = status;
  report.cause = cause;
  report.deadline = op->limit;
  report.closed = now;
  NoteStage2Closed(op, cause, now);
  if (status == OpStatus::kMismatch) {
    report.mismatch_rank = op->mismatch_rank;
    report.mismatch_descriptor = op->mismatch_descriptor;
  }
  if (status == OpStatus::kPartial || status == OpStatus::kHardLimit) {
    NoteMissing(op);
  }
  if (op->account != nullptr) {
    EndAccount(op, status);
  } else if (status == OpStatus::kPartial) {
    FillAbsent(op);
  }
  if (op->memory.coefficients != nullptr) {
    if (status == OpStatus::kComplete || status == OpStatus::kPartial) {
      op->coefficients.DecodeTo(op->buffers.output);
    }
    arena_.Free(op->memory.coefficients);
    op->memory.coefficients = nullptr;
  }
  if (!report.holds_buffers) op->buffers = {};
  op->state = OpState::kReported;
  PushEvent({EventKind::kOpDone, config_.self, report});
}

// Names who is to blame: ranks that have not opened the op; and, unless the
// wait for those explains all the rest, ranks whose packets lack.
void Group::NoteMissing(Op* op) {
  bool all_opened = true;
  for (size_t i = 0; i < world(); ++i) {
    const Rank rank = RankAt(i);
    if (IsSelf(rank) || op->seq.IsBefore(PeerOf(rank).open_upto)) continue;
    op->report.missing.Add(rank);
    all_opened = false;
  }
  if (op->report.status == OpStatus::kHardLimit && !all_opened) return;
  const uint32_t next = op->reduction.prefix();
  for (size_t i = 0; i < world(); ++i) {
    const Rank rank = RankAt(i);
    if (IsSelf(rank)) continue;
    const bool result_lacks = op->has_stage2() && op->assembly.PrefixOf(rank) <
                                                      op->plan.ChunksOf(rank);
    const bool data_lacks = op->is_exact() && next < op->reduction.chunks() &&
                            !op->reduction.HasArrived(next, rank);
    if (result_lacks || data_lacks) op->report.missing.Add(rank);
  }
}

void Group::FillAbsent(Op* op) {
  if (op->assembly.complete()) return;
  std::array<uint8_t, wire::kMaxMtu> fill{};
  for (uint32_t chunk = 0; chunk < op->plan.chunk_limit(); ++chunk) {
    if (op->assembly.Has(chunk)) continue;
    const std::optional<ChunkInfo> info = op->plan.Locate(chunk);
    if (!info.has_value()) continue;
    if (op->has_accounts() && !IsSelf(info->owner)) continue;
    if (config_.fill == FillPolicy::kOwn) {
      OwnAsResult(op, *info, fill.data());
    }
    StoreResult(op, *info, fill.data());
  }
}

// What the result would be if every rank had contributed what this one did.
void Group::OwnAsResult(Op* op, const ChunkInfo& info, uint8_t* result) {
  std::array<uint8_t, wire::kMaxMtu> input;
  std::array<uint8_t, 2 * wire::kMaxMtu> accumulator;
  ReadInput(op, info, input.data());
  const gradcodec::Dtype dtype = op->plan.wire_dtype();
  gradcodec::AccumulateFirst(dtype, input.data(), accumulator.data(),
                             info.elements);
  gradcodec::ScaleAndRound(dtype, op->descriptor.reduce_op, accumulator.data(),
                           1, static_cast<uint32_t>(world()), result,
                           info.elements);
}

}  // namespace optireduce::core
