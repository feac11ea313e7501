// Points in time and spans of time, in nanoseconds, as types that do not mix.
//
// Nothing here reads a clock. The protocol core takes `now` as an argument;
// only the engine owns a real clock, and the simulator a simulated one. All
// arithmetic saturates: a limit that does not fit is "never", not the past.

#ifndef OPTIREDUCE_DATAPLANE_BASE_TIME_H_
#define OPTIREDUCE_DATAPLANE_BASE_TIME_H_

#include <compare>
#include <cstdint>
#include <limits>

namespace optireduce {

// A span of time; may be negative.
class Duration {
 public:
  constexpr Duration() = default;
  static constexpr Duration Nanos(int64_t n) { return Duration(n); }
  static constexpr Duration Micros(int64_t n) { return Scaled(n, 1'000); }
  static constexpr Duration Millis(int64_t n) { return Scaled(n, 1'000'000); }
  static constexpr Duration Seconds(int64_t n) {
    return Scaled(n, 1'000'000'000);
  }
  static constexpr Duration Infinite() {
    return Duration(std::numeric_limits<int64_t>::max());
  }

  constexpr int64_t nanos() const { return nanos_; }
  constexpr double micros() const { return static_cast<double>(nanos_) / 1e3; }
  constexpr double seconds() const { return static_cast<double>(nanos_) / 1e9; }

  constexpr Duration operator+(Duration other) const {
    int64_t sum = 0;
    if (__builtin_add_overflow(nanos_, other.nanos_, &sum)) {
      return Duration(Saturated(nanos_ < 0));
    }
    return Duration(sum);
  }
  constexpr Duration operator-(Duration other) const {
    int64_t difference = 0;
    if (__builtin_sub_overflow(nanos_, other.nanos_, &difference)) {
      return Duration(Saturated(nanos_ < 0));
    }
    return Duration(difference);
  }
  constexpr Duration operator*(int64_t factor) const {
    return Scaled(nanos_, factor);
  }
  constexpr Duration operator/(int64_t divisor) const {
    return Duration(nanos_ / divisor);
  }
  constexpr auto operator<=>(const Duration&) const = default;

 private:
  constexpr explicit Duration(int64_t nanos) : nanos_(nanos) {}
  static constexpr int64_t Saturated(bool negative) {
    return negative ? std::numeric_limits<int64_t>::min()
                    : std::numeric_limits<int64_t>::max();
  }
  static constexpr Duration Scaled(int64_t n, int64_t factor) {
    int64_t product = 0;
    if (__builtin_mul_overflow(n, factor, &product)) {
      return Duration(Saturated((n < 0) != (factor < 0)));
    }
    return Duration(product);
  }

  int64_t nanos_ = 0;
};

// A point on one host's monotonic clock. Points of different hosts are never
// compared: no algorithm of ours needs synchronised clocks.
class Timestamp {
 public:
  constexpr Timestamp() = default;
  static constexpr Timestamp FromNanos(int64_t nanos) {
    return Timestamp(Duration::Nanos(nanos));
  }
  // Later than every other point.
  static constexpr Timestamp Never() { return Timestamp(Duration::Infinite()); }

  constexpr int64_t nanos() const { return since_start_.nanos(); }

  constexpr Timestamp operator+(Duration d) const {
    return *this == Never() ? Never() : Timestamp(since_start_ + d);
  }
  constexpr Timestamp operator-(Duration d) const {
    return *this == Never() ? Never() : Timestamp(since_start_ - d);
  }
  constexpr Duration operator-(Timestamp other) const {
    return since_start_ - other.since_start_;
  }
  constexpr auto operator<=>(const Timestamp&) const = default;

 private:
  constexpr explicit Timestamp(Duration since_start)
      : since_start_(since_start) {}

  Duration since_start_;
};

}  // namespace optireduce

#endif  // OPTIREDUCE_DATAPLANE_BASE_TIME_H_
