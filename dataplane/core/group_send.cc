// What to send next. Order: control, answers, descriptors, results, data: the
// nearer a packet is to the end of an op, the earlier it leaves.

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "dataplane/core/group.h"
#include "gradcodec/accumulate.h"

namespace optireduce::core {
namespace {

using wire::PacketType;

// Chunks of the scatter looked at per packet, so that skipping what is not
// needed any more stays bounded work.
constexpr uint32_t kScatterBudget = 4096;

// Likewise answers that wait for their path.
constexpr size_t kMostWaiting = 64;

}  // namespace

// False if the ring is full; who asked will ask again.
bool Group::Ask(Request::Kind kind, Rank peer, OpSeq seq, uint32_t chunk) {
  if (requests_count_ == requests_.size()) return false;
  requests_[(requests_head_ + requests_count_) % requests_.size()] = {
      kind, peer, seq, chunk};
  ++requests_count_;
  requests_ready_ = true;
  return true;
}

Timestamp Group::NextPacketAt(Timestamp now) {
  if ((requests_ready_ && requests_count_ > 0) ||
      control_due_.FindFirstSet() < world()) {
    return now;
  }
  return maybe_sendable_ ? share_.NextSend(now) : blocked_until_;
}

wire::Watermarks Group::OwnWatermarks() const {
  return {next_submit_.value(), done_.value()};
}

wire::Header Group::HeaderFor(PacketType type, Timestamp now) const {
  wire::Header header;
  header.type = type;
  header.tag = config_.tag;
  header.source = config_.self.value();
  header.send_time = static_cast<uint32_t>(now.nanos() / 1000) & 0xFFFFFF;
  return header;
}

// The body is in place; writes the header and the trailer.
void Group::Finish(const wire::Header& header, Rank peer, TxDescriptor* out,
                   Timestamp now) {
  wire::EncodeHeader(header, out->buffer);
  out->length = static_cast<uint32_t>(
      wire::Seal(out->buffer, wire::kHeaderBytes + header.length));
  out->source = config_.members[config_.self.index()];
  out->destination = PeerOf(peer).endpoint;
  out->flow = static_cast<uint16_t>(header.op_seq * 31 + peer.value());
  out->ecn_capable = config_.congestion_control;
  NoteSent(peer, out->length + kEncapsulationBytes, now);
}

bool Group::NextPacket(TxDescriptor* out, Timestamp now) {
  if (now >= blocked_until_) {
    blocked_until_ = Timestamp::Never();
    requests_ready_ = maybe_sendable_ = true;
  }
  if (NextControl(out, now) || NextRequest(out, now)) return true;
  if (!share_.MaySend(now)) return false;
  // Looking may make something sendable: the own chunk may be the last that a
  // result waits for.
  while (std::exchange(maybe_sendable_, false)) {
    if (NextOpen(out, now) || NextResult(out, now) || NextData(out, now)) {
      maybe_sendable_ = true;
      return true;
    }
  }
  return false;
}

bool Group::NextControl(TxDescriptor* out, Timestamp now) {
  const size_t index = control_due_.FindFirstSet();
  if (index >= world()) return false;
  const Rank rank = RankAt(index);
  Peer& peer = peers_[index];
  uint8_t* body = out->buffer + wire::kHeaderBytes;
  wire::Header header;
  size_t length = 0;
  if (peer.hello_due) {
    header = HeaderFor(PacketType::kHello, now);
    wire::HelloBody hello;
    hello.reply_wanted = peer.hello_reply_wanted;
    hello.formed = phase_ == Phase::kReady;
    hello.settings_hash = settings_hash_;
    hello.sequence = hello_sequence_++;
    length = wire::EncodeHello(hello, body);
    peer.hello_due = peer.hello_reply_wanted = false;
  } else if (peer.probe_due || peer.probe_reply_bytes != 0) {
    header = HeaderFor(PacketType::kProbe, now);
    wire::ProbeBody probe;
    probe.reply = !peer.probe_due;
    probe.probed_bytes = probe.reply
                             ? peer.probe_reply_bytes
                             : static_cast<uint16_t>(config_.payload_bytes);
    length = wire::EncodeProbe(
        probe,
        probe.reply ? wire::kProbeFixedBytes : size_t{config_.payload_bytes},
        body);
    if (probe.reply) peer.probe_reply_bytes = 0;
    peer.probe_due = false;
  } else if (peer.leave_due) {
    header = HeaderFor(PacketType::kLeave, now);
    wire::LeaveBody leave;
    leave.watermarks = {gone_from_.value(), done_.value()};
    leave.reason = leave_reason_;
    length = wire::EncodeLeave(leave, body);
    peer.leave_due = false;
  } else {
    header = HeaderFor(PacketType::kFeedback, now);
    if (floor_ == high_) header.flags = wire::kFlagRepair;  // an answer
    length = EncodeFeedback(rank, body, now);
    peer.feedback_due = false;
    peer.told_done = done_;
  }
  if (!peer.has_control_due()) control_due_.Clear(index);
  header.length = static_cast<uint16_t>(length);
  Finish(header, rank, out, now);
  return true;
}

size_t Group::EncodeFeedback(Rank rank, uint8_t* body, Timestamp now) {
  Peer& peer = PeerOf(rank);
  wire::FeedbackBody feedback;
  feedback.watermarks = OwnWatermarks();
  feedback.echo_valid = peer.echo_valid;
  feedback.echo_time = peer.echo_time;
  feedback.echo_delay = static_cast<uint16_t>(std::clamp<int64_t>(
      (now - peer.echo_arrival).nanos() / 1000, 0, UINT16_MAX));
  feedback.received = static_cast<uint32_t>(peer.packets_received);
  feedback.ecn_marks = peer.ecn_marks;
  peer.unechoed = 0;
  peer.echoed_at = now;
  peer.echo_valid = false;  // one sample per packet
  for (OpSeq seq = floor_; seq.IsBefore(high_); seq = seq.Next()) {
    const Op* op = FindOp(seq);
    if (op == nullptr || !op->has_descriptor || !op->is_exact() ||
        op->memory.block == nullptr || op->mismatched) {
      continue;
    }
    if (feedback.num_credits == wire::FeedbackBody::kMaxCredits) break;
    const uint32_t prefix =
        op->has_stage1() ? op->reduction.prefix() : op->assembly.PrefixOf(rank);
    feedback.credits[feedback.num_credits++] = {seq.value(), prefix};
  }
  return wire::EncodeFeedback(feedback, body);
}

bool Group::NextRequest(TxDescriptor* out, Timestamp now) {
  size_t waiting = 0;
  for (size_t left = requests_ready_ ? requests_count_ : 0;
       left > 0 && waiting < kMostWaiting; --left) {
    const Request request = requests_[requests_head_];
    requests_head_ = (requests_head_ + 1) % requests_.size();
    --requests_count_;
    if (PeerOf(request.peer).dead) continue;
    if (MustWait(request, now)) {
      Ask(request.kind, request.peer, request.seq, request.chunk);
      ++waiting;
      continue;
    }
    if (AnswerRequest(request, out, now)) return true;
  }
  requests_ready_ = false;
  return false;
}

// Chunks are paced whenever they are sent; questions wait for nobody.
bool Group::MustWait(const Request& request, Timestamp now) {
  return (request.kind == Request::Kind::kResult ||
          request.kind == Request::Kind::kData) &&
         !(MayUseShare(now) && MaySendTo(request.peer, now));
}

// False if the op has moved on and there is nothing to say any more.
bool Group::AnswerRequest(const Request& request, TxDescriptor* out,
                          Timestamp now) {
  Op* op = FindOp(request.seq);
  const Rank peer = request.peer;
  if (request.kind == Request::Kind::kGone) {
    if (op != nullptr && CanAnswer(*op)) return false;
    wire::Header header = HeaderFor(PacketType::kGone, now);
    header.op_seq = request.seq.value();
    Finish(header, peer, out, now);
    return true;
  }
  if (op == nullptr) return false;
  switch (request.kind) {
    case Request::Kind::kResult:
      if (!CanResend(*op, peer, request.chunk) ||
          !MayRepair(op, ReplyBytes(*op, request.chunk))) {
        return false;
      }
      SendResult(op, peer, request.chunk, wire::kFlagRepair, out, now);
      return true;
    case Request::Kind::kData:
      return op->state == OpState::kActive &&
             MayRepair(op, op->plan.ChunkOf(peer, request.chunk).bytes) &&
             SendData(op, peer, op->plan.ChunkOf(peer, request.chunk),
                      wire::kFlagRepair, out, now);
    case Request::Kind::kOpen:
      SendOpen(op, peer, out, now);
      return true;
    case Request::Kind::kNackOpen:
      return SendNack(op, peer, wire::NackKind::kOpen, out, now);
    case Request::Kind::kNackData:
      return SendNack(op, peer, wire::NackKind::kData, out, now);
    case Request::Kind::kNackResult:
      return SendNack(op, peer, wire::NackKind::kResult, out, now);
    case Request::Kind::kGone:
      break;
  }
  return false;
}

// Each peer gets the OPEN of a bounded op twice: what an owner is sent without
// it is lost. Not who has opened the op, and so knows it.
bool Group::NextOpen(TxDescriptor* out, Timestamp now) {
  for (OpSeq seq = floor_; seq.IsBefore(next_submit_); seq = seq.Next()) {
    Op* op = FindOp(seq);
    if (op == nullptr || op->local_only || !op->is_submitted()) continue;
    const size_t rounds = op->is_exact() ? 1 : 2;
    uint32_t& next = op->sending.opens;
    while (next < rounds * world()) {
      const Rank rank = RankAt(next % world());
      const bool again = next >= world();
      ++next;
      if (IsSelf(rank) || !WantsPackets(rank) ||
          (again && seq.IsBefore(PeerOf(rank).open_upto))) {
        continue;
      }
      SendOpen(op, rank, out, now);
      return true;
    }
  }
  return false;
}

void Group::SendOpen(Op* op, Rank peer, TxDescriptor* out, Timestamp now) {
  wire::OpenBody open;
  open.watermarks = OwnWatermarks();
  open.collective = static_cast<uint8_t>(op->descriptor.collective);
  open.reduce_op = static_cast<uint8_t>(op->descriptor.reduce_op);
  open.dtype = static_cast<uint8_t>(op->descriptor.dtype);
  open.mode = static_cast<uint8_t>(op->descriptor.mode);
  open.codec = static_cast<uint8_t>(op->descriptor.codec);
  open.root = op->descriptor.root.value();
  open.count = op->descriptor.count;
  open.bucket = op->descriptor.bucket;
  open.step = op->descriptor.step;
  wire::Header header = HeaderFor(PacketType::kOpen, now);
  header.op_seq = op->seq.value();
  header.fingerprint = op->fingerprint;
  header.length = static_cast<uint16_t>(
      wire::EncodeOpen(open, out->buffer + wire::kHeaderBytes));
  Finish(header, peer, out, now);
}

// Whether a frozen or gathered chunk, or an account, can be sent again. Of an
// exact op not while the asker's first copies wait: what it lacks may be among
// them.
bool Group::CanResend(const Op& op, Rank peer, uint32_t local) const {
  if (!op.has_descriptor || op.memory.block == nullptr || op.mismatched ||
      local >= op.RepliesOf(config_.self)) {
    return false;
  }
  if (op.has_accounts()) return op.reduction.all_frozen();
  const uint32_t sent = op.sending.results_next[peer.index()];
  if (!op.has_stage1()) return op.state == OpState::kActive && local < sent;
  return op.reduction.IsFrozen(local) &&
         (!op.is_exact() || sent == op.sending.results_frozen);
}

void Group::QueueResult(Op* op, uint32_t local) {
  op->sending.result_places[local] = op->sending.results_frozen;
  op->sending.results[op->sending.results_frozen++] = local;
  op->sending.results_owed += world();
}

bool Group::NextResult(TxDescriptor* out, Timestamp now) {
  for (OpSeq seq = floor_; seq.IsBefore(high_); seq = seq.Next()) {
    Op* op = FindOp(seq);
    if (op != nullptr && op->memory.block != nullptr &&
        ResultOf(op, out, now)) {
      return true;
    }
  }
  return false;
}

bool Group::ResultOf(Op* op, TxDescriptor* out, Timestamp now) {
  OpSending& sending = op->sending;
  const bool gathered = !op->has_stage1();
  // A gathered chunk is read from the trainer's buffer and lands in that of the
  // receiver: both must be there.
  if (gathered &&
      (op->state != OpState::kActive || op->opened_count < world())) {
    return false;
  }
  for (size_t idle = 0; idle < world() && sending.results_owed > 0; ++idle) {
    // Everybody starts with another receiver.
    const Rank rank =
        RankAt((config_.self.index() + 1 + sending.results_turn) % world());
    sending.results_turn = (sending.results_turn + 1) % world();
    uint32_t& next = sending.results_next[rank.index()];
    if (next == sending.results_frozen) continue;
    if (IsSelf(rank) || !WantsPackets(rank) ||
        op->seq.IsBefore(PeerOf(rank).done_upto)) {
      sending.results_owed -= sending.results_frozen - next;
      next = sending.results_frozen;
      continue;
    }
    if (!MaySendTo(rank, now)) continue;
    const bool tail =
        sending.results_total - next <= TailLength(sending.results_total);
    const uint32_t local = sending.results[next++];
    --sending.results_owed;
    SendResult(op, rank, local, tail ? wire::kFlagTail : 0, out, now);
    return true;
  }
  return false;
}

uint32_t Group::ReplyBytes(const Op& op, uint32_t reply) const {
  const ChunkInfo first = op.ChunkOfReply(config_.self, reply);
  return op.has_accounts() ? AccountBytes(op, first) : first.bytes;
}

void Group::SendResult(Op* op, Rank peer, uint32_t local, uint8_t flags,
                       TxDescriptor* out, Timestamp now) {
  if (op->has_accounts()) {
    SendAccount(op, peer, local, flags, out, now);
    return;
  }
  const ChunkInfo info = op->plan.ChunkOf(config_.self, local);
  wire::Header header = HeaderFor(PacketType::kResult, now);
  header.op_seq = op->seq.value();
  header.fingerprint = op->fingerprint;
  header.chunk = info.chunk;
  header.length = static_cast<uint16_t>(info.bytes);
  header.flags = flags;
  header.timeout = Advertised(*op);
  const uint8_t* payload = nullptr;
  if (op->has_stage1()) {
    payload = op->reduction.Result(local).data();
    header.contributors = op->reduction.Contributors(local);
    if (op->reduction.HasArrived(local, peer)) {
      header.flags |= wire::kFlagIncluded;
    }
    if (op->reduction.IsImputed(local)) header.flags |= wire::kFlagImputed;
  } else {
    payload = op->buffers.input + op->InputOffset(info);
    header.contributors = static_cast<uint16_t>(world());
    header.flags |= wire::kFlagIncluded;
  }
  std::memcpy(out->buffer + wire::kHeaderBytes, payload, info.bytes);
  Finish(header, peer, out, now);
  if ((flags & wire::kFlagRepair) == 0) op->repair_budget.OnFirst(out->length);
}

bool Group::NextData(TxDescriptor* out, Timestamp now) {
  for (OpSeq seq = floor_; seq.IsBefore(next_submit_); seq = seq.Next()) {
    Op* op = FindOp(seq);
    if (op != nullptr && op->state == OpState::kActive &&
        DataOf(op, out, now)) {
      return true;
    }
  }
  return false;
}

// The scatter, chunk-major: position j goes to all owners before j + 1, but for
// owners that must wait.
bool Group::DataOf(Op* op, TxDescriptor* out, Timestamp now) {
  OpSending& sending = op->sending;
  if (now >= op->send_bound && !op->is_exact()) {
    sending.streams_left = 0;  // nobody would sum it
  }
  size_t waiting = 0;  // streams in a row
  for (uint32_t budget = kScatterBudget; budget > 0; --budget) {
    if (sending.streams_left == 0 || waiting == world()) return false;
    if (sending.data_turn == 0) sending.streams_before = 0;
    // Everybody starts with another owner, and with himself last.
    const Rank owner =
        RankAt((config_.self.index() + 1 + sending.data_turn) % world());
    sending.data_turn = (sending.data_turn + 1) % world();
    uint32_t& position = sending.data_next[owner.index()];
    const uint32_t chunks = op->plan.ChunksOf(owner);
    const bool through = position == chunks;
    const bool may = !through && MaySendData(*op, owner, position, now);
    sending.streams_before += !through;
    if (!may) {
      ++waiting;
      continue;
    }
    waiting = 0;
    const bool sent = NextOfStream(op, owner, position++, out, now);
    if (op->state != OpState::kActive) return sent;  // its last own chunk
    if (position == chunks) {
      --sending.streams_left;
      --sending.streams_before;
    }
    if (sent) return true;
  }
  return false;
}

// Whether there was something to send: not to oneself, nor what is known to be
// of no use.
bool Group::NextOfStream(Op* op, Rank owner, uint32_t position,
                         TxDescriptor* out, Timestamp now) {
  if (!IsExpected(owner, op->seq)) return false;
  const uint32_t chunks = op->plan.ChunksOf(owner);
  const uint32_t local = StreamChunk(*op, owner, position, chunks);
  if (IsSelf(owner)) {
    AddOwnChunk(op, local, now);
    return false;
  }
  const ChunkInfo info = op->plan.ChunkOf(owner, local);
  if (op->assembly.Has(info.chunk)) return false;  // reduced already
  const bool tail = chunks - position <= TailLength(chunks);
  return SendData(op, owner, info, tail ? wire::kFlagTail : 0, out, now);
}

// In bounded mode every stream starts at an offset of its own, so that a cut
// tail hits other chunks each time. In exact mode all start alike: the owner
// can only hold a few chunks at once.
uint32_t Group::StreamChunk(const Op& op, Rank owner, uint32_t position,
                            uint32_t chunks) const {
  if (op.is_exact()) return position;
  const uint32_t offset =
      StreamOffset(config_.tag, op.seq, config_.self, owner, chunks);
  return (offset + position) % chunks;
}

bool Group::MaySendData(const Op& op, Rank owner, uint32_t position,
                        Timestamp now) {
  if (!op.is_exact()) {
    return IsSelf(owner) || (MayStartStream(op) && MaySendTo(owner, now));
  }
  return HasCredit(op, owner, position) &&
         (IsSelf(owner) || MaySendTo(owner, now));
}

// Exact mode: an owner takes chunks once it has opened the op, and as far as
// its stash reaches.
bool Group::HasCredit(const Op& op, Rank owner, uint32_t position) const {
  if (IsSelf(owner)) return position < op.reduction.credit_limit();
  if (!op.seq.IsBefore(PeerOf(owner).open_upto)) return false;
  uint32_t reduced = op.acknowledged[owner.index()];
  if (op.has_stage2()) reduced = std::max(reduced, op.assembly.PrefixOf(owner));
  const uint32_t window = Reduction::CreditWindow(
      op.plan.elements_per_chunk() * op.plan.element_bytes(), world());
  return position < reduced + window;
}

void Group::AddOwnChunk(Op* op, uint32_t local, Timestamp now) {
  if (op->freezing || op->reduction.IsFrozen(local)) return;
  std::array<uint8_t, wire::kMaxMtu> encoded;
  const ChunkInfo info = op->plan.ChunkOf(config_.self, local);
  const uint8_t* input = op->buffers.input + op->InputOffset(info);
  if (op->memory.coefficients != nullptr || op->account != nullptr ||
      IsNarrowing(op->descriptor.codec)) {
    if (!ReadInput(op, info, encoded.data())) return;
    input = encoded.data();
  }
  if (op->reduction.Add(local, config_.self, input) ==
      Reduction::AddResult::kAdded) {
    NoteProgress(op, now);
    OnContribution(op, local, config_.self, now, now);
  }
}

// The contribution as it goes on the wire; false if it must not be sent.
bool Group::ReadInput(Op* op, const ChunkInfo& info, uint8_t* out) {
  if (op->account != nullptr) return op->account->Contribution(info, out);
  if (op->memory.coefficients != nullptr) {
    op->coefficients.Read(info.first, info.elements, out);
    return true;
  }
  const uint8_t* input = op->buffers.input + op->InputOffset(info);
  if (IsNarrowing(op->descriptor.codec)) {
    gradcodec::ScaleAndRound(op->plan.wire_dtype(), gradcodec::ReduceOp::kSum,
                             input, 1, 1, out, info.elements);
  } else {
    std::memcpy(out, input, info.bytes);
  }
  return true;
}

bool Group::SendData(Op* op, Rank peer, const ChunkInfo& info, uint8_t flags,
                     TxDescriptor* out, Timestamp now) {
  if (!ReadInput(op, info, out->buffer + wire::kHeaderBytes)) return false;
  wire::Header header = HeaderFor(PacketType::kData, now);
  header.op_seq = op->seq.value();
  header.fingerprint = op->fingerprint;
  header.chunk = info.chunk;
  header.length = static_cast<uint16_t>(info.bytes);
  header.flags = flags;
  header.timeout = Advertised(*op);
  Finish(header, peer, out, now);
  if ((flags & wire::kFlagRepair) == 0) op->repair_budget.OnFirst(out->length);
  return true;
}

// Lists what lacks now; false if nothing does any more.
bool Group::SendNack(Op* op, Rank peer, wire::NackKind kind, TxDescriptor* out,
                     Timestamp now) {
  wire::NackBody nack;
  nack.kind = kind;
  if (kind == wire::NackKind::kOpen) {
    if (op->has_descriptor && !op->mismatched &&
        op->state != OpState::kActive) {
      return false;
    }
  } else if (op->is_exact() || op->is_reported()
                 ? !ListLacking(*op, peer, &nack)
                 : !TakeLost(op, peer, now, &nack)) {
    return false;
  }
  wire::Header header = HeaderFor(PacketType::kNack, now);
  header.op_seq = op->seq.value();
  header.fingerprint = op->fingerprint;
  header.length = static_cast<uint16_t>(
      wire::EncodeNack(nack, out->buffer + wire::kHeaderBytes));
  Finish(header, peer, out, now);
  return true;
}

bool Group::ListLacking(const Op& op, Rank peer, wire::NackBody* nack) const {
  const bool owed = op.account != nullptr && op.is_reported();
  if (!owed && (op.state != OpState::kActive || op.memory.block == nullptr)) {
    return false;
  }
  const bool data = nack->kind == wire::NackKind::kData;
  const uint32_t chunks = data ? op.plan.ChunksOf(peer) : op.RepliesOf(peer);
  uint32_t begin = 0;
  if (!owed) begin = data ? op.reduction.prefix() : op.assembly.PrefixOf(peer);
  const uint32_t end = data ? op.reduction.credit_limit() : chunks;
  for (uint32_t local = begin; local < end; ++local) {
    const bool lacks =
        owed   ? LacksOf(op, op.ChunkOfReply(peer, local))
        : data ? !op.reduction.HasArrived(local, peer)
               : !op.assembly.Has(op.ChunkOfReply(peer, local).chunk);
    if (lacks && !AddLacking(local, nack)) break;
  }
  return nack->num_ranges > 0;
}

}  // namespace optireduce::core
