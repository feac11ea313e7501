#include "client/allocator.h"

#include <algorithm>
#include <iterator>

namespace optireduce::client {

Allocator::Allocator(uint64_t size)
    : capacity_(size / kAlignment * kAlignment) {
  if (capacity_ > 0) AddGap(0, capacity_);
}

std::optional<uint64_t> Allocator::Allocate(uint64_t bytes) {
  if (bytes > capacity_) return std::nullopt;
  const uint64_t needed =
      (std::max<uint64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  const auto gap = by_size_.lower_bound({needed, 0});
  if (gap == by_size_.end()) return std::nullopt;
  const auto [gap_bytes, offset] = *gap;
  used_.emplace(offset, needed);
  RemoveGap(offset, gap_bytes);
  if (gap_bytes > needed) AddGap(offset + needed, gap_bytes - needed);
  in_use_ += needed;
  return offset;
}

bool Allocator::Free(uint64_t offset) {
  const auto used = used_.find(offset);
  if (used == used_.end()) return false;
  uint64_t begin = offset;
  uint64_t end = offset + used->second;
  in_use_ -= used->second;
  used_.erase(used);

  const auto next = gaps_.find(end);
  if (next != gaps_.end()) {
    end += next->second;
    RemoveGap(next->first, next->second);
  }
  const auto after = gaps_.lower_bound(begin);
  if (after != gaps_.begin()) {
    const auto [previous, bytes] = *std::prev(after);
    if (previous + bytes == begin) {
      begin = previous;
      RemoveGap(previous, bytes);
    }
  }
  AddGap(begin, end - begin);
  return true;
}

uint64_t Allocator::SizeAt(uint64_t offset) const {
  const auto used = used_.find(offset);
  return used == used_.end() ? 0 : used->second;
}

bool Allocator::Contains(uint64_t offset, uint64_t bytes) const {
  const auto after = used_.upper_bound(offset);
  if (after == used_.begin()) return false;
  const auto [begin, size] = *std::prev(after);
  return offset - begin <= size && bytes <= size - (offset - begin);
}

void Allocator::AddGap(uint64_t offset, uint64_t bytes) {
  gaps_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
}

void Allocator::RemoveGap(uint64_t offset, uint64_t bytes) {
  gaps_.erase(offset);
  by_size_.erase({bytes, offset});
}

}  // namespace optireduce::client
