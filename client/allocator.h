// Which parts of the segment's buffer area are in use. Private to the client:
// the daemon knows only ranges in flight, and nothing of this lies in shared
// memory.

#ifndef OPTIREDUCE_CLIENT_ALLOCATOR_H_
#define OPTIREDUCE_CLIENT_ALLOCATOR_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace optireduce::client {

// Best fit with coalescing over the offsets [0, size). Not thread-safe. Every
// call is logarithmic in the number of buffers.
class Allocator {
 public:
  static constexpr uint64_t kAlignment = 64;

  // The part of `size` below a multiple of kAlignment is handed out.
  explicit Allocator(uint64_t size);

  // The offset of `bytes` that nobody else has, a multiple of kAlignment;
  // nothing when no gap is large enough. 0 bytes take as much as 1.
  std::optional<uint64_t> Allocate(uint64_t bytes);

  // Gives back what Allocate returned; false if `offset` is not such a value.
  bool Free(uint64_t offset);

  // Bytes of the allocation at `offset`, rounded up; 0 if there is none.
  uint64_t SizeAt(uint64_t offset) const;

  // The allocation that contains all of [offset, offset + bytes), if one does.
  bool Contains(uint64_t offset, uint64_t bytes) const;

  uint64_t capacity() const { return capacity_; }
  uint64_t in_use() const { return in_use_; }
  uint64_t largest_gap() const {
    return by_size_.empty() ? 0 : by_size_.rbegin()->first;
  }

 private:
  void AddGap(uint64_t offset, uint64_t bytes);
  void RemoveGap(uint64_t offset, uint64_t bytes);

  uint64_t capacity_;
  uint64_t in_use_ = 0;
  std::map<uint64_t, uint64_t> used_;                // offset -> bytes
  std::map<uint64_t, uint64_t> gaps_;                // offset -> bytes
  std::set<std::pair<uint64_t, uint64_t>> by_size_;  // (bytes, offset) of gaps
};

}  // namespace optireduce::client

#endif  // OPTIREDUCE_CLIENT_ALLOCATOR_H_
