#include "dataplane/sim/baseline/sender.h"

#include <optional>
#include <set>
#include <vector>

#include "dataplane/sim/baseline/acker.h"
#include "gtest/gtest.h"

namespace optireduce::sim::baseline {
namespace {

constexpr uint32_t kSegmentBytes = 1000;
constexpr Duration kOneWay = Duration::Micros(50);
constexpr Duration kRoundTrip = kOneWay * 2;

// A sender and an acker with nothing but a delay between them: a segment
// leaves every microsecond while one may.
class Path : public testing::Test {
 protected:
  struct Flying {
    Timestamp arrives;
    std::optional<Data> data;
    std::optional<Ack> ack;
  };

  // Runs until all that was written is acknowledged, or for so long.
  void Run(Duration most = Duration::Seconds(10)) {
    const Timestamp end = now_ + most;
    while (now_ < end) {
      if (sender_.acknowledged() == sender_.written()) return;
      Step();
    }
  }

  void Step() {
    while (!flying_.empty() && flying_.front().arrives <= now_) {
      const Flying next = flying_.front();
      flying_.erase(flying_.begin());
      if (next.ack) sender_.OnAck(*next.ack, now_);
      if (next.data) Fly(acker_.OnData(*next.data, now_));
    }
    if (sender_.deadline() <= now_) sender_.OnTimer(now_);
    if (acker_.deadline() <= now_) Fly(acker_.OnTimer(now_));
    if (sender_.CanSend()) {
      const Data data = sender_.Next(now_);
      sent_.push_back(data);
      if (!drop_.contains(sent_.size() - 1)) {
        flying_.push_back({now_ + kOneWay, data, std::nullopt});
      }
    }
    now_ = now_ + Duration::Micros(1);
  }

  void Fly(const std::optional<Ack>& ack) {
    if (ack) flying_.push_back({now_ + kOneWay, std::nullopt, ack});
  }

  // Gets the round trip known and the window open; the count of what was sent
  // begins again.
  void WarmUp() {
    sender_.Write(uint64_t{200} * kSegmentBytes);
    Run();
    ASSERT_EQ(sender_.acknowledged(), 200u * kSegmentBytes);
    sent_.clear();
    before_ = sender_.counters();
  }

  // A message of so many segments and how long it takes.
  Duration Send(uint64_t segments) {
    const Timestamp begin = now_;
    sender_.Write(segments * kSegmentBytes);
    Run();
    EXPECT_EQ(acker_.received(), sender_.written());
    return now_ - begin;
  }

  uint64_t Timeouts() const {
    return sender_.counters().timeouts - before_.timeouts;
  }
  uint64_t Probes() const { return sender_.counters().probes - before_.probes; }
  uint64_t Retransmitted() const {
    return sender_.counters().retransmitted - before_.retransmitted;
  }

