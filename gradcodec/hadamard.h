// Randomised block Hadamard transform with interleave.
//
// A buffer of n elements is cut into blocks of 4096; what remains at the end is
// a block alone, padded with zeros to the next power of two (a buffer of 1000
// elements has one block of 1024). Full blocks form groups of up to eight; the
// padded block is a group alone. A group is the unit of encoding and decoding
// and the only place where a shard or stripe may be cut. Only the last group is
// padded, so the coefficients of a group begin at the index of its first
// element.
//
// A block is multiplied by random signs, then by the orthonormal Hadamard
// matrix in natural order (scale 1/sqrt(block size)); decoding is the inverse.
// Sums and means may be taken over coefficients as over elements.
//
// Interleave: coefficients travel in an order of their own, called positions,
// in which every run of kRun positions comes from the next block of the group,
// so a packet, a burst of packets or a cut tail takes a like share of every
// block. Chunks are ranges of positions; a chunk that begins and ends at a
// multiple of kRun * kGroupBlocks takes exactly the same number of coefficients
// from each block of a full group. Within a block the runs follow each other
// not in order but at the triangular numbers 0, 1, 3, 6, 10, ... modulo the
// runs of the block: half a block lost in order would be a subcube, and an
// element's error would land on one single other element at full weight (1/2);
// this way it spreads over all (at most 0.07 on each).
//
// Elements lie at any byte alignment; coefficients are float (aligned as such)
// and positions travel as float at any alignment. All hosts compute the same
// bits: no fused multiply-add, one order of operations. Pure functions, no
// buffer is kept, up to 16 KiB of stack.
#ifndef OPTIREDUCE_GRADCODEC_HADAMARD_H_
#define OPTIREDUCE_GRADCODEC_HADAMARD_H_

#include <cstddef>
#include <cstdint>

#include "gradcodec/dtype.h"

namespace optireduce::gradcodec {

inline constexpr uint32_t kBlock = 4096;     // elements
inline constexpr uint32_t kGroupBlocks = 8;  // blocks of a full group
inline constexpr uint32_t kRun = 4;          // consecutive positions of a block

// The signs of all elements of a buffer, computed, not stored: bit e % 64 of
// word e / 64 negates element e. Word w is the w-th output of SplitMix64 from
// state `seed`. All ranks of an operation use the same seed.
class Signs {
 public:
  static constexpr Signs FromSeed(uint64_t seed) { return Signs(seed, false); }
  // No element is negated: the plain transform.
  static constexpr Signs AllPositive() { return Signs(0, true); }

  constexpr uint64_t Word(uint64_t index) const {
    if (all_positive_) return 0;
    uint64_t z = seed_ + (index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  constexpr Signs(uint64_t seed, bool all_positive)
      : seed_(seed), all_positive_(all_positive) {}

  uint64_t seed_;
  bool all_positive_;
};

// A group of equal blocks of a buffer.
struct HadamardGroup {
  uint64_t first = 0;       // index of its first element and coefficient
  uint32_t elements = 0;    // elements of the buffer, without padding
  uint32_t blocks = 0;      // 1..kGroupBlocks
  uint32_t block_size = 0;  // a power of two, at most kBlock

  constexpr uint32_t coefficients() const { return blocks * block_size; }
};

// Coefficients of a buffer of n elements; 0 for 0. n is below 2^63.
uint64_t PaddedSize(uint64_t n);

// Number of groups of a buffer of n elements, and one of them (index below
// the number).
uint64_t GroupCount(uint64_t n);
HadamardGroup GroupAt(uint64_t n, uint64_t index);

// Encodes one group. `elements` points to the group's first element (not to the
// buffer's) and holds group.elements of them; `coefficients` has room for
// group.coefficients(). The dtype is float32, float16 or bfloat16; anything
// else traps. The ranges must not overlap.
void EncodeGroup(Dtype dtype, Signs signs, const HadamardGroup& group,
                 const void* elements, float* coefficients);

// Decodes one group; writes group.elements elements, rounded once to dtype,
// never the padding. The coefficients are left as they are, so that a group can
// be decoded again when a late coefficient came. The ranges must not overlap.
void DecodeGroup(Dtype dtype, Signs signs, const HadamardGroup& group,
                 const float* coefficients, void* elements);

// A whole buffer of n elements with PaddedSize(n) coefficients.
void Encode(Dtype dtype, Signs signs, const void* elements, uint64_t n,
            float* coefficients);
void Decode(Dtype dtype, Signs signs, const float* coefficients, uint64_t n,
            void* elements);

// Where the coefficient at a position of a group is: its index among the
// group's coefficients (block * block_size + index in the block). A permutation
// of 0..coefficients()-1.
uint32_t CoefficientAt(const HadamardGroup& group, uint32_t position);

// payload[i] = coefficients[CoefficientAt(group, first_position + i)], i <
// count: what a chunk carries. The range lies within the group.
void Gather(const HadamardGroup& group, const float* coefficients,
            uint32_t first_position, uint32_t count, void* payload);

// The inverse: coefficients[CoefficientAt(group, first_position + i)] =
// payload[i]; touches no other coefficient.
void Scatter(const HadamardGroup& group, const void* payload,
             uint32_t first_position, uint32_t count, float* coefficients);

}  // namespace optireduce::gradcodec

#endif  // OPTIREDUCE_GRADCODEC_HADAMARD_H_
