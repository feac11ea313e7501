#include "dataplane/core/rate_controller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dataplane/base/rng.h"

namespace optireduce::core {
namespace {

constexpr uint64_t kCeiling = 1'000'000'000;
constexpr Duration kTarget = Duration::Micros(100);

// A path of which both ways take 50 us, and its two clocks. Time moves in steps
// of one millisecond.
class Bench {
 public:
  explicit Bench(int64_t own_clock_us = 1'000'000,
                 int64_t peer_clock_us = 77'777'777)
      : own_us_(own_clock_us), peer_offset_us_(peer_clock_us - own_clock_us) {}

  // A packet goes, waits in a queue on the way there, is held, and its echo
  // waits in a queue on the way back.
  bool Exchange(int64_t there_us = 0, int64_t back_us = 0,
                bool marked = false) {
    Send();
    echo = Honest(there_us, marked);
    const int64_t sent = own_us_;
    own_us_ += 2 * kWay + kHeld + there_us + back_us;
    const bool believed = control.OnEcho(echo, Now());
    own_us_ = std::max(own_us_, sent + 1000);
    return believed;
  }
  void Send(uint64_t floor_bps = 0) { control.OnSent(Now(), floor_bps); }
  Echo Honest(int64_t there_us = 0, bool marked = false) {
    ++received_;
    marks_ = static_cast<uint16_t>(marks_ + marked);
    const int64_t held_until = own_us_ + kWay + there_us + kHeld;
    return {.send_time = Wire(own_us_),
            .held = kHeld,
            .peer_time = Wire(held_until + peer_offset_us_),
            .received = received_,
            .marked = marks_};
  }
  void Wait(Duration span) { own_us_ += span.nanos() / 1000; }
  void Drift(int64_t us) { peer_offset_us_ += us; }
  Timestamp Now() const { return Timestamp::FromNanos(own_us_ * 1000); }
  static uint32_t Wire(int64_t us) {
    return static_cast<uint32_t>(us) & 0xFFFFFF;
  }

  static constexpr int64_t kWay = 50;
  static constexpr int64_t kHeld = 30;

  RateController control{kTarget, kCeiling};
  Echo echo;  // the last one

