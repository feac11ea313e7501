#include "gradcodec/hadamard.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "gradcodec/half.h"
#include "gradcodec/testing.h"
#include "gtest/gtest.h"

namespace optireduce::gradcodec {
namespace {

using testing::kOffsets;
using testing::Misaligned;

// A whole group and a block as sizes of buffers.
constexpr size_t kBlockElements = kBlock;
constexpr size_t kGroupElements = kBlockElements * kGroupBlocks;

constexpr uint32_t kChunk = 352;  // coefficients that one packet carries

std::vector<float> RandomBuffer(uint32_t seed, size_t n) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

template <typename T>
double Norm(const std::vector<T>& values) {
  long double sum = 0;
  for (T value : values) sum += static_cast<long double>(value) * value;
  return static_cast<double>(std::sqrt(sum));
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<double> difference(a.size());
  for (size_t i = 0; i < a.size(); ++i) difference[i] = double{a[i]} - b[i];
  return Norm(difference);
}

std::vector<float> EncodeFloats(Signs signs, const std::vector<float>& x) {
  std::vector<float> coefficients(PaddedSize(x.size()));
  Encode(Dtype::kFloat32, signs, x.data(), x.size(), coefficients.data());
  return coefficients;
}

std::vector<float> DecodeFloats(Signs signs, const std::vector<float>& c,
                                size_t n) {
  std::vector<float> x(n);
  Decode(Dtype::kFloat32, signs, c.data(), n, x.data());
  return x;
}

// A block's transform by the definition of the matrix, in double.
std::vector<double> ReferenceBlock(Signs signs, size_t first,
                                   const std::vector<float>& x) {
  const size_t n = std::bit_ceil(x.size());
  std::vector<double> out(n);
  for (size_t row = 0; row < n; ++row) {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t element = first + i;
      const bool negated = (signs.Word(element / 64) >> (element % 64)) & 1;
      const bool negative = (std::popcount(row & i) % 2 == 1) != negated;
      sum += negative ? -x[i] : x[i];
    }
    out[row] = sum / std::sqrt(static_cast<double>(n));
  }
  return out;
}

TEST(SignsTest, AreSplitMix64) {
  const Signs signs = Signs::FromSeed(1234567);
  EXPECT_EQ(signs.Word(0), 6457827717110365317u);
  EXPECT_EQ(signs.Word(1), 3203168211198807973u);
  EXPECT_EQ(signs.Word(2), 9817491932198370423u);
  EXPECT_EQ(signs.Word(3), 4593380528125082431u);
  EXPECT_EQ(signs.Word(4), 16408922859458223821u);
  EXPECT_EQ(Signs::AllPositive().Word(17), 0u);
}

TEST(HadamardTest, NaturalOrderOrthonormal) {
  EXPECT_EQ(EncodeFloats(Signs::AllPositive(), {1, 2, 3, 4}),
            (std::vector<float>{5, -1, -2, 0}));
}

TEST(HadamardTest, PadsToThePowerOfTwoAndGivesBack) {
  const size_t sizes[] = {1, 2, 3, 12, 1000, 3584};
  const size_t padded[] = {1, 2, 4, 16, 1024, 4096};
  for (size_t k = 0; k < 6; ++k) {
    const size_t n = sizes[k];
    EXPECT_EQ(PaddedSize(n), padded[k]);
    const Signs signs = Signs::FromSeed(k);
    const auto x = RandomBuffer(21, n);
    const auto coefficients = EncodeFloats(signs, x);
    EXPECT_NEAR(Norm(coefficients), Norm(x), 1e-6 * Norm(x)) << n;
    Misaligned<float> back(0, n);
    Decode(Dtype::kFloat32, signs, coefficients.data(), n, back.data());
    EXPECT_LE(Distance(back.values(), x), 1e-6 * Norm(x)) << n;
    EXPECT_TRUE(back.GuardsIntact()) << n;  // the padding is not returned
  }
}

TEST(HadamardTest, EmptyBufferHasNothing) {
  EXPECT_EQ(PaddedSize(0), 0u);
  EXPECT_EQ(GroupCount(0), 0u);
  Encode(Dtype::kFloat32, Signs::FromSeed(1), nullptr, 0, nullptr);
  Decode(Dtype::kFloat32, Signs::FromSeed(1), nullptr, 0, nullptr);
}

TEST(HadamardTest, TwoFullBlocksAndOnePaddedAlone) {
  const size_t n = 2 * kBlockElements + kBlockElements / 2 - 10;
  EXPECT_EQ(PaddedSize(n), 2 * kBlockElements + 2048);
  ASSERT_EQ(GroupCount(n), 2u);
  const HadamardGroup full = GroupAt(n, 0);
  EXPECT_EQ(full.blocks, 2u);
  EXPECT_EQ(full.block_size, kBlock);
  const HadamardGroup tail = GroupAt(n, 1);
  EXPECT_EQ(tail.first, 2 * kBlockElements);
  EXPECT_EQ(tail.elements, 2038u);
  EXPECT_EQ(tail.blocks, 1u);
  EXPECT_EQ(tail.block_size, 2048u);

  const Signs signs = Signs::FromSeed(3);
  const auto x = RandomBuffer(22, n);
  const auto coefficients = EncodeFloats(signs, x);
  EXPECT_LE(Distance(DecodeFloats(signs, coefficients, n), x), 1e-6 * Norm(x));
  // Each block depends on its own elements only.
  auto changed = x;
  changed[2 * kBlockElements] += 1;
  const auto other = EncodeFloats(signs, changed);
  EXPECT_TRUE(std::equal(other.begin(), other.begin() + 2 * kBlockElements,
                         coefficients.begin()));
}

TEST(HadamardTest, AgreesWithTheMatrix) {
  for (size_t n : {1, 2, 3, 5, 8, 31, 32, 100, 255, 1000, 4096}) {
    const Signs signs = Signs::FromSeed(n);
    const auto x = RandomBuffer(static_cast<uint32_t>(n), n);
    const auto expected = ReferenceBlock(signs, 0, x);
    const auto coefficients = EncodeFloats(signs, x);
    ASSERT_EQ(coefficients.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(coefficients[i], expected[i], 3e-7 * Norm(x))
          << n << " " << i;
    }
  }
}

TEST(HadamardTest, LaterBlocksHaveTheSignsOfTheirPlace) {
  const Signs signs = Signs::FromSeed(77);
  const auto x = RandomBuffer(23, kBlock + 100);
  const auto coefficients = EncodeFloats(signs, x);
  const std::vector<float> tail(x.begin() + kBlock, x.end());
  const auto expected = ReferenceBlock(signs, kBlock, tail);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(coefficients[kBlock + i], expected[i], 1e-5);
  }
}

