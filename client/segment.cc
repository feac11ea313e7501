#include "client/segment.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <utility>

#include "client/error.h"

namespace optireduce::client {
namespace {

using Shared = std::atomic_ref<uint32_t>;

// Where the ABI asks for a sequentially consistent fence between a store and a
// load, the accesses around it are sequentially consistent themselves here:
// that orders them at least as much, and thread sanitizers understand it.
constexpr auto kOrdered = std::memory_order_seq_cst;

bool IsRing(uint64_t segment_bytes, uint64_t offset, uint32_t slots,
            uint64_t entry_bytes) {
  return std::has_single_bit(slots) && offset <= segment_bytes &&
         offset >= OPTIREDUCE_SHM_HEADER_BYTES &&
         slots <= (segment_bytes - offset) / entry_bytes;
}

}  // namespace

Segment::Segment(Segment&& other) noexcept { *this = std::move(other); }

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(data_offset_, other.data_offset_);
  std::swap(data_bytes_, other.data_bytes_);
  std::swap(submission_offset_, other.submission_offset_);
  std::swap(completion_offset_, other.completion_offset_);
  std::swap(submission_slots_, other.submission_slots_);
  std::swap(completion_slots_, other.completion_slots_);
  std::swap(submitted_, other.submitted_);
  std::swap(completed_, other.completed_);
  std::swap(engine_bell_, other.engine_bell_);
  std::swap(client_bell_, other.client_bell_);
  return *this;
}

Segment::~Segment() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

or_status Segment::Map(const UniqueFd& memory, uint64_t bytes,
                       UniqueFd engine_bell, UniqueFd client_bell,
                       Segment* segment) {
  struct stat info {};
  if (fstat(memory.get(), &info) != 0 ||
      static_cast<uint64_t>(info.st_size) < bytes ||
      bytes < OPTIREDUCE_SHM_HEADER_BYTES) {
    return Fail(OR_ERR_VERSION,
                "the daemon passed a segment that is smaller than it says");
  }
  void* base =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (base == MAP_FAILED) {
    return Fail(OR_ERR_NO_MEMORY,
                "mapping %llu bytes of shared memory: %s (see ulimit -v and "
                "/proc/sys/vm/max_map_count)",
                static_cast<unsigned long long>(bytes), strerror(errno));
  }
  Segment mapped;
  mapped.base_ = static_cast<uint8_t*>(base);
  mapped.bytes_ = bytes;
  mapped.engine_bell_ = std::move(engine_bell);
  mapped.client_bell_ = std::move(client_bell);
  const or_status status = mapped.CheckHeader();
  if (status != OR_OK) return status;
  const OptireduceShmHeader& header = *mapped.header();
  mapped.data_offset_ = header.data_offset;
  mapped.data_bytes_ = header.data_bytes;
  mapped.submission_offset_ = header.submission_offset;
  mapped.completion_offset_ = header.completion_offset;
  mapped.submission_slots_ = header.submission_slots;
  mapped.completion_slots_ = header.completion_slots;
  *segment = std::move(mapped);
  return OR_OK;
}

or_status Segment::CheckHeader() const {
  const OptireduceShmHeader& header = *this->header();
  if (header.magic != OPTIREDUCE_SHM_MAGIC ||
      header.version != OPTIREDUCE_SHM_VERSION) {
    return Fail(OR_ERR_VERSION,
                "the daemon's shared memory has version %u, this liboptireduce "
                "speaks %u: upgrade the older of the two",
                header.version, OPTIREDUCE_SHM_VERSION);
  }
  const bool sound =
      header.segment_bytes == bytes_ &&
      header.submission_bytes == sizeof(OptireduceShmSubmission) &&
      header.completion_bytes == sizeof(OptireduceShmCompletion) &&
      IsRing(bytes_, header.submission_offset, header.submission_slots,
             sizeof(OptireduceShmSubmission)) &&
      IsRing(bytes_, header.completion_offset, header.completion_slots,
             sizeof(OptireduceShmCompletion)) &&
      header.data_offset % OPTIREDUCE_SHM_DATA_ALIGNMENT == 0 &&
      header.data_offset >= OPTIREDUCE_SHM_HEADER_BYTES &&
      header.data_offset <= bytes_ &&
      header.data_bytes <= bytes_ - header.data_offset;
  return sound ? OR_OK
               : Fail(OR_ERR_VERSION,
                      "the daemon's shared memory contradicts itself");
}

bool Segment::Submit(const OptireduceShmSubmission& submission) {
  const uint32_t outstanding = submitted_ - completed_;
  if (outstanding >= std::min(submission_slots_, completion_slots_)) {
    return false;
  }
  // There is room: the daemon took each submission before it answered it.
  auto* ring =
      reinterpret_cast<OptireduceShmSubmission*>(base_ + submission_offset_);
  ring[submitted_ % submission_slots_] = submission;
  ++submitted_;
  Shared(header()->submission_tail).store(submitted_, kOrdered);
  Shared sleeps(header()->engine_sleeps);
  if (sleeps.load(kOrdered) != 0 && sleeps.exchange(0, kOrdered) == 1) {
    const uint64_t one = 1;
    // Fails only if the counter is full, which wakes the daemon as well.
    [[maybe_unused]] const ssize_t written =
        write(engine_bell_.get(), &one, sizeof(one));
  }
  return true;
}

bool Segment::TakeCompletion(OptireduceShmCompletion* completion) {
  const uint32_t tail =
      Shared(header()->completion_tail).load(std::memory_order_acquire);
  if (tail == completed_) return false;
  const auto* ring = reinterpret_cast<const OptireduceShmCompletion*>(
      base_ + completion_offset_);
  *completion = ring[completed_ % completion_slots_];
  ++completed_;
  Shared(header()->completion_head)
      .store(completed_, std::memory_order_release);
  return true;
}

bool Segment::PrepareToSleep() {
  Shared(header()->client_sleeps).exchange(1, kOrdered);
  return Shared(header()->completion_tail).load(kOrdered) == completed_;
}

void Segment::WokeUp() {
  Shared(header()->client_sleeps).store(0, std::memory_order_relaxed);
}

bool Segment::SilenceBell() {
  char discarded[64];
  for (;;) {
    const ssize_t got =
        recv(client_bell_.get(), discarded, sizeof(discarded), MSG_DONTWAIT);
    if (got > 0 || (got < 0 && errno == EINTR)) continue;
    return got < 0 && errno == EAGAIN;
  }
}

bool Segment::IsClosed(uint32_t* reason) const {
  OptireduceShmHeader* const shared = header();
  if (Shared(shared->state).load(std::memory_order_acquire) !=
      OPTIREDUCE_SHM_CLOSED) {
    return false;
  }
  *reason = Shared(shared->state_reason).load(std::memory_order_relaxed);
  return true;
}

const char* CloseReason(uint32_t reason) {
  switch (reason) {
    case OPTIREDUCE_SHM_REASON_LEFT:
      return "this process said goodbye";
    case OPTIREDUCE_SHM_REASON_SHUTDOWN:
      return "the daemon was shut down";
    case OPTIREDUCE_SHM_REASON_BAD_SUBMISSION_TAIL:
    case OPTIREDUCE_SHM_REASON_BAD_COMPLETION_HEAD:
    case OPTIREDUCE_SHM_REASON_TOO_MANY_OUTSTANDING:
      return "the session's rings were damaged by a stray write of this "
             "process";
    case OPTIREDUCE_SHM_REASON_CONTROL:
      return "the control connection ended";
  }
  return "the daemon gave no reason";
}

}  // namespace optireduce::client
