#include "dataplane/sim/baseline/hystart.h"

#include "gtest/gtest.h"

namespace optireduce::sim::baseline {
namespace {

constexpr uint64_t kBytes = 1448;

// A sender that is acknowledged segment by segment.
class HyStartTest : public testing::Test {
 protected:
  // `count` acknowledgements, one each `apart`, all of the same round; whether
  // slow start ends.
  bool Acks(int count, Duration apart, Duration round_trip) {
    bool ends = false;
    for (int i = 0; i < count; ++i) {
      now_ = now_ + apart;
      facts_.acknowledged += kBytes;
      facts_.round_trip = facts_.smoothed = round_trip;
      ends = hystart_.OnAck(facts_, now_) || ends;
    }
    return ends;
  }
  // All that was sent so far is acknowledged.
  void BeginNextRound() {
    facts_.acknowledged = facts_.next;
    facts_.next += 1000 * kBytes;
  }

  HyStart hystart_;
  AckFacts facts_{0, 1000 * kBytes, 32, 32 * kBytes, {}, {}};
  Timestamp now_ = Timestamp() + Duration::Seconds(1);
};

TEST_F(HyStartTest, GoesOnWhileRoundTripsAreShort) {
  EXPECT_FALSE(Acks(20, Duration::Micros(10), Duration::Millis(10)));
}

TEST_F(HyStartTest, EndsWhenRoundTripsBecomeLonger) {
  EXPECT_FALSE(Acks(1, Duration::Micros(10), Duration::Millis(10)));
  // Neither eight of them nor less than four milliseconds more are enough.
  EXPECT_FALSE(Acks(8, Duration::Micros(10), Duration::Millis(15)));
  hystart_ = HyStart();
  EXPECT_FALSE(Acks(1, Duration::Micros(10), Duration::Millis(10)));
  BeginNextRound();
  EXPECT_FALSE(Acks(20, Duration::Micros(10), Duration::Micros(13'900)));
  BeginNextRound();
  EXPECT_TRUE(Acks(20, Duration::Micros(10), Duration::Micros(14'100)));
}

// Half of ten milliseconds, and of the one that acknowledgements may be late
// by.
TEST_F(HyStartTest, EndsWhenARoundsTrainIsLong) {
  facts_.window_bytes = 2 * kBytes;
  EXPECT_FALSE(Acks(6, Duration::Millis(1), Duration::Millis(10)));
  EXPECT_TRUE(Acks(1, Duration::Millis(1), Duration::Millis(10)));
}

TEST_F(HyStartTest, AGapEndsTheTrain) {
  facts_.window_bytes = 2 * kBytes;
  EXPECT_FALSE(Acks(3, Duration::Millis(1), Duration::Millis(10)));
  now_ = now_ + Duration::Millis(3);
  EXPECT_FALSE(Acks(10, Duration::Millis(1), Duration::Millis(10)));
}

TEST_F(HyStartTest, LeavesSmallWindowsAlone) {
  facts_.window = 15;
  EXPECT_FALSE(Acks(100, Duration::Millis(1), Duration::Millis(10)));
}

TEST_F(HyStartTest, EndsItOnceUntilATimeout) {
  EXPECT_TRUE(Acks(100, Duration::Millis(1), Duration::Millis(10)));
  BeginNextRound();
  EXPECT_FALSE(Acks(100, Duration::Millis(1), Duration::Millis(10)));
  hystart_.Reset();
  EXPECT_TRUE(Acks(100, Duration::Millis(1), Duration::Millis(10)));
}

}  // namespace
}  // namespace optireduce::sim::baseline