TEST(HadamardTest, AnyAlignmentAndSizeGivesTheSameBits) {
  for (size_t n : {0, 1, 2, 3, 7, 255, 1000, 4097, 12300}) {
    const Signs signs = Signs::FromSeed(9);
    const auto x = RandomBuffer(24, n);
    const auto coefficients = EncodeFloats(signs, x);
    const auto back = DecodeFloats(signs, coefficients, n);
    for (size_t offset : kOffsets) {
      const Misaligned<float> elements(offset, x);
      std::vector<float> encoded(PaddedSize(n));
      Encode(Dtype::kFloat32, signs, elements.data(), n, encoded.data());
      EXPECT_EQ(encoded, coefficients) << "n " << n << " offset " << offset;
      Misaligned<float> decoded(offset, n);
      Decode(Dtype::kFloat32, signs, coefficients.data(), n, decoded.data());
      EXPECT_EQ(decoded.values(), back) << "n " << n << " offset " << offset;
      EXPECT_TRUE(decoded.GuardsIntact());
    }
  }
}

TEST(HadamardTest, HalfTypesAreTransformedInFloat) {
  const size_t n = 5000;
  const Signs signs = Signs::FromSeed(10);
  const auto x = RandomBuffer(25, n);
  std::vector<uint16_t> half(n), bfloat(n), back(n);
  std::vector<float> wide_half(n), wide_bfloat(n);
  for (size_t i = 0; i < n; ++i) {
    half[i] = FloatToHalf(x[i]);
    wide_half[i] = HalfToFloat(half[i]);
    bfloat[i] = FloatToBfloat16(x[i]);
    wide_bfloat[i] = Bfloat16ToFloat(bfloat[i]);
  }
  std::vector<float> coefficients(PaddedSize(n));
  Encode(Dtype::kFloat16, signs, half.data(), n, coefficients.data());
  EXPECT_EQ(coefficients, EncodeFloats(signs, wide_half));
  Decode(Dtype::kFloat16, signs, coefficients.data(), n, back.data());
  size_t equal = 0;
  for (size_t i = 0; i < n; ++i) equal += back[i] == half[i] ? 1 : 0;
  EXPECT_GT(equal, n * 99 / 100);  // but for values near zero, to the bit

  Encode(Dtype::kBfloat16, signs, bfloat.data(), n, coefficients.data());
  EXPECT_EQ(coefficients, EncodeFloats(signs, wide_bfloat));
  Decode(Dtype::kBfloat16, signs, coefficients.data(), n, back.data());
  equal = 0;
  for (size_t i = 0; i < n; ++i) equal += back[i] == bfloat[i] ? 1 : 0;
  EXPECT_GT(equal, n * 99 / 100);
}

