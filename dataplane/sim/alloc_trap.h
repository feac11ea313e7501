// Notices allocations where there must be none.
//
// Linking :alloc_trap replaces the global operator new and delete of the whole
// program; while a NoAllocation object lives on a thread, each use of them by
// that thread is counted. Programs without it pay nothing and notice nothing.

#ifndef OPTIREDUCE_DATAPLANE_SIM_ALLOC_TRAP_H_
#define OPTIREDUCE_DATAPLANE_SIM_ALLOC_TRAP_H_

#include <cstdint>

namespace optireduce::sim {

class NoAllocation {
 public:
  NoAllocation() { ++depth_; }
  ~NoAllocation() { --depth_; }
  NoAllocation(const NoAllocation&) = delete;
  NoAllocation& operator=(const NoAllocation&) = delete;

  // Forbidden allocations and releases on this thread so far.
  static uint64_t violations() { return violations_; }

  // Called by operator new and delete.
  static void Notice() {
    if (depth_ > 0) ++violations_;
  }

 private:
  static thread_local int depth_;
  static thread_local uint64_t violations_;
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_ALLOC_TRAP_H_
