#include "dataplane/core/coefficients.h"

#include <algorithm>

namespace optireduce::core {
namespace {

constexpr uint64_t kFullGroup =
    uint64_t{gradcodec::kBlock} * gradcodec::kGroupBlocks;

size_t ValueBytes(uint64_t count) {
  return (gradcodec::PaddedSize(count) * sizeof(float) + 63) / 64 * 64;
}

}  // namespace

size_t Coefficients::BytesNeeded(uint64_t count) {
  return ValueBytes(count) +
         BitmapView::WordsFor(gradcodec::GroupCount(count)) * 8;
}

Coefficients::Coefficients(gradcodec::Dtype dtype, uint64_t count,
                           uint64_t sign_seed, const uint8_t* input,
                           uint8_t* memory)
    : dtype_(dtype),
      count_(count),
      groups_(gradcodec::GroupCount(count)),
      signs_(gradcodec::Signs::FromSeed(sign_seed)),
      input_(input),
      values_(reinterpret_cast<float*>(memory)),
      encoded_({reinterpret_cast<uint64_t*>(memory + ValueBytes(count)),
                BitmapView::WordsFor(groups_)},
               groups_) {
  encoded_.ClearAll();
}

uint64_t Coefficients::GroupOf(uint64_t position) const {
  // Every group but the last two is full.
  uint64_t index = std::min(position / kFullGroup, groups_ - 1);
  while (index + 1 < groups_ &&
         gradcodec::GroupAt(count_, index + 1).first <= position) {
    ++index;
  }
  return index;
}

void Coefficients::EnsureEncoded(uint64_t group_index,
                                 const gradcodec::HadamardGroup& group) {
  if (encoded_.TestAndSet(group_index)) return;
  gradcodec::EncodeGroup(dtype_, signs_, group,
                         input_ + group.first * gradcodec::SizeOf(dtype_),
                         values_ + group.first);
}

template <class F>
void Coefficients::ForEachPiece(uint64_t first, uint32_t count, F f) {
  uint32_t done = 0;
  for (uint64_t index = GroupOf(first); done < count; ++index) {
    const gradcodec::HadamardGroup group = gradcodec::GroupAt(count_, index);
    EnsureEncoded(index, group);
    const auto position = static_cast<uint32_t>(first + done - group.first);
    const uint32_t piece =
        std::min(count - done, group.coefficients() - position);
    f(group, position, piece, size_t{done} * sizeof(float));
    done += piece;
  }
}

void Coefficients::Read(uint64_t first, uint32_t count, uint8_t* payload) {
  ForEachPiece(first, count,
               [&](const gradcodec::HadamardGroup& group, uint32_t position,
                   uint32_t piece, size_t offset) {
                 gradcodec::Gather(group, values_ + group.first, position,
                                   piece, payload + offset);
               });
}

void Coefficients::Write(uint64_t first, uint32_t count,
                         const uint8_t* payload) {
  ForEachPiece(first, count,
               [&](const gradcodec::HadamardGroup& group, uint32_t position,
                   uint32_t piece, size_t offset) {
                 gradcodec::Scatter(group, payload + offset, position, piece,
                                    values_ + group.first);
               });
}

void Coefficients::DecodeTo(uint8_t* output) {
  for (uint64_t index = 0; index < groups_; ++index) {
    const gradcodec::HadamardGroup group = gradcodec::GroupAt(count_, index);
    EnsureEncoded(index, group);
    gradcodec::DecodeGroup(dtype_, signs_, group, values_ + group.first,
                           output + group.first * gradcodec::SizeOf(dtype_));
  }
}

}  // namespace optireduce::core
