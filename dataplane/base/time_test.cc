#include "dataplane/base/time.h"

#include <gtest/gtest.h>

namespace optireduce {
namespace {

TEST(DurationTest, UnitsAreNanoseconds) {
  EXPECT_EQ(Duration::Micros(3).nanos(), 3'000);
  EXPECT_EQ(Duration::Millis(70'000).nanos(), 70'000'000'000);
  EXPECT_EQ(Duration::Seconds(-2).nanos(), -2'000'000'000);
}

TEST(DurationTest, SaturatesInsteadOfWrapping) {
  EXPECT_EQ(Duration::Seconds(INT64_MAX), Duration::Infinite());
  EXPECT_EQ(Duration::Infinite() + Duration::Nanos(1), Duration::Infinite());
  EXPECT_EQ(Duration::Infinite() * 2, Duration::Infinite());
  EXPECT_EQ((Duration::Nanos(INT64_MIN) - Duration::Nanos(1)).nanos(),
            INT64_MIN);
}

TEST(TimestampTest, NeverStaysNever) {
  EXPECT_EQ(Timestamp::Never() + Duration::Seconds(1), Timestamp::Never());
  EXPECT_EQ(Timestamp::Never() - Duration::Seconds(1), Timestamp::Never());
  EXPECT_EQ(Timestamp::FromNanos(5) + Duration::Infinite(), Timestamp::Never());
  EXPECT_LT(Timestamp::FromNanos(INT64_MAX - 1), Timestamp::Never());
}

TEST(TimestampTest, DifferenceIsADuration) {
  const Timestamp start = Timestamp::FromNanos(10);
  EXPECT_EQ((start + Duration::Micros(1)) - start, Duration::Micros(1));
}

}  // namespace
}  // namespace optireduce
