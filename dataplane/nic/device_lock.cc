#include "dataplane/nic/device_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace optireduce::nic {
namespace {

// The owner leaves its process number in the file.
std::string Owner(int fd) {
  char text[32] = {};
  const ssize_t bytes = pread(fd, text, sizeof(text) - 1, 0);
  return bytes > 0 ? absl::StrCat("process ", text) : "another process";
}

void LeaveProcessNumber(int fd) {
  const std::string pid = absl::StrCat(getpid());
  // Fails on another user's file; then the number is missing or old, and the
  // lock is as good.
  if (ftruncate(fd, 0) == 0) (void)!pwrite(fd, pid.data(), pid.size(), 0);
}

// Whoever comes first makes the file. It stays, maybe another user's, whom the
// kernel then protects in a shared directory from being opened with O_CREAT; to
// lock it, reading is enough.
int OpenLockFile(const std::string& path) {
  constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW;
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | kFlags,
                      S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);
  if (fd >= 0 || errno != EACCES) return fd;
  return open(path.c_str(), O_RDONLY | kFlags);
}

}  // namespace

absl::StatusOr<DeviceLock> DeviceLock::Take(const std::string& directory,
                                            const std::string& name) {
  const std::string path = absl::StrCat(directory, "/", name, ".lock");
  UniqueFd owned(OpenLockFile(path));
  const int fd = owned.get();
  if (!owned.valid()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot open ", path, ": ", std::strerror(errno)));
  }
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot lock ", path, ": ", std::strerror(errno)));
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "device ", name, " is in use by ", Owner(fd), " (", path, ")"));
  }
  LeaveProcessNumber(fd);
  return DeviceLock(std::move(owned));
}

}  // namespace optireduce::nic
