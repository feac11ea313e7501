#include "dataplane/sim/baseline/acker.h"

#include <algorithm>

namespace optireduce::sim::baseline {

std::optional<Ack> Acker::OnData(const Data& data, Timestamp now) {
  if (now - last_arrival_ > kDelay) quick_ = kQuick;
  last_arrival_ = now;
  if (data.range.end <= next_ || Contains(data.range)) {
    return MakeAck(data.sent, /*duplicate=*/true);
  }
  const bool in_order = data.range.begin <= next_ && gathered_.empty();
  Insert(data.range);
  Advance();
  const bool quick = quick_ > 0;
  if (quick) --quick_;
  if (!in_order || data.push || quick || pending_) {
    // Of two segments the first one is answered (RFC 7323): its time includes
    // the wait.
    return MakeAck(pending_ && in_order ? pending_echo_ : data.sent,
                   /*duplicate=*/false);
  }
  pending_ = true;
  pending_echo_ = data.sent;
  deadline_ = now + kDelay;
  return std::nullopt;
}

std::optional<Ack> Acker::OnTimer(Timestamp now) {
  if (now < deadline_) return std::nullopt;
  return MakeAck(pending_echo_, /*duplicate=*/false);
}

Ack Acker::MakeAck(Timestamp echo, bool duplicate) {
  pending_ = false;
  deadline_ = Timestamp::Never();
  Ack ack;
  ack.next = next_;
  ack.echo = echo;
  ack.duplicate = duplicate;
  ack.ranges = static_cast<uint8_t>(
      std::min<size_t>(gathered_.size(), Ack::kMostRanges));
  std::copy_n(gathered_.begin(), ack.ranges, ack.sack.begin());
  return ack;
}

bool Acker::Contains(const Range& range) const {
  return std::any_of(
      gathered_.begin(), gathered_.end(), [&range](const Range& have) {
        return have.begin <= range.begin && range.end <= have.end;
      });
}

// Joins it with those that it touches, and puts it in front.
void Acker::Insert(Range range) {
  std::erase_if(gathered_, [&range](const Range& have) {
    if (have.end < range.begin || range.end < have.begin) return false;
    range.begin = std::min(range.begin, have.begin);
    range.end = std::max(range.end, have.end);
    return true;
  });
  gathered_.insert(gathered_.begin(), range);
}

void Acker::Advance() {
  const Range& newest = gathered_.front();
  if (newest.begin > next_) return;
  next_ = newest.end;
  gathered_.erase(gathered_.begin());
}

}  // namespace optireduce::sim::baseline
