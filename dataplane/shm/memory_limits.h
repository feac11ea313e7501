// What stands in the way of a new shared-memory segment: found out, and put
// into words, before a page of it is touched. A limit that is only met later
// would be a SIGBUS, or the kernel killing somebody.

#ifndef OPTIREDUCE_DATAPLANE_SHM_MEMORY_LIMITS_H_
#define OPTIREDUCE_DATAPLANE_SHM_MEMORY_LIMITS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace optireduce::shm {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kHugePageBytes = 2 * kMiB;

// Reads the limits of this process anew at each call. Not thread-safe.
class MemoryLimits {
 public:
  // `root` is where /proc and /sys are found: "" for the real ones.
  explicit MemoryLimits(std::string root = "") : root_(std::move(root)) {}

  // OK, or RESOURCE_EXHAUSTED naming the limit that `bytes` more of shared
  // memory would exceed, what is needed, what there is, and what to change.
  // Limits that cannot be read are taken not to exist.
  absl::Status CheckPages(uint64_t bytes) const;
  absl::Status CheckHugePages(uint64_t bytes) const;

  // Free 2 MiB pages that nobody has reserved.
  uint64_t FreeHugePages() const;

 private:
  absl::Status CheckMachine(uint64_t bytes) const;
  absl::Status CheckCgroup(uint64_t bytes) const;
  absl::Status CheckAddressSpace(uint64_t bytes) const;
  absl::Status CheckMapCount() const;

  std::optional<std::string> Read(const std::string& path) const;
  // A number in a file of "NAME number" lines, or of the number alone if `name`
  // is empty.
  std::optional<uint64_t> Number(const std::string& path,
                                 const std::string& name) const;

  std::string root_;
};

}  // namespace optireduce::shm

#endif  // OPTIREDUCE_DATAPLANE_SHM_MEMORY_LIMITS_H_
