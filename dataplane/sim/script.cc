#include "dataplane/sim/script.h"

#include "dataplane/core/plan.h"

namespace optireduce::sim {

namespace {

using wire::PacketType;

template <typename T>
bool Fits(const std::optional<T>& wanted, const T& given) {
  return !wanted || *wanted == given;
}

bool IsOfStage(PacketType type, uint32_t stage) {
  return type == (stage == 1 ? PacketType::kData : PacketType::kResult);
}

}  // namespace

bool Scripted::Matches(const Packet& packet) const {
  const wire::Header& header = packet.header;
  if (packet.group != group_->index()) return false;
  if (!spec_.repairs && (header.flags & wire::kFlagRepair) != 0) return false;
  if (spec_.stage && !IsOfStage(header.type, *spec_.stage)) return false;
  if (!Fits(spec_.type, header.type) ||
      !Fits(spec_.source, packet.source_rank) ||
      !Fits(spec_.destination, packet.destination_rank) ||
      !Fits(spec_.chunk, header.chunk)) {
    return false;
  }
  if (!spec_.op) return true;
  return group_->Find(header.op_seq) != nullptr &&
         group_->PlaceOf(header.op_seq) == *spec_.op;
}

// Whether it is among the last packets that its sender's stream has.
bool Scripted::InTail(const Packet& packet) const {
  const wire::Header& header = packet.header;
  OpRun* const run = group_->Find(header.op_seq);
  if (run == nullptr) return false;
  const auto info = run->ledger.plan().Locate(header.chunk);
  if (!info) return false;
  // Stage 1 starts where the pair's offset says; an owner sends its chunks in
  // the order in which they are reduced, which is the order of the numbers only
  // where nothing is lost before.
  const uint32_t chunks = run->ledger.plan().ChunksOf(info->owner);
  const uint32_t offset =
      header.type == PacketType::kData
          ? core::StreamOffset(header.tag, run->seq, packet.source_rank,
                               info->owner, chunks)
          : 0;
  const uint32_t position = (info->local + chunks - offset) % chunks;
  return position + spec_.length >= chunks;
}

void Scripted::Act(const Packet& packet, Rng* /*rng*/, Treatment* treatment,
                   FaultCounts* counts) {
  if (!Matches(packet)) return;
  if (spec_.action == ScriptAction::kCutTail && !InTail(packet)) return;
  const uint32_t place = seen_++;
  if (place < spec_.skip) return;
  if (spec_.times && place - spec_.skip >= *spec_.times) return;
  Count(FaultKind::kScripted, counts);
  switch (spec_.action) {
    case ScriptAction::kDrop:
    case ScriptAction::kCutTail:
      treatment->drop = true;
      treatment->dropped_by = FaultKind::kScripted;
      break;
    case ScriptAction::kDelay:
      treatment->delay = treatment->delay + spec_.delay;
      break;
    case ScriptAction::kDuplicate:
      ++treatment->copies;
      treatment->copy_delay = spec_.delay;
      break;
    case ScriptAction::kFlip:
      treatment->flip = true;
      break;
    case ScriptAction::kStale:
      treatment->stale = true;
      treatment->replay_delay = spec_.delay;
      break;
    case ScriptAction::kOldEpoch:
      treatment->old_epoch = true;
      treatment->replay_delay = spec_.delay;
      break;
  }
}

}  // namespace optireduce::sim
