#include "control/listen_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <charconv>
#include <optional>

#include "absl/strings/str_cat.h"

namespace optireduce::control {
namespace {

constexpr int kBacklog = 128;

absl::Status Problem(const std::string& path, const std::string& text) {
  return absl::FailedPreconditionError(
      absl::StrCat("control socket ", path, ": ", text));
}

absl::Status SystemProblem(const std::string& path, const char* what) {
  return Problem(path, absl::StrCat(what, ": ", strerror(errno)));
}

bool MakeAddress(const std::string& path, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  if (path.size() >= sizeof(address->sun_path)) return false;
  memcpy(address->sun_path, path.data(), path.size());
  return true;
}

void MakeFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  // If this fails, so does the lock file, and that is what is reported.
  if (slash != std::string::npos && slash > 0) {
    mkdir(path.substr(0, slash).c_str(), 0755);
  }
}

absl::StatusOr<UniqueFd> TakeLock(const std::string& path) {
  const std::string lock_path = path + ".lock";
  UniqueFd lock(
      open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid()) {
    return SystemProblem(path, absl::StrCat("opening ", lock_path).c_str());
  }
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return Problem(path, absl::StrCat("another optireduced is running there (",
                                      lock_path, " is locked)"));
  }
  return lock;
}

// Makes room at `path`, as far as that harms nobody.
absl::Status RemoveDeadSocket(const std::string& path,
                              const sockaddr_un& address) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0) {
    return errno == ENOENT ? absl::OkStatus()
                           : SystemProblem(path, "looking at it");
  }
  if (!S_ISSOCK(status.st_mode)) {
    return Problem(path,
                   "something that is no socket is there; it was left alone");
  }
  const UniqueFd probe(
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.valid()) return SystemProblem(path, "making a socket");
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) == 0) {
    return Problem(path, "somebody answers there already");
  }
  // Only "refused" proves that nobody listens: a full backlog or a socket of
  // another type does not.
  if (errno != ECONNREFUSED) {
    return SystemProblem(path, "a socket is there, and connecting to it said");
  }
  if (unlink(path.c_str()) != 0) {
    return SystemProblem(path, "removing a dead socket");
  }
  return absl::OkStatus();
}

absl::StatusOr<gid_t> FindGroup(const std::string& path,
                                const std::string& name) {
  if (const group* entry = getgrnam(name.c_str())) return entry->gr_gid;
  gid_t number = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, number);
  if (error == std::errc() && stop == end) return number;
  return Problem(path, absl::StrCat("no group is called \"", name, "\""));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ListenSocket>> ListenSocket::Open(
    const ListenOptions& options) {
  const std::string& path = options.path;
  sockaddr_un address;
  if (!MakeAddress(path, &address)) {
    return Problem(path, absl::StrCat("the path is longer than ",
                                      sizeof(address.sun_path) - 1, " bytes"));
  }
  std::optional<gid_t> group;
  if (!options.group.empty()) {
    const auto found = FindGroup(path, options.group);
    if (!found.ok()) return found.status();
    group = *found;
  }
  std::unique_ptr<ListenSocket> result(new ListenSocket);
  MakeFolderOf(path);
  auto lock = TakeLock(path);
  if (!lock.ok()) return lock.status();
  result->lock_ = *std::move(lock);
  absl::Status status = RemoveDeadSocket(path, address);
  if (!status.ok()) return status;

  result->socket_ = UniqueFd(
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!result->socket_.valid()) return SystemProblem(path, "making a socket");
  // Nobody may connect before the permissions are right. They are set on the
  // socket before it has a name, from which the name takes them; so the
  // process's umask stays as it is.
  if (fchmod(result->socket_.get(), 0600) != 0) {
    return SystemProblem(path, "setting permissions");
  }
  if (bind(result->socket_.get(), reinterpret_cast<sockaddr*>(&address),
           sizeof(address)) != 0) {
    return SystemProblem(path, "binding");
  }
  struct stat made = {};
  if (lstat(path.c_str(), &made) != 0) return SystemProblem(path, "binding");
  result->path_ = path;
  result->device_ = made.st_dev;
  result->inode_ = made.st_ino;
  if (group && lchown(path.c_str(), static_cast<uid_t>(-1), *group) != 0) {
    return SystemProblem(path, "giving it to its group");
  }
  if (chmod(path.c_str(), options.mode) != 0) {
    return SystemProblem(path, "setting permissions");
  }
  if (listen(result->socket_.get(), kBacklog) != 0) {
    return SystemProblem(path, "listening");
  }
  return result;
}

ListenSocket::~ListenSocket() {
  struct stat status = {};
  if (!path_.empty() && lstat(path_.c_str(), &status) == 0 &&
      status.st_dev == device_ && status.st_ino == inode_) {
    unlink(path_.c_str());
  }
}

}  // namespace optireduce::control
