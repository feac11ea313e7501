#include "gradcodec/dtype.h"

#include <string_view>

#include "gtest/gtest.h"

namespace optireduce::gradcodec {
namespace {

constexpr Dtype kAll[] = {
    Dtype::kFloat32, Dtype::kFloat16, Dtype::kBfloat16, Dtype::kFloat64,
    Dtype::kInt8,    Dtype::kUint8,   Dtype::kInt16,    Dtype::kUint16,
    Dtype::kInt32,   Dtype::kUint32,  Dtype::kInt64,    Dtype::kUint64,
};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin,
                             ReduceOp::kMax};

TEST(DtypeTest, WireValuesNeverChange) {
  for (uint8_t value = 1; value <= 12; ++value) {
    EXPECT_EQ(DtypeFromWire(value), kAll[value - 1]) << int{value};
  }
  for (uint8_t value = 1; value <= 4; ++value) {
    EXPECT_EQ(ReduceOpFromWire(value), kOps[value - 1]) << int{value};
  }
}

TEST(DtypeTest, ForeignWireValuesAreRefused) {
  for (int value = 0; value < 256; ++value) {
    const auto byte = static_cast<uint8_t>(value);
    EXPECT_EQ(DtypeFromWire(byte).has_value(), value >= 1 && value <= 12);
    EXPECT_EQ(ReduceOpFromWire(byte).has_value(), value >= 1 && value <= 4);
  }
}

TEST(DtypeTest, SizesAndNames) {
  const size_t sizes[] = {4, 2, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8};
  const std::string_view names[] = {"float32", "float16", "bfloat16", "float64",
                                    "int8",    "uint8",   "int16",    "uint16",
                                    "int32",   "uint32",  "int64",    "uint64"};
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(SizeOf(kAll[i]), sizes[i]);
    EXPECT_EQ(Name(kAll[i]), names[i]);
    EXPECT_EQ(IsFloating(kAll[i]), i < 4);
  }
  EXPECT_EQ(SizeOf(static_cast<Dtype>(13)), 0u);
  EXPECT_EQ(Name(static_cast<Dtype>(13)), "unknown");
  EXPECT_EQ(Name(ReduceOp::kSum), "sum");
  EXPECT_EQ(Name(ReduceOp::kAvg), "avg");
  EXPECT_EQ(Name(ReduceOp::kMin), "min");
  EXPECT_EQ(Name(ReduceOp::kMax), "max");
  EXPECT_EQ(Name(static_cast<ReduceOp>(0)), "unknown");
}

TEST(DtypeTest, PublishedTable) {
  for (Dtype dtype : kAll) {
    const bool floating = IsFloating(dtype);
    EXPECT_TRUE(IsSupported(dtype, ReduceOp::kSum, false)) << Name(dtype);
    EXPECT_TRUE(IsSupported(dtype, ReduceOp::kMin, false)) << Name(dtype);
    EXPECT_TRUE(IsSupported(dtype, ReduceOp::kMax, false)) << Name(dtype);
    EXPECT_EQ(IsSupported(dtype, ReduceOp::kAvg, false), floating);
    EXPECT_EQ(IsSupported(dtype, ReduceOp::kSum, true), floating);
    EXPECT_EQ(IsSupported(dtype, ReduceOp::kAvg, true), floating);
    EXPECT_FALSE(IsSupported(dtype, ReduceOp::kMin, true)) << Name(dtype);
    EXPECT_FALSE(IsSupported(dtype, ReduceOp::kMax, true)) << Name(dtype);
  }
  EXPECT_FALSE(IsSupported(static_cast<Dtype>(0), ReduceOp::kSum, false));
  EXPECT_FALSE(IsSupported(Dtype::kFloat32, static_cast<ReduceOp>(5), false));
}

}  // namespace
}  // namespace optireduce::gradcodec
