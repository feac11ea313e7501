#include "dataplane/base/xxhash64.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace optireduce {
namespace {

constexpr uint64_t kSeed = 2654435761;

// The bytes that xxHash's own sanity check hashes.
std::vector<uint8_t> SanityBytes(size_t size) {
  std::vector<uint8_t> bytes(size);
  uint64_t generator = kSeed;
  for (uint8_t& byte : bytes) {
    byte = static_cast<uint8_t>(generator >> 56);
    generator *= 11400714785074694797u;
  }
  return bytes;
}

uint64_t HashText(std::string_view text) {
  return Xxh64({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

TEST(Xxh64Test, TheReferencesOwnVectors) {
  const struct {
    size_t size;
    uint64_t seed;
    uint64_t hash;
  } kCases[] = {
      {0, 0, 0xEF46DB3751D8E999},       {0, kSeed, 0xAC75FDA2929B17EF},
      {1, 0, 0xE934A84ADB052768},       {1, kSeed, 0x5014607643A9B4C3},
      {4, 0, 0x9136A0DCA57457EE},       {14, 0, 0x8282DCC4994E35C8},
      {14, kSeed, 0xC3BD6BF63DEB6DF0},  {222, 0, 0xB641AE8CB691C174},
      {222, kSeed, 0x20CB8AB7AE10C14A},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(Xxh64(SanityBytes(c.size), c.seed), c.hash)
        << c.size << " bytes, seed " << c.seed;
  }
}

// Printed by `xxhsum -H1`.
TEST(Xxh64Test, WhatXxhsumPrints) {
  EXPECT_EQ(HashText("a"), 0xD24EC4F1A98C6E5B);
  EXPECT_EQ(HashText("OptiReduce"), 0x07F026AC6CE481B0);
  std::vector<uint8_t> bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(i % 251);
  }
  EXPECT_EQ(Xxh64(bytes), 0xF306F04AA88B54D3);
  bytes.resize(32);
  EXPECT_EQ(Xxh64(bytes), 0xCBF59C5116FF32B4);
}

TEST(Xxh64Test, AlignmentDoesNotMatter) {
  const std::vector<uint8_t> data = SanityBytes(100);
  const uint64_t expected = Xxh64(data);
  for (size_t alignment = 0; alignment < 16; ++alignment) {
    std::vector<uint8_t> memory(alignment + data.size());
    std::ranges::copy(data, memory.begin() + static_cast<ptrdiff_t>(alignment));
    EXPECT_EQ(Xxh64(std::span<const uint8_t>(memory).subspan(alignment)),
              expected);
  }
}

}  // namespace
}  // namespace optireduce
