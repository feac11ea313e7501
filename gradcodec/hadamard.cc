#include "gradcodec/hadamard.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "gradcodec/accumulate.h"

namespace optireduce::gradcodec {
namespace {

constexpr uint64_t kFullGroup = uint64_t{kBlock} * kGroupBlocks;

// One pass of the transform over pairs at distance `stride`.
inline void Radix2Pass(float* x, size_t n, size_t stride) {
  for (size_t base = 0; base < n; base += 2 * stride) {
    for (size_t i = base; i < base + stride; ++i) {
      const float a = x[i];
      const float b = x[i + stride];
      x[i] = a + b;
      x[i + stride] = a - b;
    }
  }
}

// Two passes in one, at distances `stride` and 2 * `stride`.
inline void Radix4Pass(float* x, size_t n, size_t stride) {
  for (size_t base = 0; base < n; base += 4 * stride) {
    for (size_t i = base; i < base + stride; ++i) {
      const float a = x[i];
      const float b = x[i + stride];
      const float c = x[i + 2 * stride];
      const float d = x[i + 3 * stride];
      const float ab = a + b;
      const float a_b = a - b;
      const float cd = c + d;
      const float c_d = c - d;
      x[i] = ab + cd;
      x[i + stride] = a_b + c_d;
      x[i + 2 * stride] = ab - cd;
      x[i + 3 * stride] = a_b - c_d;
    }
  }
}

// Natural-order transform in place, without scale; n is a power of two.
void Transform(float* x, size_t n) {
  size_t stride = 1;
  if (n >= 4) {
    Radix4Pass(x, n, 1);
    stride = 4;
  }
  for (; 4 * stride <= n; stride *= 4) Radix4Pass(x, n, stride);
  if (stride < n) Radix2Pass(x, n, stride);
}

// kBit[i] = 1 << i: tests a different bit in each vector lane, which a shift by
// a lane's own count cannot do on every machine.
constexpr std::array<uint32_t, 32> kBit = [] {
  std::array<uint32_t, 32> bit{};
  for (uint32_t i = 0; i < 32; ++i) bit[i] = 1u << i;
  return bit;
}();

// x[i] *= ±scale with the signs of the elements from `first` on, which is a
// multiple of 64.
void ScaleWithSigns(Signs signs, uint64_t first, float scale, float* x,
                    size_t n) {
  const uint32_t positive = std::bit_cast<uint32_t>(scale);
  const uint32_t negative = std::bit_cast<uint32_t>(-scale);
  for (size_t base = 0; base < n; base += 32) {
    const uint64_t element = first + base;
    const auto bits =
        static_cast<uint32_t>(signs.Word(element / 64) >> (element % 64));
    const size_t length = std::min<size_t>(32, n - base);
    for (size_t i = 0; i < length; ++i) {
      const uint32_t factor = (bits & kBit[i]) != 0 ? negative : positive;
      x[base + i] *= std::bit_cast<float>(factor);
    }
  }
}

float Scale(uint32_t block_size) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(block_size)));
}

// Elements of the buffer in block `block` of the group.
size_t BlockElements(const HadamardGroup& group, uint32_t block) {
  return std::min(group.block_size, group.elements - block * group.block_size);
}

const void* ElementAt(Dtype dtype, const void* elements, uint64_t index) {
  return static_cast<const char*>(elements) + index * SizeOf(dtype);
}

void* ElementAt(Dtype dtype, void* elements, uint64_t index) {
  return static_cast<char*>(elements) + index * SizeOf(dtype);
}

void RequireNarrow(Dtype dtype) {
  if (AccumulatorType(dtype) != Dtype::kFloat32) __builtin_trap();
}

// A row of positions is one run of each block, all from the same place in their
// blocks. Consecutive rows lie at triangular numbers, which visit every residue
// of a power of two once: coefficients that are lost together are scattered.
uint32_t RunStart(const HadamardGroup& group, uint32_t run, uint32_t row) {
  const uint32_t rows = group.block_size / run;
  return row * (row + 1) / 2 % rows * run;
}

// Calls copy(coefficient index, offset from first_position, length) for each
// run that the range of positions touches.
template <typename Copy>
void ForEachRun(const HadamardGroup& group, uint32_t first_position,
                uint32_t count, Copy copy) {
  const uint32_t run = std::min(kRun, group.block_size);
  const uint32_t row_size = run * group.blocks;
  uint32_t row = first_position / row_size;
  uint32_t in_row = first_position % row_size;
  for (uint32_t offset = 0; offset < count; ++row, in_row = 0) {
    const uint32_t row_end = std::min(row_size, in_row + count - offset);
    uint32_t coefficient = RunStart(group, run, row);
    if (in_row == 0 && row_end == kRun * group.blocks) {
      // A full row: the length is a constant, the copies are single moves.
      for (uint32_t b = 0; b < group.blocks; ++b) {
        copy(coefficient, offset, std::integral_constant<uint32_t, kRun>{});
        coefficient += group.block_size;
        offset += kRun;
      }
      continue;
    }
    while (in_row < row_end) {
      const uint32_t in_run = in_row % run;
      const uint32_t length = std::min(run - in_run, row_end - in_row);
      copy(coefficient + in_row / run * group.block_size + in_run, offset,
           length);
      in_row += length;
      offset += length;
    }
  }
}

}  // namespace

