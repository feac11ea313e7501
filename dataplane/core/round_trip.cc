#include "dataplane/core/round_trip.h"

#include <algorithm>

namespace optireduce::core {

void RoundTrip::OnSample(Duration sample) {
  if (sample < Duration()) return;
  sample = std::min(sample, kMost);
  if (!known_) {
    known_ = true;
    least_ = smoothed_ = sample;
    deviation_ = sample / 2;
    return;
  }
  least_ = std::min(least_, sample);
  const Duration error =
      sample < smoothed_ ? smoothed_ - sample : sample - smoothed_;
  deviation_ = deviation_ + (error - deviation_) / 4;
  smoothed_ = smoothed_ + (sample - smoothed_) / 8;
}

Duration RoundTrip::Timeout(Duration unknown) const {
  return known_ ? smoothed_ + deviation_ * 4 : unknown;
}

}  // namespace optireduce::core
