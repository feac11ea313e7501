// The sending half of a flow: what of a byte stream is sent when, and again.

#ifndef OPTIREDUCE_DATAPLANE_SIM_BASELINE_SENDER_H_
#define OPTIREDUCE_DATAPLANE_SIM_BASELINE_SENDER_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "dataplane/base/time.h"
#include "dataplane/sim/baseline/congestion.h"
#include "dataplane/sim/baseline/hystart.h"
#include "dataplane/sim/baseline/segment.h"

namespace optireduce::sim::baseline {

// What happened to the segments of a flow.
struct SenderCounters {
  uint64_t segments = 0;       // sent, again or for the first time
  uint64_t retransmitted = 0;  // of these, again
  uint64_t probes = 0;         // tail-loss probes among all
  uint64_t timeouts = 0;       // of the retransmission timer
};

// TCP as Linux does it, without connection set-up and flow control but for a
// window of kReceiveWindow: SACK (RFC 2018, 6675), loss found by time (RACK)
// and tails by a probe (TLP, both RFC 8985), retransmission timer (RFC 6298).
// Does nothing of its own accord: the owner asks whether it CanSend, takes
// segments while it may put them on the wire, and calls OnTimer at `deadline`.
// Not thread-safe.
class Sender {
 public:
  static constexpr Duration kMinTimeout = Duration::Millis(200);
  static constexpr Duration kMaxTimeout = Duration::Seconds(120);
  static constexpr Duration kFirstTimeout = Duration::Seconds(1);
  // Beyond two round trips a probe waits for two ticks of a kernel's clock; for
  // a lone segment as long as its acknowledgement may be delayed.
  static constexpr Duration kProbeSlack = Duration::Millis(2);
  static constexpr Duration kLongestAckDelay = Duration::Millis(200);
  static constexpr uint64_t kReceiveWindow = uint64_t{3} << 20;

  // `segment_bytes`: of the stream in a full segment.
  explicit Sender(uint32_t segment_bytes) : segment_bytes_(segment_bytes) {}

  // So much more is to be sent.
  void Write(uint64_t bytes) { written_ += bytes; }
  // Nothing is sent any more, and nothing waited for.
  void Stop();

  bool CanSend() const;
  // Only if it can.
  Data Next(Timestamp now);
  void OnAck(const Ack& ack, Timestamp now);
  void OnTimer(Timestamp now);
  // When OnTimer is due; Never: not before something else happens.
  Timestamp deadline() const;

  uint64_t acknowledged() const { return acknowledged_; }
  uint64_t written() const { return written_; }
  const CongestionWindow& window() const { return window_; }
  Duration timeout() const;
  const SenderCounters& counters() const { return counters_; }

 private:
  enum class State : uint8_t {
    kOpen,
    kRecovery,  // a loss was found; until all that was out then has arrived
    kTimeout,   // the same after a timeout
  };
  // A segment that is not acknowledged in order.
  struct Outstanding {
    Range range;
    Timestamp sent;
    uint64_t order = 0;  // of transmissions
    bool sacked = false;
    bool lost = false;  // and not sent again yet
    bool again = false;
  };

  bool HasNew() const { return written_ > next_; }
  Data SendNew(Timestamp now);
  Data SendAgain(Outstanding* segment, Timestamp now);
  Data Transmit(Outstanding* segment, Timestamp now);
  void SampleRoundTrip(Duration round_trip);
  void LookAtSlowStart(Duration round_trip, Timestamp now);
  void OnDelivered(const Outstanding& segment, const Ack& ack, Timestamp now);
  uint64_t TakeAcknowledged(const Ack& ack, Timestamp now);
  uint64_t TakeSelective(const Ack& ack, Timestamp now);
  void EndProbe(const Ack& ack);
  // Marks what must be lost, given what was sent later and has arrived.
  void FindLost(Timestamp now);
  void MarkLost(Outstanding* segment);
  void EnterRecovery();
  void OnTimeout(Timestamp now);
  Timestamp TimeoutAt() const { return timer_base_ + timeout(); }
  Timestamp ProbeAt() const;

  uint32_t segment_bytes_;
  CongestionWindow window_;
  HyStart hystart_;
  State state_ = State::kOpen;
  uint64_t recover_ = 0;  // where the state ends

  uint64_t written_ = 0;
  uint64_t next_ = 0;
  uint64_t acknowledged_ = 0;
  std::deque<Outstanding> outstanding_;  // in the order of the stream
  uint64_t in_flight_ = 0;               // neither sacked nor lost
  uint64_t lost_ = 0;
  uint64_t sacked_ = 0;

  uint64_t orders_ = 0;
  // The last transmission that is known to have arrived, and its round trip.
  uint64_t newest_ = 0;
  Duration newest_round_trip_;
  Timestamp reorder_deadline_ = Timestamp::Never();

  bool sampled_ = false;
  Duration smoothed_;
  Duration variation_;
  Duration least_;
  uint32_t backoff_ = 0;
  Timestamp timer_base_;  // what the timeout counts from
  Timestamp probe_base_;  // what a probe's wait counts from
  Timestamp last_sent_;
  bool probe_due_ = false;
  bool probing_ = false;
  bool probe_again_ = false;  // it was a retransmission
  uint64_t probe_end_ = 0;
  SenderCounters counters_;
};

}  // namespace optireduce::sim::baseline

#endif  // OPTIREDUCE_DATAPLANE_SIM_BASELINE_SENDER_H_
