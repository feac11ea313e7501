#include "dataplane/base/arena.h"

#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <limits>

#include "dataplane/base/require.h"

namespace optireduce {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

// Which child of a trie node that goes by `bit` leads to `size`.
constexpr size_t Branch(uint32_t size, int bit) { return (size >> bit) & 1; }

}  // namespace

// Free blocks form a binary trie: the root goes by the highest bit that a size
// can have, its children by the next one, and so on. That bit of a block's size
// chooses the child to go on to; all nodes below a node agree in the bits
// above. Blocks of equal size form a ring, of which one block is in the trie
// and the others have no parent. So no path is longer than the bits of a size.
struct ByteArena::Header {
  Units size;           // of this block
  Units previous_size;  // of the block before it in memory; 0 for the first

  // The rest is for free blocks only.
  Units next;  // in the ring; kNone marks a block that is not free
  Units previous;
  Units parent;  // the root's is the root; kNone outside the trie
  std::array<Units, 2> child;
};

ByteArena::ByteArena(size_t budget) : root_(kNone) {
  const size_t units = std::min<size_t>(budget / kAlignment, kNone - 1);
  if (units == 0) return;
  memory_ = static_cast<std::byte*>(
      std::aligned_alloc(kAlignment, units * kAlignment));
  if (memory_ == nullptr) return;
  units_ = static_cast<Units>(units);
  top_bit_ = static_cast<int>(std::bit_width(units)) - 1;
  capacity_ = units * kAlignment;
  At(0)->previous_size = 0;
  MakeFree(0, units_);
}

ByteArena::~ByteArena() {
  ASAN_UNPOISON_MEMORY_REGION(memory_, capacity_);
  std::free(memory_);
}

void* ByteArena::Allocate(size_t bytes) {
  if (bytes >= capacity_) return nullptr;
  const auto size = static_cast<Units>(Cost(bytes) / kAlignment);
  const Units place = FindFit(size);
  if (place == kNone) return nullptr;
  Erase(place);
  const Units rest = At(place)->size - size;
  if (rest != 0) {
    MakeFree(place + size, rest);
    SetSize(place, size);
  }
  used_ += size * kAlignment;
  std::byte* block = memory_ + (size_t{place} + 1) * kAlignment;
  ASAN_UNPOISON_MEMORY_REGION(block, bytes);
  return block;
}

void ByteArena::Free(void* block) {
  if (block == nullptr) return;
  const auto offset =
      static_cast<size_t>(static_cast<std::byte*>(block) - memory_);
  Require(offset <= capacity_ && offset % kAlignment == 0);
  auto place = static_cast<Units>(offset / kAlignment - 1);
  Require(At(place)->next == kNone);
  Units size = At(place)->size;
  used_ -= size * kAlignment;

  const Units after = place + size;
  if (after < units_ && At(after)->next != kNone) {
    Erase(after);
    size += At(after)->size;
  }
  const Units before = place - At(place)->previous_size;
  if (before != place && At(before)->next != kNone) {
    Erase(before);
    size += At(before)->size;
    place = before;
  }
  MakeFree(place, size);
}

size_t ByteArena::largest_free() const {
  Units largest = 0;
  for (Units node = root_; node != kNone;) {
    const Header* header = At(node);
    largest = std::max(largest, header->size);
    node = header->child[header->child[1] != kNone ? 1 : 0];
  }
  return largest == 0 ? 0 : (largest - 1) * kAlignment;
}

// The header fills the second half of the unit before its block: the first
// half stays poisoned and catches what runs past the end of the block before.
ByteArena::Header* ByteArena::At(Units place) const {
  static_assert(sizeof(Header) <= kAlignment / 2);
  return reinterpret_cast<Header*>(memory_ + place * kAlignment +
                                   kAlignment / 2);
}

void ByteArena::SetSize(Units place, Units size) {
  At(place)->size = size;
  if (place + size < units_) At(place + size)->previous_size = size;
}

void ByteArena::MakeFree(Units place, Units size) {
  ASAN_POISON_MEMORY_REGION(memory_ + place * kAlignment, size * kAlignment);
  ASAN_UNPOISON_MEMORY_REGION(At(place), sizeof(Header));
  SetSize(place, size);
  Insert(place);
}

void ByteArena::Insert(Units place) {
  Header* header = At(place);
  header->next = header->previous = header->parent = place;
  header->child = {kNone, kNone};
  Units node = root_;
  if (node == kNone) root_ = place;
  for (int bit = top_bit_; node != kNone; --bit) {
    Header* above = At(node);
    if (above->size == header->size) {
      header->parent = kNone;
      header->previous = node;
      header->next = above->next;
      At(above->next)->previous = place;
      above->next = place;
      return;
    }
    Units& child = above->child[Branch(header->size, bit)];
    header->parent = node;
    node = child;
    if (child == kNone) child = place;
  }
}

void ByteArena::Erase(Units place) {
  Header* header = At(place);
  if (header->next != place) {
    At(header->next)->previous = header->previous;
    At(header->previous)->next = header->next;
    if (header->parent != kNone) Replace(place, header->next);
  } else {
    // Any leaf below can stand here, as it agrees in the bits that matter.
    Units leaf = place;
    for (Units below = leaf; below != kNone;
         below = std::min(At(leaf)->child[0], At(leaf)->child[1])) {
      leaf = below;
    }
    LinkTo(leaf) = kNone;
    if (leaf != place) Replace(place, leaf);
  }
  header->next = kNone;
}

// Puts `by`, which is not in the trie, in the position of `place`.
void ByteArena::Replace(Units place, Units by) {
  Header* header = At(by);
  LinkTo(place) = by;
  header->parent = At(place)->parent == place ? by : At(place)->parent;
  header->child = At(place)->child;
  for (const Units child : header->child) {
    if (child != kNone) At(child)->parent = by;
  }
}

// What points at the trie node `place` from above.
ByteArena::Units& ByteArena::LinkTo(Units place) {
  const Units parent = At(place)->parent;
  if (parent == place) return root_;
  Header* above = At(parent);
  return above->child[above->child[1] == place ? 1 : 0];
}

// The smallest free block of at least `size`, or kNone.
ByteArena::Units ByteArena::FindFit(Units size) const {
  Units best = kNone;
  Units best_size = kNone;
  const auto consider = [&](Units node) {
    const Units node_size = At(node)->size;
    if (node_size < size || node_size >= best_size) return;
    best = node;
    best_size = node_size;
  };
  // Follow the bits of `size`. Whatever branches off to the right is larger
  // than everything that could still be met, so the last such branch counts.
  Units right = kNone;
  Units node = root_;
  for (int bit = top_bit_; node != kNone; --bit) {
    consider(node);
    if (best_size == size) return best;  // as it must once no bit is left
    const Header* header = At(node);
    const size_t branch = Branch(size, bit);
    if (branch == 0 && header->child[1] != kNone) right = header->child[1];
    node = header->child[branch];
  }
  for (node = right; node != kNone;) {
    consider(node);
    const Header* header = At(node);
    node = header->child[header->child[0] != kNone ? 0 : 1];
  }
  return best;
}

}  // namespace optireduce
