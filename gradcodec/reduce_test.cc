#include "gradcodec/reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "gradcodec/half.h"
#include "gradcodec/testing.h"
#include "gtest/gtest.h"

namespace optireduce::gradcodec {
namespace {

using testing::kOffsets;
using testing::kSizes;
using testing::Misaligned;

template <typename T>
std::vector<T> Reduce(Dtype dtype, ReduceOp op,
                      const std::vector<std::vector<T>>& inputs) {
  std::vector<const void*> sources;
  sources.reserve(inputs.size());
  for (const auto& input : inputs) sources.push_back(input.data());
  std::vector<T> out(inputs.front().size());
  ReduceInRankOrder(dtype, op, sources.data(), sources.size(),
                    static_cast<uint32_t>(sources.size()), out.data(),
                    out.size());
  return out;
}

template <typename T, Dtype kType>
struct Integer {
  using Storage = T;
  static constexpr Dtype kDtype = kType;
};

template <typename Type>
class ReduceIntegerTest : public ::testing::Test {};
using Integers = ::testing::Types<
    Integer<int8_t, Dtype::kInt8>, Integer<uint8_t, Dtype::kUint8>,
    Integer<int16_t, Dtype::kInt16>, Integer<uint16_t, Dtype::kUint16>,
    Integer<int32_t, Dtype::kInt32>, Integer<uint32_t, Dtype::kUint32>,
    Integer<int64_t, Dtype::kInt64>, Integer<uint64_t, Dtype::kUint64>>;
TYPED_TEST_SUITE(ReduceIntegerTest, Integers);

TYPED_TEST(ReduceIntegerTest, AgreesWithReference) {
  using T = typename TypeParam::Storage;
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const size_t n = random() % 2100;
    std::vector<std::vector<T>> inputs(1 + random() % 6, std::vector<T>(n));
    for (auto& input : inputs) {
      for (T& value : input) value = static_cast<T>(random());
    }
    std::vector<T> sum(n), minimum(n), maximum(n);
    for (size_t i = 0; i < n; ++i) {
      uint64_t total = 0;  // wraps; its lower bits are those of every width
      minimum[i] = maximum[i] = inputs[0][i];
      for (const auto& input : inputs) {
        total += static_cast<uint64_t>(input[i]);
        minimum[i] = std::min(minimum[i], input[i]);
        maximum[i] = std::max(maximum[i], input[i]);
      }
      sum[i] = static_cast<T>(total);
    }
    EXPECT_EQ(Reduce(TypeParam::kDtype, ReduceOp::kSum, inputs), sum);
    EXPECT_EQ(Reduce(TypeParam::kDtype, ReduceOp::kMin, inputs), minimum);
    EXPECT_EQ(Reduce(TypeParam::kDtype, ReduceOp::kMax, inputs), maximum);
  }
}

TYPED_TEST(ReduceIntegerTest, SumWrapsAtTheEnds) {
  using T = typename TypeParam::Storage;
  const T least = std::numeric_limits<T>::min();
  const T most = std::numeric_limits<T>::max();
  EXPECT_EQ(Reduce<T>(TypeParam::kDtype, ReduceOp::kSum, {{most}, {1}}),
            std::vector<T>{least});
}

TYPED_TEST(ReduceIntegerTest, AnyAlignmentAndSizeGivesTheSame) {
  using T = typename TypeParam::Storage;
  std::mt19937_64 random(5);
  for (size_t n : kSizes) {
    std::vector<std::vector<T>> inputs(3, std::vector<T>(n));
    for (auto& input : inputs) {
      for (T& value : input) value = static_cast<T>(random());
    }
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax}) {
      const auto expected = Reduce(TypeParam::kDtype, op, inputs);
      for (size_t offset : kOffsets) {
        const Misaligned<T> a(offset, inputs[0]);
        const Misaligned<T> b(offset + 1, inputs[1]);
        const Misaligned<T> c(offset + 2, inputs[2]);
        const void* sources[] = {a.data(), b.data(), c.data()};
        Misaligned<T> out(offset + 3, n);
        ReduceInRankOrder(TypeParam::kDtype, op, sources, 3, 3, out.data(), n);
        EXPECT_EQ(out.values(), expected) << "n " << n << " offset " << offset;
        EXPECT_TRUE(out.GuardsIntact());
      }
    }
  }
}

