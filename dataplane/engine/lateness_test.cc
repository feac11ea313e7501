#include "dataplane/engine/lateness.h"

#include <gtest/gtest.h>

namespace optireduce::engine {
namespace {

constexpr Timestamp At(int64_t ms) {
  return Timestamp() + Duration::Millis(ms);
}
constexpr Duration Ms(int64_t ms) { return Duration::Millis(ms); }

TEST(LatenessTest, InTimeIsNotLate) {
  for (const Timestamp deadline : {At(20), At(30), Timestamp::Never()}) {
    const Lateness late = LatenessOf(At(0), deadline, At(10), Ms(10), At(20));
    EXPECT_EQ(late.wall, Duration());
    EXPECT_EQ(late.decision, Duration());
  }
}

TEST(LatenessTest, WaitingForTheCpuIsNotTheEnginesDoing) {
  // The deadline passed at 10, the engine got the CPU at 50, closed at 51.
  const Lateness late = LatenessOf(At(0), At(10), At(50), Ms(1), At(51));
  EXPECT_EQ(late.wall, Ms(41));
  EXPECT_EQ(late.decision, Ms(1));
}

TEST(LatenessTest, ASlowPollIsTheEnginesDoing) {
  const Lateness late = LatenessOf(At(0), At(10), At(5), Ms(15), At(20));
  EXPECT_EQ(late.wall, Ms(10));
  EXPECT_EQ(late.decision, Ms(10));
}

TEST(LatenessTest, PreemptionWithinThePollIsNot) {
  // Of 15 ms since the poll began, it ran for 6.
  const Lateness late = LatenessOf(At(0), At(10), At(5), Ms(6), At(20));
  EXPECT_EQ(late.wall, Ms(10));
  EXPECT_EQ(late.decision, Ms(1));
  EXPECT_EQ(LatenessOf(At(0), At(10), At(5), Ms(2), At(20)).decision,
            Duration());
}

TEST(LatenessTest, BeforeItsSubmitAnOpIsNotLate) {
  // The deadline passed at 10, the op was submitted at 50 and closed at 53.
  const Lateness late = LatenessOf(At(50), At(10), At(49), Ms(4), At(53));
  EXPECT_EQ(late.wall, Ms(3));
  EXPECT_EQ(late.decision, Ms(3));
  EXPECT_EQ(LatenessOf(At(50), At(10), At(49), Ms(1), At(50)).wall, Ms(0));
  EXPECT_EQ(LatenessOf(At(50), Timestamp::Never(), At(49), Ms(1), At(53)).wall,
            Ms(0));
}

TEST(LatenessTest, ClocksThatDisagreeALittleDoNotMakeItNegative) {
  EXPECT_EQ(LatenessOf(At(0), At(10), At(5), Ms(16), At(20)).decision, Ms(10));
}

}  // namespace
}  // namespace optireduce::engine
