#include "dataplane/sim/inputs.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include "dataplane/base/byte_order.h"
#include "gradcodec/accumulate.h"
#include "gradcodec/dtype.h"
#include "gradcodec/half.h"
#include "gradcodec/reduce.h"

namespace optireduce::sim {

namespace {

using core::Collective;
using gradcodec::Dtype;

// SplitMix64's output function.
uint64_t Mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Stored little-endian, as a trainer on such a host would; all of ours are.
template <typename T>
void StoreAs(T value, uint8_t* to) {
  std::memcpy(to, &value, sizeof(T));
}

template <typename T>
T Saturated(double number) {
  constexpr auto kLow = static_cast<double>(std::numeric_limits<T>::min());
  constexpr auto kHigh = static_cast<double>(std::numeric_limits<T>::max());
  if (number <= kLow) return std::numeric_limits<T>::min();
  if (number >= kHigh) return std::numeric_limits<T>::max();
  return static_cast<T>(number);
}

// The largest whole number up to which N summands stay exact in every partial
// sum, as an element, and scaled back to N of them.
uint64_t LargestSummand(const core::OpDescriptor& op, size_t world) {
  const uint64_t ranks = std::max<size_t>(world, 1);
  if (op.codec == core::Codec::kFloat16) {
    return std::max<uint64_t>(60'000 / ranks, 1);  // more does not fit
  }
  switch (op.dtype) {
    case Dtype::kFloat16:
      // Far below 65,504: what is lost of a transform swings.
      return std::clamp<uint64_t>(8'000 / ranks, 1, 2'048);
    case Dtype::kBfloat16:
      return 256;
    case Dtype::kFloat64:
      return uint64_t{1} << 40;
    default:
      return (uint64_t{1} << 23) / ranks;
  }
}

double Number(const OpSpec& spec, const core::OpDescriptor& op, size_t rank,
              size_t world, uint64_t element, uint64_t salt) {
  switch (spec.inputs) {
    case InputKind::kRankPlus:
      return static_cast<double>(rank + 1);
    case InputKind::kZero:
      return 0;
    case InputKind::kIota:
      return static_cast<double>(4096 * rank + element);
    default:
      break;
  }
  const uint64_t mixed = Mixed(salt + rank * 0x9e3779b97f4a7c15u + element);
  return static_cast<double>(1 + mixed % LargestSummand(op, world));
}

void StoreListed(const std::vector<uint64_t>& listed, size_t element,
                 size_t size, uint8_t* to) {
  if (listed.empty()) return;
  std::memcpy(to, &listed[element % listed.size()], size);
}

// Random bits with an exponent of moderate size, so that nothing is a NaN and
// no sum overflows.
void StoreBits(Dtype dtype, uint64_t bits, uint8_t* to) {
  switch (dtype) {
    case Dtype::kFloat32: {
      const auto exponent = static_cast<uint32_t>(117 + (bits >> 40) % 20);
      StoreAs((static_cast<uint32_t>(bits) & 0x807fffffu) | exponent << 23, to);
      return;
    }
    case Dtype::kFloat16: {
      const auto exponent = static_cast<uint16_t>(10 + (bits >> 40) % 8);
      StoreAs(static_cast<uint16_t>((bits & 0x83ffu) | exponent << 10), to);
      return;
    }
    case Dtype::kBfloat16: {
      const auto exponent = static_cast<uint16_t>(117 + (bits >> 40) % 20);
      StoreAs(static_cast<uint16_t>((bits & 0x807fu) | exponent << 7), to);
      return;
    }
    case Dtype::kFloat64: {
      const uint64_t exponent = 1013 + (bits >> 52) % 20;
      StoreAs((bits & 0x800fffffffffffffu) | exponent << 52, to);
      return;
    }
    default:
      std::memcpy(to, &bits, gradcodec::SizeOf(dtype));
  }
}

// Elements as packets hold them.
std::vector<uint8_t> Sent(const core::OpDescriptor& op, const uint8_t* elements,
                          uint64_t count) {
  const Dtype wire = core::WireDtype(op);
  std::vector<uint8_t> sent(count * gradcodec::SizeOf(wire));
  if (wire == op.dtype) {
    std::copy_n(elements, sent.size(), sent.begin());
  } else {
    gradcodec::ScaleAndRound(wire, gradcodec::ReduceOp::kSum, elements, 1, 1,
                             sent.data(), count);
  }
  return sent;
}

}  // namespace

void StoreNumber(Dtype dtype, double number, uint8_t* to) {
  const auto single = static_cast<float>(number);
  switch (dtype) {
    case Dtype::kFloat32:
      return StoreAs(single, to);
    case Dtype::kFloat16:
      return StoreAs(gradcodec::FloatToHalf(single), to);
    case Dtype::kBfloat16:
      return StoreAs(gradcodec::FloatToBfloat16(single), to);
    case Dtype::kFloat64:
      return StoreAs(number, to);
    case Dtype::kInt8:
      return StoreAs(Saturated<int8_t>(number), to);
    case Dtype::kUint8:
      return StoreAs(Saturated<uint8_t>(number), to);
    case Dtype::kInt16:
      return StoreAs(Saturated<int16_t>(number), to);
    case Dtype::kUint16:
      return StoreAs(Saturated<uint16_t>(number), to);
    case Dtype::kInt32:
      return StoreAs(Saturated<int32_t>(number), to);
    case Dtype::kUint32:
      return StoreAs(Saturated<uint32_t>(number), to);
    case Dtype::kInt64:
      return StoreAs(Saturated<int64_t>(number), to);
    case Dtype::kUint64:
      return StoreAs(Saturated<uint64_t>(number), to);
  }
}

std::vector<uint8_t> MakeInput(const OpSpec& spec, const core::OpDescriptor& op,
                               core::Rank rank, size_t world, uint64_t salt) {
  std::vector<uint8_t> input(core::InputBytes(op, world));
  const size_t size = gradcodec::SizeOf(op.dtype);
  for (size_t i = 0; i * size < input.size(); ++i) {
    uint8_t* const to = input.data() + i * size;
    if (spec.inputs == InputKind::kListed) {
      StoreListed(spec.listed[rank.index()], i, size, to);
    } else if (spec.inputs == InputKind::kBits) {
      StoreBits(op.dtype, Mixed(salt + rank.index() * 0x9e3779b97f4a7c15u + i),
                to);
    } else {
      StoreNumber(op.dtype, Number(spec, op, rank.index(), world, i, salt), to);
    }
  }
  return input;
}

std::vector<uint8_t> ExactResult(const core::OpDescriptor& op,
                                 const Inputs& inputs, core::Rank rank) {
  const size_t world = inputs.size();
  const size_t size = gradcodec::SizeOf(op.dtype);
  std::vector<uint8_t> result(core::OutputBytes(op, world));
  switch (op.collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter: {
      const size_t begin = op.collective == Collective::kAllReduce
                               ? 0
                               : rank.index() * result.size();
      std::vector<const void*> sources;
      for (const auto& input : inputs) sources.push_back(input.data() + begin);
      gradcodec::ReduceInRankOrder(op.dtype, op.reduce_op, sources.data(),
                                   world, static_cast<uint32_t>(world),
                                   result.data(), result.size() / size);
      break;
    }
    case Collective::kAllGather: {
      auto to = result.begin();
      for (const auto& input : inputs) {
        to = std::copy(input.begin(), input.end(), to);
      }
      break;
    }
    case Collective::kBroadcast:
      result = inputs[op.root.index()];
      break;
    case Collective::kBarrier:
      break;
  }
  return result;
}

std::vector<uint8_t> PartialResult(const core::OpDescriptor& op,
                                   const Inputs& inputs,
                                   std::span<const core::Rank> contributors,
                                   uint64_t first, uint64_t count) {
  const Dtype wire = core::WireDtype(op);
  std::vector<uint8_t> result(count * gradcodec::SizeOf(wire));
  std::vector<uint8_t> sums(
      count * gradcodec::SizeOf(gradcodec::AccumulatorType(wire)));
  for (size_t i = 0; i < contributors.size(); ++i) {
    const std::vector<uint8_t> source =
        Sent(op,
             inputs[contributors[i].index()].data() +
                 first * gradcodec::SizeOf(op.dtype),
             count);
    if (i == 0) {
      gradcodec::AccumulateFirst(wire, source.data(), sums.data(), count);
    } else {
      gradcodec::Accumulate(wire, source.data(), sums.data(), count);
    }
  }
  gradcodec::ScaleAndRound(wire, op.reduce_op, sums.data(),
                           static_cast<uint32_t>(contributors.size()),
                           static_cast<uint32_t>(inputs.size()), result.data(),
                           count);
  if (wire == op.dtype) return result;
  std::vector<uint8_t> wide(count * sizeof(float));
  gradcodec::AccumulateFirst(wire, result.data(), wide.data(), count);
  return wide;
}

}  // namespace optireduce::sim
