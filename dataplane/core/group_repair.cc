// Repair of bounded ops inside their deadline (rule 15): whom to ask for what,
// and what to answer. The rules of when are in repair.h.

#include <algorithm>

#include "dataplane/core/group.h"

namespace optireduce::core {
namespace {

// A rank of a large group looks less often.
constexpr Duration kLookPerPeer = Duration::Nanos(200);

}  // namespace

// Where no round trip is known, a silence is what the early end takes for one.
RepairTiming Group::TimingOf(const Op& op, Rank rank) const {
  return RepairTiming::Of(PeerOf(rank).round_trip, op.early_wait);
}

void Group::RepairBy(Op* op, Timestamp when) {
  op->repair_at = std::min(op->repair_at, when);
  op->due = std::min(op->due, op->repair_at);
  WakeBy(op->due);
}

// Whether this rank may still ask for what lacks of the stage.
bool Group::MayAsk(const Op& op, Stage stage) const {
  if (op.is_exact() || op.memory.block == nullptr || op.mismatched ||
      op.report.quorum == Timestamp::Never()) {
    return false;
  }
  if (stage == Stage::kTwo) {
    return op.state == OpState::kActive && !op.assembly.complete();
  }
  return !op.is_closed() && !op.freezing && !op.reduction.all_frozen();
}

// Of the peer's stream that this stage of the op goes by.
uint32_t Group::StreamLength(const Op& op, Stage stage, Rank rank) const {
  return stage == Stage::kOne ? op.reduction.chunks() : op.RepliesOf(rank);
}

void Group::BeginStream(Op* op, Stage stage, Rank rank, Timestamp now) {
  const uint32_t offset =
      stage == Stage::kOne ? StreamOffset(config_.tag, op->seq, rank,
                                          config_.self, op->reduction.chunks())
                           : 0;
  op->Stream(stage, rank).Begin(now, offset);
}

void Group::NoteStreamPacket(Op* op, Stage stage, const wire::Header& header,
                             uint32_t local, Timestamp now) {
  const Rank source(header.source);
  if (op->is_exact()) return;
  RepairStream& stream = op->Stream(stage, source);
  if (!stream.begun()) BeginStream(op, stage, source, now);
  stream.OnArrival(now);
  if ((header.flags & wire::kFlagRepair) != 0) {
    ++op->report.repaired;
    op->StageOf(stage).OnRepaired();
    return;
  }
  bool gap = false;
  if (stage == Stage::kOne) {
    const uint32_t chunks = op->reduction.chunks();
    gap = stream.OnPosition((local + chunks - stream.offset()) % chunks, now);
  } else if ((header.flags & wire::kFlagTail) != 0) {
    // What order results come in is the owner's secret; but these are the last.
    stream.OnSent(op->RepliesOf(source), now);
    gap = true;
  }
  if (gap) RepairBy(op, now + TimingOf(*op, source).window);
}

// The last sign of life of a stream. What a peer sends does not wait for what
// else it may send; but a stream may rest while another one flows. Not the
// results, once this rank's own shard is through.
Timestamp Group::StreamHeardAt(const Op& op, Stage stage, Rank rank) const {
  const Timestamp heard = op.Stream(stage, rank).heard_at();
  if (stage == Stage::kTwo && op.reduction.all_frozen()) return heard;
  return std::max(heard, PeerOf(rank).last_stream);
}

// Looks at all streams of the op and asks where it is time to.
void Group::AdvanceBoundedRepair(Op* op, Timestamp now) {
  Timestamp next = Timestamp::Never();
  for (const Stage stage : {Stage::kOne, Stage::kTwo}) {
    if (!MayAsk(*op, stage)) continue;
    next = std::min(next, now + config_.nack_interval);
    for (size_t i = 0; i < world(); ++i) {
      const Rank rank = RankAt(i);
      if (IsSelf(rank) || !MayBeAsked(*op, stage, rank)) continue;
      next = std::min(next, AdvanceStream(op, stage, rank, now));
    }
  }
  const Duration least =
      RepairTiming::kLeastWindow + kLookPerPeer * static_cast<int64_t>(world());
  op->repair_at = std::max(next, now + least);
}

// It has opened the op, is there, and something of its stream lacks.
bool Group::MayBeAsked(const Op& op, Stage stage, Rank rank) const {
  return IsExpected(rank, op.seq) && !PeerOf(rank).suspect &&
         op.seq.IsBefore(PeerOf(rank).open_upto) &&
         op.Stream(stage, rank).arrived() < StreamLength(op, stage, rank);
}

// When to look at the stream again.
Timestamp Group::AdvanceStream(Op* op, Stage stage, Rank rank, Timestamp now) {
  RepairStream& stream = op->Stream(stage, rank);
  if (!stream.begun()) {
    // Results can be expected once the own shard is through.
    if (stage == Stage::kTwo && !op->reduction.all_frozen()) {
      return Timestamp::Never();
    }
    BeginStream(op, stage, rank, now);
  }
  if (stage == Stage::kOne && op->seq.IsBefore(PeerOf(rank).newest_data) &&
      stream.reach() < op->reduction.chunks()) {
    stream.OnSent(op->reduction.chunks(), now);  // it sends op by op
  }
  const RepairTiming timing = TimingOf(*op, rank);
  const Timestamp due = stream.DueAt(timing, StreamHeardAt(*op, stage, rank));
  if (now < due) return due;
  wire::NackBody nack;
  nack.kind =
      stage == Stage::kOne ? wire::NackKind::kData : wire::NackKind::kResult;
  if (ListLost(op, rank, now, &nack)) {
    Ask(stage == Stage::kOne ? Request::Kind::kNackData
                             : Request::Kind::kNackResult,
        rank, op->seq, 0);
    const Duration pause = stream.Pause(timing);
    stream.OnAsked(now + pause + Jitter(pause));
  } else {
    stream.OnListed(false, now);
  }
  return stream.DueAt(timing, StreamHeardAt(*op, stage, rank));
}

// What of the peer's stream is lost, as far as it can still come in time.
bool Group::ListLost(Op* op, Rank rank, Timestamp now, wire::NackBody* nack) {
  const Stage stage =
      nack->kind == wire::NackKind::kData ? Stage::kOne : Stage::kTwo;
  if (!MayAsk(*op, stage)) return false;
  const Timestamp deadline = stage == Stage::kOne
                                 ? op->stage1_bound
                                 : std::min(op->close_bound, op->limit);
  if (now + PeerOf(rank).round_trip.least() >= deadline) return false;
  RepairStream& stream = op->Stream(stage, rank);
  const bool silent = RepairStream::IsSilent(
      TimingOf(*op, rank), StreamHeardAt(*op, stage, rank), now);
  const uint32_t end =
      silent ? StreamLength(*op, stage, rank) : stream.overdue_end();
  uint32_t room =
      ChunksInTime(stream.arrived(), now - op->report.quorum, deadline - now);
  bool whole = true;
  for (uint32_t at = stream.whole(); at < end && room > 0; ++at) {
    uint32_t local = at;
    bool here = false;
    if (stage == Stage::kOne) {
      local = (stream.offset() + at) % op->reduction.chunks();
      here = op->reduction.IsFrozen(local) ||
             op->reduction.HasArrived(local, rank);
    } else {
      here = op->assembly.Has(op->ChunkOfReply(rank, local).chunk);
    }
    if (here) {
      if (whole) stream.OnWhole(at + 1);
      continue;
    }
    whole = false;
    if (!AddLacking(local, nack)) break;
    --room;
  }
  return nack->num_ranges > 0;
}

// The same for a question that leaves now.
bool Group::TakeLost(Op* op, Rank rank, Timestamp now, wire::NackBody* nack) {
  if (!ListLost(op, rank, now, nack)) return false;
  const Stage stage =
      nack->kind == wire::NackKind::kData ? Stage::kOne : Stage::kTwo;
  op->Stream(stage, rank).OnListed(true, now);
  return true;
}

// Whether repairs may still bring some of what lacks of the stage. An owner
// that asks for contributions itself has no answer yet: it gets a question
// more, so that nobody gives it up before it gives up.
bool Group::IsRepairHopeful(const Op& op, Stage stage, Timestamp now) const {
  if (!MayAsk(op, stage)) return false;
  for (size_t i = 0; i < world(); ++i) {
    const Rank rank = RankAt(i);
    if (IsSelf(rank) || !MayBeAsked(op, stage, rank)) continue;
    const bool closed = stage == Stage::kOne || op.closed_owners.Test(i);
    const uint32_t most = RepairStream::kMostQuestions + (closed ? 0 : 1);
    if (op.Stream(stage, rank).IsHopeful(most, now)) return true;
  }
  return false;
}

// Sends again what the scatter is past; what it is not comes by itself. Not
// once nobody would sum it.
void Group::AnswerLostData(Op* op, Rank source, const wire::NackBody& nack,
                           Timestamp now) {
  if (op->state != OpState::kActive || now >= op->send_bound) return;
  const uint32_t chunks = op->plan.ChunksOf(source);
  if (chunks == 0) return;
  const uint32_t offset =
      StreamOffset(config_.tag, op->seq, config_.self, source, chunks);
  const uint32_t sent = op->sending.data_next[source.index()];
  for (size_t i = 0; i < nack.num_ranges; ++i) {
    const wire::ChunkRange& range = nack.ranges[i];
    for (uint32_t n = 0; n < range.count; ++n) {
      const uint32_t local = range.first + n;
      if (local >= chunks) return;
      if ((local + chunks - offset) % chunks >= sent) continue;
      if (!Ask(Request::Kind::kData, source, op->seq, local)) return;
    }
  }
}

// Likewise the results that the peer has been sent.
void Group::AnswerLostResults(Op* op, Rank source, const wire::NackBody& nack) {
  if (!CanAnswer(*op)) return;
  const uint32_t chunks = op->RepliesOf(config_.self);
  const uint32_t sent = op->sending.results_next[source.index()];
  for (size_t i = 0; i < nack.num_ranges; ++i) {
    const wire::ChunkRange& range = nack.ranges[i];
    for (uint32_t n = 0; n < range.count; ++n) {
      const uint32_t local = range.first + n;
      if (local >= chunks) return;
      if (!CanResend(*op, source, local) ||
          op->sending.result_places[local] >= sent) {
        continue;
      }
      if (!Ask(Request::Kind::kResult, source, op->seq, local)) return;
    }
  }
}

// Of a bounded op, within what it may send again; what ranks still owe each
// other after its close is not bounded.
bool Group::MayRepair(Op* op, uint32_t body_bytes) {
  const size_t most = MaxDatagramBytes(config_.payload_bytes);
  if (op->is_exact() || (op->is_bucketed() && op->is_closed())) return true;
  return op->repair_budget.Spend(
      wire::kHeaderBytes + body_bytes + wire::kCrcBytes, most);
}

}  // namespace optireduce::core
