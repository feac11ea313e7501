#include "dataplane/sim/baseline/stack.h"

#include <memory>

#include "dataplane/base/require.h"
#include "dataplane/base/rng.h"
#include "dataplane/sim/fault.h"

namespace optireduce::sim::baseline {

namespace {

class Jitter : public Fault {
 public:
  explicit Jitter(Duration longest) : Fault(Window()), longest_(longest) {}

 private:
  void Act(const Packet& packet, Rng* rng, Treatment* treatment,
           FaultCounts* /*counts*/) override {
    if (packet.group != kForeignGroup) return;
    treatment->delay =
        treatment->delay + Duration::Nanos(rng->Between(0, longest_.nanos()));
  }

  Duration longest_;
};

}  // namespace

Duration TimeOnLine(uint32_t mtu, uint64_t rate_bps) {
  // 28 of the MTU are in kWireOverhead.
  const uint64_t bits = uint64_t{mtu - 28 + kWireOverhead} * 8;
  return Duration::Nanos(static_cast<int64_t>(bits * 1'000'000'000 / rate_bps));
}

Stack::Stack(EventLoop* loop, PacketPool* pool, Network* network, size_t hosts,
             uint32_t mtu, Duration jitter)
    : loop_(loop),
      pool_(pool),
      network_(network),
      segment_bytes_(SegmentBytes(mtu)),
      nics_(hosts) {
  Require(pool->capacity() >= kForeignBytes);
  network->AttachForeign(this);
  network->AddFault(std::make_unique<Jitter>(jitter));
}

FlowId Stack::Open(uint16_t source, uint16_t destination, Listener* listener) {
  Require(source != destination);
  flows_.emplace_back(source, destination, segment_bytes_, listener);
  return static_cast<FlowId>(flows_.size() - 1);
}

void Stack::Write(FlowId id, uint64_t bytes, uint64_t message) {
  Require(bytes > 0);
  Flow& flow = flows_[id];
  flow.sender.Write(bytes);
  flow.messages.push_back({flow.sender.written(), message});
  Kick(id);
}

void Stack::Close(FlowId id) {
  Flow& flow = flows_[id];
  flow.closed = true;
  flow.sender.Stop();
  flow.messages.clear();
}

SenderCounters Stack::Totals() const {
  SenderCounters totals;
  for (const Flow& flow : flows_) {
    const SenderCounters& counters = flow.sender.counters();
    totals.segments += counters.segments;
    totals.retransmitted += counters.retransmitted;
    totals.probes += counters.probes;
    totals.timeouts += counters.timeouts;
  }
  return totals;
}

void Stack::OnArrival(PacketPool::Ref ref) {
  const Segment segment = Decode((*pool_)[ref].buffer);
  pool_->Free(ref);
  Flow& flow = flows_[segment.flow];
  if (flow.closed) return;
  if (!segment.is_ack) {
    OnData(segment.flow, segment.data);
    return;
  }
  flow.sender.OnAck(segment.ack, loop_->now());
  ArmSender(segment.flow);
  Kick(segment.flow);
}

void Stack::OnData(FlowId id, const Data& data) {
  Flow& flow = flows_[id];
  if (const auto ack = flow.acker.OnData(data, loop_->now())) SendAck(id, *ack);
  ArmAcker(id);
  while (!flow.messages.empty() &&
         flow.messages.front().end <= flow.acker.received()) {
    const uint64_t message = flow.messages.front().id;
    flow.messages.pop_front();
    if (flow.listener != nullptr) flow.listener->OnDelivered(message);
  }
}

void Stack::OnEvent(uint32_t code, uint64_t argument) {
  if (code == kNic) {
    const auto host = static_cast<uint16_t>(argument);
    nics_[host].waiting = false;
    Pump(host);
    return;
  }
  const auto id = static_cast<FlowId>(argument >> 32);
  const auto generation = static_cast<uint32_t>(argument);
  Flow& flow = flows_[id];
  if (flow.closed) return;
  if (code == kSenderTimer) {
    if (!Expired(&flow.sender_timer, generation)) return;
    if (flow.sender.deadline() <= loop_->now()) {
      flow.sender.OnTimer(loop_->now());
    }
    ArmSender(id);
    Kick(id);
    return;
  }
  if (!Expired(&flow.acker_timer, generation)) return;
  if (const auto ack = flow.acker.OnTimer(loop_->now())) SendAck(id, *ack);
  ArmAcker(id);
}

// ---- the NIC

void Stack::Kick(FlowId id) {
  Flow& flow = flows_[id];
  if (flow.ready || !flow.sender.CanSend()) return;
  flow.ready = true;
  nics_[flow.source].ready.push_back(id);
  Pump(flow.source);
}

void Stack::Pump(uint16_t host) {
  Nic& nic = nics_[host];
  Reap(&nic);
  while (!nic.ready.empty() && nic.queued < kNicShare) {
    const FlowId id = nic.ready.front();
    nic.ready.pop_front();
    Flow& flow = flows_[id];
    flow.ready = false;
    if (!flow.sender.CanSend()) continue;
    Segment segment;
    segment.flow = id;
    segment.data = flow.sender.Next(loop_->now());
    Emit(host, flow.destination, segment);
    const uint64_t bytes = PacketLength(segment) + kWireOverhead;
    nic.queue.push_back({network_->EmptyAt(host), bytes});
    nic.queued += bytes;
    ArmSender(id);
    if (flow.sender.CanSend()) {
      flow.ready = true;
      nic.ready.push_back(id);
    }
  }
  if (!nic.ready.empty() && !nic.waiting) WaitForRoom(host);
}

void Stack::Reap(Nic* nic) {
  while (!nic->queue.empty() && nic->queue.front().leaves <= loop_->now()) {
    nic->queued -= nic->queue.front().bytes;
    nic->queue.pop_front();
  }
}

// Until half of its share is free.
void Stack::WaitForRoom(uint16_t host) {
  Nic& nic = nics_[host];
  uint64_t left = nic.queued;
  Timestamp when = loop_->now();
  for (const InNic& packet : nic.queue) {
    if (left <= kNicShare / 2) break;
    left -= packet.bytes;
    when = packet.leaves;
  }
  nic.waiting = true;
  loop_->At(when, this, kNic, host);
}

void Stack::Emit(uint16_t from, uint16_t to, const Segment& segment) {
  const PacketPool::Ref ref = pool_->Allocate();
  Packet& packet = (*pool_)[ref];
  uint8_t* const buffer = packet.buffer;
  packet = Packet();
  packet.buffer = buffer;
  packet.source_host = from;
  packet.destination_host = to;
  packet.group = kForeignGroup;
  packet.length = PacketLength(segment);
  Encode(segment, buffer);
  network_->Send(ref);
}

void Stack::SendAck(FlowId id, const Ack& ack) {
  Segment segment;
  segment.flow = id;
  segment.is_ack = true;
  segment.ack = ack;
  Emit(flows_[id].destination, flows_[id].source, segment);
}

// ---- timers

// An event that is too early does no harm: it looks again.
void Stack::Arm(FlowId id, Code code, Timestamp deadline, Timer* timer) {
  if (deadline >= timer->when) return;
  timer->when = deadline;
  loop_->At(deadline, this, code, uint64_t{id} << 32 | ++timer->generation);
}

void Stack::ArmSender(FlowId id) {
  Arm(id, kSenderTimer, flows_[id].sender.deadline(), &flows_[id].sender_timer);
}

void Stack::ArmAcker(FlowId id) {
  Arm(id, kAckerTimer, flows_[id].acker.deadline(), &flows_[id].acker_timer);
}

bool Stack::Expired(Timer* timer, uint32_t generation) const {
  if (timer->generation != generation) return false;
  timer->when = Timestamp::Never();
  return true;
}

}  // namespace optireduce::sim::baseline
