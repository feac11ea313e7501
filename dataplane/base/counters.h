// Event counters that one thread writes and others may read.

#ifndef OPTIREDUCE_DATAPLANE_BASE_COUNTERS_H_
#define OPTIREDUCE_DATAPLANE_BASE_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "dataplane/base/require.h"

namespace optireduce {

// One counter for each of the N values 0 ... N-1 of the enumeration E. Only one
// thread may call Increment, so that it costs a plain add; any thread may read,
// and sees every counter at some recent value, not all at the same instant.
template <class E, size_t N>
class CounterArray {
 public:
  CounterArray() = default;
  CounterArray(const CounterArray&) = delete;
  CounterArray& operator=(const CounterArray&) = delete;

  static constexpr size_t size() { return N; }

  void Increment(E which, uint64_t by = 1) {
    std::atomic<uint64_t>& counter = counters_[Index(which)];
    counter.store(counter.load(std::memory_order_relaxed) + by,
                  std::memory_order_relaxed);
  }

  uint64_t Get(E which) const {
    return counters_[Index(which)].load(std::memory_order_relaxed);
  }

  // All counters, in the order of E.
  std::array<uint64_t, N> Snapshot() const {
    std::array<uint64_t, N> values;
    for (size_t i = 0; i < N; ++i) {
      values[i] = counters_[i].load(std::memory_order_relaxed);
    }
    return values;
  }

  // Of all counters together.
  uint64_t Sum() const {
    uint64_t sum = 0;
    for (const auto& counter : counters_) {
      sum += counter.load(std::memory_order_relaxed);
    }
    return sum;
  }

 private:
  static size_t Index(E which) {
    const auto index = static_cast<size_t>(which);
    Require(index < N);
    return index;
  }

  std::array<std::atomic<uint64_t>, N> counters_{};
};

}  // namespace optireduce

#endif  // OPTIREDUCE_DATAPLANE_BASE_COUNTERS_H_
