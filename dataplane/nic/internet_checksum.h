// The checksum of IPv4 and UDP (RFC 1071), over data in pieces.

#ifndef OPTIREDUCE_DATAPLANE_NIC_INTERNET_CHECKSUM_H_
#define OPTIREDUCE_DATAPLANE_NIC_INTERNET_CHECKSUM_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/byte_order.h"

namespace optireduce::nic {

// Not thread-safe; holds no reference to the data.
class InternetChecksum {
 public:
  // Pieces of any length, odd ones too, as if they were one.
  void Add(std::span<const uint8_t> piece) {
    const uint16_t sum = Fold(SumOfWords(piece));
    // A piece that starts at an odd place has its bytes in the other halves of
    // the words: the same sum with the halves swapped.
    sum_ += odd_ ? static_cast<uint16_t>(sum << 8 | sum >> 8) : sum;
    odd_ ^= piece.size() % 2 != 0;
  }

  // The ones' complement sum in the byte order of the data: what a checksum
  // field that lies in memory takes with StoreLe16. 0xffff over data with a
  // right checksum in it.
  uint16_t Sum() const { return Fold(sum_); }

 private:
  static uint16_t Fold(uint64_t sum) {
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<uint16_t>(sum);
  }

  // Words of 32 bits: their carries are folded in later. 64 bits are enough for
  // 16 GiB.
  static uint64_t SumOfWords(std::span<const uint8_t> piece) {
    const uint8_t* at = piece.data();
    size_t left = piece.size();
    uint64_t sum = 0;
    for (; left >= 4; left -= 4, at += 4) sum += LoadLe32(at);
    if (left >= 2) {
      sum += LoadLe16(at);
      at += 2;
      left -= 2;
    }
    if (left == 1) sum += *at;
    return sum;
  }

  uint64_t sum_ = 0;
  bool odd_ = false;
};

}  // namespace optireduce::nic

#endif  // OPTIREDUCE_DATAPLANE_NIC_INTERNET_CHECKSUM_H_
