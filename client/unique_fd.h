// A file descriptor that is closed with its owner.

#ifndef OPTIREDUCE_CLIENT_UNIQUE_FD_H_
#define OPTIREDUCE_CLIENT_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace optireduce::client {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void Reset() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace optireduce::client

#endif  // OPTIREDUCE_CLIENT_UNIQUE_FD_H_
