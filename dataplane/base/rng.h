// Seeded pseudo-random numbers that are the same bits on every compiler.
//
// Nothing that decides goes through libm or <random>, whose results differ
// between libraries: a seed replays the same run anywhere. Not for secrets.

#ifndef OPTIREDUCE_DATAPLANE_BASE_RNG_H_
#define OPTIREDUCE_DATAPLANE_BASE_RNG_H_

#include <array>
#include <bit>
#include <cstdint>

#include "dataplane/base/require.h"

namespace optireduce {

// xoshiro256**, seeded by splitmix64. Not thread-safe.
class Rng {
 public:
  constexpr explicit Rng(uint64_t seed) {
    for (uint64_t& word : state_) word = SplitMix(seed);
  }

  constexpr uint64_t Next() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, n); n > 0.
  constexpr uint64_t Below(uint64_t n) {
    Require(n > 0);
    // The high half of a 128-bit product is uniform once the low halves that
    // would come up once too often are refused (Lemire).
    Wide product = Wide{Next()} * n;
    if (static_cast<uint64_t>(product) < n) {
      const uint64_t surplus = (0 - n) % n;
      while (static_cast<uint64_t>(product) < surplus) {
        product = Wide{Next()} * n;
      }
    }
    return static_cast<uint64_t>(product >> 64);
  }

  // Uniform in [lo, hi]; lo <= hi.
  constexpr int64_t Between(int64_t lo, int64_t hi) {
    Require(lo <= hi);
    const uint64_t span = static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo);
    const uint64_t offset = span == UINT64_MAX ? Next() : Below(span + 1);
    return static_cast<int64_t>(static_cast<uint64_t>(lo) + offset);
  }

  // Uniform over the multiples of 2^-53 in [0, 1).
  constexpr double Unit() {
    return static_cast<double>(Next() >> 11) * 0x1.0p-53;
  }

  // True with probability `p`; never for p <= 0, always for p >= 1.
  constexpr bool Chance(double p) { return Unit() < p; }

  // An integer in [lo, hi], each x with probability proportional to 1/x;
  // 1 <= lo <= hi.
  constexpr uint64_t LogUniform(uint64_t lo, uint64_t hi) {
    Require(1 <= lo && lo <= hi);
    // Cuts the range at lo, 2 lo, 4 lo, ... Every piece is as likely as the
    // next; in a piece that starts at `base`, keeping a uniform x with
    // probability base/x leaves it with 1/x. Starts over after a refusal.
    const auto pieces = static_cast<uint64_t>(std::bit_width(hi / lo));
    while (true) {
      const uint64_t base = lo << Below(pieces);
      const uint64_t width = pieces == 1 ? hi - lo + 1 : base;
      const uint64_t x = base + Below(width);
      if (x < base || x > hi) continue;  // x < base: wrapped
      if (Below(x) < base) return x;
    }
  }

 private:
  using Wide = unsigned __int128;

  static constexpr uint64_t SplitMix(uint64_t& seed) {
    seed += 0x9E3779B97F4A7C15;
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

  std::array<uint64_t, 4> state_{};
};

}  // namespace optireduce

#endif  // OPTIREDUCE_DATAPLANE_BASE_RNG_H_
