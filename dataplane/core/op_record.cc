#include "dataplane/core/op_record.h"

namespace optireduce::core {

void StageRecord::OnClosed(EndCause cause, uint64_t due, uint64_t came,
                           Timestamp when) {
  closed_ = when;
  cause_ = cause;
  due_ = due;
  came_ = came;
}

void StageRecord::OnLacking(Rank rank, bool begun, uint32_t packets,
                            uint32_t late) {
  size_t at = std::min(lacking_ranks_++, kMost);
  while (at > 0 && lacking_[at - 1].packets < packets) {
    if (at < kMost) lacking_[at] = lacking_[at - 1];
    --at;
  }
  if (at == kMost) return;
  lacking_[at] = Lack();
  lacking_[at].rank = rank;
  lacking_[at].begun = begun;
  lacking_[at].packets = packets;
  lacking_[at].late = late;
  if (late > 0) lacking_[at].last_late = last_;
}

void StageRecord::OnLate(Rank rank, Timestamp when) {
  OnPacket(when);
  ++late_;
  for (Lack& lack : std::span(lacking_).first(lacking().size())) {
    if (lack.rank != rank) continue;
    ++lack.late;
    lack.last_late = std::max(lack.last_late, when);
  }
}

Timestamp OpRecord::FullArrival() const {
  if (!has_ended()) return Timestamp::Never();
  Timestamp last = history.opened;
  for (const StageRecord& stage : history.stages) {
    if (stage.closed() == Timestamp::Never()) continue;  // it has none
    last = std::max(last, stage.full());
  }
  return last;
}

}  // namespace optireduce::core
