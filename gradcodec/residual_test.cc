#include "gradcodec/residual.h"

#include <algorithm>
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

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();

// What the tests need to know of each type, apart from the code under test.
struct Float32 {
  using Storage = float;
  static constexpr Dtype kDtype = Dtype::kFloat32;
  static constexpr double kUnit = 0x1p-24;  // relative error of one rounding
  static constexpr float kMost = kLargest;
  static float Widen(float v) { return v; }
  static float Narrow(float v) { return v; }
};
struct Float16 {
  using Storage = uint16_t;
  static constexpr Dtype kDtype = Dtype::kFloat16;
  static constexpr double kUnit = 0x1p-11;
  static constexpr float kMost = 65504;
  static float Widen(uint16_t v) { return HalfToFloat(v); }
  static uint16_t Narrow(float v) { return FloatToHalf(v); }
};
struct Bfloat16 {
  using Storage = uint16_t;
  static constexpr Dtype kDtype = Dtype::kBfloat16;
  static constexpr double kUnit = 0x1p-8;
  static constexpr float kMost = 0x1.fep127f;
  static float Widen(uint16_t v) { return Bfloat16ToFloat(v); }
  static uint16_t Narrow(float v) { return FloatToBfloat16(v); }
};

std::vector<float> RandomFloats(std::mt19937& random, size_t n) {
  std::uniform_real_distribution<float> uniform(-2.0f, 2.0f);
  std::vector<float> values(n);
  for (float& value : values) value = uniform(random);
  return values;
}

template <typename Type>
std::vector<typename Type::Storage> Narrowed(const std::vector<float>& values) {
  std::vector<typename Type::Storage> out;
  for (float value : values) out.push_back(Type::Narrow(value));
  return out;
}

template <typename Type>
class ResidualTest : public ::testing::Test {};
using Types = ::testing::Types<Float32, Float16, Bfloat16>;
TYPED_TEST_SUITE(ResidualTest, Types);

// Every kernel at every size and alignment against double precision.

TYPED_TEST(ResidualTest, ContributesGradientAndResidual) {
  using Type = TypeParam;
  using Storage = typename Type::Storage;
  std::mt19937 random(1);
  for (size_t n : kSizes) {
    for (size_t offset : kOffsets) {
      const auto gradient = Narrowed<Type>(RandomFloats(random, n));
      const auto residual = RandomFloats(random, n);
      const Misaligned<Storage> source(offset, gradient);
      Misaligned<Storage> wire(offset + 1, n);
      std::vector<float> value(n);
      AddResidual(Type::kDtype, source.data(), residual.data(), value.data(),
                  n);
      RoundToWire(Type::kDtype, value.data(), wire.data(), n);
      EXPECT_TRUE(wire.GuardsIntact());
      const auto sent = wire.values();
      for (size_t i = 0; i < n; ++i) {
        const double exact = double{Type::Widen(gradient[i])} + residual[i];
        EXPECT_NEAR(value[i], exact, std::abs(exact) * 0x1p-24 + 0x1p-40);
        EXPECT_EQ(Type::Widen(sent[i]), Type::Widen(Type::Narrow(value[i])));
      }
    }
  }
}

TYPED_TEST(ResidualTest, ContributesTheGradientWhereThereIsNoResidual) {
  using Type = TypeParam;
  std::mt19937 random(2);
  const auto gradient = Narrowed<Type>(RandomFloats(random, 1025));
  std::vector<float> value(1025);
  AddResidual(Type::kDtype, gradient.data(), nullptr, value.data(), 1025);
  for (size_t i = 0; i < 1025; ++i) {
    EXPECT_EQ(value[i], Type::Widen(gradient[i]));
  }
}

// What was sent and what is kept are the contribution, exactly.
TYPED_TEST(ResidualTest, RoundingErrorOfWhatWasSummedIsKept) {
  using Type = TypeParam;
  std::mt19937 random(3);
  for (size_t n : kSizes) {
    const auto value = RandomFloats(random, n);
    std::vector<typename Type::Storage> wire(n);
    RoundToWire(Type::kDtype, value.data(), wire.data(), n);
    auto residual = value;
    BookSummed(Type::kDtype, residual.data(), n);
    for (size_t i = 0; i < n; ++i) {
      EXPECT_EQ(double{Type::Widen(wire[i])} + residual[i], double{value[i]});
      EXPECT_LE(std::abs(residual[i]), 2 * Type::kUnit);
    }
  }
}