TEST(ReduceTest, Int8SumWraps) {
  EXPECT_EQ(Reduce<int8_t>(Dtype::kInt8, ReduceOp::kSum, {{120}, {100}}),
            std::vector<int8_t>{-36});
}

TEST(ReduceDeathTest, IntegerAverageIsRefused) {
  EXPECT_DEATH(
      Reduce<int32_t>(Dtype::kInt32, ReduceOp::kAvg, {{-3}, {-2}, {-2}}), "");
}

struct Float32 {
  using Storage = float;
  using Wide = float;
  static constexpr Dtype kDtype = Dtype::kFloat32;
  static float Widen(float v) { return v; }
  static float Narrow(float v) { return v; }
};
struct Float16 {
  using Storage = uint16_t;
  using Wide = float;
  static constexpr Dtype kDtype = Dtype::kFloat16;
  static float Widen(uint16_t v) { return HalfToFloat(v); }
  static uint16_t Narrow(float v) { return FloatToHalf(v); }
};
struct Bfloat16 {
  using Storage = uint16_t;
  using Wide = float;
  static constexpr Dtype kDtype = Dtype::kBfloat16;
  static float Widen(uint16_t v) { return Bfloat16ToFloat(v); }
  static uint16_t Narrow(float v) { return FloatToBfloat16(v); }
};
struct Float64 {
  using Storage = double;
  using Wide = double;
  static constexpr Dtype kDtype = Dtype::kFloat64;
  static double Widen(double v) { return v; }
  static double Narrow(double v) { return v; }
};

template <typename Type>
std::vector<std::vector<typename Type::Storage>> RandomInputs(
    std::mt19937& random, size_t ranks, size_t n) {
  std::normal_distribution<double> normal;
  std::vector<std::vector<typename Type::Storage>> inputs(ranks);
  for (auto& input : inputs) {
    input.resize(n);
    for (auto& value : input) {
      value = Type::Narrow(static_cast<typename Type::Wide>(normal(random)));
    }
  }
  return inputs;
}

template <typename T>
auto Bits(const std::vector<T>& values) {
  using Bit = std::conditional_t<
      sizeof(T) == 2, uint16_t,
      std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
  std::vector<Bit> bits;
  bits.reserve(values.size());
  for (T value : values) bits.push_back(std::bit_cast<Bit>(value));
  return bits;
}

template <typename Type>
class ReduceFloatTest : public ::testing::Test {};
using Floats = ::testing::Types<Float32, Float16, Bfloat16, Float64>;
TYPED_TEST_SUITE(ReduceFloatTest, Floats);

TYPED_TEST(ReduceFloatTest, SumsInTheOrderGivenAndRoundsOnce) {
  using Type = TypeParam;
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const auto inputs = RandomInputs<Type>(random, 2 + random() % 7, 1500);
    const auto ranks = static_cast<typename Type::Wide>(inputs.size());
    std::vector<typename Type::Storage> sum(1500), avg(1500);
    for (size_t i = 0; i < 1500; ++i) {
      typename Type::Wide total = Type::Widen(inputs[0][i]);
      for (size_t rank = 1; rank < inputs.size(); ++rank) {
        total += Type::Widen(inputs[rank][i]);
      }
      sum[i] = Type::Narrow(total);
      avg[i] = Type::Narrow(total / ranks);
    }
    EXPECT_EQ(Bits(Reduce(Type::kDtype, ReduceOp::kSum, inputs)), Bits(sum));
    EXPECT_EQ(Bits(Reduce(Type::kDtype, ReduceOp::kAvg, inputs)), Bits(avg));
  }
}

