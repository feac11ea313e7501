// Packets. Every handler checks first and changes state last.

#include <algorithm>
#include <array>
#include <cstring>

#include "dataplane/core/group.h"
#include "gradcodec/residual.h"

namespace optireduce::core {
namespace {

std::optional<OpDescriptor> DescriptorOf(const wire::OpenBody& body) {
  OpDescriptor op;
  const auto dtype = gradcodec::DtypeFromWire(body.dtype);
  const auto reduce_op = gradcodec::ReduceOpFromWire(body.reduce_op);
  if (!dtype.has_value() || !reduce_op.has_value() ||
      body.collective < static_cast<uint8_t>(Collective::kAllReduce) ||
      body.collective > static_cast<uint8_t>(Collective::kBarrier) ||
      body.mode < static_cast<uint8_t>(Mode::kBounded) ||
      body.mode > static_cast<uint8_t>(Mode::kFlush) ||
      body.codec > static_cast<uint8_t>(Codec::kFloat16) ||
      body.count > kMaxCount) {
    return std::nullopt;
  }
  op.collective = static_cast<Collective>(body.collective);
  op.reduce_op = *reduce_op;
  op.dtype = *dtype;
  op.mode = static_cast<Mode>(body.mode);
  op.codec = static_cast<Codec>(body.codec);
  op.root = Rank(body.root);
  op.count = body.count;
  op.bucket = body.bucket;
  op.step = body.step;
  return op;
}

}  // namespace

Verdict Group::CheckSource(const wire::Header& header,
                           NetAddress source) const {
  if (header.source >= world()) return Verdict::kUnknownSource;
  const Rank rank(header.source);
  if (IsSelf(rank)) return Verdict::kOwnSource;
  if (PeerOf(rank).endpoint.address != source) return Verdict::kUnknownSource;
  if (PeerOf(rank).dead) return Verdict::kRemovedSource;
  return Verdict::kAccepted;
}

Verdict Group::OnPacket(const wire::Header& header,
                        std::span<const uint8_t> body, bool ecn_marked,
                        Timestamp arrival, Timestamp now) {
  const Rank source(header.source);
  Peer& peer = PeerOf(source);
  ++peer.packets_received;
  if (header.type == wire::PacketType::kData ||
      header.type == wire::PacketType::kResult) {
    peer.last_stream = now;
    NoteStreamFrom(source, now);
  }
  peer.ecn_marks = static_cast<uint16_t>(peer.ecn_marks + ecn_marked);
  peer.echo_valid = true;
  peer.echo_time = header.send_time;
  peer.echo_arrival = arrival;
  Heard(source, now);
  const OpSeq seq(header.op_seq);
  switch (header.type) {
    case wire::PacketType::kData:
      return OnData(source, header, body, arrival, now);
    case wire::PacketType::kResult:
      return OnResult(source, header, body, arrival, now);
    case wire::PacketType::kOpen:
      return OnOpen(source, seq, body, now);
    case wire::PacketType::kFeedback:
      return OnFeedback(source, header, body, now);
    case wire::PacketType::kNack:
      return OnNack(source, seq, body, now);
    case wire::PacketType::kGone:
      return OnGone(source, seq, now);
    case wire::PacketType::kHello:
      return OnHello(source, body, now);
    case wire::PacketType::kProbe:
      return OnProbe(source, body, now);
    case wire::PacketType::kLeave:
      return OnLeave(source, body, now);
  }
  return Verdict::kUnknownType;
}

// Rule 3: cumulative, so that a lost OPEN is made good by any later packet.
void Group::RaiseOpenUpto(Rank source, OpSeq upto, Timestamp now) {
  Peer& peer = PeerOf(source);
  if (!peer.open_upto.IsBefore(upto)) return;
  const OpSeq from = peer.open_upto;
  peer.open_upto = upto;
  if (heard_upto_.IsBefore(upto)) heard_upto_ = upto;
  const OpSeq known = high_;
  OpenHeard(now);  // counts this peer among those that have opened the op
  OpSeq seq = from.IsBefore(floor_) ? floor_ : from;
  for (; seq.IsBefore(upto) && seq.IsBefore(high_); seq = seq.Next()) {
    Op* op = FindOp(seq);
    if (op == nullptr) continue;
    Count(*op, OpEvent::kWatermark);
    if (!seq.IsBefore(known)) continue;
    NoteOpened(op, source, now);
    MaybeStartClocks(op, now);
    MaybeComplete(op, now);
  }
  maybe_sendable_ = true;
}

void Group::OnWatermarks(Rank source, const wire::Watermarks& marks,
                         Timestamp now) {
  RaiseOpenUpto(source, OpSeq(marks.open_upto), now);
  Peer& peer = PeerOf(source);
  const OpSeq done(marks.done_upto);
  if (!peer.done_upto.IsBefore(done)) return;
  peer.done_upto = done;
  AdvanceWindow(now);
  if (phase_ == Phase::kLeaving) WakeBy(now);  // perhaps nothing is owed now
}

Verdict Group::OnOpen(Rank source, OpSeq seq, std::span<const uint8_t> body,
                      Timestamp now) {
  wire::OpenBody open;
  if (wire::DecodeOpen(body, &open) != wire::WireError::kOk) {
    return Verdict::kBadBody;
  }
  const std::optional<OpDescriptor> descriptor = DescriptorOf(open);
  if (!descriptor.has_value() || !IsSupported(*descriptor) ||
      descriptor->root.index() >= world()) {
    return Verdict::kBadBody;
  }
  OnWatermarks(source, open.watermarks, now);
  Verdict verdict{};
  Op* op = FindOrOpen(seq, now, &verdict);
  if (op == nullptr) return verdict;
  Count(*op, OpEvent::kOpen);
  if (op->local_only) return Verdict::kStaleOp;
  if (op->has_descriptor) {
    if (op->fingerprint != Fingerprint(*descriptor)) {
      NoteMismatch(op, source, *descriptor, now);
    }
    return Verdict::kAccepted;
  }
  SetDescriptor(op, *descriptor);
  op->descriptor_from = source;
  op->descriptor.soft_limit = op->descriptor.hard_limit = Duration();
  // Exact ops take memory at the submit: nothing is sent to who has not opened.
  if (!op->is_exact() && !op->is_closed()) AttachMemory(op, now);
  if (op->state == OpState::kHeard) op->state = OpState::kServing;
  MaybeStartClocks(op, now);
  Rearm(op);
  return Verdict::kAccepted;
}

void Group::NoteMismatch(Op* op, Rank source, const OpDescriptor& other,
                         Timestamp now) {
  if (!op->mismatched) {
    op->mismatched = true;
    op->mismatch_rank = source;
    op->mismatch_descriptor = other;
  }
  if (op->is_submitted()) Ask(Request::Kind::kOpen, source, op->seq, 0);
  if (op->state != OpState::kActive) {
    // Whoever has heard of it answers no questions.
    if (op->account != nullptr) {
      GiveUpOwed(op);
      OnOwedLess(op, now);
    }
    return;
  }
  Report(op, OpStatus::kMismatch, EndCause::kError, now);
  CloseOp(op, now);
}

// Asks for the descriptor, once per interval.
void Group::AskOpen(Op* op, Rank source, Timestamp now) {
  if (now < op->ask_open_at) return;
  op->ask_open_at = now + config_.nack_interval;
  Ask(Request::Kind::kNackOpen, source, op->seq, 0);
}

// Common to data and results: do we know the op, and is it the sender's?
Verdict Group::CheckOpOf(Rank source, const wire::Header& header, Op* op,
                         Timestamp now) {
  if (op->local_only) return Verdict::kUnexpected;
  if (!op->has_descriptor) {
    AskOpen(op, source, now);
    return Verdict::kNoDescriptor;
  }
  if (header.fingerprint != op->fingerprint) {
    AskOpen(op, source, now);
    return Verdict::kFingerprint;
  }
  if (op->mismatched) return Verdict::kUnexpected;
  if (op->memory.block == nullptr) {
    // An exact op before its submit, or a bounded one that found no room.
    if (op->is_exact()) return Verdict::kUnexpected;
    if (op->is_closed() || !AttachMemory(op, now)) return Verdict::kNoMemory;
  }
  return Verdict::kAccepted;
}

Verdict Group::OnData(Rank source, const wire::Header& header,
                      std::span<const uint8_t> body, Timestamp arrival,
                      Timestamp now) {
  const OpSeq seq(header.op_seq);
  Verdict verdict{};
  Op* op = FindOrOpen(seq, now, &verdict);
  if (op == nullptr) return verdict;
  Count(*op, OpEvent::kData);
  if (verdict = CheckOpOf(source, header, op, now);
      verdict != Verdict::kAccepted) {
    return verdict;
  }
  if (!op->has_stage1()) return Verdict::kUnexpected;
  const std::optional<ChunkInfo> info = op->plan.Locate(header.chunk);
  if (!info.has_value() || !IsSelf(info->owner)) return Verdict::kBadChunk;
  if (body.size() != info->bytes) return Verdict::kBadChunkLength;
  // Who sends data has opened the op. Ops opened by that may evict a closed
  // one.
  RaiseOpenUpto(source, seq.Next(), now);
  if ((op = FindOp(seq)) == nullptr) return Verdict::kStaleOp;
  // An exact op that has ended here took every contribution or none.
  if (op->is_exact() && op->state != OpState::kActive) {
    return op->reduction.IsFrozen(info->local) ? Verdict::kDuplicate
                                               : Verdict::kLate;
  }
  // The stage ends at its bound, whenever that is noticed.
  NoteAdvertised(*op, source, header);
  if (PeerOf(source).newest_data.IsBefore(seq)) {
    PeerOf(source).newest_data = seq;
  }
  if (arrival > op->stage1_bound) BeginFreeze(op, EndCause::kDeadline, now);
  const Reduction::AddResult added =
      op->freezing && !op->reduction.IsFrozen(info->local)
          ? Reduction::AddResult::kFrozen
          : op->reduction.Add(info->local, source, body.data());
  switch (added) {
    case Reduction::AddResult::kDuplicate:
      return Verdict::kDuplicate;
    case Reduction::AddResult::kBeyondCredit:
      return Verdict::kBeyondCredit;
    case Reduction::AddResult::kFrozen:  // rule 6
      NoteLateData(op, source, info->local, arrival);
      if (op->reduction.IsFrozen(info->local) && WantsPackets(source)) {
        Ask(Request::Kind::kResult, source, seq,
            info->local / op->chunks_per_reply);
      }
      return Verdict::kLate;
    case Reduction::AddResult::kAdded:
      break;
  }
  op->last_data = arrival;
  if ((header.flags & wire::kFlagTail) != 0) {
    op->data_tails.Set(source.index());
  }
  NoteProgress(op, now);
  NoteStreamPacket(op, Stage::kOne, header, info->local, now);
  OnContribution(op, info->local, source, arrival, now);
  return Verdict::kAccepted;
}

// A contribution is in; is the chunk whole?
void Group::OnContribution(Op* op, uint32_t local, Rank source, Timestamp when,
                           Timestamp now) {
  ++op->contributions;
  op->StageOf(Stage::kOne).OnPacket(when);
  NoteSum(op, source, when);
  if (!AllExpectedArrived(*op, local)) {
    if (AreOpenersIn(*op)) CheckEarlyBy(op, now);
    return;
  }
  FreezeChunk(op, local, now);
  if (op->reduction.all_frozen()) {
    NoteStage1(op, EndCause::kAllIn);
    NoteStage1Closed(op, EndCause::kAllIn, now);
  }
  MaybeComplete(op, now);
}

void Group::NoteProgress(Op* op, Timestamp now) {
  op->last_progress = now;
  op->repair_backoff = 1;
}

// With all contributions, the own one read just now.
void Group::FreezeExact(Op* op, const ChunkInfo& info) {
  if (op->account == nullptr) {
    op->reduction.Freeze(info.local, op->buffers.input + op->InputOffset(info));
    return;
  }
  std::array<uint8_t, wire::kMaxMtu> own{};
  ReadInput(op, info, own.data());
  op->reduction.Freeze(info.local, own.data());
}

// Rule 5: once, final.
void Group::FreezeChunk(Op* op, uint32_t local, Timestamp now) {
  const ChunkInfo info = op->plan.ChunkOf(config_.self, local);
  if (op->is_exact()) {
    FreezeExact(op, info);
  } else if (op->is_bucketed()) {
    op->reduction.FreezeBucketed(
        local, op->has_stage2() &&
                   gradcodec::IsImputed(op->reduction.Contributors(local),
                                        world(), lost_count_ > 0));
  } else {
    op->reduction.Freeze(local, nullptr);
  }
  maybe_sendable_ = true;  // its result, and in exact mode the next own chunk
  if (!op->is_exact() && op->reduction.all_frozen()) RepairBy(op, now);
  if (op->has_stage2()) {
    QueueResult(op, local);
    if (op->is_reported()) {
      NoteLateResult(op, info, now);
    } else {
      op->StageOf(Stage::kTwo).OnPacket(now);
    }
  } else if (!op->has_accounts()) {
    AcknowledgeReduced(op, now);
  } else if (op->reduction.all_frozen()) {
    QueueAccounts(op);
  }
  if (op->state == OpState::kActive || op->account != nullptr) {
    PlaceOwnChunk(op, local);
  }
}

Verdict Group::OnResult(Rank source, const wire::Header& header,
                        std::span<const uint8_t> body, Timestamp arrival,
                        Timestamp now) {
  Verdict verdict{};
  Op* op = FindOrOpen(OpSeq(header.op_seq), now, &verdict);
  if (op == nullptr) return verdict;
  Count(*op, OpEvent::kResult);
  if (op->account != nullptr && op->is_reported()) {
    return OnLateResult(source, header, body, arrival, op, now);
  }
  if (verdict = CheckOpOf(source, header, op, now);
      verdict != Verdict::kAccepted) {
    // Rule 3: a result proves a quorum, whatever else lacks.
    if (verdict == Verdict::kNoDescriptor) StartClocks(op, now);
    return verdict;
  }
  if (op->has_accounts()) {
    return OnAccount(source, header, body, arrival, op, now);
  }
  if (!op->has_stage2()) return Verdict::kUnexpected;
  const std::optional<ChunkInfo> info = op->plan.Locate(header.chunk);
  if (!info.has_value() || info->owner != source) return Verdict::kBadChunk;
  if (body.size() != info->bytes) return Verdict::kBadChunkLength;
  if (header.contributors > world()) return Verdict::kBadBody;
  const std::optional<ChunkResult> result = ResultIn(header, body);
  if (op->is_bucketed() && !result.has_value()) return Verdict::kBadBody;
  if (!op->is_exact()) StartClocks(op, now);
  if (op->account == nullptr && op->assembly.Has(info->chunk)) {
    return Verdict::kDuplicate;
  }
  NoteAdvertised(*op, source, header);
  if (op->is_reported() || arrival > op->close_bound) {
    NoteIfTooEarly(*op, header, arrival);
    NoteLateResult(op, *info, arrival);
    return Verdict::kLate;
  }
  if (op->is_exact() && op->state != OpState::kActive) {
    return Verdict::kUnexpected;
  }
  if (op->state != OpState::kActive && !AttachRetained(op, now)) {
    return Verdict::kNoMemory;
  }
  if (op->account != nullptr) {
    if (const Placed placed = TakeResult(op, *info, *result);
        placed != Placed::kOutput) {
      return VerdictOf(placed);
    }
  } else if (op->state != OpState::kActive && op->is_bucketed()) {
    Retain(op, *info, *result);
  } else {
    StoreResult(op, *info, body.data());
  }
  op->assembly.Note(*info, header.contributors);
  op->last_result = arrival;
  op->StageOf(Stage::kTwo).OnPacket(arrival);
  if ((header.flags & wire::kFlagTail) != 0) {
    op->result_tails.Set(source.index());
  }
  if (header.contributors < world()) op->closed_owners.Set(source.index());
  NoteStreamPacket(op, Stage::kTwo, header, info->local, now);
  NoteProgress(op, now);
  if (op->is_exact()) {
    AcknowledgeReceived(op, source, now);
    maybe_sendable_ = true;  // a result is a credit
  }
  MaybeComplete(op, now);
  return Verdict::kAccepted;
}

// Room for results that come before the submit.
bool Group::AttachRetained(Op* op, Timestamp now) {
  if (op->memory.retained != nullptr) return true;
  op->memory.retained = AllocateEvicting(op->retained_bytes(), op->seq, now);
  return op->memory.retained != nullptr;
}

void Group::NoteIfTooEarly(const Op& op, const wire::Header& header,
                           Timestamp arrival) {
  if (op.report.cause == EndCause::kEarly && arrival <= op.close_bound &&
      (header.flags & wire::kFlagRepair) == 0) {
    NoteTooEarly(op);
  }
}

void Group::StoreResult(Op* op, const ChunkInfo& info, const uint8_t* payload) {
  if (op->state != OpState::kActive) {
    std::memcpy(op->memory.retained + info.first * op->plan.element_bytes(),
                payload, info.bytes);
  } else if (op->memory.coefficients != nullptr) {
    op->coefficients.Write(info.first, info.elements, payload);
  } else {
    gradcodec::StoreResult(op->descriptor.dtype, op->plan.wire_dtype(), payload,
                           op->buffers.output + op->OutputOffset(info),
                           info.elements);
  }
}

Verdict Group::OnFeedback(Rank source, const wire::Header& header,
                          std::span<const uint8_t> body, Timestamp now) {
  wire::FeedbackBody feedback;
  if (wire::DecodeFeedback(body, &feedback) != wire::WireError::kOk) {
    return Verdict::kBadBody;
  }
  OnWatermarks(source, feedback.watermarks, now);
  NoteEcho(source, feedback, now);
  NotePathEcho(source, header, feedback, now);
  for (size_t i = 0; i < feedback.num_credits; ++i) {
    OnCredit(source, feedback.credits[i], now);
  }
  // The sender waits for something; who has nothing to tell by himself answers
  // (rule 20). Answers are not answered.
  if (floor_ == high_ && (header.flags & wire::kFlagRepair) == 0) {
    PeerOf(source).feedback_due = true;
    MarkControl(source);
  }
  return Verdict::kAccepted;
}

// How long the packet that is echoed and this one took, together.
void Group::NoteEcho(Rank source, const wire::FeedbackBody& feedback,
                     Timestamp now) {
  constexpr uint32_t kClockMask = 0xFFFFFF;
  if (!feedback.echo_valid || feedback.echo_delay == UINT16_MAX) return;
  const auto clock = static_cast<uint32_t>(now.nanos() / 1000);
  const uint32_t since = (clock - feedback.echo_time) & kClockMask;
  if (since > kClockMask / 2) return;
  PeerOf(source).round_trip.OnSample(
      Duration::Micros(int64_t{since} - feedback.echo_delay));
}

void Group::OnCredit(Rank source, const wire::Credit& credit, Timestamp now) {
  Op* op = FindOp(OpSeq(credit.op_seq));
  if (op == nullptr || op->state != OpState::kActive || !op->is_exact() ||
      op->acknowledged == nullptr) {
    return;
  }
  uint32_t& known = op->acknowledged[source.index()];
  const uint32_t most =
      op->plan.ChunksOf(op->has_stage1() ? source : config_.self);
  if (credit.prefix <= known || credit.prefix > most) return;
  known = credit.prefix;
  NoteProgress(op, now);
  maybe_sendable_ = true;
  MaybeComplete(op, now);
}

Verdict Group::OnNack(Rank source, OpSeq seq, std::span<const uint8_t> body,
                      Timestamp now) {
  wire::NackBody nack;
  if (wire::DecodeNack(body, &nack) != wire::WireError::kOk) {
    return Verdict::kBadBody;
  }
  Op* op = FindOp(seq);
  if (op == nullptr) {
    if (!seq.IsBefore(floor_)) return Verdict::kUnexpected;
    if (nack.kind != wire::NackKind::kOpen) {
      Ask(Request::Kind::kGone, source, seq, 0);
    }
    return Verdict::kStaleOp;
  }
  Count(*op, OpEvent::kNack);
  switch (nack.kind) {
    case wire::NackKind::kOpen:
      if (!op->is_submitted()) return Verdict::kUnexpected;
      Ask(Request::Kind::kOpen, source, seq, 0);
      break;
    case wire::NackKind::kData:
      if (op->is_exact()) {
        AnswerNackData(op, source, nack);
      } else {
        AnswerLostData(op, source, nack, now);
      }
      break;
    case wire::NackKind::kResult:
      if (op->is_bucketed() && op->is_closed() && !CanAnswer(*op)) {
        Ask(Request::Kind::kGone, source, seq, 0);
      } else if (op->is_exact()) {
        AnswerNackResult(op, source, nack);
      } else {
        AnswerLostResults(op, source, nack);
      }
      break;
  }
  return Verdict::kAccepted;
}

// Sends again what was sent before; what the scatter has not reached yet comes
// by itself.
void Group::AnswerNackData(Op* op, Rank source, const wire::NackBody& nack) {
  if (op->state != OpState::kActive || !op->has_stage1()) return;
  const uint32_t chunks = op->plan.ChunksOf(source);
  for (size_t i = 0; i < nack.num_ranges; ++i) {
    const wire::ChunkRange& range = nack.ranges[i];
    for (uint32_t n = 0; n < range.count; ++n) {
      const uint32_t local = range.first + n;
      if (local >= chunks || local >= op->sending.data_next[source.index()]) {
        return;
      }
      if (!Ask(Request::Kind::kData, source, op->seq, local)) return;
    }
  }
}

void Group::AnswerNackResult(Op* op, Rank source, const wire::NackBody& nack) {
  if (!CanAnswer(*op) || !op->has_stage2()) return;
  const uint32_t chunks = op->plan.ChunksOf(config_.self);
  for (size_t i = 0; i < nack.num_ranges; ++i) {
    const wire::ChunkRange& range = nack.ranges[i];
    for (uint32_t n = 0; n < range.count; ++n) {
      const uint32_t local = range.first + n;
      if (local >= chunks) return;
      if (!CanResend(*op, source, local)) continue;
      if (!Ask(Request::Kind::kResult, source, op->seq, local)) return;
    }
  }
}

Verdict Group::OnGone(Rank source, OpSeq seq, Timestamp now) {
  Op* op = FindOp(seq);
  if (op == nullptr) return Verdict::kStaleOp;
  Count(*op, OpEvent::kGone);
  if (op->account != nullptr && (op->is_reported() || !op->is_exact())) {
    StartClocks(op, now);  // rule 3
    OnOwnerGone(op, source, now);
    return Verdict::kAccepted;
  }
  if (op->state != OpState::kActive || !op->is_exact()) {
    return Verdict::kUnexpected;
  }
  op->report.missing.Add(source);
  Report(op, OpStatus::kExpired, EndCause::kError, now);
  CloseOp(op, now);
  return Verdict::kAccepted;
}

}  // namespace optireduce::core
