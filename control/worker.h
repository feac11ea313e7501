// Worker: does what takes long beside the control thread.
//
// Making and freeing a large segment clears or returns every page of it, and
// nobody else's request should wait for that.

#ifndef OPTIREDUCE_CONTROL_WORKER_H_
#define OPTIREDUCE_CONTROL_WORKER_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/statusor.h"
#include "control/event_loop.h"
#include "dataplane/base/unique_fd.h"

namespace optireduce::control {

// Tasks run in order, on one thread.
class Worker {
 public:
  using Task = std::function<void()>;

  static absl::StatusOr<std::unique_ptr<Worker>> Start(EventLoop* loop);
  // Waits for all tasks; what was to be done after them is forgotten.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Loop's thread. Runs `task` on the worker's thread and then `done` on the
  // loop's.
  void Run(Task task, Task done);

 private:
  struct Job {
    Task task;
    Task done;
  };

  Worker(EventLoop* loop, UniqueFd event);
  void Work();
  void Collect();

  EventLoop* const loop_;
  const UniqueFd event_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> waiting_;    // guarded by mutex_
  std::deque<Task> finished_;  // guarded by mutex_
  bool stopping_ = false;      // guarded by mutex_
  std::thread thread_;
};

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_WORKER_H_
