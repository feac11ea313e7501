#include "dataplane/base/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace optireduce {
namespace {

std::span<const uint8_t> Bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// One byte, a bit at a time, on the register before the final inversion.
uint32_t SlowStep(uint32_t state, uint8_t byte) {
  state ^= byte;
  for (int bit = 0; bit < 8; ++bit) {
    state = (state >> 1) ^ ((state & 1) != 0 ? 0x82F63B78u : 0u);
  }
  return state;
}

std::vector<uint8_t> SomeBytes(size_t size) {
  std::vector<uint8_t> bytes(size);
  uint32_t state = 1;
  for (uint8_t& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return bytes;
}

TEST(Crc32cTest, KnownValues) {
  EXPECT_EQ(Crc32c({}), 0u);
  EXPECT_EQ(Crc32c(Bytes("123456789")), 0xE3069283u);
  // RFC 3720, appendix B.4.
  EXPECT_EQ(Crc32c(std::vector<uint8_t>(32, 0x00)), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::vector<uint8_t>(32, 0xFF)), 0x62A8AB43u);
}

TEST(Crc32cTest, EveryLengthAtEveryAlignment) {
  constexpr size_t kLongest = 2100;
  const std::vector<uint8_t> data = SomeBytes(kLongest);
  for (size_t alignment = 0; alignment < 16; ++alignment) {
    std::vector<uint8_t> memory(alignment + data.size());
    std::ranges::copy(data, memory.begin() + static_cast<ptrdiff_t>(alignment));
    const std::span<const uint8_t> aligned =
        std::span<const uint8_t>(memory).subspan(alignment);
    uint32_t state = ~0u;
    for (size_t length = 0; length <= kLongest; ++length) {
      ASSERT_EQ(Crc32c(aligned.first(length)), ~state)
          << length << " bytes at " << alignment;
      if (length < kLongest) state = SlowStep(state, data[length]);
    }
  }
}

TEST(Crc32cTest, PiecesMakeTheWhole) {
  const std::vector<uint8_t> bytes = SomeBytes(300);
  const std::span<const uint8_t> data = bytes;
  const uint32_t whole = Crc32c(data);
  for (size_t cut = 0; cut <= data.size(); ++cut) {
    ASSERT_EQ(Crc32cExtend(Crc32c(data.first(cut)), data.subspan(cut)), whole);
  }
  uint32_t crc = 0;
  for (size_t i = 0; i < data.size(); ++i) {
    crc = Crc32cExtend(crc, data.subspan(i, 1));
  }
  EXPECT_EQ(crc, whole);
}

TEST(Crc32cTest, EveryFlippedBitShows) {
  std::vector<uint8_t> data = SomeBytes(100);
  const uint32_t before = Crc32c(data);
  for (size_t bit = 0; bit < data.size() * 8; ++bit) {
    data[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    ASSERT_NE(Crc32c(data), before) << bit;
    data[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
  }
}

}  // namespace
}  // namespace optireduce
