#include "dataplane/base/byte_order.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace optireduce {
namespace {

using Bytes = std::array<uint8_t, 10>;

// What a host of the other byte order does.
static_assert(byte_order_internal::Swap(uint16_t{0x0102}) == 0x0201);
static_assert(byte_order_internal::Swap(uint32_t{0x01020304}) == 0x04030201);
static_assert(byte_order_internal::Swap(uint64_t{0x0102030405060708}) ==
              0x0807060504030201);

TEST(ByteOrderTest, LoadsLeastSignificantFirstAtAnyAddress) {
  const Bytes bytes = {0xF0, 0xE1, 0xD2, 0xC3, 0xB4,
                       0xA5, 0x96, 0x87, 0x78, 0x69};
  EXPECT_EQ(LoadLe16(&bytes[0]), 0xE1F0);
  EXPECT_EQ(LoadLe16(&bytes[1]), 0xD2E1);
  EXPECT_EQ(LoadLe24(&bytes[0]), 0xD2E1F0u);
  EXPECT_EQ(LoadLe24(&bytes[7]), 0x697887u);
  EXPECT_EQ(LoadLe32(&bytes[0]), 0xC3D2E1F0u);
  EXPECT_EQ(LoadLe32(&bytes[3]), 0x96A5B4C3u);
  EXPECT_EQ(LoadLe64(&bytes[0]), 0x8796A5B4C3D2E1F0u);
  EXPECT_EQ(LoadLe64(&bytes[1]), 0x788796A5B4C3D2E1u);
}

TEST(ByteOrderTest, StoresExactlyItsBytes) {
  Bytes bytes{};
  StoreLe16(&bytes[1], 0x0102);
  EXPECT_EQ(bytes, (Bytes{0, 2, 1}));
  bytes = {};
  StoreLe24(&bytes[1], 0xFF010203);
  EXPECT_EQ(bytes, (Bytes{0, 3, 2, 1}));
  bytes = {};
  StoreLe32(&bytes[1], 0x01020304);
  EXPECT_EQ(bytes, (Bytes{0, 4, 3, 2, 1}));
  bytes = {};
  StoreLe64(&bytes[1], 0x0102030405060708);
  EXPECT_EQ(bytes, (Bytes{0, 8, 7, 6, 5, 4, 3, 2, 1}));
}

TEST(ByteOrderTest, LoadGivesBackWhatWasStored) {
  Bytes bytes{};
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t value = uint64_t{1} << bit;
    StoreLe64(&bytes[1], value);
    EXPECT_EQ(LoadLe64(&bytes[1]), value);
    StoreLe32(&bytes[1], static_cast<uint32_t>(value));
    EXPECT_EQ(LoadLe32(&bytes[1]), static_cast<uint32_t>(value));
    StoreLe24(&bytes[1], static_cast<uint32_t>(value));
    EXPECT_EQ(LoadLe24(&bytes[1]), static_cast<uint32_t>(value) & 0xFFFFFF);
    StoreLe16(&bytes[1], static_cast<uint16_t>(value));
    EXPECT_EQ(LoadLe16(&bytes[1]), static_cast<uint16_t>(value));
  }
}

}  // namespace
}  // namespace optireduce
