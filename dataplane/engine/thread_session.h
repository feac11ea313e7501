// A client on another thread than the engine, and waiting for notices: for
// tests with real threads.

#ifndef OPTIREDUCE_DATAPLANE_ENGINE_THREAD_SESSION_H_
#define OPTIREDUCE_DATAPLANE_ENGINE_THREAD_SESSION_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>

#include "dataplane/base/spsc_ring.h"
#include "dataplane/base/unique_fd.h"
#include "dataplane/engine/engine.h"
#include "dataplane/engine/session_port.h"

namespace optireduce::engine {

inline constexpr int kTooLongMs = 20'000;

inline bool WaitReadable(int fd) {
  pollfd waiting = {fd, POLLIN, 0};
  return poll(&waiting, 1, kTooLongMs) == 1;
}

inline void Drain(int fd) {
  uint64_t count = 0;
  (void)!read(fd, &count, sizeof(count));
}

// A client on another thread than the engine.
class ThreadSession final : public SessionPort {
 public:
  // ---- the client's thread ----
  void Submit(const Submission& submission) {
    ASSERT_TRUE(submissions_.TryPush(submission));
    if (engine_sleeps_.load()) {
      const uint64_t one = 1;
      ASSERT_EQ(write(wakeup_.get(), &one, sizeof(one)), sizeof(one));
    }
  }
  // Waits for the next completion's cookie; -1 after too long.
  int64_t Wait() {
    uint64_t cookie = 0;
    while (!completions_.TryPop(cookie)) {
      if (!WaitReadable(bell_.get())) return -1;
      Drain(bell_.get());
    }
    return static_cast<int64_t>(cookie);
  }
  core::GroupId group() const { return core::GroupId(group_.load()); }

  // ---- the engine's thread ----
  void AddGroup(core::GroupId group, uint16_t, uint32_t) override {
    group_.store(group.value());
  }
  void LeaveGroup(core::GroupId) override {}
  void RemoveGroup(core::GroupId) override {}
  PullResult Pull(Submission* submission) override {
    return submissions_.TryPop(*submission) ? PullResult::kPulled
                                            : PullResult::kEmpty;
  }
  size_t max_in_flight() const override { return 64; }
  void Complete(const Completion& completion) override {
    EXPECT_TRUE(completions_.TryPush(completion.cookie));
    completed_ = true;
  }
  void Flush() override {
    if (!std::exchange(completed_, false)) return;
    const uint64_t one = 1;
    EXPECT_EQ(write(bell_.get(), &one, sizeof(one)), sizeof(one));
  }
  bool PrepareToSleep() override {
    engine_sleeps_.store(true);
    return submissions_.SizeEstimate() == 0;
  }
  void WokeUp() override { engine_sleeps_.store(false); }
  int wakeup_fd() const override { return wakeup_.get(); }

 private:
  SpscRing<Submission> submissions_{64};
  SpscRing<uint64_t> completions_{64};
  std::atomic<bool> engine_sleeps_ = false;
  std::atomic<uint32_t> group_ = 0;
  bool completed_ = false;
  UniqueFd wakeup_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  UniqueFd bell_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

// Waits for the engine's next notice of a kind; null after too long.
template <class T>
std::unique_ptr<Notice> WaitForNotice(Engine& engine) {
  while (true) {
    while (std::unique_ptr<Notice> notice = engine.TakeNotice()) {
      if (std::holds_alternative<T>(*notice)) return notice;
    }
    if (!WaitReadable(engine.notice_fd())) return nullptr;
    engine.AcknowledgeNotices();
  }
}

}  // namespace optireduce::engine

#endif  // OPTIREDUCE_DATAPLANE_ENGINE_THREAD_SESSION_H_
