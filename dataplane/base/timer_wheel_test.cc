#include "dataplane/base/timer_wheel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "dataplane/base/rng.h"
#include "dataplane/base/time.h"

namespace optireduce {
namespace {

constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

Timestamp At(int64_t nanos) { return Timestamp::FromNanos(nanos); }

// The timers that fire, in order.
std::vector<const TimerNode*> Fired(TimerWheel& wheel, Timestamp now,
                                    size_t budget = kUnlimited) {
  std::vector<const TimerNode*> fired;
  wheel.Advance(now, budget, [&](TimerNode& node) { fired.push_back(&node); });
  return fired;
}

using Nodes = std::vector<const TimerNode*>;

TEST(TimerWheelTest, FiresAtTheDeadlineAndNotBefore) {
  for (const int64_t delay :
       {int64_t{1}, int64_t{63}, int64_t{64}, int64_t{65}, int64_t{50'000},
        int64_t{1} << 40, int64_t{3'600'000'000'000}}) {
    TimerWheel wheel(At(1'000'003));
    TimerNode node;
    const Timestamp deadline = At(1'000'003 + delay);
    wheel.Arm(node, deadline);
    EXPECT_TRUE(node.armed());
    EXPECT_EQ(node.deadline(), deadline);
    EXPECT_EQ(wheel.NextDeadline(), deadline);
    EXPECT_EQ(Fired(wheel, deadline - Duration::Nanos(1)), Nodes{}) << delay;
    EXPECT_EQ(wheel.NextDeadline(), deadline);
    EXPECT_EQ(Fired(wheel, deadline), Nodes{&node}) << delay;
    EXPECT_FALSE(node.armed());
    EXPECT_EQ(wheel.NextDeadline(), Timestamp::Never());
    EXPECT_EQ(Fired(wheel, deadline + Duration::Seconds(1)), Nodes{});
  }
}

TEST(TimerWheelTest, CancelledAndArmedAgainFiresOnceAtTheSecondTime) {
  TimerWheel wheel;
  TimerNode node;
  wheel.Arm(node, At(1000));
  wheel.Cancel(node);
  EXPECT_FALSE(node.armed());
  EXPECT_EQ(wheel.NextDeadline(), Timestamp::Never());
  wheel.Arm(node, At(70'000));
  EXPECT_EQ(Fired(wheel, At(1000)), Nodes{});
  EXPECT_EQ(Fired(wheel, At(69'999)), Nodes{});
  EXPECT_EQ(Fired(wheel, At(70'000)), Nodes{&node});
  EXPECT_EQ(Fired(wheel, At(1'000'000'000)), Nodes{});
}

TEST(TimerWheelTest, ArmingAnArmedTimerReplacesItsDeadline) {
  TimerWheel wheel;
  TimerNode node;
  wheel.Arm(node, At(1000));
  wheel.Arm(node, At(500));
  EXPECT_EQ(Fired(wheel, At(500)), Nodes{&node});
  EXPECT_EQ(Fired(wheel, At(1000)), Nodes{});
  wheel.Arm(node, At(2000));
  wheel.Arm(node, At(3000));
  EXPECT_EQ(Fired(wheel, At(2999)), Nodes{});
  EXPECT_EQ(Fired(wheel, At(3000)), Nodes{&node});
}

TEST(TimerWheelTest, CancelIsForGoodAndHarmlessTwice) {
  TimerWheel wheel;
  TimerNode node;
  wheel.Cancel(node);
  wheel.Arm(node, At(10));
  wheel.Cancel(node);
  wheel.Cancel(node);
  EXPECT_EQ(Fired(wheel, Timestamp::Never()), Nodes{});
}

TEST(TimerWheelTest, ADeadlineInThePastIsDueAtOnce) {
  TimerWheel wheel(At(1000));
  TimerNode past;
  TimerNode now;
  wheel.Arm(past, At(3));
  wheel.Arm(now, At(1000));
  EXPECT_LE(wheel.NextDeadline(), At(1000));
  EXPECT_EQ(Fired(wheel, At(1000)), (Nodes{&past, &now}));
}

TEST(TimerWheelTest, TimeThatGoesBackIsNoProgress) {
  TimerWheel wheel(At(1'000'000));
  TimerNode node;
  wheel.Arm(node, At(1'000'500));
  EXPECT_EQ(Fired(wheel, At(5)), Nodes{});
  EXPECT_EQ(wheel.now(), At(1'000'000));
  EXPECT_EQ(Fired(wheel, At(1'000'499)), Nodes{});
  EXPECT_EQ(Fired(wheel, At(1'000'000)), Nodes{});
  EXPECT_EQ(wheel.now(), At(1'000'499));
  EXPECT_EQ(Fired(wheel, At(1'000'500)), Nodes{&node});
}

TEST(TimerWheelTest, TimeThatStandsStillFiresNothingTwice) {
  TimerWheel wheel;
  std::array<TimerNode, 3> nodes;
  for (TimerNode& node : nodes) wheel.Arm(node, At(100));
  EXPECT_EQ(Fired(wheel, At(100)), (Nodes{&nodes[0], &nodes[1], &nodes[2]}));
  EXPECT_EQ(Fired(wheel, At(100)), Nodes{});
}

TEST(TimerWheelTest, AfterALeapAllFireInTheOrderOfTheirDeadlines) {
  TimerWheel wheel;
  std::array<TimerNode, 7> nodes;
  wheel.Arm(nodes[3], At(70'000'000'000));
  wheel.Arm(nodes[1], At(64));
  wheel.Arm(nodes[6], At(INT64_MAX - 1));
  wheel.Arm(nodes[0], At(63));
  wheel.Arm(nodes[5], At(7'200'000'000'000));
  wheel.Arm(nodes[4], At(70'000'000'001));
  wheel.Arm(nodes[2], At(4096));
  Nodes expected;
  for (TimerNode& node : nodes) expected.push_back(&node);
  EXPECT_EQ(Fired(wheel, At(INT64_MAX - 1)), expected);
}

TEST(TimerWheelTest, TheEndsOfTimeAreTimes) {
  TimerWheel wheel(At(INT64_MIN));
  TimerNode first;
  TimerNode zero;
  TimerNode never;
  wheel.Arm(never, Timestamp::Never());
  wheel.Arm(zero, At(0));
  wheel.Arm(first, At(INT64_MIN));
  EXPECT_EQ(Fired(wheel, At(INT64_MIN)), Nodes{&first});
  EXPECT_EQ(Fired(wheel, At(-1)), Nodes{});
  EXPECT_EQ(Fired(wheel, At(0)), Nodes{&zero});
  EXPECT_EQ(Fired(wheel, At(INT64_MAX - 1)), Nodes{});
  wheel.Cancel(never);
}

TEST(TimerWheelTest, BudgetBoundsTheStepsAndTheRestComesLater) {
  TimerWheel wheel;
  std::array<TimerNode, 10> nodes;
  Nodes expected;
  for (TimerNode& node : nodes) {
    wheel.Arm(node, At(1000));
    expected.push_back(&node);
  }
  Nodes fired;
  int calls = 0;
  while (wheel.NextDeadline() <= At(5000)) {
    const Nodes some = Fired(wheel, At(5000), 3);
    EXPECT_LE(some.size(), 3u);
    fired.insert(fired.end(), some.begin(), some.end());
    ASSERT_LT(++calls, 100);
  }
  EXPECT_EQ(fired, expected);
  EXPECT_GE(calls, 4);
}

TEST(TimerWheelTest, NoBudgetNoStep) {
  TimerWheel wheel;
  TimerNode node;
  wheel.Arm(node, At(1));
  EXPECT_EQ(Fired(wheel, At(10), 0), Nodes{});
  EXPECT_TRUE(node.armed());
  wheel.Cancel(node);
}

TEST(TimerWheelTest, ATimerMayBeCancelledOnItsWayDown) {
  TimerWheel wheel;
  std::array<TimerNode, 3> nodes;
  for (TimerNode& node : nodes) wheel.Arm(node, At(1000));
  // One step empties the slot, one more moves the first timer down.
  EXPECT_EQ(Fired(wheel, At(5000), 2), Nodes{});
  TimerNode late;
  wheel.Arm(late, At(1500));
  wheel.Cancel(nodes[0]);
  wheel.Cancel(nodes[1]);
  EXPECT_LE(wheel.NextDeadline(), At(1000));
  EXPECT_EQ(Fired(wheel, At(5000)), (Nodes{&nodes[2], &late}));
}

TEST(TimerWheelTest, ATimerMayArmItselfWhenItFires) {
  TimerWheel wheel;
  TimerNode node;
  wheel.Arm(node, At(100));
  int fired = 0;
  const auto again = [&](TimerNode& timer) {
    ++fired;
    wheel.Arm(timer, timer.deadline() + Duration::Nanos(100));
  };
  EXPECT_EQ(wheel.Advance(At(1050), kUnlimited, again), 10u);
  EXPECT_EQ(fired, 10);
  EXPECT_EQ(wheel.NextDeadline(), At(1100));
  // For the present or the past it would never end but for the budget.
  const size_t endless = wheel.Advance(
      At(1100), 50, [&](TimerNode& timer) { wheel.Arm(timer, At(0)); });
  EXPECT_GT(endless, 40u);
  EXPECT_LE(endless, 50u);
  wheel.Cancel(node);
}

TEST(TimerWheelTest, ATimerThatFiresMayCancelTheNextOrDie) {
  TimerWheel wheel;
  auto first = std::make_unique<TimerNode>();
  TimerNode second;
  TimerNode third;
  wheel.Arm(*first, At(100));
  wheel.Arm(second, At(100));
  wheel.Arm(third, At(101));
  const size_t fired = wheel.Advance(At(200), kUnlimited, [&](TimerNode& node) {
    if (&node != first.get()) return;
    first.reset();
    wheel.Cancel(second);
  });
  EXPECT_EQ(fired, 2u);
  EXPECT_FALSE(second.armed());
  EXPECT_FALSE(third.armed());
}

TEST(TimerWheelTest, SleepingUntilNextDeadlineAlwaysGetsThere) {
  TimerWheel wheel;
  std::array<TimerNode, 40> nodes;  // more than are looked at in one slot
  for (size_t i = 0; i < nodes.size(); ++i) {
    wheel.Arm(nodes[i], At(1'000'000'039 - static_cast<int64_t>(i)));
  }
  size_t fired = 0;
  int sleeps = 0;
  while (fired < nodes.size()) {
    const Timestamp next = wheel.NextDeadline();
    ASSERT_GT(next, wheel.now());
    // The timers fire from the last to the first.
    ASSERT_LE(next, nodes[nodes.size() - 1 - fired].deadline());
    fired += Fired(wheel, next).size();
    ASSERT_LT(++sleeps, 60);
  }
  EXPECT_EQ(wheel.now(), At(1'000'000'039));
}

// The wheel against a sorted map, with whatever may happen to a timer.
class TimerWheelProperty : public testing::TestWithParam<uint64_t> {
 protected:
  static constexpr size_t kNodes = 60;

  TimerWheelProperty() : rng_(GetParam()), wheel_(now_) {}
  ~TimerWheelProperty() override {
    for (TimerNode& node : nodes_) wheel_.Cancel(node);
  }

  int64_t SomeSpan() {
    const uint64_t top = rng_.Chance(0.9) ? 1 << 20 : int64_t{1} << 45;
    return static_cast<int64_t>(rng_.LogUniform(1, top));
  }

  void Arm(TimerNode& node) {
    Duration delay = Duration::Nanos(SomeSpan());
    if (rng_.Chance(0.1)) delay = Duration() - delay;
    if (rng_.Chance(0.1)) delay = Duration();
    Forget(node);
    wheel_.Arm(node, now_ + delay);
    // Equal keys stay in the order of insertion.
    model_.emplace(std::max(now_ + delay, now_), &node);
  }

  void Forget(TimerNode& node) {
    std::erase_if(model_, [&](const auto& e) { return e.second == &node; });
  }

  void CheckNextDeadline() {
    const Timestamp next = wheel_.NextDeadline();
    if (model_.empty()) {
      ASSERT_EQ(next, Timestamp::Never());
      return;
    }
    ASSERT_LE(next, model_.begin()->first);
    // Fit to sleep on: in the future if nothing is due.
    if (model_.begin()->first > now_) {
      ASSERT_GT(next, now_);
    }
  }

  Timestamp SomeTime() {
    if (rng_.Chance(0.1)) return now_;
    if (rng_.Chance(0.1)) return now_ - Duration::Nanos(SomeSpan());
    if (rng_.Chance(0.3) && !model_.empty()) {
      return std::max(now_, wheel_.NextDeadline());
    }
    return now_ + Duration::Nanos(SomeSpan());
  }

  // Takes what is due from the model, in order.
  Nodes TakeDue() {
    Nodes due;
    while (!model_.empty() && model_.begin()->first <= now_) {
      due.push_back(model_.begin()->second);
      model_.erase(model_.begin());
    }
    return due;
  }

  Rng rng_;
  Timestamp now_ = At(static_cast<int64_t>(rng_.Below(uint64_t{1} << 40)));
  TimerWheel wheel_;
  std::array<TimerNode, kNodes> nodes_;
  std::multimap<Timestamp, TimerNode*> model_;
};

TEST_P(TimerWheelProperty, FiresWhatTheMapFiresInTheSameOrder) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  for (int step = 0; step < 2000; ++step) {
    TimerNode& node = nodes_[rng_.Below(kNodes)];
    switch (rng_.Below(4)) {
      case 0:
      case 1:
        Arm(node);
        break;
      case 2:
        Forget(node);
        wheel_.Cancel(node);
        break;
      case 3: {
        const Timestamp then = SomeTime();
        now_ = std::max(now_, then);
        const Nodes fired = Fired(wheel_, then);
        ASSERT_EQ(fired, TakeDue()) << "step " << step;
        ASSERT_EQ(wheel_.now(), now_);
        break;
      }
    }
    ASSERT_NO_FATAL_FAILURE(CheckNextDeadline()) << "step " << step;
  }
}

TEST_P(TimerWheelProperty, WithATightBudgetNothingIsLostOrEarly) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  for (int step = 0; step < 2000; ++step) {
    TimerNode& node = nodes_[rng_.Below(kNodes)];
    switch (rng_.Below(3)) {
      case 0:
        Arm(node);
        break;
      case 1:
        Forget(node);
        wheel_.Cancel(node);
        break;
      case 2: {
        const Timestamp then = SomeTime();
        now_ = std::max(now_, then);
        const size_t budget = rng_.Below(20);
        const size_t fired =
            wheel_.Advance(then, budget, [&](TimerNode& timer) {
              ASSERT_LE(timer.deadline(), now_);
              const size_t before = model_.size();
              Forget(timer);
              ASSERT_EQ(model_.size(), before - 1);
            });
        ASSERT_LE(fired, budget);
        break;
      }
    }
    ASSERT_LE(wheel_.NextDeadline(),
              model_.empty() ? Timestamp::Never()
                             : std::max(now_, model_.begin()->first));
    for (const TimerNode& each : nodes_) {
      const bool expected = std::ranges::any_of(
          model_, [&](const auto& e) { return e.second == &each; });
      ASSERT_EQ(each.armed(), expected);
    }
  }
  // The backlog drains in boundedly many small calls.
  for (int call = 0; wheel_.NextDeadline() <= now_; ++call) {
    ASSERT_LT(call, 1000);
    wheel_.Advance(now_, 3, [&](TimerNode& timer) { Forget(timer); });
  }
  ASSERT_EQ(TakeDue(), Nodes{});
}

INSTANTIATE_TEST_SUITE_P(Seeds, TimerWheelProperty,
                         testing::Range<uint64_t>(0, 50));

}  // namespace
}  // namespace optireduce
