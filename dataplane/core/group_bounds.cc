// What stages took, told to the bound controller, and what peers say of it.
//
// A bound is there for the network and the daemons. What a trainer is late by,
// and a peer that is not heard at all (which is for the liveness to judge),
// must not stretch it.

#include <algorithm>

#include "dataplane/core/group.h"

namespace optireduce::core {

void Group::NoteOpened(Op* op, Rank rank, Timestamp now) {
  ++op->opened_count;
  op->history.openers.Add(rank, now);
  op->last_open = now;
  const Timestamp quorum = op->report.quorum;
  if (quorum == Timestamp::Never()) return;
  if (op->has_descriptor && !op->is_exact() && now <= op->stage1_bound) {
    lateness_.OnOpened(rank, now - quorum);
  }
  if (op->memory.block != nullptr) {
    op->late_openers.Set(rank.index());
    if (!op->is_exact()) RepairBy(op, now);
  }
}

bool Group::HasOpened(const Op& op, Rank rank) const {
  return IsSelf(rank) ? op.is_submitted()
                      : op.seq.IsBefore(PeerOf(rank).open_upto);
}

// A rank that has not opened the op has until then to do so.
Timestamp Group::AwaitedUntil(const Op& op, Rank rank) const {
  const Timestamp usual = op.report.quorum + lateness_.Allowance(rank);
  return std::min(op.stage1_bound, std::max(op.grace_end, usual));
}

// Its contribution is, or may still come in time.
bool Group::IsAwaited(const Op& op, Rank rank, Timestamp now) const {
  return IsExpected(rank, op.seq) &&
         (HasOpened(op, rank) || now < AwaitedUntil(op, rank));
}

// All contributions of the ranks that have opened the op, of which there are
// enough. Not known once a rank is lost: its own may be among those here.
bool Group::AreOpenersIn(const Op& op) const {
  return op.report.quorum != Timestamp::Never() && !op.is_exact() &&
         lost_count_ == 0 &&
         op.contributions ==
             uint64_t{op.reduction.chunks()} * uint64_t{op.opened_count};
}

// The next time at which a rank that has not opened the op is given up.
Timestamp Group::NextGivenUp(const Op& op, Timestamp now) const {
  Timestamp next = Timestamp::Never();
  for (size_t i = 0; i < world(); ++i) {
    const Rank rank = RankAt(i);
    if (HasOpened(op, rank) || !IsAwaited(op, rank, now)) continue;
    next = std::min(next, AwaitedUntil(op, rank));
  }
  return next;
}

void Group::NoteSum(Op* op, Rank source, Timestamp when) {
  op->last_sum = std::max(op->last_sum, when);
  if (!op->late_openers.Test(source.index())) {
    op->last_punctual_sum = std::max(op->last_punctual_sum, when);
  }
}

void Group::NoteAdvertised(const Op& op, Rank source,
                           const wire::Header& header) {
  if (!op.is_exact()) bounds_.OnAdvertised(op.bytes(), source, header.timeout);
}

uint16_t Group::Advertised(const Op& op) const {
  return op.is_exact() ? 0 : bounds_.Advertised(op.bytes());
}

void Group::NoteTooEarly(const Op& op) { bounds_.OnTooEarly(op.bytes()); }

// Not heard since the op's clocks started.
bool Group::IsSilent(const Op& op, Rank rank) const {
  return !IsSelf(rank) && PeerOf(rank).last_heard < op.report.quorum;
}

// Then it is not for lack of them, but of the time given to them.
bool Group::AreMostSilent(const Op& op) const {
  size_t silent = 0;
  for (size_t i = 0; i < world(); ++i) silent += IsSilent(op, RankAt(i));
  return silent * 2 >= world() - 1;
}

// To the own shard, of ranks that have opened the op.
uint64_t Group::ContributionsDue(const Op& op) const {
  const bool all = AreMostSilent(op);
  uint64_t due = 0;
  for (size_t i = 0; i < world(); ++i) {
    const Rank rank = RankAt(i);
    if (!HasOpened(op, rank) || !IsExpected(rank, op.seq)) continue;
    if (all || !IsSilent(op, rank)) due += op.reduction.chunks();
  }
  return due;
}

// What lacks at the end of streams: unlike a gap before packets that came, it
// may not be lost.
uint64_t Group::OnTheirWay(const Op& op) const {
  const uint32_t chunks = op.reduction.chunks();
  uint64_t sum = 0;
  for (size_t i = 0; i < world(); ++i) {
    const Rank rank = RankAt(i);
    if (IsSelf(rank) || !IsExpected(rank, op.seq) || IsSilent(op, rank) ||
        !op.seq.IsBefore(PeerOf(rank).open_upto)) {
      continue;
    }
    const uint32_t offset =
        StreamOffset(config_.tag, op.seq, rank, config_.self, chunks);
    uint32_t position = chunks;
    while (position > 0 &&
           !op.reduction.HasArrived((offset + position - 1) % chunks, rank)) {
      --position;
      ++sum;
    }
  }
  return sum;
}

uint64_t Group::ResultsDue(const Op& op) const {
  const bool all = AreMostSilent(op);
  uint64_t due = 0;
  for (size_t i = 0; i < world(); ++i) {
    const Rank rank = RankAt(i);
    if (!IsExpected(rank, op.seq)) continue;
    if (all || !IsSilent(op, rank)) due += op.plan.ChunksOf(rank);
  }
  return due;
}

// The own shard takes no more. Its time runs from the quorum; but where ranks
// opened the op later, their lateness counts at most as much again as the
// network took.
void Group::NoteStage1(Op* op, EndCause cause) {
  const Timestamp quorum = op->report.quorum;
  if (op->stage1_noted || op->is_exact() || quorum == Timestamp::Never() ||
      op->reduction.chunks() == 0) {
    return;
  }
  op->stage1_noted = true;
  StageSample sample;
  sample.due = ContributionsDue(*op);
  sample.came = std::min(op->contributions, sample.due);
  if (sample.due == 0) return;
  if (cause == EndCause::kEarly) sample.on_their_way = OnTheirWay(*op);
  const Duration lateness = std::max(op->last_open - quorum, Duration());
  if (cause == EndCause::kDeadline && sample.came < sample.due) {
    sample.cut = true;
    sample.took = op->stage1_bound - quorum;
    // Who opened it just before the end had no chance.
    if (lateness > sample.took / 2) return;
  } else {
    const Duration punctual =
        std::max(op->last_punctual_sum - quorum, Duration());
    const Duration net = std::max(op->last_sum - quorum - lateness, Duration());
    sample.took =
        std::max(punctual, net + std::min(lateness, std::max(net, punctual)));
  }
  bounds_.OnStage(Stage::kOne, op->bytes(), sample);
}

// The op ends at a trainer that waits for it.
void Group::NoteStage2(const Op& op, EndCause cause) {
  const Timestamp quorum = op.report.quorum;
  if (op.is_exact() || op.local_only || quorum == Timestamp::Never()) return;
  StageSample sample;
  sample.due = ResultsDue(op);
  sample.came = std::min<uint64_t>(op.assembly.present(), sample.due);
  if (sample.due == 0) return;
  if (cause == EndCause::kDeadline && sample.came < sample.due) {
    sample.cut = true;
    sample.took = op.close_bound - quorum;
  } else {
    sample.took = std::max(op.last_result, op.last_sum) - quorum;
  }
  bounds_.OnStage(Stage::kTwo, op.bytes(), sample);
}

}  // namespace optireduce::core
