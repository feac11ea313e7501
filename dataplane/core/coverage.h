// The op's state machine as a table of what happened in which state: what the
// simulator's coverage report and the status commands read.

#ifndef OPTIREDUCE_DATAPLANE_CORE_COVERAGE_H_
#define OPTIREDUCE_DATAPLANE_CORE_COVERAGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace optireduce::core {

// docs/PROTOCOL.md has the picture.
enum class OpState : uint8_t {
  kFree = 0,  // not opened here
  kHeard,     // named by a packet; its descriptor is not known
  kServing,   // known from a peer; the own trainer has not submitted it
  kActive,    // submitted; the trainer waits
  kReported,  // reported to the trainer; the owner's duty goes on
  kLate,      // closed here; the own trainer has not submitted it
  kClosed,    // reported and closed; kept for the other ranks
};
inline constexpr size_t kNumOpStates = 7;

enum class OpEvent : uint8_t {
  kSubmit = 0,
  kOpen,  // a peer's descriptor
  kData,
  kResult,
  kNack,
  kGone,
  kWatermark,  // a peer has opened it, or is done with it
  kQuorum,
  kStage1Bound,  // T1
  kStage1Early,
  kResultBound,  // close
  kResultEarly,
  kLimit,  // T2 or the caller's soft limit
  kHardLimit,
  kPeerLost,
  kCancel,  // the trainer left or died
  kEvict,
  kRelease,  // every rank is done with it
};
inline constexpr size_t kNumOpEvents = 18;

std::string_view Name(OpState state);
std::string_view Name(OpEvent event);

// False for pairs that the rules exclude.
bool IsPossible(OpState state, OpEvent event);

// How often each pair occurred. One writer.
class TransitionCounts {
 public:
  void Count(OpState state, OpEvent event) {
    ++counts_[static_cast<size_t>(state)][static_cast<size_t>(event)];
  }
  uint64_t Get(OpState state, OpEvent event) const {
    return counts_[static_cast<size_t>(state)][static_cast<size_t>(event)];
  }

 private:
  std::array<std::array<uint64_t, kNumOpEvents>, kNumOpStates> counts_{};
};

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_COVERAGE_H_
