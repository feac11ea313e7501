// Clocks, limits, early ends, repeats.

#include <algorithm>

#include "dataplane/core/group.h"

namespace optireduce::core {
namespace {

constexpr uint32_t kMaxFeedbackBackoff = 16;
constexpr uint32_t kMaxRepairBackoff = 16;
// A rank of a large group spreads its repeats out.
constexpr Duration kFeedbackPerPeer = Duration::Micros(20);
// Chunks frozen per Advance when a stage closes on a large shard.
constexpr uint32_t kFreezeBudget = 256;
// "Almost everything in".
constexpr uint64_t kAlmostPercent = 99;

}  // namespace

size_t Group::QuorumSize() const {
  return (world() * config_.quorum_permille + 999) / 1000;
}

// Rule 3. Clocks start at the quorum, so that a quarter of late ranks is
// bounded, but one early rank closes nobody's op.
void Group::MaybeStartClocks(Op* op, Timestamp now) {
  if (op->opened_count >= QuorumSize()) StartClocks(op, now);
}

// Rule 4. Until the descriptor is known nobody can say whether the op is an
// exact one, which has no bounds.
void Group::StartClocks(Op* op, Timestamp now) {
  if (op->is_closed() || op->report.quorum != Timestamp::Never()) return;
  Count(*op, OpEvent::kQuorum);
  op->report.quorum = now;
  SetBounds(op);
  Rearm(op);
}

// Of a bounded op whose clocks run.
void Group::SetBounds(Op* op) {
  const Timestamp quorum = op->report.quorum;
  if (quorum == Timestamp::Never() || !op->has_descriptor || op->is_exact()) {
    return;
  }
  const Bounds bounds = bounds_.BoundsOf(op->bytes());
  op->stage1_bound = quorum + bounds.stage1;
  op->send_bound = quorum + bounds.send;
  op->close_bound = quorum + bounds.result;
  op->grace_end = quorum + bounds.grace;
  op->early_wait = bounds.early_wait;
  op->early_check_at = quorum + bounds.early_wait;
  lateness_.OnQuorum();
  op->report.stage1_bound = bounds.stage1;
  op->report.result_bound = bounds.result;
  op->limit = std::min(op->limit, op->close_bound);
  RepairBy(op, quorum);
  NoteNeed(*op, bounds.result);
}

Timestamp Group::DueOf(const Op& op) const {
  if (op.state == OpState::kFree) return Timestamp::Never();
  if (op.is_closed()) return op.debt_at;
  if (!op.has_descriptor) {
    return op.opened_count > 0 ? op.ask_open_at : Timestamp::Never();
  }
  const bool active = op.state == OpState::kActive;
  Timestamp due =
      active ? std::min(op.hard_limit, op.abandon_at) : Timestamp::Never();
  if (op.is_exact()) {
    return active ? std::min(due, op.repair_at) : Timestamp::Never();
  }
  if (op.freezing && !op.reduction.all_frozen()) return last_advance_;
  due = std::min(due, op.close_bound);
  if (!op.freezing) due = std::min(due, op.stage1_bound);
  due = std::min(due, op.repair_at);
  if (active) due = std::min(due, op.limit);
  return std::min(due, op.early_check_at);
}

void Group::Rearm(Op* op) {
  op->due = DueOf(*op);
  WakeBy(op->due);
}

void Group::WakeBy(Timestamp when) { next_due_ = std::min(next_due_, when); }

void Group::FeedbackSoon(Timestamp now) {
  feedback_backoff_ = 1;
  feedback_at_ = std::min(feedback_at_, now + FeedbackInterval());
  WakeBy(feedback_at_);
}

Duration Group::FeedbackInterval() const {
  return std::max(config_.feedback_interval,
                  kFeedbackPerPeer * static_cast<int64_t>(world()));
}

// Up to half an interval. Repeats of many ranks must not fall together each
// time: a queue that drops one of them would drop the same one for ever.
Duration Group::Jitter(Duration interval) {
  const auto half = static_cast<uint64_t>(interval.nanos()) / 2;
  return Duration::Nanos(static_cast<int64_t>(rng_.Below(half + 1)));
}

void Group::Advance(Timestamp now) {
  // A poller that was not scheduled has heard nobody: not their silence.
  const Duration gap = now - last_advance_;
  if (gap > config_.heartbeat * 2) {
    for (Peer& peer : peers_) {
      peer.last_heard = std::min(now, peer.last_heard + gap);
    }
  }
  last_advance_ = std::max(last_advance_, now);
  bounds_.OnPause(now - wanted_at_);
  AdvanceDue(now);
  wanted_at_ = std::max(next_due_, now);
}

void Group::AdvanceDue(Timestamp now) {
  if (now < next_due_) return;
  next_due_ = Timestamp::Never();
  if (now >= hello_at_) AdvanceFormation(now);
  if (now >= liveness_at_) AdvanceLiveness(now);
  if (phase_ == Phase::kLeaving) {
    AdvanceLeaving(now);
  } else if (now >= heartbeat_at_) {
    AdvanceHeartbeat(now);
  }
  if (now >= feedback_at_) AdvanceFeedback(now);
  for (OpSeq seq = floor_; seq.IsBefore(high_); seq = seq.Next()) {
    Op* op = FindOp(seq);
    if (op == nullptr) continue;
    if (now >= op->due) AdvanceOp(op, now);
    if ((op = FindOp(seq)) != nullptr) Rearm(op);
  }
  for (Timestamp at :
       {hello_at_, liveness_at_, heartbeat_at_, feedback_at_,
        phase_ == Phase::kLeaving ? release_by_ : Timestamp::Never()}) {
    WakeBy(at);
  }
}

void Group::AdvanceHeartbeat(Timestamp now) {
  for (size_t i = 0; i < world(); ++i) {
    if (IsSelf(RankAt(i)) || !WantsPackets(RankAt(i))) continue;
    peers_[i].hello_due = true;
    MarkControl(RankAt(i));
  }
  heartbeat_at_ = now + config_.heartbeat - Jitter(config_.heartbeat);
}

// Both watermarks, to all who lack something, while any op is live (rule 3).
void Group::AdvanceFeedback(Timestamp now) {
  for (size_t i = 0; i < world(); ++i) {
    Peer& peer = peers_[i];
    if (IsSelf(RankAt(i)) || peer.dead) continue;
    if ((!peer.left && peer.done_upto.IsBefore(high_)) ||
        peer.told_done != done_) {
      peer.feedback_due = true;
      MarkControl(RankAt(i));
    }
  }
  const Duration wait = FeedbackInterval() * feedback_backoff_;
  feedback_at_ =
      floor_ == high_ ? Timestamp::Never() : now + wait + Jitter(wait);
  feedback_backoff_ = std::min(feedback_backoff_ * 2, kMaxFeedbackBackoff);
}

void Group::AdvanceOp(Op* op, Timestamp now) {
  if (op->is_closed()) {
    if (now >= op->debt_at) AdvanceDebts(op, now);
  } else if (!op->has_descriptor) {
    AskAnyOpen(op, now);
  } else if (op->is_exact()) {
    AdvanceExact(op, now);
  } else {
    AdvanceBounded(op, now);
  }
}

void Group::AskAnyOpen(Op* op, Timestamp now) {
  const size_t start = rng_.Below(world());
  for (size_t i = 0; i < world(); ++i) {
    const Rank rank = RankAt((start + i) % world());
    if (IsSelf(rank) || !WantsPackets(rank)) continue;
    if (op->seq.IsBefore(PeerOf(rank).open_upto)) {
      AskOpen(op, rank, now);
      return;
    }
  }
  op->ask_open_at = now + config_.nack_interval;
}

void Group::AdvanceExact(Op* op, Timestamp now) {
  if (op->state != OpState::kActive) return;
  if (EndIfOverdue(op, now)) {
    CloseOp(op, now);
  } else if (now >= op->repair_at) {
    AdvanceRepair(op, now);
  }
}

void Group::AdvanceBounded(Op* op, Timestamp now) {
  const OpSeq seq = op->seq;  // an op that closes may lose its slot at once
  if (now >= op->repair_at) AdvanceBoundedRepair(op, now);
  if (op->freezing && !op->reduction.all_frozen()) {
    AdvanceFreeze(op, kFreezeBudget, now);
  } else if (now >= op->stage1_bound && !op->freezing) {
    Count(*op, OpEvent::kStage1Bound);
    BeginFreeze(op, EndCause::kDeadline, now);
  } else if (now >= op->early_check_at) {
    CheckEarly(op, now);
  }
  if (FindOp(seq) == nullptr || op->is_closed()) return;
  if (now >= op->close_bound) {
    AdvanceFreeze(op, UINT32_MAX, now);
    if (FindOp(seq) == nullptr || op->is_closed()) return;
    Count(*op, OpEvent::kResultBound);
    if (op->state == OpState::kActive) {
      NoteStage2(*op, EndCause::kDeadline);
      End(op, EndCause::kDeadline, now);
    }
    CloseOp(op, now);
    return;
  }
  if (op->state != OpState::kActive) return;
  if (now >= op->limit) {
    Count(*op, OpEvent::kLimit);
    End(op, EndCause::kDeadline, now);
  } else {
    EndIfOverdue(op, now);  // rule 14: the wait only
  }
}

// Closes stage 1: nothing more is summed, whatever is still to be frozen.
void Group::BeginFreeze(Op* op, EndCause cause, Timestamp now) {
  if (op->freezing) return;
  NoteStage1(op, cause);
  NoteStage1Closed(op, cause, now);
  op->freezing = true;
  AdvanceFreeze(op, kFreezeBudget, now);
  Rearm(op);
}

void Group::AdvanceFreeze(Op* op, uint32_t budget, Timestamp now) {
  op->freezing = true;
  uint32_t& next = op->freeze_next;
  for (; next < op->reduction.chunks() && budget > 0; ++next) {
    if (op->reduction.IsFrozen(next)) continue;
    FreezeChunk(op, next, now);
    --budget;
  }
  if (op->reduction.all_frozen()) MaybeComplete(op, now);
}

void Group::CheckEarlyBy(Op* op, Timestamp when) {
  op->early_check_at = std::min(op->early_check_at, when);
  op->due = std::min(op->due, op->early_check_at);
  WakeBy(op->due);
}

// Early timeout: what is in is all that comes.
void Group::CheckEarly(Op* op, Timestamp now) {
  op->early_check_at = now + op->early_wait;
  if (!op->reduction.all_frozen()) {
    CheckStage1Early(op, now);
    return;
  }
  if (op->state != OpState::kActive) return;
  const Timestamp stage2_quiet = op->last_result + Stage2Wait(*op);
  if (now < stage2_quiet) {
    op->early_check_at = std::min(op->early_check_at, stage2_quiet);
  } else if (IsRepairHopeful(*op, Stage::kTwo, now)) {
    op->early_check_at = std::min(op->early_check_at, op->repair_at);
  } else if (IsStage2Spent(*op)) {
    Count(*op, OpEvent::kResultEarly);
    NoteStage2(*op, EndCause::kEarly);
    End(op, EndCause::kEarly, now);
    CloseOp(op, now);
  }
}

// Where something lacks of who has opened the op, after a silence; else as soon
// as the others have had their time.
void Group::CheckStage1Early(Op* op, Timestamp now) {
  const bool whole = AreOpenersIn(*op);
  const Timestamp quiet = whole ? now : op->last_data + op->early_wait;
  Timestamp& next = op->early_check_at;
  if (now < quiet) {
    next = std::min(next, quiet);
  } else if (IsRepairHopeful(*op, Stage::kOne, now)) {
    next = std::min(next, op->repair_at);
  } else if (IsStage1Spent(*op, now)) {
    Count(*op, OpEvent::kStage1Early);
    BeginFreeze(op, EndCause::kEarly, now);
  } else if (whole) {
    next = std::min(next, NextGivenUp(*op, now));
  }
}

// Tails of all ranks that are waited for, or almost everything, are in; and the
// own trainer's part too, which is not lost but only not read yet.
bool Group::IsStage1Spent(const Op& op, Timestamp now) const {
  uint64_t due = 0;
  bool tails = true;
  for (size_t i = 0; i < world(); ++i) {
    const Rank rank = RankAt(i);
    if (!IsAwaited(op, rank, now)) continue;
    due += op.reduction.chunks();
    if (!IsSelf(rank)) {
      tails = tails && (PeerOf(rank).suspect || op.data_tails.Test(i));
    } else if (op.sending.data_next[i] < op.reduction.chunks()) {
      return false;
    }
  }
  // What ranks that are gone have sent is among those here, and not due.
  return tails ||
         (lost_count_ == 0 && op.contributions * 100 >= due * kAlmostPercent);
}

bool Group::IsStage2Spent(const Op& op) const {
  if (uint64_t{op.assembly.present()} * 100 >=
      uint64_t{op.assembly.due()} * kAlmostPercent) {
    return true;
  }
  for (size_t i = 0; i < world(); ++i) {
    const Rank rank = RankAt(i);
    if (IsSelf(rank) || op.plan.ChunksOf(rank) == 0) continue;
    if (!IsExpected(rank, op.seq) || PeerOf(rank).suspect) continue;
    if (!op.result_tails.Test(i)) return false;
  }
  return true;
}

// An owner that has sent whole chunks only may be waiting for data itself, and
// sends the rest when it gives up: after as long a silence as ours.
Duration Group::Stage2Wait(const Op& op) const {
  for (size_t i = 0; i < world(); ++i) {
    const Rank rank = RankAt(i);
    if (IsSelf(rank) || op.closed_owners.Test(i)) continue;
    if (op.assembly.PrefixOf(rank) < op.plan.ChunksOf(rank)) {
      return op.early_wait * 2;
    }
  }
  return op.early_wait;
}

// Exact mode: after silence, ask for what lacks; again with backoff and jitter.
void Group::AdvanceRepair(Op* op, Timestamp now) {
  const Duration wait = config_.nack_interval * op->repair_backoff;
  if (now < op->last_progress + wait) {
    op->repair_at = op->last_progress + wait;
    return;
  }
  for (size_t i = 0; i < world(); ++i) {
    const Rank rank = RankAt(i);
    if (IsSelf(rank) || !op->seq.IsBefore(PeerOf(rank).open_upto)) continue;
    if (op->has_stage1() && !op->reduction.all_frozen()) {
      Ask(Request::Kind::kNackData, rank, op->seq, 0);
    }
    if (op->has_stage2() &&
        op->assembly.PrefixOf(rank) < op->plan.ChunksOf(rank)) {
      Ask(Request::Kind::kNackResult, rank, op->seq, 0);
    }
  }
  op->repair_backoff = std::min(op->repair_backoff * 2, kMaxRepairBackoff);
  const Duration next = config_.nack_interval * op->repair_backoff;
  op->repair_at = now + next + Jitter(next);
}

// Reduce-scatter has no result packets: tell the senders how far we are, a
// quarter of the stash at a time.
void Group::AcknowledgeReduced(Op* op, Timestamp now) {
  const uint32_t prefix = op->reduction.prefix();
  const uint32_t ahead = op->reduction.credit_limit() - prefix;
  if (!op->reduction.all_frozen() &&
      (prefix - op->advertised_prefix) * 4 < ahead) {
    return;
  }
  op->advertised_prefix = prefix;
  for (size_t i = 0; i < world(); ++i) {
    if (IsSelf(RankAt(i)) || !WantsPackets(RankAt(i))) continue;
    peers_[i].feedback_due = true;
    MarkControl(RankAt(i));
  }
  FeedbackSoon(now);
}

// All-gather and broadcast: the source waits for every receiver.
void Group::AcknowledgeReceived(Op* op, Rank source, Timestamp now) {
  if (op->has_stage1() ||
      op->assembly.PrefixOf(source) < op->plan.ChunksOf(source)) {
    return;
  }
  PeerOf(source).feedback_due = true;
  MarkControl(source);
  FeedbackSoon(now);
}

}  // namespace optireduce::core
