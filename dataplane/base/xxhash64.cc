#include "dataplane/base/xxhash64.h"

// Compiles the hash into this file: nothing of ours, least of all the client
// library, needs libxxhash at run time.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace optireduce {

uint64_t Xxh64(std::span<const uint8_t> data, uint64_t seed) {
  return XXH64(data.data(), data.size(), seed);
}

}  // namespace optireduce