TYPED_TEST(ResidualTest, WhatWasNotSummedIsKeptLessWhatWasImputed) {
  using Type = TypeParam;
  using Storage = typename Type::Storage;
  std::mt19937 random(4);
  for (size_t n : kSizes) {
    for (size_t offset : kOffsets) {
      for (float divisor : {1.0f, 6.0f}) {
        const auto value = RandomFloats(random, n);
        const auto result = Narrowed<Type>(RandomFloats(random, n));
        const Misaligned<Storage> packet(offset, result);
        auto residual = value;
        EXPECT_EQ(BookMissing(Type::kDtype, packet.data(), divisor,
                              residual.data(), n),
                  0u);
        for (size_t i = 0; i < n; ++i) {
          const double imputed = double{Type::Widen(result[i])} / divisor;
          EXPECT_NEAR(residual[i], value[i] - imputed, 4 * 0x1p-23);
        }
      }
    }
  }
  auto whole = RandomFloats(random, 100);
  const auto before = whole;
  EXPECT_EQ(BookMissing(Type::kDtype, nullptr, 1, whole.data(), 100), 0u);
  EXPECT_EQ(whole, before);
}

TYPED_TEST(ResidualTest, LateResultsAreDebts) {
  using Type = TypeParam;
  using Storage = typename Type::Storage;
  std::mt19937 random(5);
  for (size_t n : kSizes) {
    for (size_t offset : kOffsets) {
      const auto result = Narrowed<Type>(RandomFloats(random, n));
      const Misaligned<Storage> packet(offset, result);
      const auto before = RandomFloats(random, n);
      auto debt = before;
      EXPECT_EQ(
          AddResultToStored(Type::kDtype, packet.data(), 0.5f, debt.data(), n),
          0u);
      for (size_t i = 0; i < n; ++i) {
        const double exact = before[i] + 0.5 * Type::Widen(result[i]);
        EXPECT_NEAR(debt[i], exact, 4 * 0x1p-24);
      }
    }
  }
}

// Output and what is still owed are the output before and the debt.
TYPED_TEST(ResidualTest, PaysDebtsWithoutLosingWhatTheOutputCannotHold) {
  using Type = TypeParam;
  using Storage = typename Type::Storage;
  std::mt19937 random(6);
  for (size_t n : kSizes) {
    for (size_t offset : kOffsets) {
      const auto before = Narrowed<Type>(RandomFloats(random, n));
      const auto owed = RandomFloats(random, n);
      Misaligned<Storage> out(offset, before);
      auto debt = owed;
      std::vector<float> rest(n, 99);
      const bool any =
          PayDebt(Type::kDtype, out.data(), debt.data(), rest.data(), n);
      EXPECT_TRUE(out.GuardsIntact());
      EXPECT_EQ(any, std::any_of(rest.begin(), rest.end(),
                                 [](float value) { return value != 0; }));
      const auto after = out.values();
      for (size_t i = 0; i < n; ++i) {
        const double sum = double{Type::Widen(before[i])} + owed[i];
        EXPECT_NEAR(Type::Widen(after[i]) + double{rest[i]}, sum, 4 * 0x1p-24);
        EXPECT_LE(std::abs(rest[i]), 4 * Type::kUnit);
        EXPECT_NEAR(double{debt[i]} + rest[i], owed[i], 4 * 0x1p-24);
      }
      EXPECT_FALSE(any && Type::kDtype == Dtype::kFloat32);
    }
  }
}

TYPED_TEST(ResidualTest, PutsLateResultsInPlace) {
  using Type = TypeParam;
  using Storage = typename Type::Storage;
  std::mt19937 random(7);
  for (size_t n : kSizes) {
    for (size_t offset : kOffsets) {
      const auto before = Narrowed<Type>(RandomFloats(random, n));
      const auto result = Narrowed<Type>(RandomFloats(random, n));
      Misaligned<Storage> out(offset, before);
      const Misaligned<Storage> packet(offset + 1, result);
      std::vector<float> rest(n, 99);
      AddResultToOutput(Type::kDtype, Type::kDtype, packet.data(), out.data(),
                        rest.data(), n);
      EXPECT_TRUE(out.GuardsIntact());
      const auto after = out.values();
      for (size_t i = 0; i < n; ++i) {
        const double sum =
            double{Type::Widen(before[i])} + Type::Widen(result[i]);
        EXPECT_NEAR(Type::Widen(after[i]) + double{rest[i]}, sum, 4 * 0x1p-24);
        EXPECT_LE(std::abs(rest[i]), 4 * Type::kUnit);
      }
    }
  }
}