uint64_t PaddedSize(uint64_t n) {
  const uint64_t rest = n % kBlock;
  return n - rest + (rest == 0 ? 0 : std::bit_ceil(rest));
}

uint64_t GroupCount(uint64_t n) {
  const uint64_t full_blocks = n / kBlock;
  return (full_blocks + kGroupBlocks - 1) / kGroupBlocks +
         (n % kBlock == 0 ? 0 : 1);
}

HadamardGroup GroupAt(uint64_t n, uint64_t index) {
  const uint64_t full_elements = n / kBlock * kBlock;
  HadamardGroup group;
  group.first = index * kFullGroup;
  if (group.first < full_elements) {
    group.elements = static_cast<uint32_t>(
        std::min(kFullGroup, full_elements - group.first));
    group.blocks = group.elements / kBlock;
    group.block_size = kBlock;
  } else {
    group.first = full_elements;
    group.elements = static_cast<uint32_t>(n - full_elements);
    group.blocks = 1;
    group.block_size = std::bit_ceil(group.elements);
  }
  return group;
}

void EncodeGroup(Dtype dtype, Signs signs, const HadamardGroup& group,
                 const void* elements, float* coefficients) {
  RequireNarrow(dtype);
  const float scale = Scale(group.block_size);
  for (uint32_t b = 0; b < group.blocks; ++b) {
    const uint32_t start = b * group.block_size;
    const size_t present = BlockElements(group, b);
    float* block = coefficients + start;
    AccumulateFirst(dtype, ElementAt(dtype, elements, start), block, present);
    std::fill(block + present, block + group.block_size, 0.0f);
    ScaleWithSigns(signs, group.first + start, scale, block, present);
    Transform(block, group.block_size);
  }
}

void DecodeGroup(Dtype dtype, Signs signs, const HadamardGroup& group,
                 const float* coefficients, void* elements) {
  RequireNarrow(dtype);
  const float scale = Scale(group.block_size);
  float block[kBlock];
  for (uint32_t b = 0; b < group.blocks; ++b) {
    const uint32_t start = b * group.block_size;
    const size_t present = BlockElements(group, b);
    std::memcpy(block, coefficients + start, group.block_size * sizeof(float));
    Transform(block, group.block_size);
    ScaleWithSigns(signs, group.first + start, scale, block, present);
    ScaleAndRound(dtype, ReduceOp::kSum, block, 1, 1,
                  ElementAt(dtype, elements, start), present);
  }
}

void Encode(Dtype dtype, Signs signs, const void* elements, uint64_t n,
            float* coefficients) {
  const uint64_t groups = GroupCount(n);
  for (uint64_t g = 0; g < groups; ++g) {
    const HadamardGroup group = GroupAt(n, g);
    EncodeGroup(dtype, signs, group, ElementAt(dtype, elements, group.first),
                coefficients + group.first);
  }
}

void Decode(Dtype dtype, Signs signs, const float* coefficients, uint64_t n,
            void* elements) {
  const uint64_t groups = GroupCount(n);
  for (uint64_t g = 0; g < groups; ++g) {
    const HadamardGroup group = GroupAt(n, g);
    DecodeGroup(dtype, signs, group, coefficients + group.first,
                ElementAt(dtype, elements, group.first));
  }
}

uint32_t CoefficientAt(const HadamardGroup& group, uint32_t position) {
  uint32_t index = 0;
  ForEachRun(group, position, 1, [&](uint32_t coefficient, uint32_t, uint32_t) {
    index = coefficient;
  });
  return index;
}

void Gather(const HadamardGroup& group, const float* coefficients,
            uint32_t first_position, uint32_t count, void* payload) {
  char* out = static_cast<char*>(payload);
  ForEachRun(group, first_position, count,
             [=](uint32_t coefficient, uint32_t offset, auto length) {
               std::memcpy(out + offset * sizeof(float),
                           coefficients + coefficient, length * sizeof(float));
             });
}

void Scatter(const HadamardGroup& group, const void* payload,
             uint32_t first_position, uint32_t count, float* coefficients) {
  const char* in = static_cast<const char*>(payload);
  ForEachRun(group, first_position, count,
             [=](uint32_t coefficient, uint32_t offset, auto length) {
               std::memcpy(coefficients + coefficient,
                           in + offset * sizeof(float), length * sizeof(float));
             });
}

}  // namespace optireduce::gradcodec
