// The ops of a session that ended last, for whoever asks.

#ifndef OPTIREDUCE_DATAPLANE_ENGINE_OP_TRACE_H_
#define OPTIREDUCE_DATAPLANE_ENGINE_OP_TRACE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "proto/shm_abi.h"

namespace optireduce::engine {

// One thread records, any thread reads. The recording thread never waits: what
// it overwrites while it is read is left out of what is read.
class OpTrace {
 public:
  static constexpr size_t kKept = 64;

  void Record(const OptireduceShmCompletion& entry) {
    const uint64_t number = recorded_.load(std::memory_order_relaxed);
    Slot& slot = slots_[number % kKept];
    // Odd while it is written. The fence keeps the words behind the mark.
    slot.version.fetch_add(1, std::memory_order_acq_rel);
    uint64_t words[kWords];
    memcpy(words, &entry, sizeof(entry));
    for (size_t i = 0; i < kWords; ++i) {
      slot.words[i].store(words[i], std::memory_order_release);
    }
    slot.version.fetch_add(1, std::memory_order_release);
    recorded_.store(number + 1, std::memory_order_release);
  }

  // Newest first, at most kKept.
  std::vector<OptireduceShmCompletion> Read() const {
    std::vector<OptireduceShmCompletion> entries;
    const uint64_t end = recorded_.load(std::memory_order_acquire);
    for (uint64_t n = end; n > 0 && n + kKept > end; --n) {
      OptireduceShmCompletion entry;
      if (ReadSlot(slots_[(n - 1) % kKept], &entry)) entries.push_back(entry);
    }
    return entries;
  }

 private:
  static constexpr size_t kWords = sizeof(OptireduceShmCompletion) / 8;

  struct Slot {
    std::atomic<uint64_t> version = 0;
    std::array<std::atomic<uint64_t>, kWords> words{};
  };

  static bool ReadSlot(const Slot& slot, OptireduceShmCompletion* entry) {
    const uint64_t before = slot.version.load(std::memory_order_acquire);
    uint64_t words[kWords];
    // Acquire: the second look at the version comes after the words.
    for (size_t i = 0; i < kWords; ++i) {
      words[i] = slot.words[i].load(std::memory_order_acquire);
    }
    const uint64_t after = slot.version.load(std::memory_order_relaxed);
    if (before != after || before % 2 != 0) return false;
    memcpy(entry, words, sizeof(*entry));
    return true;
  }

  std::atomic<uint64_t> recorded_ = 0;
  std::array<Slot, kKept> slots_;
};

}  // namespace optireduce::engine

#endif  // OPTIREDUCE_DATAPLANE_ENGINE_OP_TRACE_H_
