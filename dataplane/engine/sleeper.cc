#include "dataplane/engine/sleeper.h"

#include <sys/epoll.h>
#include <time.h>

#include <array>

namespace optireduce::engine {

Sleeper::Sleeper() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

void Sleeper::Add(int fd) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.fd = fd;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void Sleeper::Remove(int fd) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void Sleeper::Sleep(Duration at_most) {
  if (at_most <= Duration()) return;
  const timespec timeout = {at_most.nanos() / 1'000'000'000,
                            at_most.nanos() % 1'000'000'000};
  // Each call returns only some of the events; the rest end the next sleep at
  // once, which costs an idle poll.
  std::array<epoll_event, 64> events;
  epoll_pwait2(epoll_.get(), events.data(), static_cast<int>(events.size()),
               &timeout, nullptr);
}

}  // namespace optireduce::engine
