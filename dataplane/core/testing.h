// A few cores joined by a wire without time of its own: for unit tests of the
// core. The simulator (dataplane/sim) is the place for networks.

#ifndef OPTIREDUCE_DATAPLANE_CORE_TESTING_H_
#define OPTIREDUCE_DATAPLANE_CORE_TESTING_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dataplane/core/engine_core.h"

namespace optireduce::core {

// N ranks, one core each. Time moves only in Run: to the next wake-up of any
// core, packets taking `latency`.
class TestNet {
 public:
  static constexpr uint32_t kTag = 0xABCD1234;

  // Sees each datagram's header before it is delivered; false loses it.
  using Filter = std::function<bool(const wire::Header&, Rank from, Rank to)>;

  // By how much a datagram is slower than the others.
  using Delay =
      std::function<Duration(const wire::Header&, Rank from, Rank to)>;

  explicit TestNet(size_t world, const GroupConfig& settings = {},
                   const EngineConfig& engine = {}) {
    for (size_t i = 0; i < world; ++i) {
      config_ = settings;
      config_.tag = kTag;
      config_.self = Rank(static_cast<uint16_t>(i));
      for (size_t j = 0; j < world; ++j) {
        config_.members.push_back(
            {NetAddress::FromIpv4(static_cast<uint32_t>(0x0A000001 + j)),
             static_cast<uint16_t>(5000 + j)});
      }
      cores_.push_back(std::make_unique<EngineCore>(engine));
      groups_.push_back(*cores_.back()->AddGroup(config_, now_));
      config_.members.clear();
    }
    events_.resize(world);
  }

  EngineCore& core(size_t rank) { return *cores_[rank]; }
  GroupId group(size_t rank) const { return groups_[rank]; }
  Timestamp now() const { return now_; }
  void set_filter(Filter filter) { filter_ = std::move(filter); }
  void set_delay(Delay delay) { delay_ = std::move(delay); }
  // Whose packets find congestion on their way.
  void set_marks(Filter marks) { marks_ = std::move(marks); }
  // A second copy comes by so much slower than others; not at all if by 0.
  void set_copy(Delay copy) { copy_ = std::move(copy); }
  // Events of a rank, in order.
  std::vector<Event>& events(size_t rank) { return events_[rank]; }
  // The report of the rank's op, or null if it has not ended.
  const OpReport* report(size_t rank, OpSeq seq) const {
    for (const Event& event : events_[rank]) {
      if (event.kind == EventKind::kOpDone && event.report.op_seq == seq) {
        return &event.report;
      }
    }
    return nullptr;
  }

  SubmitResult Submit(size_t rank, const OpDescriptor& op, BufferView buffers,
                      OpSeq* seq = nullptr) {
    OpSeq ignored;
    return core(rank).Submit(groups_[rank], op, buffers, now_,
                             seq == nullptr ? &ignored : seq);
  }

  // Runs until `end`.
  void Run(Duration span) {
    const Timestamp end = now_ + span;
    while (true) {
      Poll();
      Timestamp next =
          in_flight_.empty() ? Timestamp::Never() : in_flight_.front().arrival;
      for (const auto& core : cores_) next = std::min(next, core->NextWakeup());
      if (next > end) break;
      now_ = std::max(now_, next);
    }
    now_ = end;
  }

 private:
  struct Datagram {
    Timestamp arrival;
    Endpoint source;
    Endpoint destination;
    bool marked;
    std::vector<uint8_t> bytes;
  };

  void Poll() {
    std::vector<Datagram> due;
    while (!in_flight_.empty() && in_flight_.front().arrival <= now_) {
      due.push_back(std::move(in_flight_.front()));
      in_flight_.erase(in_flight_.begin());
    }
    for (const Datagram& each : due) {
      const size_t to = each.destination.port - 5000u;
      cores_[to]->OnPacket(
          {each.source.address, each.destination.port, each.marked, each.bytes},
          each.arrival, now_);
    }
    for (size_t i = 0; i < cores_.size(); ++i) {
      cores_[i]->Advance(now_);
      Drain(i);
      Send(i);
      Drain(i);
    }
  }

  void Drain(size_t rank) {
    Event event;
    while (cores_[rank]->PopEvent(&event)) events_[rank].push_back(event);
  }

  void Send(size_t rank) {
    std::array<uint8_t, 10'000> buffer;
    TxDescriptor tx;
    tx.buffer = buffer.data();
    tx.capacity = buffer.size();
    while (cores_[rank]->PollTx({&tx, 1}, now_) == 1) {
      wire::Header header;
      wire::DecodeHeader({tx.buffer, tx.length}, &header);
      const Rank from(static_cast<uint16_t>(rank));
      const Rank to(static_cast<uint16_t>(tx.destination.port - 5000));
      if (filter_ && !filter_(header, from, to)) continue;
      const bool marked = marks_ && marks_(header, from, to);
      Deliver(tx, marked, delay_ ? delay_(header, from, to) : Duration());
      const Duration copy = copy_ ? copy_(header, from, to) : Duration();
      if (copy > Duration()) Deliver(tx, marked, copy);
    }
  }

  void Deliver(const TxDescriptor& tx, bool marked, Duration slower) {
    const Timestamp arrival = now_ + Duration::Micros(10) + slower;
    const auto later = [](Timestamp at, const Datagram& other) {
      return at < other.arrival;
    };
    in_flight_.insert(
        std::upper_bound(in_flight_.begin(), in_flight_.end(), arrival, later),
        {arrival,
         tx.source,
         tx.destination,
         marked,
         {tx.buffer, tx.buffer + tx.length}});
  }

  GroupConfig config_;
  Timestamp now_ = Timestamp::FromNanos(1'000'000'000);
  std::vector<std::unique_ptr<EngineCore>> cores_;
  std::vector<GroupId> groups_;
  std::vector<std::vector<Event>> events_;
  std::vector<Datagram> in_flight_;
  Filter filter_;
  Filter marks_;
  Delay delay_;
  Delay copy_;
};

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_TESTING_H_