TYPED_TEST(ResidualTest, StoresResultsIntoFloat32AndIntoTheirOwnType) {
  using Type = TypeParam;
  std::mt19937 random(8);
  const auto result = Narrowed<Type>(RandomFloats(random, 255));
  std::vector<float> wide(255);
  StoreResult(Dtype::kFloat32, Type::kDtype, result.data(), wide.data(), 255);
  for (size_t i = 0; i < 255; ++i) EXPECT_EQ(wide[i], Type::Widen(result[i]));
  std::vector<typename Type::Storage> same(255);
  StoreResult(Type::kDtype, Type::kDtype, result.data(), same.data(), 255);
  EXPECT_EQ(same, result);

  std::vector<float> rest(255);
  EXPECT_FALSE(AddResultToOutput(Dtype::kFloat32, Type::kDtype, result.data(),
                                 wide.data(), rest.data(), 255));
  for (size_t i = 0; i < 255; ++i) {
    EXPECT_EQ(wide[i], 2 * Type::Widen(result[i]));
  }
}

// ---- values that are not finite, and those at the edge of a type

TYPED_TEST(ResidualTest, FiniteContributionsNeverBecomeInfinite) {
  using Type = TypeParam;
  const std::vector<float> value = {kLargest, -kLargest, Type::kMost,
                                    -Type::kMost, 1.0f};
  std::vector<typename Type::Storage> wire(value.size());
  RoundToWire(Type::kDtype, value.data(), wire.data(), value.size());
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(Type::Widen(wire[i]), std::copysign(Type::kMost, value[i]));
  }
  auto residual = value;
  BookSummed(Type::kDtype, residual.data(), residual.size());
  for (size_t i = 0; i < value.size(); ++i) {
    EXPECT_EQ(double{Type::Widen(wire[i])} + residual[i], double{value[i]});
  }
}

TYPED_TEST(ResidualTest, NonFiniteContributionsAreSentButNotStored) {
  using Type = TypeParam;
  const std::vector<float> value = {kInf, -kInf, kNan, 2.0f};
  std::vector<typename Type::Storage> wire(4);
  RoundToWire(Type::kDtype, value.data(), wire.data(), 4);
  EXPECT_EQ(Type::Widen(wire[0]), kInf);
  EXPECT_EQ(Type::Widen(wire[1]), -kInf);
  EXPECT_TRUE(std::isnan(Type::Widen(wire[2])));

  auto summed = value;
  BookSummed(Type::kDtype, summed.data(), 4);
  EXPECT_EQ(summed, (std::vector<float>{0, 0, 0, 0}));
  auto missing = value;
  EXPECT_EQ(BookMissing(Type::kDtype, nullptr, 1, missing.data(), 4), 3u);
  EXPECT_EQ(missing, (std::vector<float>{0, 0, 0, 2}));

  const auto mean = Narrowed<Type>({1.0f, kNan, 1.0f, kInf});
  missing = {kInf, 1.0f, 3.0f, 1.0f};
  EXPECT_EQ(BookMissing(Type::kDtype, mean.data(), 1, missing.data(), 4), 3u);
  EXPECT_EQ(missing, (std::vector<float>{0, 0, 2, 0}));
}

TYPED_TEST(ResidualTest, NonFiniteResultsLeaveDebtsAsTheyWere) {
  using Type = TypeParam;
  const auto result = Narrowed<Type>({kNan, kInf, 1.0f});
  std::vector<float> debt = {5, 6, 7};
  EXPECT_EQ(AddResultToStored(Type::kDtype, result.data(), 1, debt.data(), 3),
            2u);
  EXPECT_EQ(debt, (std::vector<float>{5, 6, 8}));
}