TEST(HadamardDeathTest, Float64AndIntegersAreRefused) {
  double x = 1;
  float c = 0;
  EXPECT_DEATH(Encode(Dtype::kFloat64, Signs::FromSeed(1), &x, 1, &c), "");
  EXPECT_DEATH(Decode(Dtype::kInt32, Signs::FromSeed(1), &c, 1, &x), "");
}

TEST(HadamardPlanTest, GroupsCoverEveryBufferOnce) {
  for (uint64_t n :
       {uint64_t{1}, uint64_t{4095}, uint64_t{4096}, uint64_t{4097},
        7 * kBlockElements, kGroupElements, kGroupElements + 1,
        uint64_t{100000}, (uint64_t{1} << 32) + 5,
        (uint64_t{3} << 32) + 9 * kBlockElements + 17}) {
    const uint64_t groups = GroupCount(n);
    ASSERT_GT(groups, 0u);
    // The ends of a large plan are looked at, its middle by steps.
    const uint64_t step = std::max<uint64_t>(1, groups / 5000);
    for (uint64_t g = 0; g + 1 < groups; g += step) {
      EXPECT_EQ(GroupAt(n, g).first, g * kGroupElements);
      EXPECT_EQ(GroupAt(n, g + 1).first,
                GroupAt(n, g).first + GroupAt(n, g).elements);
    }
    for (uint64_t g = groups - std::min<uint64_t>(groups, 3); g < groups; ++g) {
      const HadamardGroup group = GroupAt(n, g);
      EXPECT_GE(group.blocks, 1u);
      EXPECT_LE(group.blocks, kGroupBlocks);
      EXPECT_TRUE(std::has_single_bit(group.block_size));
      EXPECT_LE(group.elements, group.coefficients());
      if (g + 1 < groups) {
        EXPECT_EQ(group.elements, group.coefficients());
      }
    }
    const HadamardGroup last = GroupAt(n, groups - 1);
    EXPECT_EQ(last.first + last.elements, n);
    EXPECT_EQ(last.first + last.coefficients(), PaddedSize(n));
  }
}

std::vector<HadamardGroup> GroupShapes() {
  std::vector<HadamardGroup> shapes;
  for (uint32_t blocks = 1; blocks <= kGroupBlocks; ++blocks) {
    shapes.push_back(GroupAt(uint64_t{blocks} * kBlock, 0));
  }
  for (uint64_t n : {1, 2, 3, 8, 1000}) shapes.push_back(GroupAt(n, 0));
  return shapes;
}

TEST(InterleaveTest, PositionsArePermutedCoefficients) {
  for (const HadamardGroup& group : GroupShapes()) {
    std::vector<bool> seen(group.coefficients());
    for (uint32_t p = 0; p < group.coefficients(); ++p) {
      const uint32_t index = CoefficientAt(group, p);
      ASSERT_LT(index, group.coefficients());
      ASSERT_FALSE(seen[index]) << "position " << p;
      seen[index] = true;
    }
  }
}

