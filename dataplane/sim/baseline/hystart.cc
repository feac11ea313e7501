#include "dataplane/sim/baseline/hystart.h"

#include <algorithm>

namespace optireduce::sim::baseline {

namespace {

// Linux' names are in the comments.
constexpr uint64_t kLeastWindow = 16;                       // low_window
constexpr Duration kClose = Duration::Millis(2);            // ack_delta_us
constexpr uint32_t kSamples = 8;                            // MIN_SAMPLES
constexpr Duration kLeastDelay = Duration::Millis(4);       // DELAY_MIN
constexpr Duration kMostDelay = Duration::Millis(16);       // DELAY_MAX
constexpr Duration kLongestAckDelay = Duration::Millis(1);  // hystart_ack_delay
constexpr uint64_t kAggregate = uint64_t{4} << 16;          // 4 GSO_MAX_SIZE

// What acknowledgements of aggregates may be late by: the time of that many
// bytes at twice the window in each round trip.
Duration AckDelay(const AckFacts& facts) {
  const Duration delay =
      facts.smoothed * static_cast<int64_t>(kAggregate) /
      static_cast<int64_t>(2 * std::max<uint64_t>(facts.window_bytes, 1));
  return std::min(delay, kLongestAckDelay);
}

}  // namespace

bool HyStart::OnAck(const AckFacts& facts, Timestamp now) {
  shortest_ =
      sampled_ ? std::min(shortest_, facts.round_trip) : facts.round_trip;
  sampled_ = true;
  if (found_) return false;
  if (!in_round_ || facts.acknowledged > round_end_) {
    in_round_ = true;
    round_end_ = facts.next;
    round_start_ = last_ack_ = now;
    samples_ = 0;
  }
  if (facts.window < kLeastWindow) return false;
  const bool train = IsLongTrain(facts, now);
  found_ = IsDelayed(facts.round_trip) || train;
  return found_;
}

bool HyStart::IsLongTrain(const AckFacts& facts, Timestamp now) {
  if (now - last_ack_ > kClose) return false;
  last_ack_ = now;
  return now - round_start_ > (shortest_ + AckDelay(facts)) / 2;
}

bool HyStart::IsDelayed(Duration round_trip) {
  least_of_round_ =
      samples_ == 0 ? round_trip : std::min(least_of_round_, round_trip);
  if (samples_ < kSamples) {
    ++samples_;
    return false;
  }
  return least_of_round_ >
         shortest_ + std::clamp(shortest_ / 8, kLeastDelay, kMostDelay);
}

}  // namespace optireduce::sim::baseline
