#include "control/event_loop.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace optireduce::control {
namespace {

constexpr int kMaxEvents = 64;

// Rounded up, so that a timer is due when epoll_wait returns for it.
int ToMillis(Duration duration) {
  const int64_t millis = (duration.nanos() + 999'999) / 1'000'000;
  return static_cast<int>(std::clamp<int64_t>(millis, 0, 3'600'000));
}

}  // namespace

Timestamp Now() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return Timestamp() + Duration::Seconds(now.tv_sec) +
         Duration::Nanos(now.tv_nsec);
}

absl::StatusOr<std::unique_ptr<EventLoop>> EventLoop::Create() {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("epoll_create1: ", strerror(errno)));
  }
  return std::unique_ptr<EventLoop>(new EventLoop(std::move(epoll)));
}

bool EventLoop::Add(int fd, uint32_t events, Callback callback) {
  const uint64_t id = next_id_++;
  epoll_event event = {};
  event.events = events;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return false;
  watches_[id] =
      std::make_shared<Watch>(Watch{.fd = fd, .callback = std::move(callback)});
  ids_[fd] = id;
  return true;
}

void EventLoop::Change(int fd, uint32_t events) {
  const auto it = ids_.find(fd);
  if (it == ids_.end()) return;
  epoll_event event = {};
  event.events = events;
  event.data.u64 = it->second;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void EventLoop::Remove(int fd) {
  const auto it = ids_.find(fd);
  if (it == ids_.end()) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  watches_.erase(it->second);
  ids_.erase(it);
}

EventLoop::TimerId EventLoop::At(Timestamp when,
                                 std::function<void()> callback) {
  const TimerId id = next_timer_++;
  timers_[{when.nanos(), id}] = std::move(callback);
  timer_times_[id] = when.nanos();
  return id;
}

void EventLoop::Cancel(TimerId timer) {
  const auto it = timer_times_.find(timer);
  if (it == timer_times_.end()) return;
  timers_.erase({it->second, timer});
  timer_times_.erase(it);
}

bool EventLoop::RunOnce(Duration limit) {
  if (!timers_.empty()) {
    const auto first = Timestamp::FromNanos(timers_.begin()->first.first);
    limit = std::min(limit, first - Now());
  }
  epoll_event events[kMaxEvents];
  const int count =
      epoll_wait(epoll_.get(), events, kMaxEvents, ToMillis(limit));
  for (int i = 0; i < count; ++i) {
    const auto it = watches_.find(events[i].data.u64);
    if (it == watches_.end()) continue;  // removed by an earlier callback
    // The callback may remove itself.
    const std::shared_ptr<Watch> watch = it->second;
    watch->callback(events[i].events);
  }
  return RunTimers() || count > 0;
}

bool EventLoop::RunTimers() {
  bool any = false;
  const int64_t now = Now().nanos();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    const auto it = timers_.begin();
    const std::function<void()> callback = std::move(it->second);
    timer_times_.erase(it->first.second);
    timers_.erase(it);
    callback();
    any = true;
  }
  return any;
}

}  // namespace optireduce::control
