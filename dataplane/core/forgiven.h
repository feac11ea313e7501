// What ranks of bucketed ops were owed and never got, by reason.

#ifndef OPTIREDUCE_DATAPLANE_CORE_FORGIVEN_H_
#define OPTIREDUCE_DATAPLANE_CORE_FORGIVEN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace optireduce::core {

// Why something is owed no longer although it was never paid.
enum class ForgivenFor : uint8_t {
  kOwnerGone,    // nobody knows whether a contribution was summed
  kNoHolder,     // no living rank has the result
  kEvicted,      // the op was pushed out of the group's memory
  kNoMemory,     // the ledger's budget
  kReset,        // new epoch, the bucket's size or type changed, import
  kOverwritten,  // debts: the parameters were replaced
  kNonFinite,    // NaN and infinities are never stored
};
inline constexpr size_t kForgivenReasons = 7;
std::string_view Name(ForgivenFor reason);

// Elements. A contribution is something a rank wanted in the sum (held or
// residual), a result something it should have applied (missing or debt).
struct Forgiven {
  uint64_t contributions = 0;
  uint64_t results = 0;

  bool operator==(const Forgiven&) const = default;
};

using ForgivenCounts = std::array<Forgiven, kForgivenReasons>;

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_FORGIVEN_H_
