// Ops with residuals and debts: what a group has its ledger do, and the
// questions after an op's close until nothing lacks any more.

#include <algorithm>
#include <cstring>

#include "dataplane/core/group.h"
#include "dataplane/core/ledger.h"
#include "gradcodec/residual.h"

namespace optireduce::core {
namespace {

constexpr uint32_t kMaxDebtBackoff = 16;
// Intervals of questions for which a closed op keeps its place, so that it is
// not pushed out by newer ops before its losses can have been made good.
constexpr int64_t kPatience = 8;

}  // namespace

// ---- the trainer

bool Group::OpenAccount(Op* op, BufferView buffers) {
  op->account = ledger_.Open(op->descriptor, op->seq, op->descriptor.loss_scale,
                             buffers.input);
  FreeClosedBuffers();  // of the bucket's earlier ops (rule 13)
  return op->account != nullptr;
}

size_t Group::CloseStep(uint64_t step, StepOutcome outcome, Timestamp now) {
  if (step == 0) return 0;
  if (outcome == StepOutcome::kSkipped) NoteSkipped(step);
  const size_t closed = ledger_.CloseStep(step, outcome);
  FreeClosedBuffers();
  AdvanceWindow(now);  // of a skipped step nothing is owed
  return closed;
}

// The op ends for its trainer.
void Group::EndAccount(Op* op, OpStatus status) {
  const bool has_output =
      status == OpStatus::kComplete || status == OpStatus::kPartial;
  if (has_output) {
    op->account->Complete(op->buffers.output);
  } else {
    op->account->Fail(op->buffers.output);
    op->history.owed.debt += op->assembly.present_elements();
  }
  // The others may not even know which op this is.
  if (status == OpStatus::kMismatch) {
    NoteForgiven(op, 0, op->plan.chunk_limit());
    op->account->Evict();
  }
  if (op->descriptor.step == 0) op->account->CloseUsed();
  op->report.holds_buffers = has_output && !op->account->is_closed() &&
                             !op->account->has_all_results();
}

void Group::FreeClosedBuffers() {
  for (OpSeq seq = floor_; seq.IsBefore(next_submit_); seq = seq.Next()) {
    Op* op = FindOp(seq);
    if (op != nullptr && op->account != nullptr && op->account->is_closed()) {
      FreeBuffers(op);
    }
  }
}

void Group::FreeBuffers(Op* op) {
  if (!op->report.holds_buffers) return;
  op->report.holds_buffers = false;
  op->buffers = {};
  PendingEvent event{EventKind::kBuffersFree, config_.self, {}};
  event.report.op_seq = op->seq;
  PushEvent(event);
}

// Nobody can or will say any more what lacks.
void Group::GiveUpOwed(Op* op) {
  if (op->is_owed()) {
    NoteForgiven(op, 0, op->plan.chunk_limit());
    op->account->Evict();
  }
  op->debt_at = Timestamp::Never();
  FreeBuffers(op);
}

// The op's slot is wanted; its step may still be open.
void Group::CloseAccount(Op* op) {
  if (op->account == nullptr) return;
  GiveUpOwed(op);
  ledger_.ReleaseAtClose(op->account);
  op->account = nullptr;
}

void Group::CloseAllAccounts() {
  for (OpSeq seq = floor_; seq.IsBefore(next_submit_); seq = seq.Next()) {
    Op* op = FindOp(seq);
    if (op == nullptr || op->account == nullptr) continue;
    FreeBuffers(op);
    op->account = nullptr;
    op->debt_at = Timestamp::Never();
  }
  ledger_.Clear();
}

// ---- results

Verdict Group::VerdictOf(Placed placed) {
  switch (placed) {
    case Placed::kOutput:
    case Placed::kDebt:
      return Verdict::kAccepted;
    case Placed::kDuplicate:
      return Verdict::kDuplicate;
    case Placed::kConflict:
      return Verdict::kConflict;
    case Placed::kNowhere:
      break;
  }
  return Verdict::kLate;
}

void Group::Retain(Op* op, const ChunkInfo& info, const ChunkResult& result) {
  std::memcpy(op->memory.retained + info.first * op->plan.element_bytes(),
              result.payload, info.bytes);
  op->RetainedAccounts()[info.chunk] = static_cast<uint16_t>(
      result.contributors | (result.imputed ? Op::kImputed : 0));
}

Placed Group::TakeResult(Op* op, const ChunkInfo& info,
                         const ChunkResult& result) {
  uint8_t* out = op->buffers.output == nullptr
                     ? nullptr
                     : op->buffers.output + op->OutputOffset(info);
  const bool was_held = op->account->LacksBooking(info.chunk);
  const Placed placed = op->account->OnResult(info, result, out);
  NoteOwed(op, info, result, was_held, placed);
  return placed;
}

// Also after the op's end: an owner may freeze later than its trainer waits.
void Group::TakeOwnResult(Op* op, uint32_t local) {
  const ChunkInfo info = op->plan.ChunkOf(config_.self, local);
  const uint16_t contributors = op->reduction.Contributors(local);
  TakeResult(op, info,
             {.payload = op->reduction.Result(local).data(),
              .contributors = contributors,
              .imputed = op->reduction.IsImputed(local),
              .included = op->reduction.HasArrived(local, config_.self),
              .remainder = op->reduction.Remainder(local).data()});
  if (op->state == OpState::kActive) op->assembly.Note(info, contributors);
}

// What came before the submit is without this rank's contribution.
void Group::TakeRetainedResults(Op* op) {
  for (uint32_t chunk = 0; chunk < op->plan.chunk_limit(); ++chunk) {
    if (!op->assembly.Has(chunk)) continue;
    const ChunkInfo info = *op->plan.Locate(chunk);
    const uint16_t account = op->RetainedAccounts()[chunk];
    TakeResult(
        op, info,
        {.payload = op->memory.retained + info.first * op->plan.element_bytes(),
         .contributors = static_cast<uint16_t>(account & ~Op::kImputed),
         .imputed = (account & Op::kImputed) != 0,
         .included = false});
  }
}

// A result after the op's end, asked for or on its own.
Verdict Group::OnLateResult(Rank source, const wire::Header& header,
                            std::span<const uint8_t> body, Timestamp arrival,
                            Op* op, Timestamp now) {
  if (header.fingerprint != op->fingerprint) return Verdict::kFingerprint;
  if (op->mismatched) return Verdict::kUnexpected;
  const std::optional<ChunkInfo> info = op->plan.Locate(header.chunk);
  if (!info.has_value() || info->owner != source) return Verdict::kBadChunk;
  if (op->has_accounts()) return OnLateAccount(*info, body, op, now);
  if (body.size() != info->bytes) return Verdict::kBadChunkLength;
  const std::optional<ChunkResult> result = ResultIn(header, body);
  if (!result.has_value()) return Verdict::kBadBody;
  NoteIfTooEarly(*op, header, arrival);
  const Placed placed = TakeResult(op, *info, *result);
  if (placed != Placed::kConflict) NoteLateResult(op, *info, arrival);
  if (placed == Placed::kOutput || placed == Placed::kDebt) {
    op->debt_backoff = 1;
  }
  OnOwedLess(op, now);
  return VerdictOf(placed);
}

// What a packet says, if it can be true.
std::optional<ChunkResult> Group::ResultIn(
    const wire::Header& header, std::span<const uint8_t> body) const {
  ChunkResult result;
  result.payload = body.data();
  result.contributors = header.contributors;
  result.imputed = (header.flags & wire::kFlagImputed) != 0;
  result.included = (header.flags & wire::kFlagIncluded) != 0;
  const uint16_t c = result.contributors;
  if (c > world() || (c == 0 && *result.included) ||
      (c == world() && !*result.included) ||
      (result.imputed && !gradcodec::IsImputed(c, world(), false))) {
    return std::nullopt;
  }
  return result;
}

// Something that lacked is here or forgiven. The op may lose its slot.
void Group::OnOwedLess(Op* op, Timestamp now) {
  if (op->report.holds_buffers && op->account->has_all_results()) {
    FreeBuffers(op);
  }
  if (op->is_owed()) return;
  op->debt_at = Timestamp::Never();
  if (op->is_closed()) AdvanceWindow(now);
}

// ---- questions (rule 16)

void Group::BeginQuestions(Op* op, Timestamp now) {
  if (!op->is_bucketed()) return;
  if (op->account != nullptr && ClosedUnreduced(*op)) VoidOwnShard(op);
  op->kept_until = now + config_.nack_interval * kPatience;
  if (!op->is_owed()) return;
  op->debt_at = now + Jitter(config_.nack_interval);
  Rearm(op);
}

// Whether room is to be made at another's cost for now: this rank, or one that
// had a part in the op, may still get what it lacks. Who is so late that it has
// not opened the op holds nobody.
bool Group::MayBeOwed(const Op& op, Timestamp now) const {
  if (now >= op.kept_until) return false;
  if (op.is_owed()) return true;
  for (size_t i = 0; i < world(); ++i) {
    const Rank rank = RankAt(i);
    if (!IsSelf(rank) && WantsPackets(rank) &&
        op.seq.IsBefore(peers_[i].open_upto) &&
        !op.seq.IsBefore(peers_[i].done_upto)) {
      return true;
    }
  }
  return false;
}

// Asks every owner of a chunk of which the result lacks, or the word whether
// the contribution was summed; again with backoff and jitter.
void Group::AdvanceDebts(Op* op, Timestamp now) {
  const uint32_t limit = op->plan.chunk_limit();
  for (uint32_t chunk = op->account->FindLacking(0); chunk < limit;) {
    const ChunkInfo info = *op->plan.Locate(chunk);
    if (!IsSelf(info.owner)) {
      Ask(Request::Kind::kNackResult, info.owner, op->seq, 0);
    }
    const uint32_t next_shard =
        info.chunk - info.local + op->plan.ChunksOf(info.owner);
    chunk = op->account->FindLacking(next_shard);
  }
  const Duration wait = config_.nack_interval * op->debt_backoff;
  op->debt_at = now + wait + Jitter(wait);
  op->debt_backoff = std::min(op->debt_backoff * 2, kMaxDebtBackoff);
}

// Of the chunks of one reply.
bool Group::LacksOf(const Op& op, const ChunkInfo& first) const {
  return op.account->FindLacking(first.chunk) <
         first.chunk + op.ChunksFrom(first);
}

// ---- answers

// Whether its frozen chunks are here, or may come to be.
bool Group::CanAnswer(const Op& op) const {
  return op.has_descriptor && op.memory.block != nullptr && !op.mismatched &&
         !ClosedUnreduced(op);
}

// A flush that ended with an error before all had come, or an op that closed
// without memory and was submitted then: what is not summed here will never be.
bool Group::ClosedUnreduced(const Op& op) const {
  return op.is_bucketed() && op.is_closed() && !op.reduction.all_frozen();
}

void Group::VoidOwnShard(Op* op) {
  for (uint32_t local = 0; local < op->reduction.chunks(); ++local) {
    if (op->reduction.IsFrozen(local)) continue;
    TakeResult(op, op->plan.ChunkOf(config_.self, local), {.included = false});
  }
}

// Its results are kept no longer, or never were.
void Group::OnOwnerGone(Op* op, Rank owner, Timestamp now) {
  if (const uint32_t chunks = op->plan.ChunksOf(owner); chunks > 0) {
    const uint32_t first = op->plan.ChunkOf(owner, 0).chunk;
    NoteForgiven(op, first, first + chunks);
  }
  for (uint32_t local = 0; local < op->plan.ChunksOf(owner); ++local) {
    op->account->NoHolder(op->plan.ChunkOf(owner, local));
  }
  OnOwedLess(op, now);
}

}  // namespace optireduce::core
