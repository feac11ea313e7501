#include "dataplane/shm/session_rings.h"

#include <atomic>
#include <cstring>

namespace optireduce::shm {
namespace {

constexpr uint32_t kSlots = OPTIREDUCE_SHM_SUBMISSION_SLOTS;
static_assert(OPTIREDUCE_SHM_COMPLETION_SLOTS == kSlots);
static_assert((kSlots & (kSlots - 1)) == 0);

// Slots are copied word by word with atomic accesses: the compiler can neither
// leave the copy out and read the slot again later, nor is it a data race if
// the client writes meanwhile. It is then a mixture, which is checked like
// anything else.
template <class T>
void LoadSlot(const T* slot, T* copy) {
  static_assert(sizeof(T) % sizeof(uint64_t) == 0);
  uint64_t words[sizeof(T) / sizeof(uint64_t)];
  const auto* from = reinterpret_cast<const uint64_t*>(slot);
  for (size_t i = 0; i < std::size(words); ++i) {
    words[i] = __atomic_load_n(from + i, __ATOMIC_RELAXED);
  }
  memcpy(copy, words, sizeof(T));
}

template <class T>
void StoreSlot(const T& entry, T* slot) {
  static_assert(sizeof(T) % sizeof(uint64_t) == 0);
  uint64_t words[sizeof(T) / sizeof(uint64_t)];
  memcpy(words, &entry, sizeof(T));
  auto* to = reinterpret_cast<uint64_t*>(slot);
  for (size_t i = 0; i < std::size(words); ++i) {
    __atomic_store_n(to + i, words[i], __ATOMIC_RELAXED);
  }
}

}  // namespace

SessionRings::SessionRings(const Segment& segment)
    : header_(segment.header()),
      submissions_(segment.submissions()),
      completions_(segment.completions()) {}

bool SessionRings::Break(uint32_t reason) {
  broken_reason_ = reason;
  return false;
}

bool SessionRings::Refresh() {
  if (broken_reason_ != OPTIREDUCE_SHM_REASON_NONE) return false;
  // In this order: a client that reads completions and then submits more must
  // not be seen to have done only the latter.
  const uint32_t tail =
      std::atomic_ref(header_->submission_tail).load(std::memory_order_seq_cst);
  const uint32_t head =
      std::atomic_ref(header_->completion_head).load(std::memory_order_acquire);
  if (head - completion_head_ > completion_tail_ - completion_head_) {
    return Break(OPTIREDUCE_SHM_REASON_BAD_COMPLETION_HEAD);
  }
  completion_head_ = head;
  if (tail - submission_head_ > kSlots) {
    return Break(OPTIREDUCE_SHM_REASON_BAD_SUBMISSION_TAIL);
  }
  // Every submission has one completion, so both indices count the same things.
  if (tail - head > kSlots) {
    return Break(OPTIREDUCE_SHM_REASON_TOO_MANY_OUTSTANDING);
  }
  submission_tail_ = tail;
  return true;
}

TakeResult SessionRings::TakeSubmission(OptireduceShmSubmission* copy) {
  if (submission_head_ == submission_tail_) {
    if (!Refresh()) return TakeResult::kBroken;
    if (submission_head_ == submission_tail_) return TakeResult::kEmpty;
  }
  LoadSlot(submissions_ + submission_head_ % kSlots, copy);
  ++submission_head_;
  std::atomic_ref(header_->submission_head)
      .store(submission_head_, std::memory_order_release);
  return TakeResult::kTaken;
}

void SessionRings::PushCompletion(const OptireduceShmCompletion& entry) {
  StoreSlot(entry, completions_ + completion_tail_ % kSlots);
  ++completion_tail_;
  std::atomic_ref(header_->completion_tail)
      .store(completion_tail_, std::memory_order_seq_cst);
}

bool SessionRings::TakeClientSleeps() {
  const std::atomic_ref sleeps(header_->client_sleeps);
  return sleeps.load(std::memory_order_seq_cst) != 0 &&
         sleeps.exchange(0, std::memory_order_seq_cst) != 0;
}

bool SessionRings::PrepareToSleep() {
  // A broken session has nothing more to say: its bell is not waited for.
  if (broken_reason_ != OPTIREDUCE_SHM_REASON_NONE) return true;
  std::atomic_ref(header_->engine_sleeps).store(1, std::memory_order_seq_cst);
  if (submission_head_ == submission_tail_ && Refresh() &&
      submission_head_ == submission_tail_) {
    return true;
  }
  WokeUp();
  return false;
}

void SessionRings::WokeUp() {
  std::atomic_ref(header_->engine_sleeps).store(0, std::memory_order_relaxed);
}

}  // namespace optireduce::shm
