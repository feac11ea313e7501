#include "dataplane/sim/inventor.h"

#include <cstring>

#include "dataplane/core/plan.h"

namespace optireduce::sim {

namespace {

using wire::PacketType;

bool IsAboutAnOp(PacketType type) {
  return type == PacketType::kData || type == PacketType::kResult ||
         type == PacketType::kOpen;
}

void Finish(const wire::Header& header, Packet* packet) {
  packet->header = header;
  wire::EncodeHeader(header, packet->buffer);
  packet->length = static_cast<uint32_t>(
      wire::Seal(packet->buffer, wire::kHeaderBytes + header.length));
}

wire::Header HeaderOf(PacketType type, const Packet& packet) {
  wire::Header header;
  header.type = type;
  header.tag = packet.header.tag;
  header.source = packet.header.source;
  header.op_seq = packet.header.op_seq;
  header.send_time = packet.header.send_time;
  return header;
}

}  // namespace

// Whoever is asked in vain answers in vain.
bool Inventor::Nack(OpRun* run, Rng* rng, Packet* packet) {
  wire::NackBody nack;
  nack.kind = static_cast<wire::NackKind>(1 + rng->Below(3));
  if (nack.kind != wire::NackKind::kOpen) {
    nack.num_ranges = 1;
    nack.ranges[0].first =
        static_cast<uint32_t>(rng->Below(run->ledger.plan().chunk_limit() + 2));
    nack.ranges[0].count = static_cast<uint32_t>(1 + rng->Below(4));
  }
  wire::Header header = HeaderOf(PacketType::kNack, *packet);
  header.length = static_cast<uint16_t>(
      wire::EncodeNack(nack, packet->buffer + wire::kHeaderBytes));
  Finish(header, packet);
  return true;
}

// In a bounded op nobody waits for one answer; to an exact one it would be a
// lie. It says, too, that there was a quorum.
bool Inventor::Gone(const GroupRun& group, OpRun* run, Packet* packet) {
  if (run->mode != core::Mode::kBounded ||
      4 * run->submits.size() < 3 * group.world()) {
    return false;
  }
  Finish(HeaderOf(PacketType::kGone, *packet), packet);
  return true;
}

// The last chunk that the receiver will ever get from this sender, now.
bool Inventor::AheadOfTime(OpRun* run, Packet* packet) {
  const core::ChunkPlan& plan = run->ledger.plan();
  const core::Rank owner = packet->destination_rank;
  const uint32_t chunks = plan.ChunksOf(owner);
  if (packet->header.type != PacketType::kData ||
      run->mode != core::Mode::kExact || chunks == 0) {
    return false;
  }
  const core::ChunkInfo info = plan.ChunkOf(owner, chunks - 1);
  wire::Header header = packet->header;
  header.chunk = info.chunk;
  header.length = static_cast<uint16_t>(info.bytes);
  std::memcpy(packet->buffer + wire::kHeaderBytes,
              run->inputs[packet->source_rank.index()].data() +
                  info.first * plan.element_bytes(),
              info.bytes);
  Finish(header, packet);
  return true;
}

void Inventor::Act(const Packet& packet, Rng* rng, Treatment* treatment,
                   FaultCounts* counts) {
  if (!IsAboutAnOp(packet.header.type) || !rng->Chance(share_)) return;
  GroupRun& group = *world_->groups[packet.group];
  OpRun* const run = group.Find(packet.header.op_seq);
  if (run == nullptr || !run->agreed) return;
  // A copy of its own: the packet is still to be sent.
  const PacketPool::Ref ref = pool_->Allocate();
  Packet& invented = (*pool_)[ref];
  uint8_t* const buffer = invented.buffer;
  invented = packet;
  invented.buffer = buffer;
  invented.origin = Origin::kInvented;
  bool made = false;
  switch (rng->Below(3)) {
    case 0:
      made = Nack(run, rng, &invented);
      break;
    case 1:
      made = Gone(group, run, &invented);
      break;
    default:
      made = AheadOfTime(run, &invented);
      break;
  }
  if (!made) {
    pool_->Free(ref);
    return;
  }
  Count(FaultKind::kInvented, counts);
  treatment->invented = ref;
  treatment->replay_delay = Duration::Nanos(rng->Between(0, longest_.nanos()));
}

}  // namespace optireduce::sim
