// What the core tells its caller: how an op ended, what became of a group.

#ifndef OPTIREDUCE_DATAPLANE_CORE_REPORT_H_
#define OPTIREDUCE_DATAPLANE_CORE_REPORT_H_

#include <array>
#include <cstdint>

#include "dataplane/base/time.h"
#include "dataplane/core/types.h"
#include "proto/wire.h"

namespace optireduce::core {

// The values go into shared memory. Loss alone is never an error.
enum class OpStatus : uint8_t {
  kComplete = 0,  // every contribution of every rank, everywhere
  kPartial = 1,   // ended in time with something missing
  // Errors: the output is unspecified.
  kHardLimit = 2,  // the hard limit passed; `missing` names the ranks
  kPeerLost = 3,   // a rank that is needed died or left; `missing` names it
  kMismatch = 4,   // ranks disagree about the op; see `mismatch_*`
  // Submitted so late that its results are no longer kept; or exact, and a rank
  // that gave it up keeps it no longer.
  kExpired = 5,
  kCancelled = 6,  // the group was left or its engine stopped
};

// Why the op ended when it did.
enum class EndCause : uint8_t {
  kAllIn = 0,
  kEarly = 1,     // tails in, then silence
  kDeadline = 2,  // the bound or the caller's soft limit
  kError = 3,
};

// A set of ranks of fixed size.
class RankSet {
 public:
  constexpr void Add(Rank rank) {
    words_[rank.index() / 64] |= uint64_t{1} << (rank.index() % 64);
  }
  constexpr bool Contains(Rank rank) const {
    return (words_[rank.index() / 64] >> (rank.index() % 64) & 1) != 0;
  }
  constexpr size_t Count() const {
    size_t count = 0;
    for (uint64_t word : words_) count += __builtin_popcountll(word);
    return count;
  }
  constexpr bool operator==(const RankSet&) const = default;

 private:
  std::array<uint64_t, wire::kMaxWorld / 64> words_{};
};

// The full account of one op at one rank. Shares are of the op's elements (of
// its coefficients under a codec).
struct OpReport {
  OpSeq op_seq{};
  OpStatus status = OpStatus::kComplete;
  EndCause cause = EndCause::kAllIn;
  uint16_t world = 0;
  uint64_t elements = 0;
  uint64_t absent = 0;  // elements whose reduced value did not arrive
  // Contributions summed, added over the elements that are not absent; N times
  // their number when nothing was lost.
  uint64_t contributions = 0;
  uint16_t min_contributors = 0;  // over the elements that are not absent
  // The buffers stay in use, see BufferView.
  bool holds_buffers = false;
  // Contributions summed here and results that came only when they were sent
  // again, in packets. Bounded ops.
  uint64_t repaired = 0;
  RankSet missing;  // late or silent ranks, and owners whose results lack

  // On this host's clock. `quorum` is Never() if there was none.
  Timestamp submitted;
  Timestamp quorum = Timestamp::Never();
  Timestamp deadline = Timestamp::Never();  // the limit that was in force
  // From the quorum, as they were in force for this op; 0 if there were none.
  Duration stage1_bound;
  Duration result_bound;
  Timestamp closed;

  // kMismatch only: the other rank and what it submitted.
  Rank mismatch_rank{};
  OpDescriptor mismatch_descriptor;

  // S1: share of contributions lost in stage 1; S2: share of absent elements.
  double Stage1Loss() const {
    const double present = static_cast<double>(elements - absent);
    return present == 0 ? 0
                        : 1 - static_cast<double>(contributions) /
                                  (present * static_cast<double>(world));
  }
  double Stage2Loss() const {
    return elements == 0
               ? 0
               : static_cast<double>(absent) / static_cast<double>(elements);
  }
  double MissingFraction() const {
    return 1 - (1 - Stage1Loss()) * (1 - Stage2Loss());
  }
};

enum class EventKind : uint8_t {
  kGroupReady,   // every peer answered, at full packet size
  kGroupFailed,  // formation_limit passed; see `peers` and `narrow`
  kOpDone,       // `report`
  kPeerSuspect,  // `peer` is silent
  kPeerHealthy,  // `peer` is heard again
  kPeerLost,     // `peer` died or left: the group takes no further ops
  // Memory was short: what the other ranks had contributed to `report.op_seq`
  // was given up for an older op.
  kContributionsLost,
  // Nothing is written any more to the buffers of `report.op_seq`, which its
  // report had left in use.
  kBuffersFree,
  kGroupReleased,  // after Leave: nothing is owed any more, may be removed
};

struct Event {
  EventKind kind{};
  GroupId group{};
  Rank peer{};
  OpReport report;
  RankSet silent;    // kGroupFailed: ranks that never answered
  RankSet narrow;    // kGroupFailed: answered, but full-size packets are lost
  RankSet disagree;  // kGroupFailed: run with other settings
};

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_REPORT_H_
