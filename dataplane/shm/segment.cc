#include "dataplane/shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>

#include "absl/strings/str_cat.h"

namespace optireduce::shm {
namespace {

constexpr uint64_t kSubmissionRingBytes =
    uint64_t{OPTIREDUCE_SHM_SUBMISSION_SLOTS} * OPTIREDUCE_SHM_SUBMISSION_BYTES;
constexpr uint64_t kCompletionRingBytes =
    uint64_t{OPTIREDUCE_SHM_COMPLETION_SLOTS} * OPTIREDUCE_SHM_COMPLETION_BYTES;
constexpr uint64_t kSubmissionOffset = OPTIREDUCE_SHM_HEADER_BYTES;
constexpr uint64_t kCompletionOffset = kSubmissionOffset + kSubmissionRingBytes;
constexpr uint64_t kMaxDataBytes = uint64_t{1} << 44;
constexpr uint64_t kPageBytes = 4096;
// FUTURE_WRITE leaves the mappings that exist alone, forbids new writable ones,
// which nobody needs, and is what keeps the client from punching holes.
constexpr int kSeals =
    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

constexpr uint64_t RoundUp(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

constexpr uint64_t kDataOffset = RoundUp(
    kCompletionOffset + kCompletionRingBytes, OPTIREDUCE_SHM_DATA_ALIGNMENT);

absl::Status SystemError(const char* what, int error) {
  return absl::ResourceExhaustedError(
      absl::StrCat(what, ": ", strerror(error)));
}

// Retries what a signal interrupted.
int Fallocate(int fd, uint64_t bytes) {
  int result = 0;
  do {
    result = fallocate(fd, 0, 0, static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  return result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Segment>> Segment::Create(
    const SegmentOptions& options, const MemoryLimits& limits) {
  if (options.data_bytes > kMaxDataBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.data_bytes, " bytes of shared memory asked for; at most ",
        kMaxDataBytes, " make sense"));
  }
  std::unique_ptr<Segment> segment(new Segment);
  absl::Status status = segment->Reserve(options, limits);
  if (!status.ok()) return status;
  void* base = mmap(nullptr, segment->bytes_, PROT_READ | PROT_WRITE,
                    MAP_SHARED, segment->fd_.get(), 0);
  if (base == MAP_FAILED) return SystemError("mapping shared memory", errno);
  segment->base_ = static_cast<uint8_t*>(base);
  // A child of the daemon would have no use for it.
  madvise(base, segment->bytes_, MADV_DONTFORK);
  segment->WriteHeader(options.session);
  return segment;
}

Segment::~Segment() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

absl::Status Segment::Reserve(const SegmentOptions& options,
                              const MemoryLimits& limits) {
  const uint64_t wanted = kDataOffset + options.data_bytes;
  data_offset_ = kDataOffset;
  if (options.hugepages != HugePages::kOff) {
    bytes_ = RoundUp(wanted, kHugePageBytes);
    absl::Status status = ReservePages(true, limits);
    if (status.ok() || options.hugepages == HugePages::kOn) return status;
  }
  bytes_ = RoundUp(wanted, kPageBytes);
  return ReservePages(false, limits);
}

absl::Status Segment::ReservePages(bool huge, const MemoryLimits& limits) {
  absl::Status status =
      huge ? limits.CheckHugePages(bytes_) : limits.CheckPages(bytes_);
  if (!status.ok()) return status;
  const unsigned flags =
      MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0);
  UniqueFd fd(memfd_create("optireduce", flags));
  if (!fd.valid()) return SystemError("creating shared memory", errno);
  if (ftruncate(fd.get(), static_cast<off_t>(bytes_)) != 0) {
    return SystemError("sizing shared memory", errno);
  }
  if (Fallocate(fd.get(), bytes_) != 0) {
    return SystemError(
        absl::StrCat("reserving ", bytes_, " bytes of shared memory").c_str(),
        errno);
  }
  fd_ = std::move(fd);
  huge_ = huge;
  data_bytes_ = bytes_ - data_offset_;
  return absl::OkStatus();
}

void Segment::WriteHeader(uint64_t session) {
  OptireduceShmHeader* h = header();
  h->magic = OPTIREDUCE_SHM_MAGIC;
  h->version = OPTIREDUCE_SHM_VERSION;
  h->header_bytes = OPTIREDUCE_SHM_HEADER_BYTES;
  h->segment_bytes = bytes_;
  h->session = session;
  h->submission_offset = kSubmissionOffset;
  h->submission_slots = OPTIREDUCE_SHM_SUBMISSION_SLOTS;
  h->submission_bytes = OPTIREDUCE_SHM_SUBMISSION_BYTES;
  h->completion_offset = kCompletionOffset;
  h->completion_slots = OPTIREDUCE_SHM_COMPLETION_SLOTS;
  h->completion_bytes = OPTIREDUCE_SHM_COMPLETION_BYTES;
  h->data_offset = data_offset_;
  h->data_bytes = data_bytes_;
  h->state = OPTIREDUCE_SHM_LIVE;
}

absl::Status Segment::Seal() {
  if (sealed_) return absl::OkStatus();
  if (fcntl(fd_.get(), F_ADD_SEALS, kSeals) != 0) {
    return SystemError("sealing the shared memory", errno);
  }
  // The client had the descriptor before the seals were on.
  struct stat status = {};
  if (fstat(fd_.get(), &status) != 0 ||
      static_cast<uint64_t>(status.st_size) != bytes_) {
    return absl::FailedPreconditionError(
        "the client has changed the size of the shared memory");
  }
  if (Fallocate(fd_.get(), bytes_) != 0) {
    return SystemError("reserving the shared memory again", errno);
  }
  sealed_ = true;
  return absl::OkStatus();
}

OptireduceShmSubmission* Segment::submissions() const {
  return reinterpret_cast<OptireduceShmSubmission*>(base_ + kSubmissionOffset);
}

OptireduceShmCompletion* Segment::completions() const {
  return reinterpret_cast<OptireduceShmCompletion*>(base_ + kCompletionOffset);
}

void Segment::Close(uint32_t reason) {
  if (!sealed_) return;
  std::atomic_ref(header()->state_reason)
      .store(reason, std::memory_order_relaxed);
  std::atomic_ref(header()->state)
      .store(OPTIREDUCE_SHM_CLOSED, std::memory_order_release);
}

}  // namespace optireduce::shm
