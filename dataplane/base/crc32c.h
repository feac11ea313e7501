// CRC-32C (Castagnoli), as in iSCSI and RFC 3720: reflected, all ones in and
// out. Crc32c of the ASCII bytes "123456789" is 0xE3069283.

#ifndef OPTIREDUCE_DATAPLANE_BASE_CRC32C_H_
#define OPTIREDUCE_DATAPLANE_BASE_CRC32C_H_

#include <isa-l/crc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace optireduce {

// Goes on from `crc`, the CRC of what came before (0 for nothing):
// Crc32cExtend(Crc32c(a), b) is the CRC of a followed by b.
inline uint32_t Crc32cExtend(uint32_t crc, std::span<const uint8_t> data) {
  constexpr size_t kMostAtOnce = std::numeric_limits<int>::max();
  while (!data.empty()) {
    const size_t length = std::min(data.size(), kMostAtOnce);
    // The library takes a pointer to non-const, but only reads.
    crc = ~crc32_iscsi(const_cast<uint8_t*>(data.data()),
                       static_cast<int>(length), ~crc);
    data = data.subspan(length);
  }
  return crc;
}

inline uint32_t Crc32c(std::span<const uint8_t> data) {
  return Crc32cExtend(0, data);
}

}  // namespace optireduce

#endif  // OPTIREDUCE_DATAPLANE_BASE_CRC32C_H_
