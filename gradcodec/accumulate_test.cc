#include "gradcodec/accumulate.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gradcodec/half.h"
#include "gradcodec/testing.h"
#include "gtest/gtest.h"

namespace optireduce::gradcodec {
namespace {

using testing::kOffsets;
using testing::kSizes;
using testing::Misaligned;

// What the tests need to know of each dtype, apart from the code under test.
struct Float32 {
  using Storage = float;
  using Accumulator = float;
  static constexpr Dtype kDtype = Dtype::kFloat32;
  static constexpr double kUnit = 0x1p-24;  // relative error of one rounding
  static float Widen(float v) { return v; }
  static float Narrow(float v) { return v; }
};
struct Float16 {
  using Storage = uint16_t;
  using Accumulator = float;
  static constexpr Dtype kDtype = Dtype::kFloat16;
  static constexpr double kUnit = 0x1p-11;
  static float Widen(uint16_t v) { return HalfToFloat(v); }
  static uint16_t Narrow(float v) { return FloatToHalf(v); }
};
struct Bfloat16 {
  using Storage = uint16_t;
  using Accumulator = float;
  static constexpr Dtype kDtype = Dtype::kBfloat16;
  static constexpr double kUnit = 0x1p-8;
  static float Widen(uint16_t v) { return Bfloat16ToFloat(v); }
  static uint16_t Narrow(float v) { return FloatToBfloat16(v); }
};
struct Float64 {
  using Storage = double;
  using Accumulator = double;
  static constexpr Dtype kDtype = Dtype::kFloat64;
  static constexpr double kUnit = 0x1p-53;
  static double Widen(double v) { return v; }
  static double Narrow(double v) { return v; }
};

template <typename Type>
std::vector<typename Type::Storage> RandomValues(std::mt19937& random,
                                                 size_t n) {
  std::uniform_real_distribution<double> uniform(0.5, 2.0);
  std::vector<typename Type::Storage> values(n);
  for (auto& value : values) {
    const double sign = random() % 8 == 0 ? -1 : 1;
    value = Type::Narrow(
        static_cast<typename Type::Accumulator>(sign * uniform(random)));
  }
  return values;
}

// Sums all inputs through the code under test.
template <typename Type>
std::vector<typename Type::Storage> OneShot(
    ReduceOp op, const std::vector<std::vector<typename Type::Storage>>& inputs,
    uint32_t world) {
  const size_t n = inputs.front().size();
  std::vector<typename Type::Accumulator> acc(n);
  AccumulateFirst(Type::kDtype, inputs[0].data(), acc.data(), n);
  for (size_t rank = 1; rank < inputs.size(); ++rank) {
    Accumulate(Type::kDtype, inputs[rank].data(), acc.data(), n);
  }
  std::vector<typename Type::Storage> out(n);
  ScaleAndRound(Type::kDtype, op, acc.data(),
                static_cast<uint32_t>(inputs.size()), world, out.data(), n);
  return out;
}

// `contributors` of `world` equal inputs: AVG is the value, SUM world times it,
// to `ulps` units in the last place.
template <typename Type>
void ExpectEqualInputsPass(const std::vector<typename Type::Storage>& values,
                           uint32_t contributors, uint32_t world, double ulps) {
  const std::vector<std::vector<typename Type::Storage>> inputs(contributors,
                                                                values);
  const auto avg = OneShot<Type>(ReduceOp::kAvg, inputs, world);
  const auto sum = OneShot<Type>(ReduceOp::kSum, inputs, world);
  const auto unit_in_the_last_place = [](double value) {
    return 2 * Type::kUnit * std::exp2(std::ilogb(value));
  };
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = Type::Widen(values[i]);
    EXPECT_LE(std::abs(Type::Widen(avg[i]) - value),
              ulps * unit_in_the_last_place(value))
        << contributors << " of " << world;
    EXPECT_LE(std::abs(Type::Widen(sum[i]) - world * value),
              ulps * unit_in_the_last_place(world * value))
        << contributors << " of " << world;
  }
}

template <typename Type>
class AccumulateTest : public ::testing::Test {};
using Types = ::testing::Types<Float32, Float16, Bfloat16, Float64>;
TYPED_TEST_SUITE(AccumulateTest, Types);

TYPED_TEST(AccumulateTest, AgreesWithWideReferenceUnderLoss) {
  using Type = TypeParam;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const uint32_t world = 1 + random() % 9;
    const uint32_t contributors = 1 + random() % world;
    const size_t n = random() % 700;
    std::vector<std::vector<typename Type::Storage>> inputs;
    for (uint32_t rank = 0; rank < contributors; ++rank) {
      inputs.push_back(RandomValues<Type>(random, n));
    }
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
      const auto result = OneShot<Type>(op, inputs, world);
      for (size_t i = 0; i < n; ++i) {
        long double sum = 0;
        long double magnitude = 0;
        for (const auto& input : inputs) {
          sum += Type::Widen(input[i]);
          magnitude += std::abs(Type::Widen(input[i]));
        }
        const long double factor =
            (op == ReduceOp::kAvg ? 1.0L : world) / contributors;
        const double accumulator_unit =
            sizeof(typename Type::Accumulator) == 4 ? 0x1p-24 : 0x1p-53;
        const long double bound =
            factor * (magnitude * accumulator_unit * (contributors + 3) +
                      std::abs(sum) * 1.01L * Type::kUnit);
        EXPECT_LE(std::abs(Type::Widen(result[i]) - sum * factor), bound)
            << Name(op) << " element " << i;
      }
    }
  }
}

