#include "client/optiperf/check.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "gradcodec/accumulate.h"
#include "gradcodec/reduce.h"

namespace optireduce::optiperf {
namespace {

using gradcodec::Dtype;
using gradcodec::ReduceOp;

constexpr uint64_t kIteration = 3;

Checked Make(Dtype dtype, ReduceOp op, or_mode mode, uint32_t world,
             uint64_t count) {
  Checked checked;
  checked.dtype = dtype;
  checked.op = op;
  checked.mode = mode;
  checked.world = world;
  checked.count = count;
  return checked;
}

std::vector<unsigned char> InputOf(Checked checked, uint32_t rank) {
  checked.rank = rank;
  std::vector<unsigned char> input(checked.InputElements() *
                                   gradcodec::SizeOf(checked.dtype));
  checked.FillInput(kIteration, input.data());
  return input;
}

// The whole reduction, by other means than the checker's blocks.
std::vector<unsigned char> Reduced(const Checked& checked) {
  std::vector<std::vector<unsigned char>> inputs;
  std::vector<const void*> sources;
  for (uint32_t rank = 0; rank < checked.world; ++rank) {
    inputs.push_back(InputOf(checked, rank));
    sources.push_back(inputs.back().data());
  }
  std::vector<unsigned char> result(inputs[0].size());
  gradcodec::ReduceInRankOrder(checked.dtype, checked.op, sources.data(),
                               sources.size(), checked.world, result.data(),
                               checked.count);
  return result;
}

uint64_t Wrong(const Checked& checked, const std::vector<unsigned char>& output,
               const Claim& claim = {}) {
  return CheckOutput(checked, kIteration, output.data(), claim).wrong;
}

constexpr Dtype kAllDtypes[] = {
    Dtype::kFloat32, Dtype::kFloat16, Dtype::kBfloat16, Dtype::kFloat64,
    Dtype::kInt8,    Dtype::kUint8,   Dtype::kInt16,    Dtype::kUint16,
    Dtype::kInt32,   Dtype::kUint32,  Dtype::kInt64,    Dtype::kUint64};

TEST(PatternTest, DependsOnRankElementAndIterationAlone) {
  for (const Dtype dtype : kAllDtypes) {
    const size_t bytes = gradcodec::SizeOf(dtype);
    std::vector<unsigned char> whole(1000 * bytes);
    std::vector<unsigned char> part(100 * bytes);
    FillPattern(Pattern::kRough, dtype, 5, 7, 0, 1000, whole.data());
    FillPattern(Pattern::kRough, dtype, 5, 7, 450, 100, part.data());
    EXPECT_EQ(memcmp(part.data(), &whole[450 * bytes], part.size()), 0);
    FillPattern(Pattern::kRough, dtype, 6, 7, 450, 100, part.data());
    EXPECT_NE(memcmp(part.data(), &whole[450 * bytes], part.size()), 0);
    FillPattern(Pattern::kRough, dtype, 5, 8, 450, 100, part.data());
    EXPECT_NE(memcmp(part.data(), &whole[450 * bytes], part.size()), 0);
  }
}

// Else exact mode's order of summation would not be checked at all.
TEST(PatternTest, RoughSumsDependOnTheOrder) {
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kFloat64}) {
    const Checked checked = Make(dtype, ReduceOp::kSum, OR_EXACT, 5, 10'000);
    std::vector<std::vector<unsigned char>> inputs;
    std::vector<const void*> backwards;
    for (uint32_t rank = 0; rank < 5; ++rank) {
      inputs.push_back(InputOf(checked, 4 - rank));
    }
    for (const auto& input : inputs) backwards.push_back(input.data());
    std::vector<unsigned char> result(inputs[0].size());
    gradcodec::ReduceInRankOrder(dtype, ReduceOp::kSum, backwards.data(), 5, 5,
                                 result.data(), 10'000);
    EXPECT_GT(Wrong(checked, result), 100u);
  }
}

TEST(CheckTest, ExactResultsOfEveryKindAreRightBitForBit) {
  for (const Dtype dtype : kAllDtypes) {
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax}) {
      if (!gradcodec::IsSupported(dtype, op, false)) continue;
      for (const uint32_t world : {1u, 2u, 5u}) {
        for (const uint64_t count : {0u, 1u, 4095u, 4096u, 9000u}) {
          const Checked checked = Make(dtype, op, OR_EXACT, world, count);
          std::vector<unsigned char> result = Reduced(checked);
          EXPECT_EQ(Wrong(checked, result), 0u);
          if (count == 0) continue;
          result[(count - 1) * gradcodec::SizeOf(dtype)] ^= 1;
          EXPECT_EQ(Wrong(checked, result), 1u);
        }
      }
    }
  }
}

