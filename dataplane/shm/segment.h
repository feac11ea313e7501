// Segment: the daemon's end of one session's shared memory.
//
// An unnamed memfd, so that nothing is left behind whoever dies. Its life:
// Create() reserves all pages and writes the header; the descriptor goes to the
// client; until Seal() has succeeded the client could still shrink the file, so
// the daemon does not touch the memory; after it neither side can change the
// file's size or punch holes, and the daemon can use it without fear of SIGBUS.

#ifndef OPTIREDUCE_DATAPLANE_SHM_SEGMENT_H_
#define OPTIREDUCE_DATAPLANE_SHM_SEGMENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataplane/base/unique_fd.h"
#include "dataplane/shm/memory_limits.h"
#include "proto/shm_abi.h"

namespace optireduce::shm {

enum class HugePages : uint8_t {
  kAuto,  // if there are enough
  kOn,    // an error if there are not
  kOff,
};

struct SegmentOptions {
  uint64_t session = 0;
  uint64_t data_bytes = 0;  // rounded up to whole pages
  HugePages hugepages = HugePages::kAuto;
};

// Not thread-safe. The memory itself may be used by another thread once Seal()
// has succeeded.
class Segment {
 public:
  // RESOURCE_EXHAUSTED if a limit stands in the way (see MemoryLimits),
  // INVALID_ARGUMENT for a size beyond any machine.
  static absl::StatusOr<std::unique_ptr<Segment>> Create(
      const SegmentOptions& options, const MemoryLimits& limits);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  // Once the client has mapped it. An error means that the client has meddled
  // with the file; the segment must not be used then.
  absl::Status Seal();
  bool sealed() const { return sealed_; }

  int fd() const { return fd_.get(); }
  uint64_t bytes() const { return bytes_; }
  bool hugepages() const { return huge_; }

  // The daemon's own geometry: what the client may have written over the header
  // changes none of it.
  uint8_t* base() const { return base_; }
  OptireduceShmHeader* header() const {
    return reinterpret_cast<OptireduceShmHeader*>(base_);
  }
  OptireduceShmSubmission* submissions() const;
  OptireduceShmCompletion* completions() const;
  uint64_t data_offset() const { return data_offset_; }
  uint64_t data_bytes() const { return data_bytes_; }

  // Tells the client that the session is over (OPTIREDUCE_SHM_REASON_*). Does
  // nothing before Seal().
  void Close(uint32_t reason);

 private:
  Segment() = default;

  absl::Status Reserve(const SegmentOptions& options,
                       const MemoryLimits& limits);
  absl::Status ReservePages(bool huge, const MemoryLimits& limits);
  void WriteHeader(uint64_t session);

  UniqueFd fd_;
  uint8_t* base_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t data_offset_ = 0;
  uint64_t data_bytes_ = 0;
  bool huge_ = false;
  bool sealed_ = false;
};

}  // namespace optireduce::shm

#endif  // OPTIREDUCE_DATAPLANE_SHM_SEGMENT_H_
