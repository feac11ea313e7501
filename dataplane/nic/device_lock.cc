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

}  // namespace

absl::StatusOr<DeviceLock> DeviceLock::Take(const std::string& directory,
                                            const std::string& name) {
  const std::string path = absl::StrCat(directory, "/", name, ".lock");
  UniqueFd owned(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                      S_IRUSR | S_IWUSR));
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
  const std::string pid = absl::StrCat(getpid());
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) !=
                                   static_cast<ssize_t>(pid.size())) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
  }
  return DeviceLock(std::move(owned));
}

}  // namespace optireduce::nic