TYPED_TEST(ResidualTest, DebtsAreNotPaidIntoNonFiniteElements) {
  using Type = TypeParam;
  auto out = Narrowed<Type>({kNan, kInf, 1.0f, Type::kMost});
  std::vector<float> debt = {3, 4, 0.5f, kLargest};
  std::vector<float> rest(4);
  EXPECT_TRUE(PayDebt(Type::kDtype, out.data(), debt.data(), rest.data(), 4));
  EXPECT_TRUE(std::isnan(Type::Widen(out[0])));
  EXPECT_EQ(Type::Widen(out[1]), kInf);
  EXPECT_EQ(Type::Widen(out[2]), 1.5f);
  EXPECT_EQ(Type::Widen(out[3]), Type::kMost);
  EXPECT_EQ(rest[0], 3);
  EXPECT_EQ(rest[1], 4);
  EXPECT_EQ(rest[2], 0);
  EXPECT_EQ(debt[0], 0);
  EXPECT_EQ(debt[1], 0);
  EXPECT_EQ(debt[2], 0.5f);
  EXPECT_GT(rest[3], 0);
}

TEST(ResidualTest, SumsBeyondFloat32LeaveTheStoredValue) {
  std::vector<float> stored = {kLargest, 1, 2};
  const std::vector<float> amount = {kLargest, kNan, 1};
  EXPECT_EQ(AddToStored(amount.data(), 1, stored.data(), 3), 2u);
  EXPECT_EQ(stored, (std::vector<float>{kLargest, 1, 3}));
}

TEST(ResidualTest, RescaledByPowersOfTwoExactly) {
  std::vector<float> stored = {1.25f, -3, 0};
  EXPECT_EQ(Rescale(0.5f, stored.data(), 3), 0u);
  EXPECT_EQ(stored, (std::vector<float>{0.625f, -1.5f, 0}));
  stored = {kLargest, 1, -kLargest};
  EXPECT_EQ(Rescale(2, stored.data(), 3), 2u);
  EXPECT_EQ(stored, (std::vector<float>{0, 2, 0}));
}

TEST(ResidualTest, ScaleOfWhatIsAddedIsTheLoss) {
  std::vector<float> stored = {1, 2};
  const std::vector<float> amount = {8, -8};
  EXPECT_EQ(AddToStored(amount.data(), 0.25f, stored.data(), 2), 0u);
  EXPECT_EQ(stored, (std::vector<float>{3, 0}));
}

TEST(ResidualTest, KnowsWhetherAnythingIsLeft) {
  std::vector<float> values(1000, -0.0f);
  EXPECT_FALSE(AnyNonZero(values.data(), values.size()));
  values[999] = std::numeric_limits<float>::denorm_min();
  EXPECT_TRUE(AnyNonZero(values.data(), values.size()));
  EXPECT_FALSE(AnyNonZero(values.data(), 999));
  EXPECT_FALSE(AnyNonZero(nullptr, 0));
}

// ---- results

TEST(ResidualTest, ImputesFromThreeQuartersOnAndNeverForTheRemoved) {
  for (uint32_t world = 1; world <= 40; ++world) {
    for (uint32_t c = 0; c <= world; ++c) {
      EXPECT_EQ(IsImputed(c, world, false), c > 0 && c >= 0.75 * world);
      EXPECT_FALSE(IsImputed(c, world, true));
    }
  }
  EXPECT_TRUE(IsImputed(0xffffffffu, 0xffffffffu, false));
}

TYPED_TEST(ResidualTest, DividesByTheWorldUnlessImputed) {
  using Type = TypeParam;
  using Storage = typename Type::Storage;
  const std::vector<float> sum = {24, -48, 3};
  const auto result = [&](ReduceOp op, uint32_t c, bool imputed) {
    std::vector<Storage> out(3);
    BucketedResult(Type::kDtype, op, sum.data(), c, 8, imputed, out.data(), 3);
    return out;
  };
  EXPECT_EQ(result(ReduceOp::kAvg, 2, false), Narrowed<Type>({3, -6, 0.375f}));
  EXPECT_EQ(result(ReduceOp::kAvg, 8, false), Narrowed<Type>({3, -6, 0.375f}));
  EXPECT_EQ(result(ReduceOp::kAvg, 6, true), Narrowed<Type>({4, -8, 0.5f}));
  EXPECT_EQ(result(ReduceOp::kSum, 2, false), Narrowed<Type>({24, -48, 3}));
  EXPECT_EQ(result(ReduceOp::kSum, 6, true), Narrowed<Type>({32, -64, 4}));
  EXPECT_EQ(result(ReduceOp::kAvg, 0, false), Narrowed<Type>({0, 0, 0}));
  EXPECT_EQ(result(ReduceOp::kSum, 0, false), Narrowed<Type>({0, 0, 0}));
}

