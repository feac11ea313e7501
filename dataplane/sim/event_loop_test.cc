#include "dataplane/sim/event_loop.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace optireduce::sim {
namespace {

class Recorder : public Actor {
 public:
  explicit Recorder(EventLoop* loop) : loop_(loop) {}
  void OnEvent(uint32_t code, uint64_t argument) override {
    seen.push_back({loop_->now().nanos(), code});
    if (argument > 0) {
      loop_->At(loop_->now() - Duration::Nanos(5), this, code + 100,
                argument - 1);
    }
  }

  std::vector<std::pair<int64_t, uint32_t>> seen;

 private:
  EventLoop* loop_;
};

using Seen = std::vector<std::pair<int64_t, uint32_t>>;

TEST(EventLoopTest, FiresInTheOrderOfTimeThenOfInsertion) {
  EventLoop loop;
  Recorder recorder(&loop);
  const auto at = [&](int64_t nanos, uint32_t code) {
    loop.At(Timestamp::FromNanos(nanos), &recorder, code);
  };
  at(30, 1);
  at(10, 2);
  at(30, 3);
  at(10, 4);
  at(20, 5);
  EXPECT_EQ(loop.next_time(), Timestamp::FromNanos(10));
  while (!loop.empty()) loop.RunNext();
  EXPECT_EQ(recorder.seen, (Seen{{10, 2}, {10, 4}, {20, 5}, {30, 1}, {30, 3}}));
}

TEST(EventLoopTest, ThePastIsNow) {
  EventLoop loop;
  Recorder recorder(&loop);
  loop.At(Timestamp::FromNanos(50), &recorder, 1, 2);
  loop.At(Timestamp::FromNanos(50), &recorder, 2);
  while (!loop.empty()) loop.RunNext();
  EXPECT_EQ(recorder.seen, (Seen{{50, 1}, {50, 2}, {50, 101}, {50, 201}}));
  EXPECT_EQ(loop.now(), Timestamp::FromNanos(50));
}

}  // namespace
}  // namespace optireduce::sim
