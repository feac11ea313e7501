#include "dataplane/core/pacer.h"

#include <algorithm>

namespace optireduce::core {

Pacer::Pacer(uint64_t rate_bps, uint32_t burst_bytes)
    : rate_bps_(rate_bps),
      capacity_(Tokens{burst_bytes} * 8 * kPerBit),
      tokens_(capacity_) {}

void Pacer::SetRate(uint64_t rate_bps, Timestamp now) {
  Fill(now);
  rate_bps_ = rate_bps;
}

void Pacer::Fill(Timestamp now) {
  // Also a clock that stands still or jumps back.
  if (now <= filled_at_) return;
  const Tokens gained = Tokens{(now - filled_at_).nanos()} * rate_bps_;
  tokens_ = std::min(capacity_, tokens_ + gained);
  filled_at_ = now;
}

bool Pacer::MaySend(Timestamp now) {
  if (rate_bps_ == 0) return true;
  Fill(now);
  return tokens_ >= 0;
}

void Pacer::OnSent(uint32_t bytes) {
  if (rate_bps_ == 0) return;
  tokens_ -= Tokens{bytes} * 8 * kPerBit;
}

Timestamp Pacer::NextSend(Timestamp now) {
  if (MaySend(now)) return now;
  const Tokens rate = rate_bps_;
  const Tokens wait = (-tokens_ + rate - 1) / rate;  // rounded up: never early
  return now + Duration::Nanos(static_cast<int64_t>(wait));
}

int64_t Pacer::Available(Timestamp now) {
  Fill(now);
  return static_cast<int64_t>(tokens_ / kPerBit / 8);
}

}  // namespace optireduce::core
