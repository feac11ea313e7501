// The receiving half of a flow: puts the stream together and acknowledges.

#ifndef OPTIREDUCE_DATAPLANE_SIM_BASELINE_ACKER_H_
#define OPTIREDUCE_DATAPLANE_SIM_BASELINE_ACKER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/base/time.h"
#include "dataplane/sim/baseline/segment.h"

namespace optireduce::sim::baseline {

// Acknowledges every second segment; at once what is pushed, out of order,
// there already or next to a gap, and as Linux does it the first kQuick of the
// flow and after a pause; the rest after kDelay. Not thread-safe.
class Acker {
 public:
  static constexpr Duration kDelay = Duration::Millis(40);  // and the pause
  static constexpr uint32_t kQuick = 16;

  // The acknowledgement to be sent now, if one is.
  std::optional<Ack> OnData(const Data& data, Timestamp now);
  std::optional<Ack> OnTimer(Timestamp now);
  // When OnTimer is due; Never: not.
  Timestamp deadline() const { return deadline_; }

  // Bytes that are there without a gap.
  uint64_t received() const { return next_; }

 private:
  Ack MakeAck(Timestamp echo, bool duplicate);
  bool Contains(const Range& range) const;
  void Insert(Range range);
  void Advance();

  uint64_t next_ = 0;
  std::vector<Range> gathered_;  // beyond a gap, the newest one first
  uint32_t quick_ = kQuick;      // segments still to be answered at once
  Timestamp last_arrival_;
  bool pending_ = false;  // one segment is not acknowledged yet
  Timestamp pending_echo_;
  Timestamp deadline_ = Timestamp::Never();
};

}  // namespace optireduce::sim::baseline

#endif  // OPTIREDUCE_DATAPLANE_SIM_BASELINE_ACKER_H_