TYPED_TEST(ReduceFloatTest, StaysNearTheWideReference) {
  using Type = TypeParam;
  std::mt19937 random(3);
  const auto inputs = RandomInputs<Type>(random, 8, 1000);
  const auto result = Reduce(Type::kDtype, ReduceOp::kAvg, inputs);
  const double accumulator_unit =
      sizeof(typename Type::Wide) == 4 ? 0x1p-24 : 0x1p-53;
  // Distance of 1 to the next value, halved: one rounding of the output.
  const double unit = Type::kDtype == Dtype::kFloat16    ? 0x1p-11
                      : Type::kDtype == Dtype::kBfloat16 ? 0x1p-8
                                                         : accumulator_unit;
  for (size_t i = 0; i < 1000; ++i) {
    long double sum = 0;
    long double magnitude = 0;
    for (const auto& input : inputs) {
      sum += Type::Widen(input[i]);
      magnitude += std::abs(Type::Widen(input[i]));
    }
    EXPECT_LE(std::abs(Type::Widen(result[i]) - sum / 8),
              magnitude / 8 * accumulator_unit * 9 +
                  std::abs(sum / 8) * unit * 1.01L + 0x1p-25);
  }
}

TYPED_TEST(ReduceFloatTest, FusedAndSeparateBuffersGiveTheSameBits) {
  using Type = TypeParam;
  std::mt19937 random(4);
  // 3 and 5 as one of 8, and cuts beside the borders of an internal strip.
  for (auto [left, right] :
       {std::pair<size_t, size_t>{3, 5}, {1023, 1030}, {1024, 1}, {1, 3000}}) {
    const auto fused = RandomInputs<Type>(random, 3, left + right);
    auto first = fused;
    auto second = fused;
    for (auto& input : first) input.resize(left);
    for (auto& input : second) input.erase(input.begin(), input.begin() + left);
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
      auto apart = Reduce(Type::kDtype, op, first);
      const auto tail = Reduce(Type::kDtype, op, second);
      apart.insert(apart.end(), tail.begin(), tail.end());
      EXPECT_EQ(Bits(apart), Bits(Reduce(Type::kDtype, op, fused)));
    }
  }
}

TYPED_TEST(ReduceFloatTest, AnyAlignmentAndSizeGivesTheSameBits) {
  using Type = TypeParam;
  using Storage = typename Type::Storage;
  std::mt19937 random(6);
  for (size_t n : kSizes) {
    const auto inputs = RandomInputs<Type>(random, 3, n);
    for (ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax}) {
      const auto expected = Reduce(Type::kDtype, op, inputs);
      for (size_t offset : kOffsets) {
        const Misaligned<Storage> a(offset, inputs[0]);
        const Misaligned<Storage> b(offset + 1, inputs[1]);
        const Misaligned<Storage> c(offset + 2, inputs[2]);
        const void* sources[] = {a.data(), b.data(), c.data()};
        Misaligned<Storage> out(offset + 3, n);
        ReduceInRankOrder(Type::kDtype, op, sources, 3, 3, out.data(), n);
        EXPECT_EQ(Bits(out.values()), Bits(expected))
            << Name(op) << " n " << n << " offset " << offset;
        EXPECT_TRUE(out.GuardsIntact());
      }
    }
  }
}

TYPED_TEST(ReduceFloatTest, SelectionDoesNotDependOnTheOrder) {
  using Type = TypeParam;
  using Wide = typename Type::Wide;
  const Wide nan = std::numeric_limits<Wide>::quiet_NaN();
  const Wide inf = std::numeric_limits<Wide>::infinity();
  const std::vector<Wide> special = {0, -Wide{0}, 1, -1, inf, -inf, nan, -nan};
  for (Wide x : special) {
    for (Wide y : special) {
      for (Wide z : special) {
        const bool any_nan = std::isnan(x) || std::isnan(y) || std::isnan(z);
        const auto before = [](Wide a, Wide b) {
          return a < b || (a == b && std::signbit(a) && !std::signbit(b));
        };
        const Wide minimum = any_nan ? nan : std::min({x, y, z}, before);
        const Wide maximum = any_nan ? nan : std::max({x, y, z}, before);
        const std::vector<std::vector<typename Type::Storage>> inputs = {
            {Type::Narrow(x)}, {Type::Narrow(y)}, {Type::Narrow(z)}};
        const std::vector<typename Type::Storage> min = {Type::Narrow(minimum)};
        const std::vector<typename Type::Storage> max = {Type::Narrow(maximum)};
        EXPECT_EQ(Bits(Reduce(Type::kDtype, ReduceOp::kMin, inputs)), Bits(min))
            << x << " " << y << " " << z;
        EXPECT_EQ(Bits(Reduce(Type::kDtype, ReduceOp::kMax, inputs)), Bits(max))
            << x << " " << y << " " << z;
      }
    }
  }
}

