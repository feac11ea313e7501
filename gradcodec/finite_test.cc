#include "gradcodec/finite.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "gradcodec/testing.h"
#include "gtest/gtest.h"

namespace optireduce::gradcodec {
namespace {

using testing::kOffsets;
using testing::Misaligned;

template <typename T>
struct Kind {
  Dtype dtype;
  std::vector<T> finite;
  std::vector<T> others;
};

// Every position of every size at every alignment, whatever stands around it.
template <typename T>
void CheckEveryPosition(const Kind<T>& kind) {
  for (const size_t offset : kOffsets) {
    for (const size_t n : {size_t{1}, size_t{7}, size_t{1030}}) {
      for (size_t at = 0; at<n; at += n> 100 ? 103 : 1) {
        Misaligned<T> values(offset, n);
        std::vector<T> plain(n);
        for (size_t i = 0; i < n; ++i) {
          plain[i] = kind.finite[i % kind.finite.size()];
        }
        std::memcpy(values.data(), plain.data(), n * sizeof(T));
        ASSERT_TRUE(AllFinite(kind.dtype, values.data(), n));
        for (const T other : kind.others) {
          plain[at] = other;
          std::memcpy(values.data(), plain.data(), n * sizeof(T));
          ASSERT_FALSE(AllFinite(kind.dtype, values.data(), n))
              << Name(kind.dtype) << " " << n << " at " << at;
          // Only what is asked about counts.
          ASSERT_TRUE(AllFinite(kind.dtype, values.data(), at));
        }
      }
    }
  }
}

TEST(FiniteTest, OneElementIsEnough) {
  using Float = std::numeric_limits<float>;
  CheckEveryPosition<float>(
      {Dtype::kFloat32,
       {0.0f, -0.0f, 1.5f, Float::max(), Float::lowest(), Float::denorm_min()},
       {Float::infinity(), -Float::infinity(), Float::quiet_NaN(),
        -Float::quiet_NaN(), Float::signaling_NaN()}});
  using Double = std::numeric_limits<double>;
  CheckEveryPosition<double>(
      {Dtype::kFloat64,
       {0.0, Double::max(), Double::lowest(), Double::denorm_min()},
       {Double::infinity(), -Double::infinity(), Double::quiet_NaN()}});
  CheckEveryPosition<uint16_t>({Dtype::kFloat16,
                                {0, 0x8000, 0x7bff, 0xfbff, 1},
                                {0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xffff}});
  CheckEveryPosition<uint16_t>({Dtype::kBfloat16,
                                {0, 0x8000, 0x7f7f, 0xff7f, 1},
                                {0x7f80, 0xff80, 0x7fc0, 0x7f81, 0xffff}});
}

TEST(FiniteTest, NothingIsReadOfNothing) {
  EXPECT_TRUE(AllFinite(Dtype::kFloat32, nullptr, 0));
}

TEST(FiniteTest, IntegersAre) {
  const uint32_t all_set = UINT32_MAX;
  EXPECT_TRUE(AllFinite(Dtype::kUint32, &all_set, 1));
}

}  // namespace
}  // namespace optireduce::gradcodec