TYPED_TEST(AccumulateTest, AnyAlignmentAndSizeGivesTheSameBits) {
  using Type = TypeParam;
  using Storage = typename Type::Storage;
  using Accumulator = typename Type::Accumulator;
  std::mt19937 random(7);
  for (size_t n : kSizes) {
    const auto a = RandomValues<Type>(random, n);
    const auto b = RandomValues<Type>(random, n);
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
      const auto expected = OneShot<Type>(op, {a, b}, 3);
      for (size_t offset : kOffsets) {
        const Misaligned<Storage> first(offset, a);
        const Misaligned<Storage> second(offset + 1, b);
        Misaligned<Accumulator> acc(offset, n);
        Misaligned<Storage> out(offset + 2, n);
        AccumulateFirst(Type::kDtype, first.data(), acc.data(), n);
        Accumulate(Type::kDtype, second.data(), acc.data(), n);
        ScaleAndRound(Type::kDtype, op, acc.data(), 2, 3, out.data(), n);
        EXPECT_EQ(out.values(), expected) << "n " << n << " offset " << offset;
        EXPECT_TRUE(acc.GuardsIntact());
        EXPECT_TRUE(out.GuardsIntact());
        // In place over its own accumulator.
        ScaleAndRound(Type::kDtype, op, acc.data(), 2, 3, acc.data(), n);
        std::vector<Storage> in_place(n);
        if (n != 0) {
          std::memcpy(in_place.data(), acc.data(), n * sizeof(Storage));
        }
        EXPECT_EQ(in_place, expected) << "n " << n << " offset " << offset;
        EXPECT_TRUE(acc.GuardsIntact());
      }
    }
  }
}

// Values that the accumulator can sum exactly come out within one unit in the
// last place; others carry the rounding of the sum as well, at most half a unit
// per addition.
TYPED_TEST(AccumulateTest, EqualInputsPassUnderAnyLoss) {
  using Type = TypeParam;
  std::mt19937 random(8);
  std::vector<typename Type::Storage> short_values;
  for (uint16_t value : RandomValues<Bfloat16>(random, 300)) {
    short_values.push_back(Type::Narrow(Bfloat16ToFloat(value)));
  }
  const auto long_values = RandomValues<Type>(random, 300);
  for (uint32_t world = 1; world <= 64; world += 1 + world / 8) {
    for (uint32_t contributors = 1; contributors <= world; ++contributors) {
      ExpectEqualInputsPass<Type>(short_values, contributors, world, 1);
      ExpectEqualInputsPass<Type>(long_values, contributors, world,
                                  1 + contributors / 2.0);
    }
  }
}

TYPED_TEST(AccumulateTest, WithoutContributorsZeroAndNothingIsRead) {
  using Type = TypeParam;
  std::vector<typename Type::Storage> out(5, Type::Narrow(3));
  ScaleAndRound(Type::kDtype, ReduceOp::kAvg, nullptr, 0, 4, out.data(), 5);
  EXPECT_EQ(out, std::vector<typename Type::Storage>(5));
}

TYPED_TEST(AccumulateTest, NullIsFineForNoElements) {
  AccumulateFirst(TypeParam::kDtype, nullptr, nullptr, 0);
  Accumulate(TypeParam::kDtype, nullptr, nullptr, 0);
  ScaleAndRound(TypeParam::kDtype, ReduceOp::kSum, nullptr, 1, 2, nullptr, 0);
  ScaleAndRound(TypeParam::kDtype, ReduceOp::kSum, nullptr, 0, 2, nullptr, 0);
}

