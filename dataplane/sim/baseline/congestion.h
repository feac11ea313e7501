// How much a sender may have on its way: CUBIC as it behaves in a data centre.

#ifndef OPTIREDUCE_DATAPLANE_SIM_BASELINE_CONGESTION_H_
#define OPTIREDUCE_DATAPLANE_SIM_BASELINE_CONGESTION_H_

#include <cstdint>

#include "dataplane/base/time.h"

namespace optireduce::sim::baseline {

// RFC 9438 with an initial window of 10 (RFC 6928), in its Reno-friendly region
// (section 4.3). CUBIC's own curve grows by 0.4 (t - K)^3 segments, t in
// seconds: not one segment in the milliseconds between two losses here, where a
// round trip takes microseconds. So the friendly window always is the larger
// one, and CUBIC is what this is: additive increase, a factor of 0.7 on loss.
// As in Linux, the window grows by a twentieth for each round trip until the
// first loss. Whole numbers only. Not thread-safe.
class CongestionWindow {
 public:
  static constexpr uint64_t kInitial = 10;

  // Segments that may be on their way; at least 1.
  uint64_t segments() const {
    return static_cast<uint64_t>(window_ / kSegment);
  }
  bool in_slow_start() const { return window_ < threshold_; }

  // The line's capacity is found (HyStart).
  void EndSlowStart() { threshold_ = window_; }
  // So many segments arrived, while the window was what held the sender back.
  void OnDelivered(uint64_t segments);
  // Once for each window in which something was lost.
  void OnLoss();
  // The retransmission timer ran out; `again`: once more for the same loss.
  void OnTimeout(bool again);
  // Nothing was sent for `idle` (RFC 2861): half for each timeout in it.
  void OnIdle(Duration idle, Duration timeout);

 private:
  // In millionths of a segment.
  static constexpr int64_t kSegment = 1'000'000;

  void ReduceThreshold();

  int64_t window_ = kInitial * kSegment;
  int64_t threshold_ = INT64_MAX;
  int64_t before_loss_ = 0;
};

}  // namespace optireduce::sim::baseline

#endif  // OPTIREDUCE_DATAPLANE_SIM_BASELINE_CONGESTION_H_
