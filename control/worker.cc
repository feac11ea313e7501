#include "control/worker.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace optireduce::control {

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(EventLoop* loop) {
  UniqueFd event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("eventfd: ", strerror(errno)));
  }
  return std::unique_ptr<Worker>(new Worker(loop, std::move(event)));
}

Worker::Worker(EventLoop* loop, UniqueFd event)
    : loop_(loop), event_(std::move(event)), thread_([this] { Work(); }) {
  loop_->Add(event_.get(), EPOLLIN, [this](uint32_t) { Collect(); });
}

Worker::~Worker() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
  loop_->Remove(event_.get());
}

void Worker::Run(Task task, Task done) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back({std::move(task), std::move(done)});
  }
  changed_.notify_one();
}

void Worker::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    Job job = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    job.task();
    job.task = nullptr;  // what it holds is freed here, not under the lock
    lock.lock();
    finished_.push_back(std::move(job.done));
    const uint64_t one = 1;
    (void)!write(event_.get(), &one, sizeof(one));
  }
}

void Worker::Collect() {
  uint64_t count = 0;
  (void)!read(event_.get(), &count, sizeof(count));
  std::deque<Task> finished;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    finished.swap(finished_);
  }
  for (const Task& done : finished) done();
}

}  // namespace optireduce::control
