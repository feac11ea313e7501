// Simulated time: a queue of events in the order of (time, insertion).

#ifndef OPTIREDUCE_DATAPLANE_SIM_EVENT_LOOP_H_
#define OPTIREDUCE_DATAPLANE_SIM_EVENT_LOOP_H_

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <vector>

#include "dataplane/base/time.h"

namespace optireduce::sim {

// Whatever something can happen to. `code` and `argument` are the actor's own.
class Actor {
 public:
  virtual ~Actor() = default;
  virtual void OnEvent(uint32_t code, uint64_t argument) = 0;
};

// Two runs that schedule the same events in the same order see them fire in the
// same order: equal times fire first in, first out. Not thread-safe. Actors
// must outlive their events.
class EventLoop {
 public:
  // The simulation's own clock; starts at 0.
  Timestamp now() const { return now_; }

  // A time that has passed means now.
  void At(Timestamp when, Actor* actor, uint32_t code, uint64_t argument = 0) {
    heap_.push_back(
        {std::max(when, now_), next_order_++, actor, code, argument});
    std::push_heap(heap_.begin(), heap_.end(), FiresLater);
  }

  bool empty() const { return heap_.empty(); }
  // Of the next event; only if there is one.
  Timestamp next_time() const { return heap_.front().when; }

  // Fires the next event; only if there is one.
  void RunNext() {
    assert(!heap_.empty());
    std::pop_heap(heap_.begin(), heap_.end(), FiresLater);
    const Entry entry = heap_.back();
    heap_.pop_back();
    now_ = entry.when;
    entry.actor->OnEvent(entry.code, entry.argument);
  }

 private:
  struct Entry {
    Timestamp when;
    uint64_t order;
    Actor* actor;
    uint32_t code;
    uint64_t argument;
  };

  static bool FiresLater(const Entry& a, const Entry& b) {
    if (a.when != b.when) return a.when > b.when;
    return a.order > b.order;
  }

  Timestamp now_;
  uint64_t next_order_ = 0;
  std::vector<Entry> heap_;
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_EVENT_LOOP_H_
