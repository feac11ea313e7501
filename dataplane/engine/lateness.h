// How late an op ended, and how much of that was the engine's doing.

#ifndef OPTIREDUCE_DATAPLANE_ENGINE_LATENESS_H_
#define OPTIREDUCE_DATAPLANE_ENGINE_LATENESS_H_

#include <algorithm>

#include "dataplane/base/time.h"

namespace optireduce::engine {

struct Lateness {
  Duration wall;
  Duration decision;
};

// A poll began at `poll_start` (the thread got the CPU then) and has since run
// for `poll_cpu`; now, at `done`, an op ends whose limit was `deadline`. One
// that was submitted after its limit is late from the submit on. Time in which
// the poll did not run although it wanted to is run delay, too.
inline Lateness LatenessOf(Timestamp submitted, Timestamp deadline,
                           Timestamp poll_start, Duration poll_cpu,
                           Timestamp done) {
  Lateness late;
  const Timestamp due = std::max(submitted, deadline);
  if (due >= done) return late;
  late.wall = done - due;
  const Duration not_run = std::max((done - poll_start) - poll_cpu, Duration());
  late.decision =
      std::max((done - std::max(due, poll_start)) - not_run, Duration());
  return late;
}

}  // namespace optireduce::engine

#endif  // OPTIREDUCE_DATAPLANE_ENGINE_LATENESS_H_
