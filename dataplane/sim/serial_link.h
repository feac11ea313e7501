// A transmitter with a finite queue in front of it.

#ifndef OPTIREDUCE_DATAPLANE_SIM_SERIAL_LINK_H_
#define OPTIREDUCE_DATAPLANE_SIM_SERIAL_LINK_H_

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "dataplane/base/time.h"

namespace optireduce::sim {

// First in, first out, at a fixed rate, so that the time at which a packet
// leaves is known when it enters: the queue is a single number, the time at
// which the transmitter falls idle. Computed in picoseconds, without drift.
class SerialLink {
 public:
  // `queue_bytes` may wait, the packet in transmission included.
  SerialLink(uint64_t rate_bps, uint64_t queue_bytes)
      : queue_bytes_(queue_bytes) {
    SetRate(rate_bps);
  }

  uint64_t Backlog(Timestamp now) const {
    const int64_t busy = idle_at_ - Picos(now);
    return busy <= 0 ? 0
                     : static_cast<uint64_t>((busy + picos_per_byte_ - 1) /
                                             picos_per_byte_);
  }
  bool HasRoom(uint64_t bytes, Timestamp now) const {
    return Backlog(now) + bytes <= queue_bytes_;
  }
  // When at most `bytes` are waiting.
  Timestamp DrainedTo(uint64_t bytes) const {
    return CeilNanos(idle_at_ - static_cast<int64_t>(bytes) * picos_per_byte_);
  }
  uint64_t queue_bytes() const { return queue_bytes_; }

  // For what is queued from now on.
  void SetRate(uint64_t rate_bps) {
    picos_per_byte_ = 8'000'000'000'000 / static_cast<int64_t>(rate_bps);
    assert(picos_per_byte_ > 0);
  }

  // Queues a packet (room or not) and returns when its last bit leaves.
  Timestamp Transmit(uint64_t bytes, Timestamp now) {
    idle_at_ = std::max(idle_at_, Picos(now)) +
               static_cast<int64_t>(bytes) * picos_per_byte_;
    return CeilNanos(idle_at_);
  }

 private:
  static int64_t Picos(Timestamp t) { return t.nanos() * 1000; }
  static Timestamp CeilNanos(int64_t picos) {
    return Timestamp::FromNanos((picos + 999) / 1000);
  }

  int64_t picos_per_byte_ = 0;
  uint64_t queue_bytes_;
  int64_t idle_at_ = 0;
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_SERIAL_LINK_H_
