#include "dataplane/sim/network.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace optireduce::sim {

namespace {

// Between two ranks of one host: through memory, not over the cable.
constexpr Duration kLoopback = Duration::Micros(1);

// Who forges knows our packets only; what is corrupt fails its checksum.
void SpareForeign(Treatment* treatment, FaultCounts* counts) {
  treatment->old_epoch = false;
  treatment->forgery = Forgery::kNone;
  if (!treatment->flip || treatment->drop) return;
  treatment->drop = true;
  treatment->dropped_by = FaultKind::kDiscarded;
  Count(FaultKind::kDiscarded, counts);
}

// The tag that this group's earlier formation had. Those in use are never each
// other's complement.
uint32_t OldTag(uint32_t tag) { return ~tag; }

}  // namespace

Network::Network(EventLoop* loop, PacketPool* pool, Rng* rng, Trace* trace,
                 FaultCounts* counts, const std::vector<LinkSpec>& links)
    : loop_(loop), pool_(pool), rng_(rng), trace_(trace), counts_(counts) {
  ports_.reserve(links.size());
  for (const LinkSpec& link : links) ports_.emplace_back(link);
}

void Network::AddBackground(const Background& background) {
  backgrounds_.push_back(
      {background, rng_->Below(1000) < background.on_permille});
  loop_->At(background.window.begin, this, kBackgroundTick,
            backgrounds_.size() - 1);
}

void Network::SetRate(uint16_t host, uint64_t rate_bps) {
  Port& port = ports_[host];
  port.spec.rate_bps = rate_bps;
  port.out.SetRate(rate_bps);
  port.in.SetRate(rate_bps);
}

void Network::Send(PacketPool::Ref ref) {
  Packet& packet = (*pool_)[ref];
  ++sent_;
  trace_->Send(loop_->now(), packet);
  Port& port = ports_[packet.source_host];
  Timestamp at = loop_->now() + kLoopback;
  if (packet.source_host != packet.destination_host) {
    at = port.out.Transmit(packet.length + kWireOverhead, loop_->now()) +
         port.spec.delay;
  }

  Treatment treatment;
  for (const auto& fault : faults_) {
    if (treatment.drop) break;
    fault->Strike(packet, loop_->now(), rng_, &treatment, counts_);
  }
  if (packet.group == kForeignGroup) SpareForeign(&treatment, counts_);
  if (treatment.invented) {
    Launch(*treatment.invented, at + treatment.replay_delay);
  }
  if (treatment.drop) {
    trace_->Lost(loop_->now(), packet, Name(treatment.dropped_by).data());
    pool_->Free(ref);
    return;
  }
  at = at + treatment.delay;
  for (uint32_t i = 0; i < treatment.copies; ++i) {
    LaunchCopy(ref, Origin::kDuplicate, at + treatment.copy_delay);
  }
  Replay(treatment, ref, at + treatment.replay_delay);
  if (treatment.flip) Flip(&packet);
  Launch(ref, at);
}

void Network::Launch(PacketPool::Ref ref, Timestamp at) {
  const Packet& packet = (*pool_)[ref];
  const bool local = packet.source_host == packet.destination_host;
  loop_->At(at, this, local ? kAtHost : kAtSwitch, ref);
}

void Network::LaunchCopy(PacketPool::Ref ref, Origin origin, Timestamp at) {
  const PacketPool::Ref copy = pool_->Copy(ref);
  (*pool_)[copy].origin = origin;
  Launch(copy, at);
}

