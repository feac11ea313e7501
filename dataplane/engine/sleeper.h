// Sleeps until a time or until one of several descriptors becomes readable.

#ifndef OPTIREDUCE_DATAPLANE_ENGINE_SLEEPER_H_
#define OPTIREDUCE_DATAPLANE_ENGINE_SLEEPER_H_

#include "dataplane/base/time.h"
#include "dataplane/base/unique_fd.h"

namespace optireduce::engine {

// Not thread-safe. A descriptor must be removed before it is closed.
class Sleeper {
 public:
  Sleeper();

  // Edge-triggered: each new event wakes once, and nobody has to read.
  void Add(int fd);
  void Remove(int fd);
  // Returns early if one of them has had an event since it last did.
  void Sleep(Duration at_most);

 private:
  const UniqueFd epoll_;
};

}  // namespace optireduce::engine

#endif  // OPTIREDUCE_DATAPLANE_ENGINE_SLEEPER_H_
