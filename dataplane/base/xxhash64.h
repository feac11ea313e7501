// XXH64: a fast, well-mixed 64-bit hash, the same on every host. Not a MAC.

#ifndef OPTIREDUCE_DATAPLANE_BASE_XXHASH64_H_
#define OPTIREDUCE_DATAPLANE_BASE_XXHASH64_H_

#include <cstdint>
#include <span>

namespace optireduce {

uint64_t Xxh64(std::span<const uint8_t> data, uint64_t seed = 0);

}  // namespace optireduce

#endif  // OPTIREDUCE_DATAPLANE_BASE_XXHASH64_H_