TEST(CheckTest, EveryRankOfReduceScatterHasItsPart) {
  Checked checked = Make(Dtype::kFloat32, ReduceOp::kSum, OR_EXACT, 3, 9000);
  checked.collective = OR_ALL_REDUCE;
  const std::vector<unsigned char> whole = Reduced(checked);
  checked.collective = OR_REDUCE_SCATTER;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    checked.rank = rank;
    const auto first = whole.begin() + ptrdiff_t{rank} * 12'000;
    const std::vector<unsigned char> part(first, first + 12'000);
    EXPECT_EQ(Wrong(checked, part), 0u);
    checked.rank = (rank + 1) % 3;
    EXPECT_GT(Wrong(checked, part), 2900u);
  }
}

TEST(CheckTest, AllGatherAndBroadcast) {
  Checked checked = Make(Dtype::kInt16, ReduceOp::kSum, OR_EXACT, 4, 20'000);
  checked.collective = OR_ALL_GATHER;
  std::vector<unsigned char> gathered;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const auto input = InputOf(checked, rank);
    EXPECT_EQ(input.size(), 10'000u);
    gathered.insert(gathered.end(), input.begin(), input.end());
  }
  EXPECT_EQ(Wrong(checked, gathered), 0u);
  gathered[39'999] ^= 4;
  EXPECT_EQ(Wrong(checked, gathered), 1u);

  checked.collective = OR_BROADCAST;
  checked.root = 2;
  EXPECT_EQ(Wrong(checked, InputOf(checked, 2)), 0u);
  EXPECT_GT(Wrong(checked, InputOf(checked, 1)), 19'000u);
}

// A bounded result in which each chunk has contributors of its own, as the core
// would scale it; and the claim that goes with it.
struct Partial {
  std::vector<unsigned char> output;
  Claim claim;
};
Partial MakePartial(const Checked& checked, size_t chunk, std::mt19937* random,
                    double loss) {
  const size_t bytes = gradcodec::SizeOf(checked.dtype);
  std::vector<std::vector<unsigned char>> inputs;
  for (uint32_t rank = 0; rank < checked.world; ++rank) {
    inputs.push_back(InputOf(checked, rank));
  }
  std::bernoulli_distribution lost(loss);
  Partial partial;
  partial.output.resize(checked.count * bytes);
  std::vector<unsigned char> sum(chunk * 8);
  for (uint64_t first = 0; first < checked.count; first += chunk) {
    const size_t n = std::min<uint64_t>(chunk, checked.count - first);
    uint32_t contributors = 0;
    for (uint32_t rank = 0; rank < checked.world; ++rank) {
      if (rank != 0 && lost(*random)) continue;
      const void* source = &inputs[rank][first * bytes];
      if (contributors++ == 0) {
        gradcodec::AccumulateFirst(checked.dtype, source, sum.data(), n);
      } else {
        gradcodec::Accumulate(checked.dtype, source, sum.data(), n);
      }
    }
    if (lost(*random)) {
      partial.claim.absent += n;
      continue;  // zeros
    }
    partial.claim.contributions += n * contributors;
    gradcodec::ScaleAndRound(checked.dtype, checked.op, sum.data(),
                             contributors, checked.world,
                             &partial.output[first * bytes], n);
  }
  return partial;
}

TEST(CheckTest, BoundedResultsOverAnyContributorsAreRight) {
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    for (const Dtype dtype : {Dtype::kFloat32, Dtype::kFloat16,
                              Dtype::kBfloat16, Dtype::kFloat64}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
        for (const uint32_t world : {2u, 4u, 8u, 20u}) {
          SCOPED_TRACE(::testing::Message()
                       << Name(dtype) << " " << Name(op) << " " << world);
          const Checked checked = Make(dtype, op, OR_BOUNDED, world, 20'000);
          const Partial partial = MakePartial(
              checked, 1424 / gradcodec::SizeOf(dtype), &random, 0.1);
          EXPECT_EQ(Wrong(checked, partial.output, partial.claim), 0u);
        }
      }
    }
  }
}

TEST(CheckTest, BoundedMistakesAreFound) {
  std::mt19937 random(1);
  const Checked checked =
      Make(Dtype::kFloat32, ReduceOp::kAvg, OR_BOUNDED, 4, 20'000);
  const Partial partial = MakePartial(checked, 356, &random, 0.1);
  ASSERT_GT(partial.claim.absent, 0u);

  auto output = partial.output;
  float value = 0;
  memcpy(&value, &output[80], 4);
  value = std::nextafter(value, 100.0f);
  memcpy(&output[80], &value, 4);
  EXPECT_EQ(Wrong(checked, output, partial.claim), 1u) << "one ulp";

  Claim claim = partial.claim;
  claim.absent -= 1;
  EXPECT_EQ(Wrong(checked, partial.output, claim), 20'000u);
  claim = partial.claim;
  claim.contributions += 3000;
  EXPECT_EQ(Wrong(checked, partial.output, claim), 20'000u);

  // Divided by the world instead of by the contributors.
  const Checked sum =
      Make(Dtype::kFloat32, ReduceOp::kSum, OR_BOUNDED, 4, 20'000);
  const Partial sums = MakePartial(sum, 356, &random, 0.1);
  output = sums.output;
  for (size_t i = 0; i < output.size(); i += 4) {
    memcpy(&value, &output[i], 4);
    value *= 0.75f;
    memcpy(&output[i], &value, 4);
  }
  EXPECT_GT(Wrong(sum, output, sums.claim), 10'000u);
}

TEST(CheckTest, ACompleteClaimIsHeldToTheCompleteResult) {
  const Checked checked =
      Make(Dtype::kFloat32, ReduceOp::kAvg, OR_BOUNDED, 4, 1000);
  auto output = Reduced(checked);
  const Claim complete{0, 4000};
  EXPECT_EQ(Wrong(checked, output, complete), 0u);
  // What rank 0 alone contributed would be right for one contributor.
  memcpy(output.data(), InputOf(checked, 0).data(), 400);
  EXPECT_GT(Wrong(checked, output, complete), 90u);
}

TEST(CheckTest, LargeWorldsAreCheckedAgainstBounds) {
  const Checked checked =
      Make(Dtype::kFloat32, ReduceOp::kAvg, OR_BOUNDED, 20, 1000);
  auto output = Reduced(checked);
  const Claim nearly{0, 19'999};
  EXPECT_EQ(Wrong(checked, output, nearly), 0u);
  const float outside = 65;
  memcpy(output.data(), &outside, 4);
  EXPECT_EQ(Wrong(checked, output, nearly), 1u);
}

TEST(CheckTest, TheCodecMayRound) {
  Checked checked = Make(Dtype::kFloat32, ReduceOp::kAvg, OR_BOUNDED, 4, 1000);
  checked.codec = OR_CODEC_HADAMARD;
  auto output = Reduced(checked);
  const auto nudge = [&](float by) {
    float value = 0;
    memcpy(&value, output.data(), 4);
    value += by;
    memcpy(output.data(), &value, 4);
  };
  nudge(0.0005f);
  EXPECT_EQ(Wrong(checked, output, {0, 4000}), 0u);
  nudge(0.001f);
  EXPECT_EQ(Wrong(checked, output, {0, 4000}), 1u);
  EXPECT_EQ(Wrong(checked, output, {0, 3900}), 0u);
  nudge(std::numeric_limits<float>::infinity());
  EXPECT_EQ(Wrong(checked, output, {0, 3900}), 1u);
}

TEST(CheckTest, NarrowCodecsRoundOnce) {
  for (const auto& [codec, step] :
       {std::pair{OR_CODEC_BFLOAT16, 0x1p-8f}, {OR_CODEC_FLOAT16, 0x1p-11f}}) {
    Checked checked =
        Make(Dtype::kFloat32, ReduceOp::kSum, OR_BOUNDED, 4, 1000);
    checked.codec = codec;
    auto output = Reduced(checked);
    float value = 0;
    memcpy(&value, output.data(), 4);
    const float largest = 4 * 64;
    for (const bool right : {true, false}) {
      const float moved = value + step * largest * (right ? 0.9f : 1.1f);
      memcpy(output.data(), &moved, 4);
      EXPECT_EQ(Wrong(checked, output, {0, 4000}), right ? 0u : 1u);
    }
  }
}

TEST(CheckTest, TheDistanceIsRelativeToTheCompleteResult) {
  const Checked checked =
      Make(Dtype::kFloat64, ReduceOp::kSum, OR_BOUNDED, 2, 5000);
  auto output = Reduced(checked);
  std::fill(output.begin(), output.end(), 0);
  const Verdict verdict =
      CheckOutput(checked, kIteration, output.data(), {5000, 0});
  EXPECT_EQ(verdict.wrong, 0u);
  EXPECT_DOUBLE_EQ(verdict.error, verdict.norm);
  EXPECT_GT(verdict.norm, 0);
}

}  // namespace
}  // namespace optireduce::optiperf