// A result stands for all ranks, or for those that it is the mean of.
TYPED_TEST(ResidualTest, WhatAResultLeavesOfTheSum) {
  using Type = TypeParam;
  const auto result = Narrowed<Type>({3, -6, 0.375f});
  const auto left = [&](ReduceOp op, uint32_t c, bool imputed) {
    std::vector<float> sum = {25, -50, kInf};
    SubtractResult(Type::kDtype, op, result.data(), c, 8, imputed, sum.data(),
                   3);
    return sum;
  };
  using Floats = std::vector<float>;
  EXPECT_EQ(left(ReduceOp::kAvg, 2, false), (Floats{1, -2, kInf}));
  EXPECT_EQ(left(ReduceOp::kAvg, 6, true), (Floats{7, -14, kInf}));
  EXPECT_EQ(left(ReduceOp::kSum, 2, false), (Floats{22, -44, kInf}));
  EXPECT_EQ(left(ReduceOp::kSum, 6, true), (Floats{22.75f, -45.5f, kInf}));
}

// The rule as a whole, for one chunk and every set of contributors: what is
// applied and what is kept are the true sum, in every type.
TYPED_TEST(ResidualTest, NothingIsLostWhoeverIsSummed) {
  using Type = TypeParam;
  using Storage = typename Type::Storage;
  constexpr size_t kRanks = 5;
  constexpr size_t kElements = 33;
  std::mt19937 random(9);
  for (ReduceOp op : {ReduceOp::kAvg, ReduceOp::kSum}) {
    for (uint32_t set = 0; set < 1u << kRanks; ++set) {
      std::vector<double> truth(kElements), kept(kElements);
      std::vector<std::vector<float>> held;
      std::vector<float> sum(kElements);
      for (size_t rank = 0; rank < kRanks; ++rank) {
        const auto gradient = Narrowed<Type>(RandomFloats(random, kElements));
        const auto residual = RandomFloats(random, kElements);
        held.emplace_back(kElements);
        AddResidual(Type::kDtype, gradient.data(), residual.data(),
                    held.back().data(), kElements);
        std::vector<Storage> wire(kElements);
        RoundToWire(Type::kDtype, held.back().data(), wire.data(), kElements);
        for (size_t i = 0; i < kElements; ++i) {
          truth[i] += held.back()[i];
          if ((set >> rank & 1) != 0) sum[i] += Type::Widen(wire[i]);
        }
      }
      const auto c = static_cast<uint32_t>(__builtin_popcount(set));
      const bool imputed = IsImputed(c, kRanks, false);
      EXPECT_EQ(imputed, c >= 4);
      std::vector<Storage> result(kElements);
      BucketedResult(Type::kDtype, op, sum.data(), c, kRanks, imputed,
                     result.data(), kElements);
      if (c > 0) {
        SubtractResult(Type::kDtype, op, result.data(), c, kRanks, imputed,
                       sum.data(), kElements);
        for (size_t i = 0; i < kElements; ++i) kept[i] += sum[i];
      }
      for (size_t rank = 0; rank < kRanks; ++rank) {
        if ((set >> rank & 1) != 0) {
          BookSummed(Type::kDtype, held[rank].data(), kElements);
        } else {
          const float divisor = op == ReduceOp::kAvg ? 1 : kRanks;
          BookMissing(Type::kDtype, imputed ? result.data() : nullptr, divisor,
                      held[rank].data(), kElements);
        }
        for (size_t i = 0; i < kElements; ++i) kept[i] += held[rank][i];
      }
      const double divisor = op == ReduceOp::kAvg ? kRanks : 1;
      for (size_t i = 0; i < kElements; ++i) {
        const double applied = Type::Widen(result[i]);
        EXPECT_NEAR(applied + kept[i] / divisor, truth[i] / divisor, 1e-5);
      }
    }
  }
}

TEST(ResidualDeathTest, OtherTypesAreRefused) {
  double value = 0;
  float stored = 0;
  EXPECT_DEATH(RoundToWire(Dtype::kFloat64, &stored, &value, 1), "");
  EXPECT_DEATH(AddResidual(Dtype::kInt32, &value, nullptr, &stored, 1), "");
  EXPECT_DEATH(
      StoreResult(Dtype::kFloat16, Dtype::kFloat32, &value, &stored, 1), "");
}

}  // namespace
}  // namespace optireduce::gradcodec
