#include "dataplane/sim/codec_check.h"

#include <algorithm>
#include <cmath>

#include "gradcodec/accumulate.h"
#include "gradcodec/dtype.h"
#include "gradcodec/hadamard.h"

namespace optireduce::sim {

namespace {

using gradcodec::HadamardGroup;
using gradcodec::ReduceOp;

// Between coefficients by index and by position, over a whole buffer.
template <typename F>
void ForEachPosition(uint64_t count, F f) {
  for (uint64_t g = 0; g < gradcodec::GroupCount(count); ++g) {
    const HadamardGroup group = gradcodec::GroupAt(count, g);
    for (uint32_t p = 0; p < group.coefficients(); ++p) {
      f(group.first + p, group.first + gradcodec::CoefficientAt(group, p));
    }
  }
}

double Rms(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  return values.empty() ? 0
                        : std::sqrt(sum / static_cast<double>(values.size()));
}

}  // namespace

CodecReference::CodecReference(const core::OpDescriptor& op,
                               const Inputs& inputs, uint64_t seed)
    : op_(op), world_(inputs.size()), seed_(seed) {
  const auto signs = gradcodec::Signs::FromSeed(seed);
  const uint64_t padded = gradcodec::PaddedSize(op.count);
  for (const auto& input : inputs) {
    std::vector<float> coefficients(padded);
    gradcodec::Encode(op.dtype, signs, input.data(), op.count,
                      coefficients.data());
    std::vector<float>& positions = coded_.emplace_back(padded);
    ForEachPosition(op.count, [&](uint64_t position, uint64_t index) {
      positions[position] = coefficients[index];
    });
  }
}

bool CodecReference::Fits(std::span<const CodedChunk> chunks,
                          std::span<const uint8_t> output) const {
  std::vector<float> positions(gradcodec::PaddedSize(op_.count));
  for (const CodedChunk& chunk : chunks) {
    if (chunk.contributors.empty()) continue;
    const double scale =
        (op_.reduce_op == ReduceOp::kSum ? static_cast<double>(world_) : 1.0) /
        static_cast<double>(chunk.contributors.size());
    for (uint32_t i = 0; i < chunk.info.elements; ++i) {
      double sum = 0;
      for (const core::Rank rank : chunk.contributors) {
        sum += coded_[rank.index()][chunk.info.first + i];
      }
      positions[chunk.info.first + i] = static_cast<float>(sum * scale);
    }
  }
  std::vector<float> coefficients(positions.size());
  ForEachPosition(op_.count, [&](uint64_t position, uint64_t index) {
    coefficients[index] = positions[position];
  });
  std::vector<float> wanted(op_.count);
  gradcodec::Decode(gradcodec::Dtype::kFloat32,
                    gradcodec::Signs::FromSeed(seed_), coefficients.data(),
                    op_.count, wanted.data());
  std::vector<float> given(op_.count);
  gradcodec::AccumulateFirst(op_.dtype, output.data(), given.data(), op_.count);
  // A chunk with another set of contributors is off by far more.
  const double slack = 1e-4 * Rms(wanted);
  const double rounding =
      op_.dtype == gradcodec::Dtype::kFloat32 ? 1e-5 : 0x1.0p-8;
  for (uint64_t i = 0; i < op_.count; ++i) {
    const double error = std::fabs(double{given[i]} - wanted[i]);
    if (error > slack + rounding * std::fabs(double{wanted[i]})) return false;
  }
  return true;
}

}  // namespace optireduce::sim
