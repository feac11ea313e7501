// A check of our own invariants that is nothing but a branch.

#ifndef OPTIREDUCE_DATAPLANE_BASE_REQUIRE_H_
#define OPTIREDUCE_DATAPLANE_BASE_REQUIRE_H_

namespace optireduce {

// Ends the process by a trap if `holds` is false: that is a bug of ours, never
// what a peer, a trainer or a configuration said. Says nothing, as the rooms
// that use it have nowhere to say it: the place is in the core dump. Unlike
// assert, it needs no library and is there in every build. From any thread.
constexpr void Require(bool holds) {
  if (!holds) [[unlikely]] {
    __builtin_trap();
  }
}

}  // namespace optireduce

#endif  // OPTIREDUCE_DATAPLANE_BASE_REQUIRE_H_
