// What is known of single ops: the sessions' traces say how each ended for its
// trainer, the engine's records how it went.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "control/admin.h"

namespace optireduce::control {
namespace {

// A reply must fit a frame, whatever there is to tell.
constexpr size_t kMaxRows = 1000;
constexpr size_t kRoom = 150'000;

uint64_t ToMicros(int64_t nanos) {
  return static_cast<uint64_t>(std::max<int64_t>(nanos, 0) / 1000);
}

// What is known of one op.
struct Known {
  engine::SessionId session;
  uint32_t group = 0;  // the client's name for it
  uint32_t world = 0;
  std::optional<OptireduceShmCompletion> end;
  const core::OpRecord* record = nullptr;

  uint32_t op_seq() const {
    return record != nullptr ? record->seq.value() : end->op_seq;
  }
  // What has not ended is newer than all that has.
  int64_t ended_ns() const {
    if (end) return end->closed_ns;
    return record->has_ended() ? record->report.closed.nanos()
                               : Timestamp::Never().nanos();
  }
};

// ---- names ------------------------------------------------------------------

const char* StatusName(uint8_t status) {
  switch (status) {
    case OPTIREDUCE_SHM_COMPLETE:
      return "complete";
    case OPTIREDUCE_SHM_PARTIAL:
      return "partial";
    case OPTIREDUCE_SHM_HARD_LIMIT:
      return "hard_limit";
    case OPTIREDUCE_SHM_PEER_LOST:
      return "peer_lost";
    case OPTIREDUCE_SHM_MISMATCH:
      return "mismatch";
    case OPTIREDUCE_SHM_EXPIRED:
      return "expired";
    case OPTIREDUCE_SHM_CANCELLED:
      return "cancelled";
    case OPTIREDUCE_SHM_REFUSED:
      return "refused";
    default:
      return "unknown";
  }
}

const char* CauseName(core::EndCause cause) {
  switch (cause) {
    case core::EndCause::kAllIn:
      return "all_in";
    case core::EndCause::kEarly:
      return "early";
    case core::EndCause::kDeadline:
      return "deadline";
    case core::EndCause::kError:
      break;
  }
  return "error";
}

const char* CollectiveName(core::Collective collective) {
  switch (collective) {
    case core::Collective::kAllReduce:
      return "all_reduce";
    case core::Collective::kReduceScatter:
      return "reduce_scatter";
    case core::Collective::kAllGather:
      return "all_gather";
    case core::Collective::kBroadcast:
      return "broadcast";
    case core::Collective::kBarrier:
      return "barrier";
  }
  return "unknown";
}

const char* ModeName(core::Mode mode) {
  switch (mode) {
    case core::Mode::kBounded:
      return "bounded";
    case core::Mode::kExact:
      return "exact";
    case core::Mode::kFlush:
      return "flush";
  }
  return "unknown";
}

// Which deadline it was that ended the op.
const char* DeadlineName(const core::OpReport& report) {
  if (report.deadline < report.submitted) return "late_submit";
  return report.deadline < report.quorum + report.result_bound ? "soft_limit"
                                                               : "bound";
}

// ---- how it ended -----------------------------------------------------------

void FillEnd(const OptireduceShmCompletion& entry, OpsReply::Op* op) {
  op->set_op_seq(entry.op_seq);
  op->set_bucket(entry.bucket);
  op->set_step(entry.step);
  op->set_status(StatusName(entry.status));
  op->set_cause(CauseName(static_cast<core::EndCause>(entry.cause)));
  op->set_world(entry.world);
  op->set_elements(entry.elements);
  op->set_absent(entry.absent);
  if (entry.status == OPTIREDUCE_SHM_COMPLETE ||
      entry.status == OPTIREDUCE_SHM_PARTIAL) {
    core::OpReport report;
    report.world = entry.world;
    report.elements = entry.elements;
    report.absent = entry.absent;
    report.contributions = entry.contributions;
    op->set_missing_fraction(report.MissingFraction());
  }
  op->set_duration_us(ToMicros(entry.closed_ns - entry.submitted_ns));
  op->set_wall_late_us(ToMicros(entry.wall_late_ns));
  op->set_decision_late_us(ToMicros(entry.decision_late_ns));
  for (uint32_t r = 0; r < entry.world; ++r) {
    if ((entry.missing[r / 64] >> (r % 64) & 1) != 0) op->add_missing(r);
  }
}

// Of an op that no trace tells of: it has not ended, or its session has.
void FillWithoutEnd(const core::OpRecord& record, uint32_t world,
                    OpsReply::Op* op) {
  op->set_op_seq(record.seq.value());
  op->set_bucket(record.descriptor.bucket);
  op->set_step(record.descriptor.step);
  op->set_world(world);
  op->set_elements(record.descriptor.count);
  if (!record.has_ended()) {
    op->set_status(record.is_submitted() ? "in_flight" : "not_submitted");
    return;
  }
  const core::OpReport& report = record.report;
  op->set_status(StatusName(static_cast<uint8_t>(report.status)));
  op->set_cause(CauseName(report.cause));
  op->set_absent(report.absent);
  if (report.cause != core::EndCause::kError) {
    op->set_missing_fraction(report.MissingFraction());
  }
  op->set_duration_us(ToMicros((report.closed - report.submitted).nanos()));
  for (uint16_t r = 0; r < world; ++r) {
    if (report.missing.Contains(core::Rank(r))) op->add_missing(r);
  }
}

// ---- how it went ------------------------------------------------------------

// From the op's opening, if it has happened.
std::optional<uint64_t> Micros(const core::OpRecord& record, Timestamp time) {
  if (time == Timestamp::Never()) return std::nullopt;
  return ToMicros((time - record.history.opened).nanos());
}

void FillStage(const core::OpRecord& record, const core::StageRecord& stage,
               const char* deadline, OpsReply::Stage* out) {
  if (const auto us = Micros(record, stage.opened())) out->set_opened_us(*us);
  out->set_repaired(stage.repaired());
  out->set_late(stage.late());
  const auto closed = Micros(record, stage.closed());
  if (!closed) return;
  out->set_closed_us(*closed);
  out->set_cause(stage.cause() == core::EndCause::kDeadline
                     ? deadline
                     : CauseName(stage.cause()));
  out->set_due(stage.due());
  out->set_came(stage.came());
  if (const auto us = Micros(record, stage.full())) out->set_full_us(*us);
  out->set_lacking_ranks(static_cast<uint32_t>(stage.lacking_ranks()));
  for (const core::StageRecord::Lack& lack : stage.lacking()) {
    OpsReply::Lack& row = *out->add_lacking();
    row.set_rank(lack.rank.value());
    row.set_begun(lack.begun);
    row.set_packets(lack.packets);
    row.set_late(lack.late);
    if (lack.late > 0) row.set_last_late_us(*Micros(record, lack.last_late));
  }
}

void FillOpenings(const core::OpRecord& record, OpsReply::Op* op) {
  const core::Openers& openers = record.history.openers;
  op->set_openings(static_cast<uint32_t>(openers.count()));
  for (size_t back = 0; back < openers.kept(); ++back) {
    OpsReply::Opening& row = *op->add_last_openings();
    row.set_rank(openers.Last(back).rank.value());
    row.set_at_us(*Micros(record, openers.Last(back).at));
  }
}

void FillOwed(const core::OwedRecord& owed, OpsReply::Owed* out) {
  out->set_residual(owed.residual);
  out->set_held(owed.held);
  out->set_forgiven_contributions(owed.forgiven_contributions);
  out->set_in_place(owed.in_place);
  out->set_debt(owed.debt);
  out->set_lacking(owed.lacking);
  out->set_forgiven_results(owed.forgiven_results);
  out->set_skipped(owed.skipped);
}

void FillRecord(const core::OpRecord& record, OpsReply::Op* op) {
  const core::OpReport& report = record.report;
  const core::OpHistory& history = record.history;
  if (record.has_descriptor) {
    op->set_collective(CollectiveName(record.descriptor.collective));
    op->set_mode(ModeName(record.descriptor.mode));
  }
  if (record.is_submitted()) {
    op->set_submitted_us(*Micros(record, report.submitted));
  }
  if (const auto us = Micros(record, report.quorum)) op->set_quorum_us(*us);
  FillStage(record, history.stages[0], "bound", op->mutable_stage1());
  FillStage(record, history.stages[1], DeadlineName(report),
            op->mutable_stage2());
  FillOpenings(record, op);
  if (record.descriptor.bucket != 0) FillOwed(history.owed, op->mutable_owed());
  if (!record.has_ended()) return;
  op->set_closed_us(*Micros(record, report.closed));
  const Timestamp full = record.FullArrival();
  if (report.cause != core::EndCause::kError && full != Timestamp::Never()) {
    op->set_saved_us(ToMicros((full - report.closed).nanos()));
  }
}

OpsReply::Op MakeOp(const Known& known) {
  OpsReply::Op op;
  op.set_session(known.session.value());
  op.set_group(known.group);
  if (known.end) {
    FillEnd(*known.end, &op);
  } else {
    FillWithoutEnd(*known.record, known.world, &op);
  }
  if (known.record != nullptr) FillRecord(*known.record, &op);
  return op;
}

// ---- which ------------------------------------------------------------------

bool IsWanted(const OpsRequest& request, const Known& known) {
  if (request.has_group() && known.group != request.group()) return false;
  // A refused one has no number.
  return !request.has_op() ||
         (known.op_seq() == request.op() &&
          (!known.end || known.end->status != OPTIREDUCE_SHM_REFUSED));
}

std::vector<Known> FindAll(const SessionTable& sessions,
                           const GroupTable& groups,
                           const engine::Snapshot& snapshot) {
  std::map<core::GroupId, const engine::GroupSnapshot*> snapshots;
  for (const auto& group : snapshot.groups) snapshots[group.group] = &group;
  std::map<std::pair<uint32_t, uint32_t>, Known> by_number;
  for (const auto& [handle, group] : groups.groups()) {
    const auto found = group.id ? snapshots.find(*group.id) : snapshots.end();
    if (found == snapshots.end()) continue;
    for (const core::OpRecord& record : found->second->ops) {
      Known& known = by_number[{handle, record.seq.value()}];
      known = {group.session, handle, group.own.world(), {}, &record};
    }
  }
  std::vector<Known> all;
  for (const auto& [id, session] : sessions.sessions()) {
    if (session.port == nullptr) continue;
    for (const OptireduceShmCompletion& end : session.port->trace().Read()) {
      if (end.status == OPTIREDUCE_SHM_REFUSED) {
        all.push_back({id, end.group, end.world, end, nullptr});
        continue;
      }
      Known& known = by_number[{end.group, end.op_seq}];
      known = {id, end.group, end.world, end, known.record};
    }
  }
  for (const auto& [number, known] : by_number) all.push_back(known);
  return all;
}

}  // namespace

OpsReply MakeOps(const SessionTable& sessions, const GroupTable& groups,
                 const engine::Snapshot& snapshot, const OpsRequest& request) {
  std::vector<Known> ops = FindAll(sessions, groups, snapshot);
  std::erase_if(ops, [&](const Known& op) { return !IsWanted(request, op); });
  std::stable_sort(ops.begin(), ops.end(), [](const Known& a, const Known& b) {
    return a.ended_ns() > b.ended_ns();
  });
  size_t rows = std::min(ops.size(), kMaxRows);
  if (request.limit() != 0) rows = std::min<size_t>(rows, request.limit());
  OpsReply reply;
  // Of a large world the missing ranks take most of the room.
  for (size_t i = 0; i < rows && reply.ByteSizeLong() < kRoom; ++i) {
    *reply.add_ops() = MakeOp(ops[i]);
  }
  return reply;
}

}  // namespace optireduce::control
