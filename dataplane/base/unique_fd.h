// Ownership of a file descriptor.

#ifndef OPTIREDUCE_DATAPLANE_BASE_UNIQUE_FD_H_
#define OPTIREDUCE_DATAPLANE_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace optireduce {

// Closes the descriptor that it owns, if any. Not thread-safe.
class UniqueFd {
 public:
  UniqueFd() = default;
  // Takes ownership. A negative number is no descriptor.
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { Reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = other.Release();
    }
    return *this;
  }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  // Gives ownership up.
  int Release() { return std::exchange(fd_, -1); }
  void Reset() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace optireduce

#endif  // OPTIREDUCE_DATAPLANE_BASE_UNIQUE_FD_H_
