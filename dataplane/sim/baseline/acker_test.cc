#include "dataplane/sim/baseline/acker.h"

#include <optional>

#include "gtest/gtest.h"

namespace optireduce::sim::baseline {
namespace {

constexpr uint64_t kBytes = 100;

Timestamp At(int64_t micros) { return Timestamp() + Duration::Micros(micros); }

// The n-th segment of a hundred bytes, sent at n microseconds.
Data Nth(uint64_t n, bool push = false) {
  return {{n * kBytes, (n + 1) * kBytes}, push, At(static_cast<int64_t>(n))};
}

// The segments that are answered at once at the beginning; the next is `kNext`.
constexpr uint64_t kNext = Acker::kQuick;
void Begin(Acker* acker) {
  for (uint64_t n = 0; n < kNext; ++n) {
    const auto ack = acker->OnData(Nth(n), At(10));
    ASSERT_TRUE(ack);
    ASSERT_EQ(ack->next, (n + 1) * kBytes);
  }
}

TEST(Acker, AnswersEverySecondSegment) {
  Acker acker;
  Begin(&acker);
  EXPECT_FALSE(acker.OnData(Nth(kNext), At(10)));
  const auto ack = acker.OnData(Nth(kNext + 1), At(11));
  ASSERT_TRUE(ack);
  EXPECT_EQ(ack->next, (kNext + 2) * kBytes);
  EXPECT_EQ(ack->ranges, 0);
  EXPECT_FALSE(ack->duplicate);
  // The first of the two: the sender's round trip includes the wait.
  EXPECT_EQ(ack->echo, At(kNext));
  EXPECT_FALSE(acker.OnData(Nth(kNext + 2), At(12)));
}

TEST(Acker, AnswersALoneSegmentAfterTheDelay) {
  Acker acker;
  Begin(&acker);
  EXPECT_EQ(acker.deadline(), Timestamp::Never());
  EXPECT_FALSE(acker.OnData(Nth(kNext), At(10)));
  EXPECT_EQ(acker.deadline(), At(10) + Acker::kDelay);
  EXPECT_FALSE(acker.OnTimer(At(10)));
  const auto ack = acker.OnTimer(At(10) + Acker::kDelay);
  ASSERT_TRUE(ack);
  EXPECT_EQ(ack->next, (kNext + 1) * kBytes);
  EXPECT_EQ(acker.deadline(), Timestamp::Never());
}

TEST(Acker, AnswersAtOnceAfterAPause) {
  Acker acker;
  Begin(&acker);
  EXPECT_FALSE(acker.OnData(Nth(kNext), At(10)));
  const Timestamp later = At(11) + Acker::kDelay;
  for (uint64_t n = 1; n <= Acker::kQuick; ++n) {
    EXPECT_TRUE(acker.OnData(Nth(kNext + n), later)) << n;
  }
  EXPECT_FALSE(acker.OnData(Nth(kNext + Acker::kQuick + 1), later));
}

TEST(Acker, AnswersWhatIsPushedAtOnce) {
  Acker acker;
  Begin(&acker);
  const auto ack = acker.OnData(Nth(kNext, /*push=*/true), At(10));
  ASSERT_TRUE(ack);
  EXPECT_EQ(ack->next, (kNext + 1) * kBytes);
}

TEST(Acker, AnswersEachSegmentBeyondAGapWithItsRangeFirst) {
  Acker acker;
  acker.OnData(Nth(0), At(10));
  auto ack = acker.OnData(Nth(2), At(11));
  ASSERT_TRUE(ack);
  EXPECT_EQ(ack->next, kBytes);
  ASSERT_EQ(ack->ranges, 1);
  EXPECT_EQ(ack->sack[0], (Range{2 * kBytes, 3 * kBytes}));
  EXPECT_EQ(ack->echo, At(2));

  ack = acker.OnData(Nth(5), At(12));
  ASSERT_TRUE(ack);
  ASSERT_EQ(ack->ranges, 2);
  EXPECT_EQ(ack->sack[0], (Range{5 * kBytes, 6 * kBytes}));
  EXPECT_EQ(ack->sack[1], (Range{2 * kBytes, 3 * kBytes}));

  // It joins both neighbours.
  acker.OnData(Nth(3), At(13));
  ack = acker.OnData(Nth(4), At(14));
  ASSERT_TRUE(ack);
  ASSERT_EQ(ack->ranges, 1);
  EXPECT_EQ(ack->sack[0], (Range{2 * kBytes, 6 * kBytes}));

  // The gap is closed.
  ack = acker.OnData(Nth(1), At(15));
  ASSERT_TRUE(ack);
  EXPECT_EQ(ack->next, 6 * kBytes);
  EXPECT_EQ(ack->ranges, 0);
  EXPECT_EQ(acker.received(), 6 * kBytes);
}

TEST(Acker, NamesThreeRangesAtMost) {
  Acker acker;
  std::optional<Ack> ack;
  for (uint64_t n = 1; n < 11; n += 2) ack = acker.OnData(Nth(n), At(20));
  ASSERT_TRUE(ack);
  ASSERT_EQ(ack->ranges, 3);
  EXPECT_EQ(ack->sack[2], (Range{5 * kBytes, 6 * kBytes}));
}

TEST(Acker, SaysThatASegmentWasThereAlready) {
  Acker acker;
  acker.OnData(Nth(0, /*push=*/true), At(10));
  acker.OnData(Nth(2), At(11));
  for (const uint64_t n : {0, 2}) {
    const auto ack = acker.OnData(Nth(n), At(12));
    ASSERT_TRUE(ack) << n;
    EXPECT_TRUE(ack->duplicate) << n;
    EXPECT_EQ(ack->next, kBytes) << n;
  }
}

}  // namespace
}  // namespace optireduce::sim::baseline
