#include "dataplane/sim/baseline/congestion.h"

#include "gtest/gtest.h"

namespace optireduce::sim::baseline {
namespace {

// A window's worth of segments, `times` times.
void RoundTrips(CongestionWindow* window, int times) {
  for (int i = 0; i < times; ++i) window->OnDelivered(window->segments());
}

TEST(CongestionWindow, BeginsWithTenAndDoublesInSlowStart) {
  CongestionWindow window;
  EXPECT_EQ(window.segments(), 10u);
  RoundTrips(&window, 3);
  EXPECT_EQ(window.segments(), 80u);
  EXPECT_TRUE(window.in_slow_start());
}

TEST(CongestionWindow, KeepsSevenTenthsAfterALoss) {
  CongestionWindow window;
  RoundTrips(&window, 4);
  window.OnLoss();
  EXPECT_EQ(window.segments(), 112u);
  EXPECT_FALSE(window.in_slow_start());
}

// 0.529 of a segment for each round trip below the last maximum, one above.
TEST(CongestionWindow, GrowsSlowlyUpToTheLastMaximumThenLikeReno) {
  CongestionWindow window;
  RoundTrips(&window, 4);
  window.OnLoss();
  RoundTrips(&window, 17);
  EXPECT_NEAR(static_cast<double>(window.segments()), 112 + 17 * 0.529, 1);
  RoundTrips(&window, 73);
  EXPECT_NEAR(static_cast<double>(window.segments()), 112 + 90 * 0.529, 1);
  // The last maximum is behind it.
  RoundTrips(&window, 5);
  const uint64_t before = window.segments();
  RoundTrips(&window, 10);
  EXPECT_NEAR(static_cast<double>(window.segments()),
              static_cast<double>(before + 10), 1);
}

// By a twentieth for each round trip while no loss has told where the end is.
TEST(CongestionWindow, GrowsOnWhenSlowStartEndsWithoutALoss) {
  CongestionWindow window;
  RoundTrips(&window, 4);
  window.EndSlowStart();
  EXPECT_FALSE(window.in_slow_start());
  EXPECT_EQ(window.segments(), 160u);
  RoundTrips(&window, 1);
  EXPECT_EQ(window.segments(), 168u);
  RoundTrips(&window, 10);
  EXPECT_NEAR(static_cast<double>(window.segments()), 168 * 1.629, 5);
}

TEST(CongestionWindow, StartsFromOneAfterATimeout) {
  CongestionWindow window;
  RoundTrips(&window, 3);
  window.OnTimeout(/*again=*/false);
  EXPECT_EQ(window.segments(), 1u);
  // A second timeout for the same loss does not lower the threshold again.
  window.OnTimeout(/*again=*/true);
  RoundTrips(&window, 5);
  EXPECT_TRUE(window.in_slow_start());
  EXPECT_EQ(window.segments(), 32u);
  window.OnDelivered(24);
  EXPECT_FALSE(window.in_slow_start());
  EXPECT_EQ(window.segments(), 56u);
}

TEST(CongestionWindow, HalvesForEachTimeoutOfIdlenessDownToTheInitialOne) {
  CongestionWindow window;
  RoundTrips(&window, 3);
  const Duration timeout = Duration::Millis(200);
  window.OnIdle(Duration::Millis(199), timeout);
  EXPECT_EQ(window.segments(), 80u);
  window.OnIdle(Duration::Millis(450), timeout);
  EXPECT_EQ(window.segments(), 20u);
  window.OnIdle(Duration::Seconds(3600), timeout);
  EXPECT_EQ(window.segments(), 10u);
}

TEST(CongestionWindow, NeverFallsBelowTwoByLossesAlone) {
  CongestionWindow window;
  for (int i = 0; i < 20; ++i) window.OnLoss();
  EXPECT_EQ(window.segments(), 2u);
}

}  // namespace
}  // namespace optireduce::sim::baseline
