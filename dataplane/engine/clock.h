// The engine's clocks: the only place that reads time. Everything below takes
// `now` as an argument.

#ifndef OPTIREDUCE_DATAPLANE_ENGINE_CLOCK_H_
#define OPTIREDUCE_DATAPLANE_ENGINE_CLOCK_H_

#include <time.h>

#include "dataplane/base/time.h"

namespace optireduce::engine {

class Clock {
 public:
  virtual ~Clock() = default;

  // Monotonic: steps of the wall clock change nothing.
  virtual Timestamp Now() const = 0;
  // What the calling thread has run so far.
  virtual Duration ThreadCpu() const = 0;
};

class MonotonicClock final : public Clock {
 public:
  Timestamp Now() const override { return Timestamp() + Read(CLOCK_MONOTONIC); }
  Duration ThreadCpu() const override { return Read(CLOCK_THREAD_CPUTIME_ID); }

 private:
  static Duration Read(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return Duration::Seconds(now.tv_sec) + Duration::Nanos(now.tv_nsec);
  }
};

}  // namespace optireduce::engine

#endif  // OPTIREDUCE_DATAPLANE_ENGINE_CLOCK_H_
