// From all ranks' member blobs to a group, or to the reason why they make none.
//
// Pure functions of the blobs: every rank's daemon is given the same blobs and
// comes to the same answer in the same words.

#ifndef OPTIREDUCE_CONTROL_FORMATION_H_
#define OPTIREDUCE_CONTROL_FORMATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/core/config.h"
#include "dataplane/core/types.h"
#include "proto/control.pb.h"

namespace optireduce::control {

inline constexpr uint32_t kMemberMagic = 0x4D54504F;  // "OPTM"
inline constexpr size_t kMaxMemberBytes = 160;
inline constexpr size_t kMaxGroupNameBytes = 48;
inline constexpr size_t kNonceBytes = 16;

// What the members of a group have agreed on.
struct Formation {
  uint32_t tag = 0;  // of this formation alone: drawn from everybody's nonce
  uint32_t payload_bytes = 0;
  std::vector<core::Endpoint> members;  // by rank
};

// `own` is what this daemon made for this rank; blobs[own.rank()] must be it.
// On failure *error names the ranks and the values.
std::optional<Formation> CheckMembers(const Member& own,
                                      const std::vector<std::string>& blobs,
                                      Error* error);

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_FORMATION_H_
