// SessionRings: the daemon's end of a session's two rings.
//
// The client may write anything anywhere in the segment at any time. All that
// is believed here is one copy of an index, checked against indices that are
// kept in private, and one copy of a slot, which the caller checks.

#ifndef OPTIREDUCE_DATAPLANE_SHM_SESSION_RINGS_H_
#define OPTIREDUCE_DATAPLANE_SHM_SESSION_RINGS_H_

#include <cstdint>

#include "dataplane/shm/segment.h"
#include "proto/shm_abi.h"

namespace optireduce::shm {

enum class TakeResult : uint8_t {
  kEmpty,
  kTaken,
  kBroken,  // see broken_reason(); from now on always
};

// One thread. The segment is sealed and outlives this.
class SessionRings {
 public:
  explicit SessionRings(const Segment& segment);

  // Copies the next submission and frees its slot.
  TakeResult TakeSubmission(OptireduceShmSubmission* copy);
  // OPTIREDUCE_SHM_REASON_*, or NONE while the client keeps the rules.
  uint32_t broken_reason() const { return broken_reason_; }

  // Exactly one for each submission taken: so there is always room.
  void PushCompletion(const OptireduceShmCompletion& entry);
  // Whether the client waits for a bell. True once per sleep.
  bool TakeClientSleeps();

  // Asks the client for a bell at its next submission. False, with nothing
  // asked for, if something is waiting already or has just been found wrong.
  bool PrepareToSleep();
  void WokeUp();

 private:
  // Loads what the client says and checks it. False: broken.
  bool Refresh();
  bool Break(uint32_t reason);

  OptireduceShmHeader* const header_;
  const OptireduceShmSubmission* const submissions_;
  OptireduceShmCompletion* const completions_;

  // Private and authoritative, as far as the daemon is the writer.
  uint32_t submission_head_ = 0;
  uint32_t completion_tail_ = 0;
  // Last good copy of the client's.
  uint32_t submission_tail_ = 0;
  uint32_t completion_head_ = 0;
  uint32_t broken_reason_ = OPTIREDUCE_SHM_REASON_NONE;
};

}  // namespace optireduce::shm

#endif  // OPTIREDUCE_DATAPLANE_SHM_SESSION_RINGS_H_