TYPED_TEST(AccumulateTest, NanAndInfinityPass) {
  using Type = TypeParam;
  using Accumulator = typename Type::Accumulator;
  const Accumulator nan = std::numeric_limits<Accumulator>::quiet_NaN();
  const Accumulator inf = std::numeric_limits<Accumulator>::infinity();
  const std::vector<typename Type::Storage> a = {
      Type::Narrow(nan), Type::Narrow(inf), Type::Narrow(inf)};
  const std::vector<typename Type::Storage> b = {
      Type::Narrow(1), Type::Narrow(1), Type::Narrow(-inf)};
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
    const auto out = OneShot<Type>(op, {a, b}, 3);
    EXPECT_TRUE(std::isnan(Type::Widen(out[0])));
    EXPECT_EQ(Type::Widen(out[1]), inf);
    EXPECT_TRUE(std::isnan(Type::Widen(out[2])));
  }
}

TEST(OneShotTest, AverageDividesByContributorsNotByElements) {
  const auto out = OneShot<Float32>(
      ReduceOp::kAvg,
      {std::vector<float>(5, 1.0f), std::vector<float>(5, 3.0f)}, 2);
  EXPECT_EQ(out, std::vector<float>(5, 2.0f));
}

TEST(OneShotTest, SumIsScaledByTheMissingShare) {
  // Two of three ranks: 3 + 5 stands for 12.
  EXPECT_EQ(OneShot<Float32>(ReduceOp::kSum, {{3.0f}, {5.0f}}, 3),
            std::vector<float>{12.0f});
  EXPECT_EQ(OneShot<Float32>(ReduceOp::kAvg, {{3.0f}, {5.0f}}, 3),
            std::vector<float>{4.0f});
}

TEST(OneShotTest, CompleteSumIsOnlyRounded) {
  // A NaN's payload and a subnormal would not survive arithmetic unharmed.
  const std::vector<uint32_t> bits = {0x7fa00001u, 0x00000001u, 0x80000000u,
                                      0x7f7fffffu};
  std::vector<uint32_t> out(bits.size());
  ScaleAndRound(Dtype::kFloat32, ReduceOp::kSum, bits.data(), 7, 7, out.data(),
                bits.size());
  EXPECT_EQ(out, bits);
  ScaleAndRound(Dtype::kFloat32, ReduceOp::kAvg, bits.data(), 1, 7, out.data(),
                bits.size());
  EXPECT_EQ(out, bits);
}

TEST(OneShotTest, SmallestHalfIsNotLostInTheAverage) {
  const std::vector<std::vector<uint16_t>> inputs(8, {0x0001});
  EXPECT_EQ(OneShot<Float16>(ReduceOp::kAvg, inputs, 8),
            std::vector<uint16_t>{0x0001});
}

TEST(OneShotTest, HalfSumDoesNotStagnate) {
  // In half, 2048 + 1 is 2048.
  std::vector<std::vector<uint16_t>> inputs(17, {FloatToHalf(1)});
  inputs.front() = {FloatToHalf(2048)};
  EXPECT_EQ(OneShot<Float16>(ReduceOp::kSum, inputs, 17),
            std::vector<uint16_t>{FloatToHalf(2064)});
}

TEST(OneShotTest, HalfAverageDoesNotOverflowOnTheWay) {
  const std::vector<std::vector<uint16_t>> inputs(4, {FloatToHalf(60000)});
  EXPECT_EQ(OneShot<Float16>(ReduceOp::kAvg, inputs, 4),
            std::vector<uint16_t>{FloatToHalf(60000)});
}

TEST(OneShotTest, ScaledSumOverflowsOnlyIfTheResultDoes) {
  // acc * world is beyond float32 and float64, the scaled sum is not.
  const float large = 0x1p127f;
  float out = 0;
  ScaleAndRound(Dtype::kFloat32, ReduceOp::kSum, &large, 4, 5, &out, 1);
  EXPECT_EQ(out, 0x1.4p127f);
  const double larger = 0x1p1023;
  double out64 = 0;
  ScaleAndRound(Dtype::kFloat64, ReduceOp::kSum, &larger, 4, 5, &out64, 1);
  EXPECT_EQ(out64, 0x1.4p1023);
}

TEST(OneShotTest, Float64IsNeverNarrowed) {
  EXPECT_EQ(OneShot<Float64>(ReduceOp::kSum, {{1.0}, {0x1p-40}}, 2),
            std::vector<double>{1.0000000000009095});
}

TEST(AccumulateDeathTest, IntegersAndSelectionsAreRefused) {
  float acc = 0;
  int32_t value = 1;
  EXPECT_DEATH(Accumulate(Dtype::kInt32, &value, &acc, 1), "");
  EXPECT_DEATH(
      ScaleAndRound(Dtype::kFloat32, ReduceOp::kMin, &acc, 1, 1, &value, 1),
      "");
}

}  // namespace
}  // namespace optireduce::gradcodec
