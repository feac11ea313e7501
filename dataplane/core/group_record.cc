// What a group remembers of its ops for people who ask (op_record.h). Nothing
// here decides anything.

#include <algorithm>

#include "dataplane/core/group.h"

namespace optireduce::core {

// Called wherever the stage may have come to its end; the first time counts.
void Group::NoteStage1Closed(Op* op, EndCause cause, Timestamp now) {
  StageRecord& stage = op->StageOf(Stage::kOne);
  if (op->reduction.chunks() == 0 || stage.closed() != Timestamp::Never()) {
    return;
  }
  stage.OnClosed(cause, uint64_t{op->reduction.chunks()} * world(),
                 op->contributions, now);
  NoteLacking(op, Stage::kOne);
}

// The op ends for its trainer.
void Group::NoteStage2Closed(Op* op, EndCause cause, Timestamp now) {
  StageRecord& stage = op->StageOf(Stage::kTwo);
  if (!op->has_stage2() || op->local_only) return;
  stage.OnClosed(cause, op->assembly.due(), op->assembly.present(), now);
  NoteLacking(op, Stage::kTwo);
}

void Group::NoteLacking(Op* op, Stage stage) {
  StageRecord& record = op->StageOf(stage);
  if (record.came() >= record.due()) return;
  uint64_t rest = record.due() - record.came();
  for (size_t i = 0; i < world(); ++i) {
    const Rank rank = RankAt(i);
    const uint32_t packets = IsSelf(rank) ? 0 : LackingOf(*op, stage, rank);
    if (packets == 0) continue;
    record.OnLacking(rank, op->seq.IsBefore(PeerOf(rank).open_upto), packets,
                     LateResultsOf(*op, stage, rank));
    rest -= std::min<uint64_t>(rest, packets);
  }
  if (stage == Stage::kTwo) {
    rest = op->has_stage1()
               ? op->reduction.chunks() - op->reduction.frozen_count()
               : 0;
  }
  if (rest == 0) return;
  record.OnLacking(config_.self, op->is_submitted(),
                   static_cast<uint32_t>(rest));
}

// Packets of the stage that another rank has still to give to this one.
uint32_t Group::LackingOf(const Op& op, Stage stage, Rank rank) const {
  const uint32_t due = StreamLength(op, stage, rank);
  if (!op.is_exact()) return due - op.Stream(stage, rank).arrived();
  // An exact shard is reduced with everything or not at all.
  return stage == Stage::kOne ? 0 : due - op.assembly.PrefixOf(rank);
}

// Of those that lack: results that came after the bound, which nobody had
// noticed yet, or before the submit of an op that was closed.
uint32_t Group::LateResultsOf(const Op& op, Stage stage, Rank owner) const {
  const StageRecord& record = op.history.stages[static_cast<size_t>(stage)];
  if (stage == Stage::kOne || record.late() == 0) return 0;
  uint32_t late = 0;
  for (uint32_t local = 0; local < op.plan.ChunksOf(owner); ++local) {
    late += op.late_results.Test(op.plan.ChunkOf(owner, local).chunk);
  }
  return late;
}

// Of a bounded op: a contribution that came when nothing was summed any more.
void Group::NoteLateData(Op* op, Rank source, uint32_t local,
                         Timestamp arrival) {
  if (op->reduction.HasArrived(local, source) ||
      op->late_data.TestAndSet(size_t{local} * world() + source.index())) {
    return;
  }
  op->StageOf(Stage::kOne).OnLate(source, arrival);
}

// A result that came after the op's end or bound.
void Group::NoteLateResult(Op* op, const ChunkInfo& info, Timestamp arrival) {
  if (op->is_exact() || op->memory.block == nullptr ||
      op->assembly.Has(info.chunk) || op->late_results.TestAndSet(info.chunk)) {
    return;
  }
  op->StageOf(Stage::kTwo).OnLate(info.owner, arrival);
}

// `was_held`: nobody had said before whether the contribution was summed.
void Group::NoteOwed(Op* op, const ChunkInfo& info, const ChunkResult& result,
                     bool was_held, Placed placed) {
  OwedRecord& owed = op->history.owed;
  const bool missed = result.included.has_value() ? !*result.included
                                                  : result.contributors == 0;
  if (was_held && missed) owed.residual += info.elements;
  if (!op->is_reported() || result.contributors == 0) return;
  if (placed == Placed::kOutput) owed.in_place += info.elements;
  if (placed == Placed::kDebt) owed.debt += info.elements;
}

// What of some chunks lacks is forgiven now.
void Group::NoteForgiven(Op* op, uint32_t first, uint32_t end) {
  OwedRecord& owed = op->history.owed;
  CountLacking(*op, first, end, &owed.forgiven_contributions,
               &owed.forgiven_results);
}

// In elements.
void Group::CountLacking(const Op& op, uint32_t first, uint32_t end,
                         uint64_t* contributions, uint64_t* results) const {
  for (uint32_t chunk = op.account->FindLacking(first); chunk < end;
       chunk = op.account->FindLacking(chunk + 1)) {
    const uint32_t elements = op.plan.Locate(chunk)->elements;
    if (op.account->LacksBooking(chunk)) *contributions += elements;
    if (op.account->LacksResult(chunk)) *results += elements;
  }
}

// Before the step's ops are closed. Their places may be gone.
void Group::NoteSkipped(uint64_t step) {
  for (const Account* account : ledger_.open()) {
    if (account->step() != step || account->is_closed()) continue;
    if (Op* op = FindOp(account->seq()); op != nullptr) {
      op->history.owed.skipped = true;
    }
    for (OpRecord& record : past_) {
      if (record.is_submitted() && record.seq == account->seq()) {
        record.history.owed.skipped = true;
      }
    }
  }
}

OpRecord Group::RecordOf(const Op& op) const {
  OpRecord record = {.seq = op.seq,
                     .state = op.state,
                     .has_descriptor = op.has_descriptor,
                     .descriptor = op.descriptor,
                     .report = op.report,
                     .history = op.history};
  if (op.account != nullptr) {
    OwedRecord& owed = record.history.owed;
    CountLacking(op, 0, op.plan.chunk_limit(), &owed.held, &owed.lacking);
  }
  return record;
}

// The op loses its place.
void Group::KeepRecord(const Op& op) {
  past_[past_count_++ % kPastRecords] = RecordOf(op);
}

size_t Group::ReadRecords(std::span<OpRecord> out) const {
  size_t count = 0;
  const uint64_t first =
      past_count_ - std::min<uint64_t>(past_count_, kPastRecords);
  for (uint64_t i = first; i < past_count_ && count < out.size(); ++i) {
    out[count++] = past_[i % kPastRecords];
  }
  for (OpSeq seq = floor_; seq.IsBefore(high_); seq = seq.Next()) {
    const Op& op = slots_[seq.value() & slot_mask_];
    if (op.state == OpState::kFree || op.seq != seq) continue;
    if (count < out.size()) out[count++] = RecordOf(op);
  }
  return count;
}

}  // namespace optireduce::core
