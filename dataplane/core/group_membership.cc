// Formation, liveness and leaving.

#include <algorithm>

#include "dataplane/core/group.h"

namespace optireduce::core {
namespace {

constexpr Duration kHelloInterval = Duration::Millis(20);
constexpr uint32_t kMaxHelloBackoff = 8;
constexpr uint32_t kFarewells = 3;
constexpr Duration kFarewellInterval = Duration::Millis(5);

}  // namespace

// Its contribution to this op may still come.
bool Group::IsExpected(Rank rank, OpSeq seq) const {
  const Peer& peer = PeerOf(rank);
  return !peer.dead && !(peer.left && !seq.IsBefore(peer.gone_from));
}

// It still wants to know what becomes of ops.
bool Group::WantsPackets(Rank rank) const {
  const Peer& peer = PeerOf(rank);
  return !peer.dead && !peer.left;
}

// The set, not a count: a removed rank's contribution may be among those here
// (rule 5).
bool Group::AllExpectedArrived(const Op& op, uint32_t local) const {
  if (op.reduction.Contributors(local) == world()) return true;
  if (lost_count_ == 0) return false;
  for (size_t i = 0; i < world(); ++i) {
    const Rank rank = RankAt(i);
    if (IsExpected(rank, op.seq) && !op.reduction.HasArrived(local, rank)) {
      return false;
    }
  }
  return true;
}

void Group::Heard(Rank rank, Timestamp now) {
  Peer& peer = PeerOf(rank);
  peer.last_heard = now;
  if (!peer.suspect) return;
  peer.suspect = false;
  PushEvent({EventKind::kPeerHealthy, rank, {}});
}

Verdict Group::OnHello(Rank source, std::span<const uint8_t> body,
                       Timestamp now) {
  wire::HelloBody hello;
  if (wire::DecodeHello(body, &hello) != wire::WireError::kOk) {
    return Verdict::kBadBody;
  }
  Peer& peer = PeerOf(source);
  peer.disagrees = hello.settings_hash != settings_hash_;
  if (hello.reply_wanted) {
    peer.hello_due = true;
    MarkControl(source);
  }
  if (peer.disagrees || phase_ != Phase::kForming) return Verdict::kAccepted;
  if (!peer.hello_heard) {
    peer.hello_heard = true;
    peer.probe_due = true;
    MarkControl(source);
  }
  CheckFormed(now);
  return Verdict::kAccepted;
}

Verdict Group::OnProbe(Rank source, std::span<const uint8_t> body,
                       Timestamp now) {
  wire::ProbeBody probe;
  if (wire::DecodeProbe(body, &probe) != wire::WireError::kOk) {
    return Verdict::kBadBody;
  }
  Peer& peer = PeerOf(source);
  if (!probe.reply) {
    peer.probe_reply_bytes = static_cast<uint16_t>(body.size());
    MarkControl(source);
  } else if (probe.probed_bytes == config_.payload_bytes) {
    peer.path_proven = true;
    CheckFormed(now);
  }
  return Verdict::kAccepted;
}

void Group::CheckFormed(Timestamp now) {
  if (phase_ != Phase::kForming) return;
  for (size_t i = 0; i < world(); ++i) {
    const Peer& peer = peers_[i];
    if (!IsSelf(RankAt(i)) && !(peer.hello_heard && peer.path_proven)) return;
  }
  phase_ = Phase::kReady;
  hello_at_ = Timestamp::Never();
  heartbeat_at_ = world() > 1 ? now : Timestamp::Never();
  liveness_at_ = world() > 1 ? now : Timestamp::Never();
  for (Peer& peer : peers_) peer.last_heard = now;
  PushEvent({EventKind::kGroupReady, config_.self, {}});
  WakeBy(now);
}

void Group::AdvanceFormation(Timestamp now) {
  CheckFormed(now);
  if (phase_ != Phase::kForming) return;
  if (now >= formation_deadline_) {
    phase_ = Phase::kFailed;
    hello_at_ = Timestamp::Never();
    PushEvent({EventKind::kGroupFailed, config_.self, {}});
    return;
  }
  for (size_t i = 0; i < world(); ++i) {
    const Rank rank = RankAt(i);
    Peer& peer = peers_[i];
    if (IsSelf(rank)) continue;
    if (peer.hello_heard && peer.path_proven) {
      // It may have all it needs, and listens for a heart that beats.
      peer.hello_due = true;
    } else if (peer.hello_heard) {
      peer.probe_due = true;
    } else {
      peer.hello_due = peer.hello_reply_wanted = true;
    }
    MarkControl(rank);
  }
  const Duration wait = kHelloInterval * hello_backoff_;
  hello_at_ = std::min(now + wait + Jitter(wait), formation_deadline_);
  hello_backoff_ = std::min(hello_backoff_ * 2, kMaxHelloBackoff);
}

// Silence makes a peer suspect, then dead. Time in which we ourselves did not
// run does not count as its silence.
void Group::AdvanceLiveness(Timestamp now) {
  Timestamp next = Timestamp::Never();
  for (size_t i = 0; i < world(); ++i) {
    const Rank rank = RankAt(i);
    Peer& peer = peers_[i];
    if (IsSelf(rank) || peer.dead) continue;
    const Timestamp suspect_at = peer.last_heard + config_.suspect_after;
    const Timestamp dead_at = peer.last_heard + config_.dead_after;
    if (now >= dead_at) {
      peer.dead = true;
      if (!peer.left) NoteLost(rank);
      FailOpsWithout(rank, now);
      continue;
    }
    if (now >= suspect_at && !peer.suspect && !peer.left) {
      peer.suspect = true;
      PushEvent({EventKind::kPeerSuspect, rank, {}});
    }
    // A peer that left is never suspect.
    next = std::min(next, now < suspect_at ? suspect_at : dead_at);
  }
  liveness_at_ = next;
}

Verdict Group::OnLeave(Rank source, std::span<const uint8_t> body,
                       Timestamp now) {
  wire::LeaveBody leave;
  if (wire::DecodeLeave(body, &leave) != wire::WireError::kOk) {
    return Verdict::kBadBody;
  }
  Peer& peer = PeerOf(source);
  // It repeats itself until it knows that nobody needs it.
  peer.feedback_due = true;
  MarkControl(source);
  if (peer.left) return Verdict::kDuplicate;
  OnWatermarks(source, leave.watermarks, now);
  peer.left = true;
  peer.gone_from = OpSeq(leave.watermarks.open_upto);
  NoteLost(source);
  FailOpsWithout(source, now);
  return Verdict::kAccepted;
}

void Group::NoteLost(Rank rank) {
  ++lost_count_;
  PushEvent({EventKind::kPeerLost, rank, {}});
}

void Group::FailOpsWithout(Rank rank, Timestamp now) {
  for (OpSeq seq = floor_; seq.IsBefore(high_); seq = seq.Next()) {
    Op* op = FindOp(seq);
    if (op == nullptr || op->is_closed()) continue;
    if (!IsExpected(rank, seq)) {
      Count(*op, OpEvent::kPeerLost);
      if (op->state == OpState::kActive) FailIfNeeded(op, now);
    }
    op = FindOp(seq);
    if (op != nullptr && op->state == OpState::kActive) {
      AbandonIfNeeded(op, now);
    }
  }
  AdvanceWindow(now);
}

// An exact op cannot end without the rank; a bounded one only if its quorum
// cannot come together any more.
void Group::FailIfNeeded(Op* op, Timestamp now) {
  if (!op->is_exact()) {
    if (op->report.quorum != Timestamp::Never()) return;
    size_t possible = 0;
    for (size_t i = 0; i < world(); ++i) {
      const bool opened =
          IsSelf(RankAt(i)) || op->seq.IsBefore(peers_[i].open_upto);
      if (opened || IsExpected(RankAt(i), op->seq)) ++possible;
    }
    if (possible >= QuorumSize()) return;
  }
  EndAsPeerLost(op, now);
  CloseOp(op, now);
}

// The group takes no more ops at any rank that knows of the loss. One that is
// under way there is on its way here: it gets the time of one op for that.
void Group::AbandonIfNeeded(Op* op, Timestamp now) {
  if (HasEnough(*op) || op->abandon_at != Timestamp::Never()) return;
  op->abandon_at = now + config_.result_bound;
  Rearm(op);
}

// So many ranks have opened it that it needs none of those who have not.
bool Group::HasEnough(const Op& op) const {
  return op.is_exact() ? op.opened_count >= world()
                       : op.report.quorum != Timestamp::Never();
}

void Group::EndAsPeerLost(Op* op, Timestamp now) {
  for (size_t i = 0; i < world(); ++i) {
    if (peers_[i].dead || peers_[i].left) op->report.missing.Add(RankAt(i));
  }
  Report(op, OpStatus::kPeerLost, EndCause::kError, now);
}

bool Group::EndIfOverdue(Op* op, Timestamp now) {
  if (now >= op->abandon_at) {
    op->abandon_at = Timestamp::Never();
    if (!HasEnough(*op)) {
      Count(*op, OpEvent::kPeerLost);
      EndAsPeerLost(op, now);
      return true;
    }
  }
  if (now < op->hard_limit) return false;
  Count(*op, OpEvent::kHardLimit);
  Report(op, OpStatus::kHardLimit, EndCause::kError, now);
  return true;
}

void Group::Leave(wire::LeaveReason reason, Timestamp now) {
  if (phase_ >= Phase::kLeaving) return;
  leave_reason_ = reason;
  gone_from_ = next_submit_;
  for (OpSeq seq = floor_; seq.IsBefore(next_submit_); seq = seq.Next()) {
    Op* op = FindOp(seq);
    if (op == nullptr) continue;
    if (op->state == OpState::kActive || IsBroken(*op)) {
      if (seq.IsBefore(gone_from_)) gone_from_ = seq;
    }
    if (op->state != OpState::kActive) continue;
    Count(*op, OpEvent::kCancel);
    Report(op, OpStatus::kCancelled, EndCause::kError, now);
    if (op->is_exact()) CloseOp(op, now);
  }
  CloseAllAccounts();
  phase_ = Phase::kLeaving;
  hello_at_ = Timestamp::Never();
  release_by_ = now + config_.hard_limit;
  farewells_left_ = world() > 1 ? kFarewells : 0;
  heartbeat_at_ = now;
  AdvanceWindow(now);
  WakeBy(now);
}

// An exact op that ended here with an error, before what we owe to the other
// ranks was done: they would wait for it in vain.
bool Group::IsBroken(const Op& op) const {
  if (!op.is_reported() || !op.is_exact()) return false;
  if (op.report.status == OpStatus::kComplete) return false;
  return !op.has_stage1() || !op.reduction.all_frozen();
}

// Serves what others still need, then is gone.
void Group::AdvanceLeaving(Timestamp now) {
  bool owed = false;
  for (size_t i = 0; i < world(); ++i) {
    const Rank rank = RankAt(i);
    if (IsSelf(rank) || !WantsPackets(rank)) continue;
    owed = owed || peers_[i].done_upto.IsBefore(gone_from_);
  }
  if (!owed && farewells_left_ == 0) release_by_ = now;
  if (now >= release_by_) {
    phase_ = Phase::kReleased;
    heartbeat_at_ = liveness_at_ = feedback_at_ = Timestamp::Never();
    PushEvent({EventKind::kGroupReleased, config_.self, {}});
    return;
  }
  if (now < heartbeat_at_) return;
  for (size_t i = 0; i < world(); ++i) {
    if (IsSelf(RankAt(i)) || !WantsPackets(RankAt(i))) continue;
    peers_[i].leave_due = true;
    MarkControl(RankAt(i));
  }
  if (farewells_left_ > 0) --farewells_left_;
  const Duration wait =
      farewells_left_ > 0 || !owed ? kFarewellInterval : config_.heartbeat;
  heartbeat_at_ = now + wait - Jitter(wait);
}

}  // namespace optireduce::core
