// When the next packet may leave.

#ifndef OPTIREDUCE_DATAPLANE_CORE_PACER_H_
#define OPTIREDUCE_DATAPLANE_CORE_PACER_H_

#include <cstdint>

#include "dataplane/base/time.h"

namespace optireduce::core {

// A token bucket that fills by the nanosecond and keeps fractions: over any
// time it grants the rate exactly. A packet may leave while the bucket is not
// in debt, and may put it in debt.
class Pacer {
 public:
  // No limit.
  Pacer() = default;
  // In bits per second; 0: no limit. The bucket starts full.
  Pacer(uint64_t rate_bps, uint32_t burst_bytes);

  // From now on.
  void SetRate(uint64_t rate_bps, Timestamp now);
  uint64_t rate_bps() const { return rate_bps_; }

  bool MaySend(Timestamp now);
  void OnSent(uint32_t bytes);
  // When MaySend becomes true; `now` if it is already.
  Timestamp NextSend(Timestamp now);
  // Bytes in the bucket; negative in debt.
  int64_t Available(Timestamp now);

 private:
  // Tokens are counted in bits times nanoseconds per second: one bit is 10^9.
  using Tokens = __int128;
  static constexpr int64_t kPerBit = 1'000'000'000;

  void Fill(Timestamp now);

  uint64_t rate_bps_ = 0;
  Tokens capacity_ = 0;
  Tokens tokens_ = 0;
  Timestamp filled_at_;
};

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_PACER_H_
