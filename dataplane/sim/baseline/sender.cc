#include "dataplane/sim/baseline/sender.h"

#include <algorithm>

#include "dataplane/base/require.h"

namespace optireduce::sim::baseline {

namespace {

// With so many later segments in, an earlier one is lost, not late.
constexpr uint64_t kDuplicateThreshold = 3;

}  // namespace

void Sender::Stop() {
  written_ = next_;
  outstanding_.clear();
  in_flight_ = lost_ = sacked_ = 0;
  probe_due_ = false;
  reorder_deadline_ = Timestamp::Never();
}

bool Sender::CanSend() const {
  if (probe_due_) return true;
  if (in_flight_ >= window_.segments()) return false;
  if (lost_ > 0) return true;
  return HasNew() && next_ - acknowledged_ < kReceiveWindow;
}

Data Sender::Next(Timestamp now) {
  Require(CanSend());
  if (probe_due_) {
    probe_due_ = false;
    ++counters_.probes;
    probe_again_ = !HasNew();
    const Data data =
        HasNew() ? SendNew(now) : SendAgain(&outstanding_.back(), now);
    probe_end_ = next_;
    return data;
  }
  if (lost_ > 0) {
    const auto lost = std::find_if(outstanding_.begin(), outstanding_.end(),
                                   [](const auto& s) { return s.lost; });
    return SendAgain(&*lost, now);
  }
  return SendNew(now);
}

Data Sender::SendNew(Timestamp now) {
  if (outstanding_.empty()) {
    window_.OnIdle(now - last_sent_, timeout());
    timer_base_ = now;
  }
  const uint64_t end = std::min(written_, next_ + segment_bytes_);
  outstanding_.emplace_back().range = {next_, end};
  next_ = end;
  ++in_flight_;
  return Transmit(&outstanding_.back(), now);
}

Data Sender::SendAgain(Outstanding* segment, Timestamp now) {
  if (segment->lost) {
    segment->lost = false;
    --lost_;
    ++in_flight_;
  }
  segment->again = true;
  ++counters_.retransmitted;
  return Transmit(segment, now);
}

Data Sender::Transmit(Outstanding* segment, Timestamp now) {
  segment->sent = now;
  segment->order = ++orders_;
  last_sent_ = probe_base_ = now;
  ++counters_.segments;
  return {segment->range, segment->range.end == written_, now};
}

void Sender::OnAck(const Ack& ack, Timestamp now) {
  if (outstanding_.empty() || ack.next > next_) return;
  // Growth only where the window is what holds back (RFC 7661): in slow start
  // from half of it on.
  const bool limited =
      in_flight_ * (window_.in_slow_start() ? 2 : 1) >= window_.segments();
  const bool advances = ack.next > acknowledged_;
  if (advances) {
    SampleRoundTrip(now - ack.echo);
    acknowledged_ = ack.next;
    LookAtSlowStart(now - ack.echo, now);
    backoff_ = 0;
    timer_base_ = probe_base_ = now;
  }
  const uint64_t delivered =
      TakeAcknowledged(ack, now) + TakeSelective(ack, now);
  EndProbe(ack);
  if (state_ != State::kOpen && acknowledged_ >= recover_) {
    state_ = State::kOpen;
  }
  FindLost(now);
  if (state_ != State::kRecovery && limited && advances) {
    window_.OnDelivered(delivered);
  }
}

uint64_t Sender::TakeAcknowledged(const Ack& ack, Timestamp now) {
  uint64_t delivered = 0;
  while (!outstanding_.empty() && outstanding_.front().range.end <= ack.next) {
    const Outstanding& segment = outstanding_.front();
    if (segment.sacked) {
      --sacked_;
    } else {
      ++delivered;
      OnDelivered(segment, ack, now);
    }
    outstanding_.pop_front();
  }
  return delivered;
}

uint64_t Sender::TakeSelective(const Ack& ack, Timestamp now) {
  uint64_t delivered = 0;
  for (size_t i = 0; i < ack.ranges; ++i) {
    const Range& range = ack.sack[i];
    auto segment = std::lower_bound(
        outstanding_.begin(), outstanding_.end(), range.begin,
        [](const auto& s, uint64_t begin) { return s.range.begin < begin; });
    for (; segment != outstanding_.end() && segment->range.end <= range.end;
         ++segment) {
      if (segment->sacked) continue;
      ++delivered;
      ++sacked_;
      OnDelivered(*segment, ack, now);
      segment->sacked = true;
      segment->lost = false;
    }
  }
  return delivered;
}

void Sender::OnDelivered(const Outstanding& segment, const Ack& ack,
                         Timestamp now) {
  if (segment.lost) {
    --lost_;
  } else {
    --in_flight_;
  }
  // An answer to an earlier transmission says nothing about the last one.
  if (segment.again && ack.echo < segment.sent) return;
  if (segment.order <= newest_) return;
  newest_ = segment.order;
  newest_round_trip_ = now - segment.sent;
}

void Sender::SampleRoundTrip(Duration round_trip) {
  if (!sampled_) {
    sampled_ = true;
    smoothed_ = least_ = round_trip;
    variation_ = round_trip / 2;
    return;
  }
  least_ = std::min(least_, round_trip);
  const Duration off =
      std::max(round_trip, smoothed_) - std::min(round_trip, smoothed_);
  variation_ = (variation_ * 3 + off) / 4;
  smoothed_ = (smoothed_ * 7 + round_trip) / 8;
}

void Sender::LookAtSlowStart(Duration round_trip, Timestamp now) {
  if (!window_.in_slow_start()) return;
  const uint64_t window = window_.segments();
  if (hystart_.OnAck({acknowledged_, next_, window, window * segment_bytes_,
                      round_trip, smoothed_},
                     now)) {
    window_.EndSlowStart();
  }
}

Duration Sender::timeout() const {
  const Duration base = sampled_
                            ? std::max(smoothed_ + variation_ * 4, kMinTimeout)
                            : kFirstTimeout;
  return std::min(base * (int64_t{1} << std::min(backoff_, 16u)), kMaxTimeout);
}

// All up to the probe has arrived. If the probe itself was what closed the gap,
// something was lost, and the window pays for it.
void Sender::EndProbe(const Ack& ack) {
  if (!probing_ || acknowledged_ < probe_end_) return;
  probing_ = false;
  if (probe_again_ && !ack.duplicate && state_ == State::kOpen) {
    window_.OnLoss();
  }
}

void Sender::FindLost(Timestamp now) {
  reorder_deadline_ = Timestamp::Never();
  if (sacked_ == 0 && state_ == State::kOpen) return;
  const bool certain = state_ != State::kOpen || sacked_ >= kDuplicateThreshold;
  const Duration wait =
      newest_round_trip_ + (certain ? Duration() : least_ / 4);
  for (Outstanding& segment : outstanding_) {
    if (segment.sacked || segment.lost || segment.order >= newest_) continue;
    const Timestamp due = segment.sent + wait;
    if (due <= now) {
      MarkLost(&segment);
    } else {
      reorder_deadline_ = std::min(reorder_deadline_, due);
    }
  }
  if (lost_ > 0 && state_ == State::kOpen) EnterRecovery();
}

void Sender::MarkLost(Outstanding* segment) {
  segment->lost = true;
  ++lost_;
  --in_flight_;
}

void Sender::EnterRecovery() {
  state_ = State::kRecovery;
  recover_ = next_;
  probing_ = probe_due_ = false;
  window_.OnLoss();
}

Timestamp Sender::ProbeAt() const {
  if (state_ != State::kOpen || probing_ || sacked_ > 0 || !sampled_) {
    return Timestamp::Never();
  }
  const Duration slack =
      outstanding_.size() == 1 ? kLongestAckDelay : kProbeSlack;
  return probe_base_ + smoothed_ * 2 + slack;
}

Timestamp Sender::deadline() const {
  if (outstanding_.empty()) return Timestamp::Never();
  return std::min({TimeoutAt(), ProbeAt(), reorder_deadline_});
}

void Sender::OnTimer(Timestamp now) {
  if (outstanding_.empty()) return;
  if (TimeoutAt() <= now) {
    OnTimeout(now);
  } else if (reorder_deadline_ <= now) {
    FindLost(now);
  } else if (ProbeAt() <= now) {
    probing_ = probe_due_ = true;
    probe_end_ = next_;
  }
}

void Sender::OnTimeout(Timestamp now) {
  ++counters_.timeouts;
  for (Outstanding& segment : outstanding_) {
    if (!segment.sacked && !segment.lost) MarkLost(&segment);
  }
  window_.OnTimeout(/*again=*/state_ == State::kTimeout);
  hystart_.Reset();
  state_ = State::kTimeout;
  recover_ = next_;
  probing_ = probe_due_ = false;
  reorder_deadline_ = Timestamp::Never();
  timer_base_ = now;
  ++backoff_;
}

}  // namespace optireduce::sim::baseline
