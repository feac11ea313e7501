// Memory of a fixed budget, given out and taken back in bounded time.

#ifndef OPTIREDUCE_DATAPLANE_BASE_ARENA_H_
#define OPTIREDUCE_DATAPLANE_BASE_ARENA_H_

#include <cstddef>
#include <cstdint>

namespace optireduce {

// Takes its whole budget from the system at construction and never asks again.
// Allocate and Free take time bounded by the bits of a block size, whatever the
// arena holds. Best fit; free neighbours merge at once, so that an arena with
// everything freed is one block again.
//
// Every block has a header of 32 bytes in front, in the arena itself; hostile
// data must never be written here. Under AddressSanitizer everything outside
// the allocated bytes is poisoned, but for the headers. Not thread-safe.
class ByteArena {
 public:
  // Every block starts on a multiple of this.
  static constexpr size_t kAlignment = 64;

  // `budget` in bytes, at most 256 GiB, is the sum of the costs of all blocks.
  // If the system has not that much, capacity() is 0 and nothing ever fits.
  explicit ByteArena(size_t budget);
  // All blocks die with the arena.
  ~ByteArena();
  ByteArena(const ByteArena&) = delete;
  ByteArena& operator=(const ByteArena&) = delete;

  // What a block of `bytes` takes from the budget: header and rounding too.
  static constexpr size_t Cost(size_t bytes) {
    return kAlignment + (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  // `bytes` of memory, not cleared; nullptr if that does not fit, which is so
  // exactly if bytes > largest_free() or no block is free at all. Zero bytes
  // make a block too.
  void* Allocate(size_t bytes);

  // Gives back a block that Allocate returned, once. nullptr is ignored.
  void Free(void* block);

  // Cost of all blocks now allocated, in bytes.
  size_t used() const { return used_; }
  // The budget, rounded down to kAlignment, in bytes.
  size_t capacity() const { return capacity_; }
  // The largest size that can be allocated now; 0 also if nothing is free.
  size_t largest_free() const;

 private:
  struct Header;

  // Sizes and places inside the arena count units of kAlignment bytes, with the
  // header's own unit included.
  using Units = uint32_t;

  Header* At(Units place) const;
  void SetSize(Units place, Units size);
  void MakeFree(Units place, Units size);

  // The free blocks as a binary trie over their sizes; see arena.cc.
  void Insert(Units place);
  void Erase(Units place);
  void Replace(Units place, Units by);
  Units& LinkTo(Units place);
  Units FindFit(Units size) const;

  std::byte* memory_ = nullptr;
  size_t capacity_ = 0;
  size_t used_ = 0;
  Units units_ = 0;
  int top_bit_ = 0;  // the highest that a size can have
  Units root_;
};

}  // namespace optireduce

#endif  // OPTIREDUCE_DATAPLANE_BASE_ARENA_H_
