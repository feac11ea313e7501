#include "dataplane/sim/host.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dataplane/sim/alloc_trap.h"

namespace optireduce::sim {

namespace {

constexpr size_t kSendBatch = 32;
// How often a core whose NIC is full is polled.
constexpr Duration kBlockedPoll = kTick / 2;
// A core that asks to be polled this often, at once, and does nothing, spins.
constexpr uint32_t kMostIdlePolls = 1000;

std::vector<Window> WindowsOf(const std::vector<Stall>& stalls) {
  std::vector<Window> windows;
  for (const Stall& stall : stalls) windows.push_back(stall.window);
  return windows;
}

uint16_t HostOf(const core::NetAddress& address) {
  return static_cast<uint16_t>(address.ToIpv4() - kFirstAddress);
}

}  // namespace

GroupRun* World::FindGroup(uint32_t tag) {
  for (const auto& group : groups) {
    if (group->tag() == tag) return group.get();
  }
  return nullptr;
}

Host::Host(World* world, uint16_t index, const HostSpec& spec,
           const std::vector<Stall>& stalls)
    : world_(world),
      index_(index),
      spec_(spec),
      clock_(spec.clock_start, WindowsOf(stalls)) {
  for (const Stall& stall : stalls) {
    if (stall.whole_host) whole_stalls_.push_back(stall);
  }
  Start();
}

void Host::Start() {
  if (core_ != nullptr) return;
  core::EngineConfig config;
  config.rate_bps = spec_.pacer_bps;
  core_ = std::make_unique<core::EngineCore>(config);
}

void Host::Add(std::unique_ptr<Trainer> trainer) {
  trainers_.push_back(std::move(trainer));
}

void Host::Kill() {
  if (core_ == nullptr) return;
  const Timestamp now = world_->loop->now();
  world_->trace->Note(now, "daemon dies", index_);
  for (const auto& trainer : trainers_) {
    if (trainer->group().opens_at() <= now) trainer->LoseDaemon(now);
  }
  for (const PacketPool::Ref ref : ring_) world_->pool->Free(ref);
  ring_.clear();
  FoldCounters();
  core_.reset();
  next_poll_ = Timestamp::Never();
  ++poll_generation_;
}

void Host::OnArrival(PacketPool::Ref ref) {
  const Timestamp now = world_->loop->now();
  const Packet& packet = (*world_->pool)[ref];
  const bool stalled = std::any_of(
      whole_stalls_.begin(), whole_stalls_.end(),
      [now](const Stall& stall) { return stall.window.Contains(now); });
  if (core_ == nullptr || stalled) {
    const FaultKind why =
        core_ == nullptr ? FaultKind::kDeadHost : FaultKind::kRing;
    Count(why, world_->injected);
    world_->trace->Lost(now, packet, Name(why).data());
    world_->pool->Free(ref);
    return;
  }
  if (ring_.size() >= spec_.receive_ring) {
    Count(FaultKind::kRing, world_->injected);
    world_->trace->Lost(now, packet, "ring");
    world_->pool->Free(ref);
    return;
  }
  ring_.push_back(ref);
  Wake();
}

void Host::PollAt(Timestamp when) {
  if (when == Timestamp::Never() || core_ == nullptr) return;
  when =
      std::max({when, world_->loop->now(), last_poll_ + spec_.poll_interval});
  when = clock_.FirstPoll(when);
  if (when >= next_poll_) return;
  next_poll_ = when;
  world_->loop->At(when, this, kPoll, ++poll_generation_);
}

void Host::OnEvent(uint32_t /*code*/, uint64_t argument) {
  if (argument != poll_generation_ || core_ == nullptr) return;
  next_poll_ = Timestamp::Never();
  Poll();
}

void Host::Poll() {
  const Timestamp now = world_->loop->now();
  const uint64_t before = delivered_;
  // Trainers first: to what this poll brings they answer in the next.
  bool acted = false;
  for (const auto& trainer : trainers_) {
    if (trainer->next_action() > now) continue;
    trainer->Act(core_.get(), now);
    acted = true;
  }
  HandleEvents(now);
  Receive(now);
  acted = acted || delivered_ != before;
  {
    const NoAllocation trap;
    core_->Advance(clock_.ToHost(now));
  }
  acted = HandleEvents(now) || acted;
  const bool sent = Send(now);
  if (sent || acted) idle_polls_ = 0;
  last_poll_ = now;
  ScheduleNext(now);
  if (std::exchange(news_, false)) world_->wake_all();
}

bool Host::HandleEvents(Timestamp now) {
  bool any = false;
  core::Event event;
  while (true) {
    {
      const NoAllocation trap;
      if (!core_->PopEvent(&event)) return any;
    }
    any = true;
    for (const auto& trainer : trainers_) {
      if (trainer->id() == event.group) {
        news_ = trainer->OnEvent(event, now) || news_;
        break;
      }
    }
  }
}

void Host::Receive(Timestamp now) {
  while (!ring_.empty()) {
    const PacketPool::Ref ref = ring_.front();
    ring_.pop_front();
    Deliver(ref, now);
    world_->pool->Free(ref);
  }
}

void Host::Deliver(PacketPool::Ref ref, Timestamp now) {
  Packet& packet = (*world_->pool)[ref];
  HandIn(packet, now);
  if (packet.contradicted && ForgeResult(&packet)) {
    Count(FaultKind::kForged, world_->injected);
    HandIn(packet, now);
  }
  // At once: a contribution given up may come again with the next packet.
  HandleEvents(now);
}

void Host::HandIn(const Packet& packet, Timestamp now) {
  core::PacketView view;
  view.source = packet.source.address;
  view.destination_port = packet.destination.port;
  view.bytes = packet.bytes();
  view.ecn_marked = packet.marked;
  const Timestamp arrival =
      spec_.hardware_clock ? packet.arrived : std::min(last_poll_, now);
  core::Verdict verdict;
  {
    const NoAllocation trap;
    verdict = core_->OnPacket(view, clock_.ToHost(arrival), clock_.ToHost(now));
  }
  ++delivered_;
  world_->trace->Deliver(now, packet, verdict);
  CheckVerdict(packet, verdict, now);
}

void Host::CheckVerdict(const Packet& packet, core::Verdict verdict,
                        Timestamp now) {
  if (verdict != core::Verdict::kAccepted) return;
  if (packet.origin == Origin::kCorrupt || packet.origin == Origin::kForged) {
    world_->violations->Add(
        now,
        absl::StrCat("host ", index_, " accepted a ",
                     packet.origin == Origin::kCorrupt ? "corrupt" : "forged",
                     " packet"));
    return;
  }
  GroupRun* const group = world_->FindGroup(packet.header.tag);
  if (group != nullptr) group->OnAccepted(packet, now);
}

// A packet for each descriptor is always at hand; those that the core fills are
// replaced.
bool Host::Send(Timestamp now) {
  const uint32_t capacity = world_->pool->capacity();
  bool sent = false;
  while (true) {
    const size_t batch = std::min<size_t>(
        kSendBatch, world_->network->RoomFor(index_, capacity));
    if (batch == 0) return sent;
    while (spare_.size() < batch) {
      spare_.push_back(world_->pool->Allocate());
      descriptors_.emplace_back();
      descriptors_.back().buffer = (*world_->pool)[spare_.back()].buffer;
      descriptors_.back().capacity = capacity;
    }
    size_t filled;
    {
      const NoAllocation trap;
      filled = core_->PollTx(std::span(descriptors_).first(batch),
                             clock_.ToHost(now));
    }
    for (size_t i = 0; i < filled; ++i) {
      SendOne(spare_[i], descriptors_[i], now);
      spare_[i] = world_->pool->Allocate();
      descriptors_[i].buffer = (*world_->pool)[spare_[i]].buffer;
    }
    sent = sent || filled > 0;
    if (filled < batch) return sent;
  }
}

void Host::SendOne(PacketPool::Ref ref, const core::TxDescriptor& descriptor,
                   Timestamp now) {
  Packet& packet = (*world_->pool)[ref];
  packet.source = descriptor.source;
  packet.destination = descriptor.destination;
  packet.source_host = index_;
  packet.destination_host = HostOf(descriptor.destination.address);
  packet.origin = Origin::kSent;
  packet.length = descriptor.length;
  packet.arrived = Timestamp();
  packet.ecn_capable = descriptor.ecn_capable;
  packet.marked = false;
  wire::Header header;
  if (wire::DecodeHeader(packet.bytes(), &header) != wire::WireError::kOk ||
      wire::CheckCrc(packet.bytes()) != wire::WireError::kOk) {
    world_->violations->Add(
        now, absl::StrCat("host ", index_, " sent a malformed packet"));
    world_->pool->Free(ref);
    return;
  }
  packet.header = header;
  GroupRun* const group = world_->FindGroup(header.tag);
  const auto destination =
      group == nullptr ? std::nullopt : group->RankAt(packet.destination);
  if (!destination || HostOf(packet.source.address) != index_) {
    world_->violations->Add(
        now, absl::StrCat("host ", index_, " sent a packet to nobody"));
    world_->pool->Free(ref);
    return;
  }
  packet.group = static_cast<uint16_t>(group->index());
  packet.source_rank = core::Rank(header.source);
  packet.destination_rank = *destination;
  group->OnSent(packet, now);
  world_->network->Send(ref);
}

void Host::ScheduleNext(Timestamp now) {
  const bool room =
      world_->network->RoomFor(index_, world_->pool->capacity()) > 0;
  const Timestamp wakeup = core_->NextWakeup();
  Timestamp next = Timestamp::Never();
  if (wakeup != Timestamp::Never()) {
    next = std::max(clock_.ToSimulation(wakeup), now);
    // What waits for the NIC is no reason to poll before it has room; but it
    // hides what else the core may have to do.
    if (!room && next == now) {
      next = std::min(world_->network->RoomAt(index_), now + kBlockedPoll);
    }
    if (room && next == now && ++idle_polls_ == kMostIdlePolls) {
      world_->violations->Add(
          now, absl::StrCat("host ", index_, ": the core spins"));
    }
  }
  for (const auto& trainer : trainers_) {
    next = std::min(next, trainer->next_action());
  }
  PollAt(next);
}

void Host::FoldCounters() {
  const auto counters = core_->counters().Snapshot();
  uint64_t sum = 0;
  for (size_t i = 0; i < counters.size(); ++i) {
    outcome_.counters[i] += counters[i];
    sum += counters[i];
  }
  if (sum != delivered_) {
    world_->violations->Add(
        world_->loop->now(),
        absl::StrCat("host ", index_, ": ", delivered_,
                     " datagrams delivered, ", sum, " counted"));
  }
  coverage_.Add(*core_);
  outcome_.delivered += delivered_;
  delivered_ = 0;
}

HostOutcome Host::Finish() {
  for (const PacketPool::Ref ref : ring_) world_->pool->Free(ref);
  ring_.clear();
  if (core_ != nullptr) FoldCounters();
  for (const auto& trainer : trainers_) {
    trainer->CheckBuffers(world_->loop->now());
  }
  return outcome_;
}

}  // namespace optireduce::sim
