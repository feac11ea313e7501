// When the next packet may leave.

#ifndef OPTIREDUCE_DATAPLANE_CORE_PACER_H_
#define OPTIREDUCE_DATAPLANE_CORE_PACER_H_

#include <cstdint>

#include "dataplane/base/time.h"

namespace optireduce::core {

// Decides how fast to send. The fixed rate below is the first; controllers that
// adapt to feedback take its place.
class RateController {
 public:
  virtual ~RateController() = default;
  // 0: no limit.
  virtual uint64_t BitsPerSecond() const = 0;
};

class FixedRate final : public RateController {
 public:
  explicit FixedRate(uint64_t bits_per_second) : rate_(bits_per_second) {}
  uint64_t BitsPerSecond() const override { return rate_; }

 private:
  uint64_t rate_;
};

// A token bucket that fills by the nanosecond and keeps fractions: over any
// time it grants the rate exactly. A packet may leave while the bucket is not
// in debt, and may put it in debt.
class Pacer {
 public:
  // `rate` must outlive the pacer. The bucket starts full.
  Pacer(const RateController* rate, uint32_t burst_bytes);

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

  const RateController* rate_;
  Tokens capacity_;
  Tokens tokens_;
  Timestamp filled_at_;
};

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_PACER_H_