void Network::Replay(const Treatment& treatment, PacketPool::Ref ref,
                     Timestamp at) {
  if (treatment.stale) LaunchCopy(ref, Origin::kReplay, at);
  if (treatment.old_epoch) {
    const PacketPool::Ref copy = pool_->Copy(ref);
    Packet& packet = (*pool_)[copy];
    wire::Header header = packet.header;
    header.tag = OldTag(header.tag);
    wire::EncodeHeader(header, packet.buffer);
    wire::Seal(packet.buffer, wire::kHeaderBytes + header.length);
    packet.origin = Origin::kForged;
    Launch(copy, at);
  }
  if (treatment.forgery == Forgery::kOtherResult) {
    Packet& packet = (*pool_)[ref];
    packet.contradicted =
        packet.header.type == wire::PacketType::kResult && !treatment.flip;
  } else if (treatment.forgery != Forgery::kNone) {
    LaunchForgery(treatment.forgery, ref, at);
  }
}

void Network::LaunchForgery(Forgery forgery, PacketPool::Ref ref,
                            Timestamp at) {
  const PacketPool::Ref copy = pool_->Copy(ref);
  Packet& packet = (*pool_)[copy];
  if (!Forge(forgery, rng_, &packet)) {
    pool_->Free(copy);
    return;
  }
  Count(FaultKind::kForged, counts_);
  packet.origin = Origin::kForged;
  Launch(copy, at);
}

// One to three bits: what CRC32C always finds at these lengths.
void Network::Flip(Packet* packet) {
  packet->origin = Origin::kCorrupt;
  const uint64_t bits = uint64_t{packet->length} * 8;
  const uint64_t first = rng_->Below(bits);
  const uint64_t flips = 1 + rng_->Below(3);
  for (uint64_t i = 0; i < flips; ++i) {
    const uint64_t bit = (first + i * 7) % bits;
    packet->buffer[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
  }
}

void Network::Switch(PacketPool::Ref ref) {
  Packet& packet = (*pool_)[ref];
  Port& port = ports_[packet.destination_host];
  const uint64_t bytes = packet.length + kWireOverhead;
  if (!port.in.HasRoom(bytes, loop_->now())) {
    Count(FaultKind::kQueue, counts_);
    trace_->Lost(loop_->now(), packet, "queue");
    pool_->Free(ref);
    return;
  }
  const uint64_t above = port.spec.mark_above_bytes;
  if (packet.ecn_capable && above > 0 &&
      port.in.Backlog(loop_->now()) > above) {
    packet.marked = true;
  }
  const Timestamp left = port.in.Transmit(bytes, loop_->now());
  loop_->At(left + port.spec.delay, this, kAtHost, ref);
}

void Network::Burst(BackgroundState* background, uint64_t index) {
  const Background& spec = background->spec;
  if (loop_->now() >= spec.window.end) return;
  loop_->At(loop_->now() + spec.period, this, kBackgroundTick, index);
  // Runs of about ten periods.
  const uint32_t stay =
      background->on ? spec.on_permille : 1000 - spec.on_permille;
  if (rng_->Below(10) == 0 && rng_->Below(1000) >= stay) {
    background->on = !background->on;
  }
  if (!background->on) return;
  Port& port = ports_[spec.host];
  const uint64_t bytes = port.spec.rate_bps / 8 *
                         static_cast<uint64_t>(spec.period.nanos()) /
                         1'000'000'000 * spec.load_permille / 1000;
  const uint64_t backlog = port.in.Backlog(loop_->now());
  const uint64_t room =
      port.in.queue_bytes() - std::min(port.in.queue_bytes(), backlog);
  port.in.Transmit(std::min(bytes, room), loop_->now());
  Count(FaultKind::kBackground, counts_);
}

void Network::OnEvent(uint32_t code, uint64_t argument) {
  const auto ref = static_cast<PacketPool::Ref>(argument);
  switch (code) {
    case kAtSwitch:
      Switch(ref);
      break;
    case kAtHost: {
      Packet& packet = (*pool_)[ref];
      packet.arrived = loop_->now();
      Receiver* const receiver = packet.group == kForeignGroup
                                     ? foreign_
                                     : ports_[packet.destination_host].receiver;
      receiver->OnArrival(ref);
      break;
    }
    case kBackgroundTick:
      Burst(&backgrounds_[argument], argument);
      break;
    default:
      break;
  }
}

}  // namespace optireduce::sim
