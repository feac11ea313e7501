#include "dataplane/shm/buffer_ranges.h"

#include <algorithm>
#include <cassert>

namespace optireduce::shm {

std::vector<BufferRange>::const_iterator BufferRanges::FirstEndingAfter(
    uint64_t offset) const {
  // As members do not overlap, they are sorted by their ends, too.
  return std::partition_point(ranges_.begin(), ranges_.end(),
                              [offset](const BufferRange& range) {
                                return range.offset + range.bytes <= offset;
                              });
}

std::optional<BufferRange> BufferRanges::FindOverlap(
    const BufferRange& range) const {
  const auto it = FirstEndingAfter(range.offset);
  if (it == ranges_.end() || !it->Overlaps(range)) return std::nullopt;
  return *it;
}

void BufferRanges::Insert(const BufferRange& range) {
  if (range.bytes == 0) return;
  assert(!FindOverlap(range) && ranges_.size() < ranges_.capacity());
  ranges_.insert(FirstEndingAfter(range.offset), range);
}

void BufferRanges::Remove(const BufferRange& range) {
  if (range.bytes == 0) return;
  const auto it = FirstEndingAfter(range.offset);
  assert(it != ranges_.end() && *it == range);
  ranges_.erase(it);
}

}  // namespace optireduce::shm
