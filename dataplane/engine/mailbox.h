// Messages of any type from one thread to another, with a descriptor to wait
// for them.

#ifndef OPTIREDUCE_DATAPLANE_ENGINE_MAILBOX_H_
#define OPTIREDUCE_DATAPLANE_ENGINE_MAILBOX_H_

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "dataplane/base/spsc_ring.h"
#include "dataplane/base/unique_fd.h"

namespace optireduce::engine {

// One thread posts, one takes. A message is owned by whoever has it; those left
// over at the end are destroyed.
template <class T>
class Mailbox {
 public:
  // `capacity`, in messages, is a power of two.
  explicit Mailbox(size_t capacity) : ring_(capacity) {}
  ~Mailbox() {
    while (Take() != nullptr) {
    }
  }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Poster only. False, and `message` is kept, if the mailbox is full.
  bool Post(std::unique_ptr<T>& message) {
    if (!ring_.TryPush(message.get())) return false;
    (void)message.release();
    Ring();
    return true;
  }
  // Taker only. Null if there is none.
  std::unique_ptr<T> Take() {
    T* message = nullptr;
    return ring_.TryPop(message) ? std::unique_ptr<T>(message) : nullptr;
  }

  // Readable since the last post or Ring() until Quiet().
  int fd() const { return event_.get(); }
  // Any thread: makes fd() readable.
  void Ring() const {
    const uint64_t one = 1;
    // Fails only if it is readable already, 2^64 - 2 times.
    (void)!write(event_.get(), &one, sizeof(one));
  }
  // Taker only, before it takes what there is.
  void Quiet() const {
    uint64_t count = 0;
    (void)!read(event_.get(), &count, sizeof(count));
  }

 private:
  SpscRing<T*> ring_;
  const UniqueFd event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

}  // namespace optireduce::engine

#endif  // OPTIREDUCE_DATAPLANE_ENGINE_MAILBOX_H_
