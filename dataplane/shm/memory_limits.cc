#include "dataplane/shm/memory_limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace optireduce::shm {
namespace {

// Rounded so that the words never say that what is too little is enough.
std::string NeededMiB(uint64_t bytes) {
  return absl::StrCat((bytes + kMiB - 1) / kMiB, " MiB");
}
std::string AvailableMiB(uint64_t bytes) {
  return absl::StrCat(bytes / kMiB, " MiB");
}

absl::Status Shortage(const std::string& limit, uint64_t need, uint64_t have,
                      const std::string& remedy) {
  return absl::ResourceExhaustedError(
      absl::StrCat(limit, ": ", NeededMiB(need), " needed, ",
                   AvailableMiB(have), " available; ", remedy));
}

uint64_t Left(uint64_t limit, uint64_t used) {
  return limit > used ? limit - used : 0;
}

}  // namespace

std::optional<std::string> MemoryLimits::Read(const std::string& path) const {
  std::ifstream file(root_ + path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<uint64_t> MemoryLimits::Number(const std::string& path,
                                             const std::string& name) const {
  const std::optional<std::string> text = Read(path);
  if (!text) return std::nullopt;
  std::istringstream lines(*text);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string word;
    if (!name.empty() && (!(words >> word) || word != name)) continue;
    uint64_t value = 0;
    if (words >> value) return value;
    return std::nullopt;  // "max"
  }
  return std::nullopt;
}

absl::Status MemoryLimits::CheckPages(uint64_t bytes) const {
  absl::Status status = CheckMachine(bytes);
  if (status.ok()) status = CheckCgroup(bytes);
  if (status.ok()) status = CheckAddressSpace(bytes);
  if (status.ok()) status = CheckMapCount();
  return status;
}

absl::Status MemoryLimits::CheckHugePages(uint64_t bytes) const {
  const uint64_t free_bytes = FreeHugePages() * kHugePageBytes;
  if (free_bytes < bytes) {
    return Shortage("hugepages (HugePages_Free)", bytes, free_bytes,
                    "raise vm.nr_hugepages or set hugepages: \"off\"");
  }
  absl::Status status = CheckAddressSpace(bytes);
  if (status.ok()) status = CheckMapCount();
  return status;
}

uint64_t MemoryLimits::FreeHugePages() const {
  const std::string pool = "/sys/kernel/mm/hugepages/hugepages-2048kB/";
  const uint64_t free = Number(pool + "free_hugepages", "").value_or(0);
  const uint64_t reserved = Number(pool + "resv_hugepages", "").value_or(0);
  return Left(free, reserved);
}

absl::Status MemoryLimits::CheckMachine(uint64_t bytes) const {
  const std::optional<uint64_t> available_kib =
      Number("/proc/meminfo", "MemAvailable:");
  if (!available_kib || bytes <= *available_kib * 1024) {
    return absl::OkStatus();
  }
  return Shortage("memory of this host (MemAvailable)", bytes,
                  *available_kib * 1024,
                  "ask for smaller buffers or free some memory");
}

absl::Status MemoryLimits::CheckCgroup(uint64_t bytes) const {
  const std::optional<std::string> membership = Read("/proc/self/cgroup");
  if (!membership) return absl::OkStatus();
  std::istringstream lines(*membership);
  std::string line;
  while (std::getline(lines, line)) {
    // "0::/path" (version 2) or "4:memory:/path" (version 1).
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && controllers != "memory") continue;
    const std::string mount = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    // A limit of any group above holds as well.
    std::string path = line.substr(second + 1);
    while (true) {
      const std::string folder = mount + (path == "/" ? "" : path);
      const std::string limit_file =
          folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes");
      const std::string used_file =
          folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes");
      const std::optional<uint64_t> limit = Number(limit_file, "");
      const std::optional<uint64_t> used = Number(used_file, "");
      if (limit && used) {
        // File cache that the kernel gives up before it kills anybody.
        const uint64_t cache =
            Number(folder + "/memory.stat", "inactive_file").value_or(0);
        const uint64_t have = Left(*limit, Left(*used, cache));
        if (bytes > have) {
          return Shortage(absl::StrCat("memory cgroup (", limit_file, ")"),
                          bytes, have,
                          v2 ? "raise memory.max (systemd: MemoryMax=)"
                             : "raise memory.limit_in_bytes");
        }
      }
      const size_t slash = path.rfind('/');
      if (slash == std::string::npos || path.size() <= 1) break;
      path.resize(std::max<size_t>(slash, 1));
    }
  }
  return absl::OkStatus();
}

absl::Status MemoryLimits::CheckAddressSpace(uint64_t bytes) const {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return absl::OkStatus();
  }
  const uint64_t used =
      Number("/proc/self/status", "VmSize:").value_or(0) * 1024;
  const uint64_t have = Left(limit.rlim_cur, used);
  if (bytes <= have) return absl::OkStatus();
  return Shortage("address space (RLIMIT_AS)", bytes, have,
                  "raise ulimit -v (systemd: LimitAS=)");
}

absl::Status MemoryLimits::CheckMapCount() const {
  const std::optional<uint64_t> limit =
      Number("/proc/sys/vm/max_map_count", "");
  const std::optional<std::string> maps = Read("/proc/self/maps");
  if (!limit || !maps) return absl::OkStatus();
  const auto used =
      static_cast<uint64_t>(std::count(maps->begin(), maps->end(), '\n'));
  if (used < *limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("number of mappings (vm.max_map_count): one more needed, ",
                   used, " of ", *limit, " in use; raise vm.max_map_count"));
}

}  // namespace optireduce::shm