TEST(InterleaveTest, OrderIsPartOfTheWireFormat) {
  const HadamardGroup group = GroupAt(2 * kBlockElements, 0);
  const uint32_t expected[] = {0,  1,  2,  3,  4096, 4097, 4098, 4099,
                               4,  5,  6,  7,  4100, 4101, 4102, 4103,
                               12, 13, 14, 15, 4108, 4109, 4110, 4111};
  for (uint32_t p = 0; p < 24; ++p) {
    EXPECT_EQ(CoefficientAt(group, p), expected[p]) << p;
  }
}

TEST(InterleaveTest, GatherAndScatterFollowThePositions) {
  std::mt19937 random(31);
  for (const HadamardGroup& group : GroupShapes()) {
    const auto coefficients = RandomBuffer(32, group.coefficients());
    for (int round = 0; round < 50; ++round) {
      const uint32_t first = random() % group.coefficients();
      const uint32_t count =
          random() % std::min<uint32_t>(group.coefficients() - first + 1, 900);
      const size_t offset = kOffsets[random() % std::size(kOffsets)];
      Misaligned<float> payload(offset, count);
      Gather(group, coefficients.data(), first, count, payload.data());
      EXPECT_TRUE(payload.GuardsIntact());
      std::vector<float> scattered(group.coefficients(), -1e30f);
      auto expected = scattered;
      Scatter(group, payload.data(), first, count, scattered.data());
      const auto values = payload.values();
      for (uint32_t i = 0; i < count; ++i) {
        const uint32_t index = CoefficientAt(group, first + i);
        ASSERT_EQ(values[i], coefficients[index]);
        expected[index] = coefficients[index];
      }
      ASSERT_EQ(scattered, expected)
          << "blocks " << group.blocks << " first " << first;
    }
  }
}

// How many coefficients of each block lie in a range of positions.
std::vector<uint32_t> SharePerBlock(const HadamardGroup& group, uint32_t first,
                                    uint32_t end) {
  std::vector<uint32_t> share(group.blocks);
  for (uint32_t p = first; p < end; ++p) {
    ++share[CoefficientAt(group, p) / group.block_size];
  }
  return share;
}

TEST(InterleaveTest, EachPacketCarriesTheSameShareOfEachBlock) {
  const HadamardGroup full = GroupAt(kGroupElements, 0);
  for (uint32_t first = 0; first + kChunk <= full.coefficients();
       first += kChunk) {
    EXPECT_EQ(SharePerBlock(full, first, first + kChunk),
              std::vector<uint32_t>(8, kChunk / 8));
  }
  for (uint32_t blocks = 2; blocks < kGroupBlocks; ++blocks) {
    const HadamardGroup group = GroupAt(uint64_t{blocks} * kBlock, 0);
    for (uint32_t first = 0; first + kChunk <= group.coefficients();
         first += kChunk) {
      const auto share = SharePerBlock(group, first, first + kChunk);
      const auto [least, most] =
          std::minmax_element(share.begin(), share.end());
      EXPECT_LE(*most - *least, kRun) << blocks << " blocks at " << first;
    }
  }
}

TEST(InterleaveTest, CutTailTakesALikeShareOfEachBlock) {
  const HadamardGroup group = GroupAt(kGroupElements, 0);
  const uint32_t chunks = (group.coefficients() + kChunk - 1) / kChunk;
  const uint32_t first_lost = (chunks - chunks / 8) * kChunk;
  for (uint32_t lost : SharePerBlock(group, first_lost, group.coefficients())) {
    EXPECT_GE(lost, kBlock / 16);
    EXPECT_LE(lost, kBlock * 3 / 16);
  }
}

TEST(InterleaveTest, SignsDifferBySeedOnly) {
  const auto x = RandomBuffer(41, kGroupElements);
  EXPECT_EQ(EncodeFloats(Signs::FromSeed(5), x),
            EncodeFloats(Signs::FromSeed(5), x));
  EXPECT_NE(EncodeFloats(Signs::FromSeed(5), x),
            EncodeFloats(Signs::FromSeed(6), x));
}

