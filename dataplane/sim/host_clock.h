// One host's time: what its clock says, and when it stands still.

#ifndef OPTIREDUCE_DATAPLANE_SIM_HOST_CLOCK_H_
#define OPTIREDUCE_DATAPLANE_SIM_HOST_CLOCK_H_

#include <algorithm>
#include <utility>
#include <vector>

#include "dataplane/base/time.h"
#include "dataplane/sim/fault.h"

namespace optireduce::sim {

// How much later than due an engine that is not stalled may act.
inline constexpr Duration kTick = Duration::Micros(100);

class HostClock {
 public:
  // `start`: what the clock says at simulation time 0.
  HostClock(Duration start, std::vector<Window> stalls)
      : start_(start), stalls_(std::move(stalls)) {
    std::sort(
        stalls_.begin(), stalls_.end(),
        [](const Window& a, const Window& b) { return a.begin < b.begin; });
  }

  Timestamp ToHost(Timestamp simulation) const { return simulation + start_; }
  Timestamp ToSimulation(Timestamp host) const { return host - start_; }

  // The first moment, from `due` on, at which the engine is not stalled.
  // Simulation time.
  Timestamp FirstPoll(Timestamp due) const {
    for (const Window& stall : stalls_) {
      if (stall.Contains(due)) due = stall.end;
    }
    return due;
  }

  // When it must have acted on what is due: a tick after it could first, or
  // where a stall falls into that tick, at the stall's end.
  Timestamp LastPoll(Timestamp due) const {
    return FirstPoll(FirstPoll(due) + kTick);
  }

 private:
  Duration start_;
  std::vector<Window> stalls_;  // by their begin
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_HOST_CLOCK_H_
