#include "dataplane/base/serial.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace optireduce {
namespace {

// RFC 1982, section 3.2, word for word, over 8 bits.
bool Rfc1982Less(int i1, int i2) {
  return (i1 < i2 && i2 - i1 < 128) || (i1 > i2 && i1 - i2 > 128);
}

TEST(SerialTest, EveryPairOfBytes) {
  for (int i = 0; i < 256; ++i) {
    for (int j = 0; j < 256; ++j) {
      const auto a = static_cast<uint8_t>(i);
      const auto b = static_cast<uint8_t>(j);
      ASSERT_EQ(SerialLess(a, b), Rfc1982Less(i, j)) << i << " " << j;
      ASSERT_EQ(SerialLessEq(a, b), i == j || Rfc1982Less(i, j));
      ASSERT_EQ(static_cast<uint8_t>(a + SerialDistance(a, b)), b);
    }
  }
}

// For a circle of 2^bits: distances around every place where something wraps.
std::vector<int64_t> Edges(int bits) {
  const int64_t half = int64_t{1} << (bits - 1);
  return {1, 2, half / 2, half - 2, half - 1};
}

TEST(SerialTest, AroundEveryWrapOf32Bits) {
  for (const uint32_t from :
       {0u, 1u, 0x7FFFFFFFu, 0x80000000u, 0x80000001u, 0xFFFFFFFFu}) {
    EXPECT_FALSE(SerialLess(from, from));
    EXPECT_TRUE(SerialLessEq(from, from));
    EXPECT_EQ(SerialDistance(from, from), 0);
    for (const int64_t ahead : Edges(32)) {
      const auto to = static_cast<uint32_t>(from + ahead);
      EXPECT_EQ(SerialDistance(from, to), ahead);
      EXPECT_EQ(SerialDistance(to, from), -ahead);
      EXPECT_TRUE(SerialLess(from, to));
      EXPECT_TRUE(SerialLessEq(from, to));
      EXPECT_FALSE(SerialLess(to, from));
      EXPECT_FALSE(SerialLessEq(to, from));
    }
    const uint32_t opposite = from + 0x80000000u;
    EXPECT_FALSE(SerialLess(from, opposite));
    EXPECT_FALSE(SerialLess(opposite, from));
    EXPECT_FALSE(SerialLessEq(from, opposite));
    EXPECT_EQ(SerialDistance(from, opposite), INT32_MIN);
  }
}

TEST(SerialTest, AroundEveryWrapOf24Bits) {
  constexpr uint32_t kMask = 0xFFFFFF;
  for (const uint32_t from :
       {0u, 1u, 0x7FFFFFu, 0x800000u, 0x800001u, 0xFFFFFFu}) {
    EXPECT_FALSE(SerialLess24(from, from));
    EXPECT_TRUE(SerialLessEq24(from, from));
    EXPECT_EQ(SerialDistance24(from, from), 0);
    for (const int64_t ahead : Edges(24)) {
      const auto to = static_cast<uint32_t>(from + ahead) & kMask;
      EXPECT_EQ(SerialDistance24(from, to), ahead);
      EXPECT_EQ(SerialDistance24(to, from), -ahead);
      EXPECT_TRUE(SerialLess24(from, to));
      EXPECT_TRUE(SerialLessEq24(from, to));
      EXPECT_FALSE(SerialLess24(to, from));
      EXPECT_FALSE(SerialLessEq24(to, from));
    }
    const uint32_t opposite = (from + 0x800000u) & kMask;
    EXPECT_FALSE(SerialLess24(from, opposite));
    EXPECT_FALSE(SerialLess24(opposite, from));
    EXPECT_FALSE(SerialLessEq24(from, opposite));
    EXPECT_EQ(SerialDistance24(from, opposite), -0x800000);
  }
}

TEST(SerialTest, The24BitFormIgnoresTheHighByte) {
  EXPECT_EQ(SerialDistance24(0xAB000005, 0xCD000007), 2);
  EXPECT_TRUE(SerialLessEq24(0xAB000005, 0x05));
}

TEST(SerialTest, SixteenBitsWrapAtSixteenBits) {
  EXPECT_TRUE(SerialLess(uint16_t{0xFFFF}, uint16_t{0}));
  EXPECT_EQ(SerialDistance(uint16_t{0xFFFF}, uint16_t{3}), 4);
  EXPECT_EQ(SerialDistance(uint16_t{3}, uint16_t{0xFFFF}), -4);
}

}  // namespace
}  // namespace optireduce