// Error of a unit spike in element `at` when the positions [lost, end) are
// gone.
std::vector<float> SpikeError(Signs signs, const HadamardGroup& group,
                              size_t at, uint32_t lost, uint32_t end) {
  std::vector<float> x(group.elements);
  x[at] = 1;
  auto coefficients = EncodeFloats(signs, x);
  for (uint32_t p = lost; p < end; ++p) {
    coefficients[CoefficientAt(group, p)] = 0;
  }
  auto back = DecodeFloats(signs, coefficients, x.size());
  for (size_t i = 0; i < x.size(); ++i) back[i] = x[i] - back[i];
  return back;
}

TEST(InterleaveTest, LostHalfLeavesNoLargeErrorOnAnotherElement) {
  const HadamardGroup group = GroupAt(kGroupElements, 0);
  for (size_t at : {size_t{0}, size_t{5000}, size_t{32767}}) {
    const auto error =
        SpikeError(Signs::FromSeed(at), group, at, group.coefficients() / 2,
                   group.coefficients());
    for (size_t i = 0; i < error.size(); ++i) {
      if (i == at) {
        EXPECT_NEAR(error[i], 0.5, 1e-6);
      } else {
        EXPECT_LE(std::abs(error[i]), 0.07) << i;
      }
    }
  }
}

// Two ranks average a block of 1024 in four chunks; rank 0 has one spike, rank
// 1 zeros. A chunk of rank 1 is lost: there the mean is rank 0's value alone.
TEST(HadamardTest, LostChunkOfASpikeSpreadsItsError) {
  const size_t n = 1024;
  const uint32_t chunk = 256;
  const HadamardGroup group = GroupAt(n, 0);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Signs signs = Signs::FromSeed(seed);
    std::vector<float> x(n);
    x[5] = 1024;
    const auto rank0 = EncodeFloats(signs, x);
    for (uint32_t lost = 0; lost < 4; ++lost) {
      std::vector<float> mean(n);
      for (uint32_t p = 0; p < n; ++p) {
        const uint32_t index = CoefficientAt(group, p);
        mean[index] = p / chunk == lost ? rank0[index] : rank0[index] / 2;
      }
      const auto result = DecodeFloats(signs, mean, n);
      double squares = 0;
      for (size_t i = 0; i < n; ++i) {
        const double error = result[i] - x[i] / 2;
        squares += error * error;
        EXPECT_LE(std::abs(error), 128.001);
        if (i == 5) {
          EXPECT_NEAR(error, 128, 1e-3);
        }
      }
      EXPECT_NEAR(squares, 65536, 1);
    }
  }
}

// Decoding leaves the coefficients, so a late one can be put in and the group
// decoded again.
TEST(HadamardTest, LateCoefficientRepairsTheGroup) {
  const HadamardGroup group = GroupAt(3 * kBlockElements, 0);
  const Signs signs = Signs::FromSeed(51);
  const auto x = RandomBuffer(52, group.elements);
  const auto sent = EncodeFloats(signs, x);
  std::vector<float> late(kChunk);
  Gather(group, sent.data(), kChunk, kChunk, late.data());
  auto received = sent;
  const std::vector<float> zeros(kChunk);
  Scatter(group, zeros.data(), kChunk, kChunk, received.data());
  std::vector<float> out(group.elements);
  DecodeGroup(Dtype::kFloat32, signs, group, received.data(), out.data());
  EXPECT_GT(Distance(out, x), 0.1 * Norm(x));
  Scatter(group, late.data(), kChunk, kChunk, received.data());
  EXPECT_EQ(received, sent);
  DecodeGroup(Dtype::kFloat32, signs, group, received.data(), out.data());
  EXPECT_LE(Distance(out, x), 1e-6 * Norm(x));
}

// Groups may be encoded one by one, in any order.
TEST(HadamardTest, GroupByGroupIsTheWholeBuffer) {
  const size_t n = 19 * kBlockElements + 77;
  const Signs signs = Signs::FromSeed(61);
  const auto x = RandomBuffer(62, n);
  const auto whole = EncodeFloats(signs, x);
  std::vector<float> pieces(PaddedSize(n));
  for (uint64_t g = GroupCount(n); g-- > 0;) {
    const HadamardGroup group = GroupAt(n, g);
    EncodeGroup(Dtype::kFloat32, signs, group, x.data() + group.first,
                pieces.data() + group.first);
  }
  EXPECT_EQ(pieces, whole);
}

}  // namespace
}  // namespace optireduce::gradcodec
