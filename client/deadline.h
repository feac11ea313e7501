// The caller's limit, carried from the call's first line to its last.

#ifndef OPTIREDUCE_CLIENT_DEADLINE_H_
#define OPTIREDUCE_CLIENT_DEADLINE_H_

#include <time.h>

#include <algorithm>
#include <cstdint>

#include "dataplane/base/time.h"

namespace optireduce::client {

inline Timestamp MonotonicNow() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return Timestamp::FromNanos(int64_t{now.tv_sec} * 1'000'000'000 +
                              now.tv_nsec);
}

// For a span that is not negative.
inline timespec ToTimespec(Duration span) {
  return {
      static_cast<time_t>(span.nanos() / 1'000'000'000),
      static_cast<decltype(timespec::tv_nsec)>(span.nanos() % 1'000'000'000)};
}

// Sleeps for `span`; signals cut it shorter.
inline void SleepFor(Duration span) {
  const timespec time = ToTimespec(span);
  nanosleep(&time, nullptr);
}

class Deadline {
 public:
  static Deadline In(int64_t nanos) {
    return Deadline(MonotonicNow() +
                    Duration::Nanos(std::max<int64_t>(nanos, 0)));
  }
  static Deadline At(Timestamp when) { return Deadline(when); }

  // Never negative.
  Duration Left() const {
    return std::max(when_ - MonotonicNow(), Duration::Nanos(0));
  }
  bool Passed() const { return MonotonicNow() >= when_; }
  Timestamp when() const { return when_; }

 private:
  explicit Deadline(Timestamp when) : when_(when) {}

  Timestamp when_;
};

// Waits that grow from one to the next, never past a deadline.
class BackOff {
 public:
  BackOff(Duration first, Duration last) : next_(first), last_(last) {}

  void Wait(const Deadline& deadline) {
    SleepFor(std::min(next_, deadline.Left()));
    next_ = std::min(next_ * 2, last_);
  }

 private:
  Duration next_;
  Duration last_;
};

}  // namespace optireduce::client

#endif  // OPTIREDUCE_CLIENT_DEADLINE_H_
