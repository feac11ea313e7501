#include "dataplane/core/pacer.h"

#include <gtest/gtest.h>

namespace optireduce::core {
namespace {

constexpr Timestamp At(int64_t nanos) { return Timestamp::FromNanos(nanos); }

TEST(PacerTest, GrantsTheRateToTheByteHoweverOftenItIsAsked) {
  Pacer pacer(1'000'000'000, 1'000'000);
  pacer.OnSent(1'000'000);  // empty
  for (int64_t i = 1; i <= 100; ++i) pacer.Available(At(i * 10'000));
  EXPECT_EQ(pacer.Available(At(1'000'000)), 125'000);
}

TEST(PacerTest, KeepsFractionsOfSlowRates) {
  Pacer pacer(3, 8);  // bits per second
  pacer.OnSent(8);
  for (int64_t t = 0; t < 8'000'000'000; t += 7'000'001) pacer.Available(At(t));
  EXPECT_EQ(pacer.Available(At(8'000'000'000)), 3);  // 24 bits
}

TEST(PacerTest, SaysWhenTheNextPacketMayLeave) {
  Pacer pacer(8'000'000'000, 1500);  // a byte per nanosecond
  EXPECT_TRUE(pacer.MaySend(At(0)));
  pacer.OnSent(3000);
  EXPECT_FALSE(pacer.MaySend(At(0)));
  EXPECT_EQ(pacer.NextSend(At(0)), At(1500));
  EXPECT_FALSE(pacer.MaySend(At(1499)));
  EXPECT_TRUE(pacer.MaySend(At(1500)));
}

TEST(PacerTest, NeverSaysTooEarly) {
  Pacer pacer(3, 1);  // a bit takes a third of a second
  pacer.OnSent(2);
  const Timestamp next = pacer.NextSend(At(0));
  EXPECT_EQ(next, At(2'666'666'667));
  EXPECT_TRUE(pacer.MaySend(next));
}

TEST(PacerTest, ANewRateHoldsFromNowOn) {
  Pacer pacer(8'000'000'000, 10'000);
  pacer.OnSent(10'000);
  pacer.SetRate(4'000'000'000, At(1000));
  EXPECT_EQ(pacer.rate_bps(), 4'000'000'000);
  EXPECT_EQ(pacer.Available(At(1000)), 1000);
  EXPECT_EQ(pacer.Available(At(2000)), 1500);
}

TEST(PacerTest, AClockThatJumpsBackGrantsNothing) {
  Pacer pacer(8'000'000'000, 1500);
  pacer.MaySend(At(1'000'000));
  pacer.OnSent(1600);
  EXPECT_FALSE(pacer.MaySend(At(0)));
  EXPECT_FALSE(pacer.MaySend(At(1'000'050)));
  EXPECT_TRUE(pacer.MaySend(At(1'000'100)));
}

TEST(PacerTest, ZeroIsNoLimit) {
  Pacer pacer(0, 0);
  pacer.OnSent(1u << 30);
  EXPECT_TRUE(pacer.MaySend(At(0)));
  EXPECT_EQ(pacer.NextSend(At(5)), At(5));
}

TEST(PacerTest, LongSilenceFillsOneBurstOnly) {
  Pacer pacer(400'000'000'000, 64 * 1024);
  EXPECT_EQ(pacer.Available(At(INT64_MAX / 2)), 64 * 1024);
}

}  // namespace
}  // namespace optireduce::core
