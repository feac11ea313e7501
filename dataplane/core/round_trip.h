// RoundTrip: how long a packet to a peer and its answer take, from echoes.
//
// Only a real echo makes a sample. Smoothed as in RFC 6298; the least one says
// how long the way is when nothing stands in it. A value type, no clock.

#ifndef OPTIREDUCE_DATAPLANE_CORE_ROUND_TRIP_H_
#define OPTIREDUCE_DATAPLANE_CORE_ROUND_TRIP_H_

#include "dataplane/base/time.h"

namespace optireduce::core {

class RoundTrip {
 public:
  // Longer ones count as this: a peer that lies may slow down its own part, but
  // not for ever.
  static constexpr Duration kMost = Duration::Seconds(1);

  // Negative ones, which a peer could make up, are ignored.
  void OnSample(Duration sample);

  bool is_known() const { return known_; }
  // Of all samples; 0 while unknown.
  Duration least() const { return least_; }
  Duration smoothed() const { return smoothed_; }
  // An answer that is not here after this does not come: the smoothed time and
  // four deviations; `unknown` while unknown.
  Duration Timeout(Duration unknown) const;

 private:
  bool known_ = false;
  Duration least_;
  Duration smoothed_;
  Duration deviation_;
};

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_ROUND_TRIP_H_
