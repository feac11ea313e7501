#include "dataplane/core/rate_controller.h"

#include <algorithm>

namespace optireduce::core {
namespace {

// From nothing to the ceiling in so long, or in so many round trips. All who
// send into one link add as much, whatever their rate is, so that shares become
// even; of two groups those of the larger one add less each, as its ceilings
// are lower.
constexpr Duration kToCeiling = Duration::Millis(20);
constexpr int64_t kRoundTripsToCeiling = 32;
// So many times as long while the last cut is no longer ago than this, or than
// so many round trips.
constexpr int64_t kCareful = 8;
constexpr Duration kCalm = Duration::Millis(4);
constexpr int64_t kRoundTripsToCalm = 4;
// No feedback for longer than this: the time counts only so far.
constexpr Duration kMostGrowth = Duration::Millis(2);

// How much of the excess delay is cut, and the most of one cut. Half of
// Swift's: an op is as slow as its slowest path, so that paths which swing cost
// time.
constexpr double kDelayShare = 0.4;
constexpr double kMostCut = 0.25;
// The target of a rate of nothing is so much more than that of the ceiling.
constexpr double kSpread = 2;
// DCTCP's: the weight of the newest share of marks.
constexpr double kMarkWeight = 1.0 / 16;

// Silence: so many packets unanswered for so long. A peer that gets half of
// them would have answered.
constexpr uint32_t kSilentPackets = 32;
constexpr Duration kSilence = Duration::Millis(10);
constexpr double kSilenceCut = 0.5;

// The rate never falls below this share of the ceiling: a packet now and then
// must tell that the path is free again.
constexpr double kLeastShare = 0.01;

// The least of delays is forgotten after this: paths change.
constexpr Duration kWindow = Duration::Seconds(10);

constexpr uint32_t kTimeMask = 0xFFFFFF;
constexpr uint32_t kHeldTooLong = UINT16_MAX;  // saturated

// Of 24 bits, signed: as far as 8.3 s either way.
int64_t Signed24(uint32_t value) {
  return static_cast<int32_t>(value << 8) >> 8;
}

int64_t Micros(Duration span) { return span.nanos() / 1000; }
int64_t Micros(Timestamp at) { return at.nanos() / 1000; }

}  // namespace

int64_t RateController::Least::Above(int64_t value, Timestamp now) {
  if (empty_) {
    empty_ = false;
    least_ = before_ = value;
    begun_ = now;
  } else if (now - begun_ > kWindow) {
    before_ = least_;
    least_ = value;
    begun_ = now;
  }
  least_ = std::min(least_, value);
  return value - std::min(least_, before_);
}

RateController::RateController(Duration target, uint64_t ceiling_bps)
    : target_us_(target.nanos() / 1000),
      ceiling_bps_(ceiling_bps),
      rate_bps_(ceiling_bps) {}

void RateController::Set(double bps) {
  const auto most = static_cast<double>(ceiling_bps_);
  rate_bps_ = static_cast<uint64_t>(std::clamp(bps, most * kLeastShare, most));
}

void RateController::OnSent(Timestamp now, uint64_t floor_bps) {
  // Who does not send is not answered.
  if (Micros(now) - last_sent_us_ > Micros(kSilence)) unanswered_ = 0;
  last_sent_us_ = Micros(now);
  if (!sent_any_) {
    sent_any_ = true;
    first_sent_us_ = last_echoed_us_ = last_sent_us_;
  }
  if (unanswered_++ == 0) unanswered_since_ = now;
  const Duration silence =
      std::max(kSilence, Duration::Micros(round_trip_us_) * 4);
  if (unanswered_ < kSilentPackets || now - unanswered_since_ < silence) return;
  unanswered_ = 1;
  unanswered_since_ = now;
  const auto rate = static_cast<double>(rate_bps_);
  Set(std::max(rate * kSilenceCut,
               std::min(rate, static_cast<double>(floor_bps))));
}

bool RateController::OnEcho(const Echo& echo, Timestamp now) {
  const int64_t since = Signed24(
      (static_cast<uint32_t>(Micros(now)) - echo.send_time) & kTimeMask);
  const int64_t echoed = Micros(now) - since;
  const int64_t round_trip = since - echo.held;
  if (!sent_any_ || echo.held >= kHeldTooLong || round_trip < 0 ||
      echoed > last_sent_us_ || echoed < first_sent_us_ ||
      echoed < last_echoed_us_) {
    ++echoes_ignored_;
    return false;
  }
  last_echoed_us_ = echoed;
  unanswered_ = 0;
  Measure(echo, round_trip, now);
  const double marked = MarkedShare(echo);
  const auto queueing = static_cast<double>(queueing_us_);
  if (queueing > Target()) {
    Decrease(kDelayShare * (queueing - Target()) / queueing, now);
  } else if (marked > 0) {
    Decrease(marked_share_ / 2, now);
  } else {
    Increase(now);
  }
  last_echo_ = now;
  echo_known_ = true;
  return true;
}

void RateController::Measure(const Echo& echo, int64_t round_trip_us,
                             Timestamp now) {
  round_trip_us_ = round_trip_us;
  const uint32_t one_way = echo.peer_time - echo.held - echo.send_time;
  if (!one_way_known_) one_way_us_ = Signed24(one_way & kTimeMask);
  one_way_known_ = true;
  one_way_us_ +=
      Signed24((one_way - static_cast<uint32_t>(one_way_us_)) & kTimeMask);
  queueing_us_ = std::min(least_round_trip_.Above(round_trip_us, now),
                          least_one_way_.Above(one_way_us_, now));
}

// Of the packets that came since the last echo.
double RateController::MarkedShare(const Echo& echo) {
  const uint32_t came = echo.received - received_;
  const auto marked = static_cast<uint16_t>(echo.marked - marked_);
  received_ = echo.received;
  marked_ = echo.marked;
  if (!counts_known_ || came == 0) {
    counts_known_ = true;
    return 0;
  }
  const double share = std::min(1.0, static_cast<double>(marked) / came);
  marked_share_ += (share - marked_share_) * kMarkWeight;
  return share;
}

// In microseconds, at this rate: with s its share of the ceiling, (1 + spread)
// / (1 + spread s) times that at the ceiling.
double RateController::Target() const {
  const double share =
      static_cast<double>(rate_bps_) / static_cast<double>(ceiling_bps_);
  return static_cast<double>(target_us_) * (1 + kSpread) /
         (1 + kSpread * share);
}

void RateController::Increase(Timestamp now) {
  if (!echo_known_) return;
  const Duration passed = std::clamp(now - last_echo_, Duration(), kMostGrowth);
  Duration whole = std::max(kToCeiling, round_trip() * kRoundTripsToCeiling);
  const bool calm =
      !cut_known_ ||
      now - last_cut_ >= std::max(kCalm, round_trip() * kRoundTripsToCalm);
  if (!calm) whole = whole * kCareful;
  Set(static_cast<double>(rate_bps_) +
      static_cast<double>(ceiling_bps_) * passed.seconds() / whole.seconds());
}

void RateController::Decrease(double share, Timestamp now) {
  if (now < may_cut_) return;
  may_cut_ = now + Duration::Micros(round_trip_us_);
  cut_known_ = true;
  last_cut_ = now;
  Set(static_cast<double>(rate_bps_) * (1 - std::min(share, kMostCut)));
}

}  // namespace optireduce::core
