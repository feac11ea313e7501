// EventLoop: the control thread's wait for descriptors and for time.

#ifndef OPTIREDUCE_CONTROL_EVENT_LOOP_H_
#define OPTIREDUCE_CONTROL_EVENT_LOOP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "dataplane/base/time.h"
#include "dataplane/base/unique_fd.h"

namespace optireduce::control {

// This host's monotonic clock.
Timestamp Now();

// One thread.
class EventLoop {
 public:
  // `events` are EPOLLIN, EPOLLOUT, EPOLLHUP, ...
  using Callback = std::function<void(uint32_t events)>;
  using TimerId = uint64_t;

  static absl::StatusOr<std::unique_ptr<EventLoop>> Create();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Level-triggered, until Remove(). The descriptor stays the caller's and must
  // be removed before it is closed. Callbacks may add and remove whatever they
  // like, themselves included. False: the kernel said no.
  bool Add(int fd, uint32_t events, Callback callback);
  void Change(int fd, uint32_t events);
  void Remove(int fd);

  // Calls back once.
  TimerId At(Timestamp when, std::function<void()> callback);
  void Cancel(TimerId timer);

  // Waits for the next event, but no longer than `limit`, and calls back for
  // all that is due. Whether there was anything.
  bool RunOnce(Duration limit);

 private:
  explicit EventLoop(UniqueFd epoll) : epoll_(std::move(epoll)) {}

  bool RunTimers();

  struct Watch {
    int fd = -1;
    Callback callback;
  };

  UniqueFd epoll_;
  // By a number that is never used again: an event that was fetched for a
  // descriptor since closed must not reach its successor.
  std::map<uint64_t, std::shared_ptr<Watch>> watches_;
  std::map<int, uint64_t> ids_;
  uint64_t next_id_ = 1;
  std::map<std::pair<int64_t, TimerId>, std::function<void()>> timers_;
  std::map<TimerId, int64_t> timer_times_;
  TimerId next_timer_ = 1;
};

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_EVENT_LOOP_H_