  Sender sender_{kSegmentBytes};
  Acker acker_;
  SenderCounters before_;
  Timestamp now_ = Timestamp::FromNanos(1'000'000);
  std::vector<Flying> flying_;
  std::vector<Data> sent_;
  std::set<size_t> drop_;  // places in sent_
};

TEST_F(Path, BeginsWithTenSegments) {
  sender_.Write(uint64_t{100} * kSegmentBytes);
  for (int i = 0; i < 40; ++i) Step();
  EXPECT_EQ(sent_.size(), 10u);
  Run();
  EXPECT_EQ(sent_.size(), 100u);
  EXPECT_EQ(sender_.counters().retransmitted, 0u);
}

TEST_F(Path, WindowDoesNotGrowWhereItDoesNotHoldBack) {
  for (int i = 0; i < 50; ++i) Send(2);
  EXPECT_EQ(sender_.window().segments(), 10u);
}

TEST_F(Path, WithoutLossAMessageTakesItsSegmentsAndARoundTrip) {
  WarmUp();
  const Duration took = Send(20);
  EXPECT_NEAR(took.micros(), 20 + kRoundTrip.micros(), 3);
  EXPECT_EQ(Retransmitted(), 0u);
}

TEST_F(Path, LossInTheMiddleCostsARoundTripAndAWindowReduction) {
  WarmUp();
  const uint64_t window = sender_.window().segments();
  drop_ = {5};
  const Duration took = Send(30);
  EXPECT_LT(took, kRoundTrip * 3);
  EXPECT_EQ(Retransmitted(), 1u);
  EXPECT_EQ(Timeouts(), 0u);
  EXPECT_EQ(Probes(), 0u);
  EXPECT_EQ(sender_.window().segments(), window * 7 / 10);
}

TEST_F(Path, ManyLossesOfOneWindowReduceItOnce) {
  WarmUp();
  const uint64_t window = sender_.window().segments();
  drop_ = {3, 4, 5, 9, 14};
  EXPECT_LT(Send(40), kRoundTrip * 3);
  EXPECT_EQ(Retransmitted(), 5u);
  EXPECT_EQ(Timeouts(), 0u);
  EXPECT_EQ(sender_.window().segments(), window * 7 / 10);
}

// Only two later segments arrive: below the threshold, so it waits a quarter of
// a round trip more.
TEST_F(Path, LossNearTheEndIsFoundByTime) {
  WarmUp();
  drop_ = {17};
  const Duration took = Send(20);
  EXPECT_LT(took, kRoundTrip * 3);
  EXPECT_EQ(Retransmitted(), 1u);
  EXPECT_EQ(Probes(), 0u);
}

TEST_F(Path, ALostRetransmissionIsFoundAgain) {
  WarmUp();
  // 6 of 200 is lost twice; much follows behind the second time.
  drop_ = {6, 0};
  sender_.Write(uint64_t{200} * kSegmentBytes);
  while (Retransmitted() < 1) Step();
  drop_ = {sent_.size()};
  Run();
  EXPECT_EQ(acker_.received(), sender_.written());
  EXPECT_EQ(Timeouts(), 0u);
}

TEST_F(Path, ALostTailCostsAProbeNotATimeout) {
  WarmUp();
  drop_ = {19};
  const Duration took = Send(20);
  // Two round trips and the slack, then the probe's own.
  EXPECT_LT(took, kRoundTrip * 5 + Sender::kProbeSlack);
  EXPECT_GT(took, kRoundTrip * 2 + Sender::kProbeSlack);
  EXPECT_EQ(Probes(), 1u);
  EXPECT_EQ(Timeouts(), 0u);
}

// The probe is the last one; its answer shows what is missing before it.
TEST_F(Path, ALostTailOfSeveralSegmentsCostsAProbeAndARecovery) {
  WarmUp();
  drop_ = {15, 16, 17, 18, 19};
  const Duration took = Send(20);
  EXPECT_LT(took, kRoundTrip * 6 + Sender::kProbeSlack);
  EXPECT_EQ(Probes(), 1u);
  EXPECT_EQ(Retransmitted(), 5u);
  EXPECT_EQ(Timeouts(), 0u);
}

TEST_F(Path, AProbeThatMendsALossCostsWindow) {
  WarmUp();
  const uint64_t window = sender_.window().segments();
  drop_ = {19};
  Send(20);
  EXPECT_EQ(sender_.window().segments(), window * 7 / 10);
}

TEST_F(Path, ALoneLostSegmentWaitsForTheTimeout) {
  WarmUp();
  drop_ = {0};
  const Duration took = Send(1);
  EXPECT_GE(took, Sender::kMinTimeout);
  EXPECT_LT(took, Sender::kMinTimeout + kRoundTrip * 2);
  EXPECT_EQ(Timeouts(), 1u);
}

TEST_F(Path, AWholeLostWindowCostsTheTimeoutOf200Milliseconds) {
  WarmUp();
  // All twenty, and the probe.
  for (size_t i = 0; i <= 20; ++i) drop_.insert(i);
  const Duration took = Send(20);
  EXPECT_GE(took, Duration::Millis(200));
  // From one segment on in slow start: five round trips.
  EXPECT_LT(took, Duration::Millis(200) + kRoundTrip * 7);
  EXPECT_EQ(Timeouts(), 1u);
  EXPECT_EQ(Probes(), 1u);
  EXPECT_EQ(Retransmitted(), 21u);
}

TEST_F(Path, TimeoutsDoubleUntilSomethingArrives) {
  WarmUp();
  drop_ = {0, 1, 2};
  const Duration took = Send(1);
  EXPECT_GE(took, Duration::Millis(200 + 400 + 800));
  EXPECT_LT(took, Duration::Millis(200 + 400 + 800 + 5));
  EXPECT_EQ(Timeouts(), 3u);
  EXPECT_EQ(sender_.timeout(), Sender::kMinTimeout);
}

TEST_F(Path, IsSilentOnceStopped) {
  sender_.Write(uint64_t{100} * kSegmentBytes);
  for (int i = 0; i < 40; ++i) Step();
  sender_.Stop();
  EXPECT_FALSE(sender_.CanSend());
  EXPECT_EQ(sender_.deadline(), Timestamp::Never());
}

TEST_F(Path, KeepsToTheReceiveWindow) {
  sender_.Write(uint64_t{1} << 30);
  uint64_t most = 0;
  for (int i = 0; i < 200'000; ++i) {
    Step();
    most = std::max(most, sent_.back().range.end - sender_.acknowledged());
  }
  EXPECT_LE(most, Sender::kReceiveWindow + kSegmentBytes);
}

}  // namespace
}  // namespace optireduce::sim::baseline
