#include "dataplane/core/repair.h"

#include <limits>

namespace optireduce::core {
namespace {

// From the second question without answer on pauses double, up to 2^this
// timeouts.
constexpr uint32_t kMostDoublings = 3;

}  // namespace

bool RepairStream::OnPosition(uint32_t position, Timestamp now) {
  if (position < reach_) return false;  // overtaken
  const bool gap = position > reach_;
  reach_ = position + 1;
  if (!gap || gap_since_ != Timestamp::Never()) return false;
  gap_since_ = now;
  overdue_end_ = reach_;
  return true;
}

void RepairStream::OnSent(uint32_t end, Timestamp now) {
  reach_ = overdue_end_ = std::max(reach_, end);
  gap_since_ = now;
}

// What shows a gap now gets its own window.
void RepairStream::OnListed(bool any, Timestamp now) {
  gap_since_ = any || reach_ > overdue_end_ ? now : Timestamp::Never();
  overdue_end_ = reach_;
}

Timestamp RepairStream::DueAt(const RepairTiming& timing,
                              Timestamp heard_at) const {
  const Timestamp due =
      std::min(heard_at + timing.timeout, gap_since_ + timing.window);
  return std::max(due, not_before_);
}

Duration RepairStream::Pause(const RepairTiming& timing) const {
  const uint32_t doublings =
      std::min(std::max(unanswered_, 1u) - 1, kMostDoublings);
  return timing.timeout * (int64_t{1} << doublings);
}

uint32_t ChunksInTime(uint32_t arrived, Duration elapsed, Duration slack) {
  constexpr auto kNoLimit = std::numeric_limits<uint32_t>::max();
  if (arrived == 0 || elapsed <= Duration()) return kNoLimit;
  const auto chunks =
      static_cast<__int128>(slack.nanos()) * arrived / elapsed.nanos();
  return static_cast<uint32_t>(std::clamp<__int128>(chunks, 1, kNoLimit));
}

bool AddLacking(uint32_t local, wire::NackBody* nack) {
  if (nack->num_ranges > 0) {
    wire::ChunkRange& last = nack->ranges[nack->num_ranges - 1];
    if (last.first + last.count == local) {
      ++last.count;
      return true;
    }
  }
  if (nack->num_ranges == wire::NackBody::kMaxRanges) return false;
  nack->ranges[nack->num_ranges++] = {local, 1};
  return true;
}

}  // namespace optireduce::core
