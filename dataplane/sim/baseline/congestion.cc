#include "dataplane/sim/baseline/congestion.h"

#include <algorithm>

namespace optireduce::sim::baseline {

namespace {

// What is left of the window after a loss, in tenths.
constexpr int64_t kLeft = 7;
// 3 (1 - 0.7) / (1 + 0.7) of a segment for each round trip, in millionths,
// makes the average window that of Reno.
constexpr int64_t kFriendlyIncrease = 529'412;

}  // namespace

void CongestionWindow::OnDelivered(uint64_t segments) {
  auto arrived = static_cast<int64_t>(segments);
  if (in_slow_start()) {
    const int64_t room = (threshold_ - window_ + kSegment - 1) / kSegment;
    const int64_t taken = std::min(arrived, room);
    window_ += taken * kSegment;
    arrived -= taken;
  }
  // As fast as Reno again where the last loss was.
  int64_t increase = window_ < before_loss_ ? kFriendlyIncrease : kSegment;
  if (before_loss_ == 0) increase = std::max(increase, window_ / 20);
  window_ += arrived * increase * kSegment / window_;
}

void CongestionWindow::OnLoss() {
  ReduceThreshold();
  window_ = threshold_;
}

void CongestionWindow::OnTimeout(bool again) {
  if (!again) ReduceThreshold();
  window_ = kSegment;
}

void CongestionWindow::OnIdle(Duration idle, Duration timeout) {
  const int64_t least = std::min<int64_t>(window_, kInitial * kSegment);
  for (; idle >= timeout && window_ > least; idle = idle - timeout) {
    window_ = std::max(window_ / 2, least);
  }
}

void CongestionWindow::ReduceThreshold() {
  // Fast convergence: a window that shrinks makes room for others.
  before_loss_ = window_ < before_loss_ ? window_ * (10 + kLeft) / 20 : window_;
  threshold_ = std::max(window_ * kLeft / 10, 2 * kSegment);
}

}  // namespace optireduce::sim::baseline
