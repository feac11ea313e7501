// RateController: how fast to send to one peer, from what its FEEDBACK echoes.
// One per group and peer.
//
// After Swift (SIGCOMM 2020): a target for the delay in queues on the way
// there; additive increase below it, multiplicative decrease above it, in
// proportion to the excess and at most once per round trip. Congestion marks
// count as DCTCP counts them. Rates instead of windows, as nothing is
// acknowledged packet by packet.
//
// Right after a cut the rate grows slowly, so that it settles; once nothing had
// to be cut for a while, fast. The lower a rate is under its ceiling, the
// longer may the queue be: what has to give way to others sees it empty too
// often otherwise, and of two rates the lower one catches up.
//
// The round trip is what passed since the echoed send time, less the time for
// which the peer held the echo. Its least is the path without queues. Queues on
// the way back are told apart by the peer's own send time: what the one-way
// time is more than its least. Clocks are not synchronized; what they drift
// apart is bounded by the round trip, which cannot be less than one of its
// parts.
//
// Which limit comes first:
//   line > share cap > incast > congestion > deadline floor
// The first three make up the ceiling, which the caller works out. The floor is
// what an op needs to be over by its bound: silence, which proves nothing, does
// not bring the rate below it; measured delay does.
//
// No clock, no I/O, no memory. Any echo is allowed; one that cannot be true
// changes nothing and is counted. Not thread-safe.

#ifndef OPTIREDUCE_DATAPLANE_CORE_RATE_CONTROLLER_H_
#define OPTIREDUCE_DATAPLANE_CORE_RATE_CONTROLLER_H_

#include <cstdint>

#include "dataplane/base/time.h"

namespace optireduce::core {

// What one FEEDBACK says. Times are in microseconds and, but for `held`, modulo
// 2^24.
struct Echo {
  uint32_t send_time = 0;  // of a packet of ours, by our clock
  uint32_t held = 0;       // from its arrival to the FEEDBACK's sending
  uint32_t peer_time = 0;  // when the FEEDBACK was sent, by the peer's clock
  uint32_t received = 0;   // packets from us so far, modulo 2^32
  uint16_t marked = 0;     // of these, with a congestion mark, modulo 2^16
};

class RateController {
 public:
  // `target`: delay in queues, at the ceiling. `ceiling_bps`: the most that
  // line, share cap and incast leave; where the rate starts.
  RateController(Duration target, uint64_t ceiling_bps);

  // A packet leaves. `floor_bps`: what the ops in flight need.
  void OnSent(Timestamp now, uint64_t floor_bps);
  // False: it cannot be true, or says nothing new.
  bool OnEcho(const Echo& echo, Timestamp now);

  uint64_t rate_bps() const { return rate_bps_; }
  Duration round_trip() const { return Duration::Micros(round_trip_us_); }
  // In queues on the way to the peer, as last measured.
  Duration queueing() const { return Duration::Micros(queueing_us_); }
  uint64_t echoes_ignored() const { return echoes_ignored_; }

 private:
  // The least of the last one to two windows.
  class Least {
   public:
    // What `value` is more than the least, itself included.
    int64_t Above(int64_t value, Timestamp now);

   private:
    int64_t least_ = 0;   // of this window
    int64_t before_ = 0;  // of the one before
    Timestamp begun_;
    bool empty_ = true;
  };

  void Measure(const Echo& echo, int64_t round_trip_us, Timestamp now);
  double MarkedShare(const Echo& echo);
  double Target() const;
  void Increase(Timestamp now);
  void Decrease(double share, Timestamp now);
  void Set(double bps);

  int64_t target_us_;
  uint64_t ceiling_bps_;
  uint64_t rate_bps_;

  // What was sent, for what may be true. Microseconds of the own clock.
  bool sent_any_ = false;
  int64_t first_sent_us_ = 0;
  int64_t last_sent_us_ = 0;
  int64_t last_echoed_us_ = 0;
  uint32_t unanswered_ = 0;  // packets since the last echo
  Timestamp unanswered_since_;

  int64_t round_trip_us_ = 0;
  int64_t queueing_us_ = 0;
  Least least_round_trip_;
  Least least_one_way_;
  bool one_way_known_ = false;
  int64_t one_way_us_ = 0;  // unwrapped; from an origin of no meaning

  bool counts_known_ = false;
  uint32_t received_ = 0;
  uint16_t marked_ = 0;
  double marked_share_ = 1;  // smoothed

  bool echo_known_ = false;
  Timestamp last_echo_;
  Timestamp may_cut_;  // one cut per round trip
  bool cut_known_ = false;
  Timestamp last_cut_;
  uint64_t echoes_ignored_ = 0;
};

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_RATE_CONTROLLER_H_