TYPED_TEST(ReduceFloatTest, NanAmongTermsGivesNan) {
  using Type = TypeParam;
  using Wide = typename Type::Wide;
  const auto nan = Type::Narrow(std::numeric_limits<Wide>::quiet_NaN());
  const auto one = Type::Narrow(1);
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
    const auto out =
        Reduce<typename Type::Storage>(Type::kDtype, op, {{one}, {nan}, {one}});
    EXPECT_TRUE(std::isnan(Type::Widen(out[0])));
  }
}

TEST(ReduceTest, WorldOfOneReturnsItsInputBitForBit) {
  // Every 16-bit pattern, signalling NaNs included.
  std::vector<uint16_t> patterns(65536);
  for (size_t i = 0; i < patterns.size(); ++i) {
    patterns[i] = static_cast<uint16_t>(i);
  }
  for (Dtype dtype : {Dtype::kFloat16, Dtype::kBfloat16, Dtype::kInt16}) {
    for (ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax}) {
      if (!IsSupported(dtype, op, false)) continue;
      EXPECT_EQ(Reduce<uint16_t>(dtype, op, {patterns}), patterns)
          << Name(dtype) << " " << Name(op);
    }
  }
}

TEST(ReduceTest, SmallestHalfIsNotLostInTheAverage) {
  const std::vector<std::vector<uint16_t>> inputs(8, {0x0001});
  EXPECT_EQ(Reduce(Dtype::kFloat16, ReduceOp::kAvg, inputs),
            std::vector<uint16_t>{0x0001});
}

TEST(ReduceTest, Float64IsNeverNarrowed) {
  EXPECT_EQ(Reduce<double>(Dtype::kFloat64, ReduceOp::kSum, {{1.0}, {0x1p-40}}),
            std::vector<double>{1.0000000000009095});
}

TEST(ReduceTest, AverageDividesByTheWorldNotByTheElements) {
  EXPECT_EQ(
      Reduce<float>(Dtype::kFloat32, ReduceOp::kAvg,
                    {std::vector<float>(5, 1.0f), std::vector<float>(5, 3.0f)}),
      std::vector<float>(5, 2.0f));
  // Ranks that were combined before count by `world`.
  const float sums[] = {3.0f, 12.0f};
  const void* sources[] = {&sums[0], &sums[1]};
  float out = 0;
  ReduceInRankOrder(Dtype::kFloat32, ReduceOp::kAvg, sources, 2, 4, &out, 1);
  EXPECT_EQ(out, 3.75f);
  ReduceInRankOrder(Dtype::kFloat32, ReduceOp::kAvg, sources, 1, 4, &out, 1);
  EXPECT_EQ(out, 0.75f);
}

TEST(ReduceTest, NothingToReduce) {
  ReduceInRankOrder(Dtype::kFloat32, ReduceOp::kSum, nullptr, 0, 4, nullptr, 0);
  const void* null_source = nullptr;
  ReduceInRankOrder(Dtype::kInt8, ReduceOp::kMax, &null_source, 1, 1, nullptr,
                    0);
  double out = 5;
  ReduceInRankOrder(Dtype::kFloat64, ReduceOp::kSum, nullptr, 0, 4, &out, 1);
  EXPECT_EQ(out, 0.0);
}

}  // namespace
}  // namespace optireduce::gradcodec
