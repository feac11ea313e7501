#include "dataplane/core/round_trip.h"

#include "gtest/gtest.h"

namespace optireduce::core {
namespace {

constexpr Duration Us(int64_t micros) { return Duration::Micros(micros); }

TEST(RoundTripTest, UnknownUntilTheFirstSample) {
  RoundTrip trip;
  EXPECT_FALSE(trip.is_known());
  EXPECT_EQ(trip.Timeout(Us(7)), Us(7));
  trip.OnSample(Us(100));
  EXPECT_TRUE(trip.is_known());
  EXPECT_EQ(trip.least(), Us(100));
  EXPECT_EQ(trip.smoothed(), Us(100));
  EXPECT_EQ(trip.Timeout(Us(7)), Us(300));
}

TEST(RoundTripTest, FollowsSteadySamplesAndLosesItsDoubt) {
  RoundTrip trip;
  trip.OnSample(Us(1000));
  for (int i = 0; i < 100; ++i) trip.OnSample(Us(200));
  EXPECT_EQ(trip.least(), Us(200));
  EXPECT_GE(trip.smoothed(), Us(200));
  EXPECT_LT(trip.Timeout(Us(7)), Us(210));
}

TEST(RoundTripTest, SpreadWidensTheTimeout) {
  RoundTrip trip;
  for (int i = 0; i < 100; ++i) trip.OnSample(Us(i % 2 == 0 ? 100 : 500));
  EXPECT_EQ(trip.least(), Us(100));
  EXPECT_GT(trip.Timeout(Us(7)), Us(500));
}

TEST(RoundTripTest, SamplesThatCannotBeAreNotBelieved) {
  RoundTrip trip;
  trip.OnSample(Us(-1));
  EXPECT_FALSE(trip.is_known());
  trip.OnSample(Duration::Seconds(1000));
  EXPECT_EQ(trip.smoothed(), RoundTrip::kMost);
  trip.OnSample(Duration());
  EXPECT_EQ(trip.least(), Duration());
}

}  // namespace
}  // namespace optireduce::core
