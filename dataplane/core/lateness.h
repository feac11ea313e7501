// Lateness: how much later than an op's quorum each rank usually opens it.
//
// Of each rank the longest lateness counts that was still in time to contribute
// something; it fades with every op. What is longer says nothing: no wait would
// have helped. All of it is what this host has seen itself, so a peer that lies
// can only make itself be waited for, and an op's bound is the end of that.
//
// No clock, no I/O. Fixed memory from construction. Not thread-safe.

#ifndef OPTIREDUCE_DATAPLANE_CORE_LATENESS_H_
#define OPTIREDUCE_DATAPLANE_CORE_LATENESS_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "dataplane/base/time.h"
#include "dataplane/core/types.h"

namespace optireduce::core {

class Lateness {
 public:
  // A rank is given so many times its own lateness.
  static constexpr int64_t kHeadroomTimes = 7;
  static constexpr int64_t kHeadroomOver = 5;
  // In one op a lateness fades by one over this. A model has some tens of
  // buckets, and it is the first of a step that ranks are late with.
  static constexpr int64_t kFading = 128;

  explicit Lateness(size_t world) : longest_(world) {}

  // The clocks of another op have started.
  void OnQuorum() {
    for (Duration& each : longest_) each = each - each / kFading;
  }
  // A rank has opened an op so long after its quorum, in time for stage 1.
  void OnOpened(Rank rank, Duration after) {
    Duration& longest = longest_[rank.index()];
    longest = std::max(longest, after);
  }

  // From the quorum: who comes later is later than he usually is.
  Duration Allowance(Rank rank) const {
    return longest_[rank.index()] * kHeadroomTimes / kHeadroomOver;
  }

 private:
  std::vector<Duration> longest_;  // by rank
};

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_LATENESS_H_
