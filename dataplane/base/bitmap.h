// A bitmap over words that somebody else owns.

#ifndef OPTIREDUCE_DATAPLANE_BASE_BITMAP_H_
#define OPTIREDUCE_DATAPLANE_BASE_BITMAP_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/require.h"

namespace optireduce {

// Views the first `bits` bits of `words`, which must outlive the view and hold
// at least WordsFor(bits) words. Bits past the end, in the last word, are never
// looked at, so they may hold anything. An index out of bounds is a bug of the
// caller. Not thread-safe.
class BitmapView {
 public:
  static constexpr size_t WordsFor(size_t bits) {
    return bits / kWordBits + (bits % kWordBits != 0);
  }

  constexpr BitmapView() = default;
  constexpr BitmapView(std::span<uint64_t> words, size_t bits)
      : words_(words.first(WordsFor(bits))), bits_(bits) {}

  constexpr size_t size() const { return bits_; }

  constexpr bool Test(size_t bit) const {
    return (Word(bit) & MaskOf(bit)) != 0;
  }
  constexpr void Set(size_t bit) { Word(bit) |= MaskOf(bit); }
  constexpr void Clear(size_t bit) { Word(bit) &= ~MaskOf(bit); }

  // Sets the bit; true if it was set before.
  constexpr bool TestAndSet(size_t bit) {
    const bool was_set = Test(bit);
    Set(bit);
    return was_set;
  }

  // Sets the bits of [begin, end).
  constexpr void SetRange(size_t begin, size_t end) {
    Require(begin <= end && end <= bits_);
    while (begin < end) {
      const size_t offset = begin % kWordBits;
      const size_t count = std::min(kWordBits - offset, end - begin);
      words_[begin / kWordBits] |= LowMask(count) << offset;
      begin += count;
    }
  }

  constexpr void ClearAll() { std::ranges::fill(words_, uint64_t{0}); }

  // Number of bits that are set.
  constexpr size_t Count() const {
    size_t count = 0;
    for (size_t i = 0; i < words_.size(); ++i) {
      count += static_cast<size_t>(std::popcount(words_[i] & ValidMask(i)));
    }
    return count;
  }

  // The first bit at or after `from` that is set, or size() if there is none.
  constexpr size_t FindFirstSet(size_t from = 0) const {
    return FindFirst(from, uint64_t{0});
  }
  // The first bit at or after `from` that is clear, or size().
  constexpr size_t FindFirstClear(size_t from = 0) const {
    return FindFirst(from, ~uint64_t{0});
  }

 private:
  static constexpr size_t kWordBits = 64;

  static constexpr uint64_t LowMask(size_t count) {
    return count == kWordBits ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
  }
  static constexpr uint64_t MaskOf(size_t bit) {
    return uint64_t{1} << (bit % kWordBits);
  }
  constexpr uint64_t& Word(size_t bit) const {
    Require(bit < bits_);
    return words_[bit / kWordBits];
  }
  // Which bits of word `index` belong to the bitmap.
  constexpr uint64_t ValidMask(size_t index) const {
    return LowMask(std::min(kWordBits, bits_ - index * kWordBits));
  }
  // `flip` turns the bits looked for into ones.
  constexpr size_t FindFirst(size_t from, uint64_t flip) const {
    size_t index = from / kWordBits;
    uint64_t mask = ~LowMask(from % kWordBits);
    for (; index < words_.size(); ++index) {
      const uint64_t found = (words_[index] ^ flip) & mask & ValidMask(index);
      if (found != 0) {
        return index * kWordBits + static_cast<size_t>(std::countr_zero(found));
      }
      mask = ~uint64_t{0};
    }
    return bits_;
  }

  std::span<uint64_t> words_;
  size_t bits_ = 0;
};

}  // namespace optireduce

#endif  // OPTIREDUCE_DATAPLANE_BASE_BITMAP_H_
