// A bounded queue from one thread to another, without locks.

#ifndef OPTIREDUCE_DATAPLANE_BASE_SPSC_RING_H_
#define OPTIREDUCE_DATAPLANE_BASE_SPSC_RING_H_

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "dataplane/base/require.h"

namespace optireduce {

// One thread may push and one may pop, at the same time. Both ends are trusted:
// this is for threads of one process, never for memory shared with a client.
template <class T>
class SpscRing {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // `capacity`, in entries, is a power of two. Allocates here only.
  explicit SpscRing(size_t capacity)
      : mask_(capacity - 1), entries_(std::make_unique<T[]>(capacity)) {
    Require(std::has_single_bit(capacity));
  }
  SpscRing(const SpscRing&) = delete;
  SpscRing& operator=(const SpscRing&) = delete;

  size_t capacity() const { return mask_ + 1; }

  // Producer only. False, with nothing done, if the ring is full.
  bool TryPush(const T& value) {
    const uint64_t tail = producer_.index.load(std::memory_order_relaxed);
    if (tail - producer_.other == capacity()) {
      producer_.other = consumer_.index.load(std::memory_order_acquire);
      if (tail - producer_.other == capacity()) return false;
    }
    entries_[tail & mask_] = value;
    producer_.index.store(tail + 1, std::memory_order_release);
    return true;
  }

  // Consumer only. False, with `value` untouched, if the ring is empty.
  bool TryPop(T& value) {
    const uint64_t head = consumer_.index.load(std::memory_order_relaxed);
    if (head == consumer_.other) {
      consumer_.other = producer_.index.load(std::memory_order_acquire);
      if (head == consumer_.other) return false;
    }
    value = entries_[head & mask_];
    consumer_.index.store(head + 1, std::memory_order_release);
    return true;
  }

  // Any thread. Exact if neither end is at work; else some number between 0 and
  // capacity() that is not far off.
  size_t SizeEstimate() const {
    const uint64_t head = consumer_.index.load(std::memory_order_acquire);
    const uint64_t tail = producer_.index.load(std::memory_order_acquire);
    return std::min<uint64_t>(tail - head, capacity());
  }

 private:
  // Indices count up for ever; the low bits name the entry.
  struct alignas(64) End {
    std::atomic<uint64_t> index = 0;
    uint64_t other = 0;  // last seen index of the other end; spares its line
  };

  const size_t mask_;
  const std::unique_ptr<T[]> entries_;
  End producer_;
  End consumer_;
};

}  // namespace optireduce

#endif  // OPTIREDUCE_DATAPLANE_BASE_SPSC_RING_H_
