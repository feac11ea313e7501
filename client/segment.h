// The client's view of its shared segment: both rings, the data area, and the
// bells. proto/shm_abi.h says how they work.

#ifndef OPTIREDUCE_CLIENT_SEGMENT_H_
#define OPTIREDUCE_CLIENT_SEGMENT_H_

#include <cstddef>
#include <cstdint>

#include "client/optireduce.h"
#include "dataplane/base/unique_fd.h"
#include "proto/shm_abi.h"

namespace optireduce::client {

// Not thread-safe, but for bell() and what a sleeper does with it. Never
// blocks. The daemon is trusted; still nothing it writes leads outside the
// mapping.
class Segment {
 public:
  // A value without a mapping.
  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  // Maps `bytes` of `memory`. `engine_bell` wakes the daemon, `client_bell`
  // this process.
  static or_status Map(const UniqueFd& memory, uint64_t bytes,
                       UniqueFd engine_bell, UniqueFd client_bell,
                       Segment* segment);

  // The data area; offsets in submissions count from the segment's start.
  uint8_t* data() const { return base_ + data_offset_; }
  uint64_t data_offset() const { return data_offset_; }
  uint64_t data_bytes() const { return data_bytes_; }

  // False if as many submissions are outstanding as may be. Wakes the daemon.
  bool Submit(const OptireduceShmSubmission& submission);
  // False if there is none.
  bool TakeCompletion(OptireduceShmCompletion* completion);

  // Announces a sleep on bell(). False if a completion is there already; then
  // there is no sleep. WokeUp() is due after either.
  bool PrepareToSleep();
  void WokeUp();
  // Readable when a completion came during a sleep, and when the daemon is gone
  // (then for ever).
  int bell() const { return client_bell_.get(); }
  // Discards what made bell() readable. False if the daemon is gone.
  bool SilenceBell();

  // Has the daemon closed the session? Completions may still wait. *reason is
  // one of OPTIREDUCE_SHM_REASON_*.
  bool IsClosed(uint32_t* reason) const;

 private:
  or_status CheckHeader() const;
  OptireduceShmHeader* header() const {
    return reinterpret_cast<OptireduceShmHeader*>(base_);
  }

  uint8_t* base_ = nullptr;
  uint64_t bytes_ = 0;
  // Read once from the header, then checked.
  uint64_t data_offset_ = 0;
  uint64_t data_bytes_ = 0;
  uint64_t submission_offset_ = 0;
  uint64_t completion_offset_ = 0;
  uint32_t submission_slots_ = 0;
  uint32_t completion_slots_ = 0;
  uint32_t submitted_ = 0;  // our ends of the rings
  uint32_t completed_ = 0;
  UniqueFd engine_bell_;
  UniqueFd client_bell_;
};

// "the daemon was shut down", ...
const char* CloseReason(uint32_t reason);

}  // namespace optireduce::client

#endif  // OPTIREDUCE_CLIENT_SEGMENT_H_
