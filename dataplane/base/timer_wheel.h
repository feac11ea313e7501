// Timers in constant time, exact to the nanosecond.

#ifndef OPTIREDUCE_DATAPLANE_BASE_TIMER_WHEEL_H_
#define OPTIREDUCE_DATAPLANE_BASE_TIMER_WHEEL_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "dataplane/base/time.h"

namespace optireduce {

namespace timer_wheel_internal {
// A node of a circular list, or its head.
struct Link {
  Link* prev = this;
  Link* next = this;

  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  bool alone() const { return next == this; }
  void Unlink() {
    prev->next = next;
    next->prev = prev;
    prev = next = this;
  }
  void InsertBefore(Link& other) {
    prev = other.prev;
    next = &other;
    prev->next = this;
    other.prev = this;
  }
};
}  // namespace timer_wheel_internal

// A timer. The caller owns it, as a member or a base of what it belongs to, and
// keeps it alive and in place while it is armed.
class TimerNode : private timer_wheel_internal::Link {
 public:
  TimerNode() = default;
  ~TimerNode() { assert(!armed()); }

  bool armed() const { return !alone(); }
  // As armed last.
  Timestamp deadline() const { return deadline_; }

 private:
  friend class TimerWheel;

  Timestamp deadline_;
  uint16_t slot_ = 0;  // where it was put last
};

// A hierarchical timer wheel: eleven levels of 64 slots, from 1 ns upwards, so
// that every Timestamp has its place and no deadline is rounded. A timer sits
// on the level of the highest digit (base 64) in which its deadline differs
// from the wheel's position; when the position enters a slot of a higher level,
// the slot's timers move down. Hence the first slot in use on the lowest level
// in use always holds the earliest deadline.
//
// Timers fire in the order of their deadlines, never early, and at the first
// Advance that is not earlier than the deadline, budget permitting. A deadline
// in the past is due at once. Reads no clock and allocates nothing; about
// 11 KiB. Not thread-safe.
class TimerWheel {
 public:
  explicit TimerWheel(Timestamp now = Timestamp()) : now_(now), cursor_(now) {}
  // All timers must be cancelled or have fired.
  ~TimerWheel() { assert(used_levels_ == 0 && moving_.alone()); }
  TimerWheel(const TimerWheel&) = delete;
  TimerWheel& operator=(const TimerWheel&) = delete;

  // The latest time that Advance has seen.
  Timestamp now() const { return now_; }

  // Arms `node`; if it was armed, for the new deadline alone. O(1).
  void Arm(TimerNode& node, Timestamp deadline) {
    Cancel(node);
    node.deadline_ = deadline;
    Place(node);
  }

  // After this the node does not fire until it is armed again. O(1); nothing
  // happens if it was not armed.
  void Cancel(TimerNode& node) {
    if (node.armed()) Remove(node);
  }

  // Moves to `now` (an earlier time than the latest counts as the latest) and
  // calls `fire(TimerNode&)` for each timer that is due. The timer is no longer
  // armed then, and `fire` may arm and cancel any timer and destroy this one.
  // At most `budget` steps are done, a step being a timer fired or moved; what
  // is left goes on with the next call, and NextDeadline() is not later than
  // `now` until then. Returns the number of timers fired.
  template <class Fire>
  size_t Advance(Timestamp now, size_t budget, Fire&& fire) {
    now_ = std::max(now_, now);
    size_t fired = 0;
    for (; budget > 0; --budget) {
      if (!moving_.alone()) {
        Place(PopFront(moving_));
        continue;
      }
      const size_t slot = FirstSlot();
      if (slot == kNoSlot || StartOf(slot) > now_) {
        cursor_ = now_;
        break;
      }
      cursor_ = StartOf(slot);
      if (slot >= kSlotsPerLevel) {
        TakeAll(slot);
        continue;
      }
      TimerNode& node = static_cast<TimerNode&>(*slots_[slot].next);
      Remove(node);
      ++fired;
      fire(node);
    }
    return fired;
  }

