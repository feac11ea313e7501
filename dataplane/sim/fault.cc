#include "dataplane/sim/fault.h"

#include <array>
#include <bit>

#include "dataplane/base/byte_order.h"
#include "dataplane/base/xxhash64.h"

namespace optireduce::sim {

namespace {

void Drop(FaultKind kind, Treatment* treatment, FaultCounts* counts) {
  treatment->drop = true;
  treatment->dropped_by = kind;
  Count(kind, counts);
}

Duration UpTo(Duration longest, Rng* rng) {
  return Duration::Nanos(rng->Between(0, longest.nanos()));
}

}  // namespace

std::string_view Name(FaultKind kind) {
  switch (kind) {
    case FaultKind::kLoss:
      return "loss";
    case FaultKind::kBurst:
      return "burst";
    case FaultKind::kTail:
      return "tail";
    case FaultKind::kDuplicate:
      return "duplicate";
    case FaultKind::kReorder:
      return "reorder";
    case FaultKind::kFlipped:
      return "flipped";
    case FaultKind::kDiscarded:
      return "discarded";
    case FaultKind::kOldEpoch:
      return "old_epoch";
    case FaultKind::kStale:
      return "stale";
    case FaultKind::kPartition:
      return "partition";
    case FaultKind::kForged:
      return "forged";
    case FaultKind::kInvented:
      return "invented";
    case FaultKind::kBackground:
      return "background";
    case FaultKind::kQueue:
      return "queue";
    case FaultKind::kRing:
      return "ring";
    case FaultKind::kDeadHost:
      return "dead_host";
    case FaultKind::kPollStall:
      return "poll_stall";
    case FaultKind::kHostStall:
      return "host_stall";
    case FaultKind::kTrainerStall:
      return "trainer_stall";
    case FaultKind::kTrainerDeath:
      return "trainer_death";
    case FaultKind::kDaemonDeath:
      return "daemon_death";
    case FaultKind::kScripted:
      return "scripted";
  }
  return "unknown";
}

void ChanceFault::Act(const Packet& /*packet*/, Rng* rng, Treatment* treatment,
                      FaultCounts* counts) {
  if (rng->Chance(share_)) Happen(rng, treatment, counts);
}

void Loss::Happen(Rng* /*rng*/, Treatment* treatment, FaultCounts* counts) {
  Drop(FaultKind::kLoss, treatment, counts);
}

void BurstLoss::Act(const Packet& packet, Rng* rng, Treatment* treatment,
                    FaultCounts* counts) {
  const bool was_bad = bad_[packet.destination_host];
  const bool turns = rng->Chance(was_bad ? to_good_ : to_bad_);
  const bool bad = was_bad != turns;
  bad_[packet.destination_host] = bad;
  if (bad && rng->Chance(bad_share_)) {
    Drop(FaultKind::kBurst, treatment, counts);
  }
}

void TailLoss::Act(const Packet& packet, Rng* /*rng*/, Treatment* treatment,
                   FaultCounts* counts) {
  const wire::Header& header = packet.header;
  if ((header.flags & wire::kFlagTail) == 0 ||
      (header.flags & wire::kFlagRepair) != 0) {
    return;
  }
  std::array<uint8_t, 16> stream;
  StoreLe32(stream.data(), header.tag);
  StoreLe32(stream.data() + 4, header.op_seq);
  StoreLe16(stream.data() + 8, static_cast<uint16_t>(header.type));
  StoreLe16(stream.data() + 10, header.source);
  StoreLe16(stream.data() + 12, packet.destination.port);
  StoreLe16(stream.data() + 14, packet.destination_host);
  if (Xxh64(stream, salt_) % 1000 >= streams_permille_) return;
  Drop(FaultKind::kTail, treatment, counts);
}

void Duplication::Happen(Rng* rng, Treatment* treatment, FaultCounts* counts) {
  treatment->copies += 1 + static_cast<uint32_t>(rng->Below(2));
  treatment->copy_delay = UpTo(longest_, rng);
  Count(FaultKind::kDuplicate, counts);
}

void Reordering::Happen(Rng* rng, Treatment* treatment, FaultCounts* counts) {
  treatment->delay = treatment->delay + UpTo(longest_, rng);
  Count(FaultKind::kReorder, counts);
}

void Corruption::Happen(Rng* rng, Treatment* treatment, FaultCounts* counts) {
  if (rng->Chance(flipped_share_)) {
    treatment->flip = true;
    Count(FaultKind::kFlipped, counts);
  } else {
    Drop(FaultKind::kDiscarded, treatment, counts);
  }
}

void Replay::Happen(Rng* rng, Treatment* treatment, FaultCounts* counts) {
  (old_epoch_ ? treatment->old_epoch : treatment->stale) = true;
  treatment->replay_delay = UpTo(longest_, rng);
  Count(old_epoch_ ? FaultKind::kOldEpoch : FaultKind::kStale, counts);
}

void Forger::Happen(Rng* rng, Treatment* treatment, FaultCounts* /*counts*/) {
  // Counted where it is made: not every lie can be told about every packet.
  treatment->forgery = static_cast<Forgery>(1 + rng->Below(kNumForgeries - 1));
  treatment->replay_delay = UpTo(longest_, rng);
}

void Partition::Act(const Packet& packet, Rng* /*rng*/, Treatment* treatment,
                    FaultCounts* counts) {
  if (packet.source_host != from_host_ || packet.destination_host != to_host_) {
    return;
  }
  Drop(FaultKind::kPartition, treatment, counts);
}

}  // namespace optireduce::sim