 private:
  int64_t own_us_;
  int64_t peer_offset_us_;
  uint32_t received_ = 0xFFFFFFFE;  // before the wrap
  uint16_t marks_ = 0xFFFE;
};

// From the ceiling down, so that there is room to grow.
void CutTo(uint64_t bps, Bench* bench) {
  bench->Exchange();
  while (bench->control.rate_bps() > bps) bench->Exchange(1000);
  bench->Wait(Duration::Millis(5));
}

TEST(RateControllerTest, StartsAtTheCeilingAndStaysThereWithoutQueues) {
  Bench bench;
  EXPECT_EQ(bench.control.rate_bps(), kCeiling);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(bench.Exchange());
  EXPECT_EQ(bench.control.rate_bps(), kCeiling);
  EXPECT_EQ(bench.control.round_trip(), Duration::Micros(100));
  EXPECT_EQ(bench.control.queueing(), Duration());
}

TEST(RateControllerTest, RoundTripIsWithoutTheTimeHeld) {
  Bench bench;
  bench.Exchange();
  bench.Exchange(20, 40);
  EXPECT_EQ(bench.control.round_trip(), Duration::Micros(160));
  EXPECT_EQ(bench.control.queueing(), Duration::Micros(20));
}

TEST(RateControllerTest, CutsInProportionToTheExcess) {
  Bench bench;
  bench.Exchange();
  bench.Exchange(125);
  EXPECT_EQ(bench.control.rate_bps(), kCeiling * 92 / 100);  // 1 - 0.4 * 25/125
  bench.Exchange(10'000);
  EXPECT_EQ(bench.control.rate_bps(),
            kCeiling * 69 / 100);  // a quarter at most
}

TEST(RateControllerTest, QueuesOnTheWayBackDoNotCount) {
  Bench bench;
  bench.Exchange();
  for (int i = 0; i < 20; ++i) bench.Exchange(0, 700);
  EXPECT_EQ(bench.control.rate_bps(), kCeiling);
}

// Clocks that drift apart look like queues; the round trip knows better.
TEST(RateControllerTest, DriftingClocksAreNoQueues) {
  Bench bench;
  bench.Exchange();
  for (int i = 0; i < 100; ++i) {
    bench.Drift(50);
    bench.Exchange();
  }
  EXPECT_EQ(bench.control.rate_bps(), kCeiling);
  bench.Drift(-1'000'000);
  bench.Exchange();
  for (int i = 0; i < 5; ++i) bench.Exchange(500);
  EXPECT_LT(bench.control.rate_bps(), kCeiling);
}

TEST(RateControllerTest, ClocksMayWrap) {
  // Both wrap within the run: 2^24 us.
  Bench bench((1 << 24) - 20'000, (1 << 24) - 40'000);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(bench.Exchange());
    EXPECT_EQ(bench.control.queueing(), Duration());
  }
  bench.Exchange(300);
  EXPECT_EQ(bench.control.queueing(), Duration::Micros(300));
}

TEST(RateControllerTest, GrowsByTimeWhateverTheRate) {
  Bench slow;
  CutTo(kCeiling / 10, &slow);
  Bench fast;
  CutTo(kCeiling / 3, &fast);
  const uint64_t slow_before = slow.control.rate_bps();
  const uint64_t fast_before = fast.control.rate_bps();
  slow.Exchange();  // counts at most 2 ms, whenever the last one was
  fast.Exchange();
  EXPECT_EQ(slow.control.rate_bps() - slow_before, kCeiling / 10);
  EXPECT_NEAR(static_cast<double>(fast.control.rate_bps() - fast_before),
              static_cast<double>(slow.control.rate_bps() - slow_before), 2);
}

TEST(RateControllerTest, GrowsSlowlyRightAfterACut) {
  Bench bench;
  bench.Exchange();
  for (int i = 0; i < 8; ++i) bench.Exchange(1000);
  bench.Exchange();
  const uint64_t before = bench.control.rate_bps();
  bench.Exchange();  // 1 ms after the last one: a 160th of the ceiling
  EXPECT_NEAR(static_cast<double>(bench.control.rate_bps() - before),
              kCeiling / 160.0, kCeiling / 1000.0);
  while (bench.control.rate_bps() < before + kCeiling / 30) bench.Exchange();
  const uint64_t calm = bench.control.rate_bps();
  bench.Exchange();
  EXPECT_NEAR(static_cast<double>(bench.control.rate_bps() - calm),
              kCeiling / 20.0, kCeiling / 1000.0);
}

// What a full path leaves is a queue that does not run empty.
TEST(RateControllerTest, ALowRateAllowsALongerQueue) {
  Bench high;
  high.Exchange();
  high.Exchange(150);
  EXPECT_LT(high.control.rate_bps(), kCeiling);
  Bench low;
  CutTo(kCeiling / 8, &low);
  const uint64_t before = low.control.rate_bps();
  low.Exchange(150);
  EXPECT_GT(low.control.rate_bps(), before);
  low.Exchange(400);
  EXPECT_LT(low.control.rate_bps(), before + kCeiling / 10);
}

TEST(RateControllerTest, SharesBecomeEven) {
  // Two paths into one link that takes the ceiling once.
  Bench first;
  Bench second;
  first.Exchange();
  second.Exchange();
  CutTo(kCeiling / 10, &second);
  for (int i = 0; i < 300; ++i) {
    const bool full =
        first.control.rate_bps() + second.control.rate_bps() > kCeiling;
    first.Exchange(full ? 150 : 0);
    second.Exchange(full ? 150 : 0);
  }
  EXPECT_NEAR(static_cast<double>(first.control.rate_bps()) /
                  static_cast<double>(second.control.rate_bps()),
              1, 0.1);
}

// Ten congestion signals inside one round trip, then one after it.
TEST(RateControllerTest, OneCutPerRoundTrip) {
  Bench bench;
  bench.Exchange();
  const Timestamp start = bench.Now();
  for (int i = 0; i < 10; ++i) {
    bench.Send();
    Echo echo = bench.Honest(0, true);
    echo.held = 0;
    // Sent now, back 100 us later; the next one is sent 1 us after it.
    bench.control.OnEcho(echo, bench.Now() + Duration::Micros(100));
    bench.Wait(Duration::Micros(1));
  }
  const uint64_t once = bench.control.rate_bps();
  EXPECT_LT(once, kCeiling);
  EXPECT_GE(once, kCeiling * 3 / 4);
  bench.Wait(start + Duration::Micros(120) - bench.Now());
  bench.Send();
  Echo echo = bench.Honest(0, true);
  echo.held = 0;
  bench.control.OnEcho(echo, bench.Now() + Duration::Micros(100));
  EXPECT_LT(bench.control.rate_bps(), once);
}

TEST(RateControllerTest, FewMarksCutLittle) {
  Bench bench;
  for (int i = 0; i < 200; ++i) bench.Exchange();  // no mark for long
  bench.Exchange(0, 0, true);
  EXPECT_LT(bench.control.rate_bps(), kCeiling);
  EXPECT_GT(bench.control.rate_bps(), kCeiling * 95 / 100);
}

TEST(RateControllerTest, SilenceIsNoReasonToGrow) {
  Bench bench;
  CutTo(kCeiling / 10, &bench);
  const uint64_t before = bench.control.rate_bps();
  bench.Wait(Duration::Seconds(5));
  bench.Exchange();
  EXPECT_LE(bench.control.rate_bps(), before + kCeiling / 10);
}

TEST(RateControllerTest, UnansweredPacketsHalveTheRateNowAndThen) {
  Bench bench;
  bench.Exchange();
  for (int i = 0; i < 30; ++i) bench.Send();
  bench.Wait(Duration::Millis(5));
  bench.Send();
  bench.Wait(Duration::Millis(5));
  EXPECT_EQ(bench.control.rate_bps(), kCeiling);
  bench.Send();
  EXPECT_EQ(bench.control.rate_bps(), kCeiling / 2);
  for (int i = 0; i < 100; ++i) bench.Send();  // at once: no second time
  EXPECT_EQ(bench.control.rate_bps(), kCeiling / 2);
  // Down to the least, in so many steps; an echo ends it.
  for (int i = 0; i < 1000; ++i) {
    bench.Wait(Duration::Millis(1));
    bench.Send();
  }
  EXPECT_EQ(bench.control.rate_bps(), kCeiling / 100);
}

TEST(RateControllerTest, WhoDoesNotSendIsNotAnswered) {
  Bench bench;
  bench.Exchange();
  for (int i = 0; i < 100; ++i) {
    for (int packet = 0; packet < 31; ++packet) bench.Send();
    bench.Wait(Duration::Millis(11));
  }
  EXPECT_EQ(bench.control.rate_bps(), kCeiling);
}

TEST(RateControllerTest, SilenceStopsAtTheFloorButDelayDoesNot) {
  Bench bench;
  bench.Exchange();
  constexpr uint64_t kFloor = kCeiling / 5;
  for (int i = 0; i < 1000; ++i) {
    bench.Send(kFloor);
    bench.Wait(Duration::Millis(1));
  }
  EXPECT_EQ(bench.control.rate_bps(), kFloor);
  for (int i = 0; i < 50; ++i) {
    bench.Send(kFloor);
    bench.Exchange(2000);
  }
  EXPECT_EQ(bench.control.rate_bps(), kCeiling / 100);
}

// The first limits come first: a floor is not above them.
TEST(RateControllerTest, TheCeilingIsAboveTheFloor) {
  Bench bench;
  bench.Exchange();
  for (int i = 0; i < 1000; ++i) {
    bench.Send(kCeiling * 2);
    bench.Wait(Duration::Millis(1));
    EXPECT_LE(bench.control.rate_bps(), kCeiling);
  }
}

// ---- echoes that cannot be true

TEST(RateControllerTest, BeforeAnythingWasSentNoEchoIsTrue) {
  Bench bench;
  EXPECT_FALSE(bench.control.OnEcho(bench.Honest(), bench.Now()));
  EXPECT_EQ(bench.control.echoes_ignored(), 1u);
}

TEST(RateControllerTest, LiesAboutTimeChangeNothingAndAreCounted) {
  Bench bench;
  bench.Exchange();
  bench.Send();
  const Echo honest = bench.Honest(5000);
  const int64_t now_us = bench.Now().nanos() / 1000;
  bench.Wait(Duration::Micros(200));
  std::vector<Echo> lies(6, honest);
  lies[0].send_time = Bench::Wire(now_us + 201);        // in the future
  lies[1].send_time = Bench::Wire(now_us + 100);        // nothing sent then
  lies[2].send_time = Bench::Wire(now_us - 1'000'000);  // nor then
  lies[3].send_time = Bench::Wire(now_us - 1001);       // before the last echo
  lies[4].held = 201;     // longer than it has been away
  lies[5].held = 0xFFFF;  // nobody knows for how long
  for (const Echo& lie : lies) {
    EXPECT_FALSE(bench.control.OnEcho(lie, bench.Now()));
  }
  EXPECT_EQ(bench.control.echoes_ignored(), lies.size());
  EXPECT_EQ(bench.control.rate_bps(), kCeiling);
  EXPECT_EQ(bench.control.round_trip(), Duration::Micros(100));
}

TEST(RateControllerTest, NoEchoLeavesTheBoundsOfTheRate) {
  const uint64_t seed = 20'261'201;
  SCOPED_TRACE(seed);
  Rng rng(seed);
  Bench bench;
  for (int i = 0; i < 100'000; ++i) {
    bench.Send(rng.Below(2 * kCeiling));
    bench.Wait(Duration::Micros(rng.Between(0, 3000)));
    const Echo echo{.send_time = static_cast<uint32_t>(rng.Next()) & 0xFFFFFF,
                    .held = static_cast<uint32_t>(rng.Below(0x10000)),
                    .peer_time = static_cast<uint32_t>(rng.Next()) & 0xFFFFFF,
                    .received = static_cast<uint32_t>(rng.Next()),
                    .marked = static_cast<uint16_t>(rng.Next())};
    bench.control.OnEcho(rng.Chance(0.5) ? echo : bench.Honest(), bench.Now());
    ASSERT_LE(bench.control.rate_bps(), kCeiling);
    ASSERT_GE(bench.control.rate_bps(), kCeiling / 100);
  }
}

}  // namespace
}  // namespace optireduce::core
