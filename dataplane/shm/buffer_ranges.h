// The buffers of one session that are in flight.

#ifndef OPTIREDUCE_DATAPLANE_SHM_BUFFER_RANGES_H_
#define OPTIREDUCE_DATAPLANE_SHM_BUFFER_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace optireduce::shm {

// Bytes [offset, offset + bytes) of a segment.
struct BufferRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;

  // Empty ranges overlap nothing. Neither range may wrap.
  constexpr bool Overlaps(const BufferRange& other) const {
    return bytes != 0 && other.bytes != 0 &&
           offset < other.offset + other.bytes && other.offset < offset + bytes;
  }
  // Whether it lies inside `outer`, for any values.
  constexpr bool IsInside(const BufferRange& outer) const {
    return bytes <= outer.bytes && offset >= outer.offset &&
           offset - outer.offset <= outer.bytes - bytes;
  }
  constexpr bool operator==(const BufferRange&) const = default;
};

// A set of ranges of which no two overlap. Not thread-safe.
class BufferRanges {
 public:
  // Allocates for `capacity` ranges, and never again.
  explicit BufferRanges(size_t capacity) { ranges_.reserve(capacity); }

  // A member that overlaps `range`, if there is one.
  std::optional<BufferRange> FindOverlap(const BufferRange& range) const;
  // `range` is empty (then nothing happens) or overlaps no member; there is
  // capacity left.
  void Insert(const BufferRange& range);
  // Removes what Insert was called with.
  void Remove(const BufferRange& range);
  size_t size() const { return ranges_.size(); }

 private:
  // The first member that ends after `offset`.
  std::vector<BufferRange>::const_iterator FirstEndingAfter(
      uint64_t offset) const;

  std::vector<BufferRange> ranges_;  // sorted by offset
};

}  // namespace optireduce::shm

#endif  // OPTIREDUCE_DATAPLANE_SHM_BUFFER_RANGES_H_
