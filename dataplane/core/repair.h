// Repair: when to ask again for what lacks of a bounded op, and how much may be
// sent again.
//
// Three questions, each with its own small class, all without clock and I/O:
//   RepairTiming   how long to wait, from the round trip to a peer
//   RepairStream   one peer's packets of one stage of one op: is something
//                  lost, and is it time to ask (again)?
//   RepairBudget   what one rank may send again in one op
// Nothing here moves a deadline: who asks stops at it, and a repaired packet is
// one that came late or, at worst, twice. Times are those of one host's clock.
// Not thread-safe.

#ifndef OPTIREDUCE_DATAPLANE_CORE_REPAIR_H_
#define OPTIREDUCE_DATAPLANE_CORE_REPAIR_H_

#include <algorithm>
#include <cstdint>

#include "dataplane/base/time.h"
#include "dataplane/core/round_trip.h"
#include "proto/wire.h"

namespace optireduce::core {

struct RepairTiming {
  // Hosts pause for about as long as the least ones, and packets overtake each
  // other.
  static constexpr Duration kLeastWindow = Duration::Micros(50);
  static constexpr Duration kLeastTimeout = Duration::Micros(200);

  // A packet that later ones overtook is lost if it is not here after this: a
  // quarter of the least round trip.
  Duration window;
  // After so long without a packet the end of a stream is lost, or an answer.
  Duration timeout;

  // `unknown`: the timeout of a peer whose round trip is not known yet.
  static RepairTiming Of(const RoundTrip& trip, Duration unknown) {
    return {std::max(trip.least() / 4, kLeastWindow),
            std::max(trip.Timeout(unknown), kLeastTimeout)};
  }
};

class RepairStream {
 public:
  // As many questions in a row without an answer, and nothing more is expected
  // of the peer. It is still asked, each time after a longer pause.
  static constexpr uint32_t kMostQuestions = 2;

  bool begun() const { return begun_at_ != Timestamp::Never(); }
  // From now on packets may come. `offset`: the chunk of the shard at position
  // 0, where that is known.
  void Begin(Timestamp now, uint32_t offset) {
    begun_at_ = heard_at_ = now;
    offset_ = offset;
  }

  // A new packet of the stream, repaired or not.
  void OnArrival(Timestamp now) {
    ++arrived_;
    unanswered_ = 0;
    heard_at_ = std::max(heard_at_, now);
  }
  // Its position in the stream, if it is no repair. True if it is the first to
  // show that packets before it lack.
  bool OnPosition(uint32_t position, Timestamp now);
  // All up to a position has been sent, whatever came; the newest of it now.
  void OnSent(uint32_t end, Timestamp now);
  // What lacks before overdue_end() was looked for and listed, if any did.
  void OnListed(bool any, Timestamp now);

  uint32_t offset() const { return offset_; }
  uint32_t arrived() const { return arrived_; }
  // Packets before this position have been sent.
  uint32_t reach() const { return reach_; }
  // Those of them that have had a window to arrive, once DueAt() has come.
  uint32_t overdue_end() const { return overdue_end_; }
  // Nothing before this position lacks; only a memory of where to look.
  uint32_t whole() const { return whole_; }
  void OnWhole(uint32_t end) { whole_ = end; }
  // The stream's newest packet, or its begin.
  Timestamp heard_at() const { return heard_at_; }

  // When to ask. `heard_at`: what counts as the last sign of life.
  Timestamp DueAt(const RepairTiming& timing, Timestamp heard_at) const;
  // Nothing came for so long that the end of the stream may be lost.
  static bool IsSilent(const RepairTiming& timing, Timestamp heard_at,
                       Timestamp now) {
    return now >= heard_at + timing.timeout;
  }
  // How long to wait after a question that is asked now, without jitter.
  Duration Pause(const RepairTiming& timing) const;
  void OnAsked(Timestamp not_before) {
    ++unanswered_;
    not_before_ = not_before;
  }
  // Whether what lacks may still come by repair: not after `most` questions in
  // vain.
  bool IsHopeful(uint32_t most, Timestamp now) const {
    return unanswered_ < most || (unanswered_ == most && now < not_before_);
  }

 private:
  Timestamp begun_at_ = Timestamp::Never();
  Timestamp heard_at_;
  Timestamp gap_since_ = Timestamp::Never();
  Timestamp not_before_;  // the next question
  uint32_t offset_ = 0;
  uint32_t arrived_ = 0;
  uint32_t reach_ = 0;
  uint32_t overdue_end_ = 0;
  uint32_t whole_ = 0;
  uint32_t unanswered_ = 0;
};

// In bytes of datagrams. Bounded by what was sent for the first time, so that
// repairs can never be what fills a network.
class RepairBudget {
 public:
  static constexpr uint64_t kShare = 4;
  // Short ops: as many packets of the greatest size.
  static constexpr uint64_t kFloorPackets = 16;

  static uint64_t Limit(uint64_t first_bytes, uint64_t packet_bytes) {
    return std::max(first_bytes / kShare, kFloorPackets * packet_bytes);
  }

  void OnFirst(uint64_t bytes) { first_ += bytes; }
  // False if that would be too much; else it is spent. `packet_bytes`: of the
  // greatest packet.
  bool Spend(uint64_t bytes, uint64_t packet_bytes) {
    if (spent_ + bytes > Limit(first_, packet_bytes)) return false;
    spent_ += bytes;
    return true;
  }

 private:
  uint64_t first_ = 0;
  uint64_t spent_ = 0;
};

// How many chunks can come in `slack`, at the pace at which `arrived` came in
// `elapsed`. At least one; no limit while none has come.
uint32_t ChunksInTime(uint32_t arrived, Duration elapsed, Duration slack);

// Adds a chunk that lacks to a question, in rising order. False if it has no
// room for it.
bool AddLacking(uint32_t local, wire::NackBody* nack);

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_REPAIR_H_
