// When slow start has found the line's capacity without a loss.

#ifndef OPTIREDUCE_DATAPLANE_SIM_BASELINE_HYSTART_H_
#define OPTIREDUCE_DATAPLANE_SIM_BASELINE_HYSTART_H_

#include <cstdint>

#include "dataplane/base/time.h"

namespace optireduce::sim::baseline {

// What a sender knows when an acknowledgement has come in.
struct AckFacts {
  uint64_t acknowledged = 0;  // bytes of the stream, in order
  uint64_t next = 0;          // the first one that was not sent yet
  uint64_t window = 0;        // segments
  uint64_t window_bytes = 0;
  Duration round_trip;  // of what it answers
  Duration smoothed;
};

// HyStart as Linux' CUBIC has it (its parameters, no pacing): slow start ends
// if the acknowledgements of one round come in, close to each other, for half
// of the shortest round trip, or if the least of more than eight round trips of
// a round is longer than the shortest by an eighth, by 4 ms at least and 16 at
// most. Not thread-safe.
class HyStart {
 public:
  // In slow start only. Whether it ends; once it did it does not again until
  // Reset.
  bool OnAck(const AckFacts& facts, Timestamp now);
  // After a timeout.
  void Reset() { found_ = in_round_ = false; }

 private:
  bool IsLongTrain(const AckFacts& facts, Timestamp now);
  bool IsDelayed(Duration round_trip);

  bool found_ = false;
  bool in_round_ = false;
  uint64_t round_end_ = 0;  // in the stream
  Timestamp round_start_;
  Timestamp last_ack_;
  uint32_t samples_ = 0;     // of the round
  Duration least_of_round_;  // of these
  bool sampled_ = false;
  Duration shortest_;  // of the flow
};

}  // namespace optireduce::sim::baseline

#endif  // OPTIREDUCE_DATAPLANE_SIM_BASELINE_HYSTART_H_