  // Not later than the earliest deadline (or now(), if that is past); Never if
  // no timer is armed. Usually exact; but a caller who advances to this time
  // may find nothing due yet, and a later time here then.
  Timestamp NextDeadline() const {
    if (!moving_.alone()) return cursor_;
    const size_t slot = FirstSlot();
    if (slot == kNoSlot) return Timestamp::Never();
    Timestamp earliest = Timestamp::Never();
    size_t seen = 0;
    for (const Link* link = slots_[slot].next; link != &slots_[slot];
         link = link->next) {
      if (++seen > kMostScanned) return StartOf(slot);
      earliest =
          std::min(earliest, static_cast<const TimerNode*>(link)->deadline_);
    }
    return earliest;
  }

 private:
  using Link = timer_wheel_internal::Link;

  static constexpr size_t kDigitBits = 6;
  static constexpr size_t kSlotsPerLevel = size_t{1} << kDigitBits;
  static constexpr size_t kLevels = (64 + kDigitBits - 1) / kDigitBits;
  static constexpr size_t kNoSlot = kLevels * kSlotsPerLevel;
  // Bounds NextDeadline where many timers share a slot.
  static constexpr size_t kMostScanned = 16;

  // Timestamps as unsigned numbers in the same order.
  static constexpr uint64_t kSignBit = uint64_t{1} << 63;
  static constexpr uint64_t KeyOf(Timestamp time) {
    return static_cast<uint64_t>(time.nanos()) ^ kSignBit;
  }
  static constexpr Timestamp TimeOf(uint64_t key) {
    return Timestamp::FromNanos(static_cast<int64_t>(key ^ kSignBit));
  }

  void Place(TimerNode& node) {
    const uint64_t cursor = KeyOf(cursor_);
    const uint64_t key = std::max(KeyOf(node.deadline_), cursor);
    const auto bits = static_cast<size_t>(std::bit_width((key ^ cursor) | 1));
    const size_t level = (bits - 1) / kDigitBits;
    const size_t digit = (key >> (level * kDigitBits)) % kSlotsPerLevel;
    node.slot_ = static_cast<uint16_t>(level * kSlotsPerLevel + digit);
    node.InsertBefore(slots_[node.slot_]);
    used_[level] |= uint64_t{1} << digit;
    used_levels_ |= uint32_t{1} << level;
  }

  void Remove(TimerNode& node) {
    node.Unlink();
    // For a node on its way down the slot is empty and marked so already.
    if (slots_[node.slot_].alone()) MarkUnused(node.slot_);
  }

  void MarkUnused(size_t slot) {
    const size_t level = slot / kSlotsPerLevel;
    used_[level] &= ~(uint64_t{1} << (slot % kSlotsPerLevel));
    if (used_[level] == 0) used_levels_ &= ~(uint32_t{1} << level);
  }

  static TimerNode& PopFront(Link& head) {
    auto& node = static_cast<TimerNode&>(*head.next);
    node.Unlink();
    return node;
  }

  // Moves the timers of `slot` to moving_, which is empty.
  void TakeAll(size_t slot) {
    Link& head = slots_[slot];
    moving_.InsertBefore(head);
    head.Unlink();
    MarkUnused(slot);
  }

  // The slot of the earliest deadline.
  size_t FirstSlot() const {
    if (used_levels_ == 0) return kNoSlot;
    const auto level = static_cast<size_t>(std::countr_zero(used_levels_));
    const auto digit = static_cast<size_t>(std::countr_zero(used_[level]));
    return level * kSlotsPerLevel + digit;
  }

  // The first point in time that belongs to `slot`.
  Timestamp StartOf(size_t slot) const {
    const size_t shift = slot / kSlotsPerLevel * kDigitBits;
    const uint64_t digit = slot % kSlotsPerLevel;
    // Two shifts: at the top level one would be by 64 or more.
    const uint64_t above = KeyOf(cursor_) >> shift >> kDigitBits;
    return TimeOf((above << kDigitBits | digit) << shift);
  }

  Timestamp now_;
  // The wheel's position: now_, or earlier while the budget leaves work behind.
  Timestamp cursor_;
  Link moving_;  // from a slot that the cursor entered, to go further down
  uint32_t used_levels_ = 0;
  std::array<uint64_t, kLevels> used_{};
  std::array<Link, kLevels * kSlotsPerLevel> slots_;
};

}  // namespace optireduce

#endif  // OPTIREDUCE_DATAPLANE_BASE_TIMER_WHEEL_H_
