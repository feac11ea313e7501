// Why a received datagram changed nothing. Every datagram is accepted or
// counted under exactly one of these; each has a counter of its own.

#ifndef OPTIREDUCE_DATAPLANE_CORE_DROP_H_
#define OPTIREDUCE_DATAPLANE_CORE_DROP_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace optireduce::core {

enum class Verdict : uint8_t {
  kAccepted = 0,
  // Not a packet of ours, or damaged (wire::WireError).
  kTruncated,
  kBadMagic,
  kBadVersion,
  kUnknownType,
  kReservedFlag,
  kBadLength,
  kBadCrc,
  kBadBody,
  // Not for a group we are in.
  kUnknownTag,
  kUnknownSource,  // no such rank, or not its address
  kOwnSource,      // claims to be us
  kRemovedSource,  // a rank that died or left
  // Not for an op we keep.
  kStaleOp,       // settled here
  kBeyondWindow,  // too far ahead
  kNoMemory,      // its state does not fit the budget now
  kNoDescriptor,  // data before any OPEN; asked for
  kFingerprint,   // the sender's op is another one
  // Not for a chunk that takes it.
  kBadChunk,  // outside the plan, or not this owner's
  kBadChunkLength,
  kBeyondCredit,  // exact mode: ahead of what the owner can hold
  kDuplicate,
  kConflict,    // bucketed ops: another result than the one that is here
  kLate,        // after the freeze or the close
  kUnexpected,  // a type or stage this op has no use for
};
inline constexpr size_t kNumVerdicts = 25;

// "accepted", "bad_crc", ...: the names of the counters.
std::string_view Name(Verdict verdict);

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_DROP_H_
