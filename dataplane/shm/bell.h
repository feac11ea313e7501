// The two bells of a session: how each side wakes the other.
//
// To the daemon: an eventfd. The daemon polls it edge-triggered and never reads
// it, so that no client can make it block or spin. To the client: a stream
// socket. An eventfd would not do there: its descriptor's flags are shared with
// the client, which could make the daemon's write block.

#ifndef OPTIREDUCE_DATAPLANE_SHM_BELL_H_
#define OPTIREDUCE_DATAPLANE_SHM_BELL_H_

#include "absl/status/statusor.h"
#include "dataplane/base/unique_fd.h"

namespace optireduce::shm {

struct Bells {
  UniqueFd engine_event;  // both sides use the same eventfd
  UniqueFd client_bell;   // the daemon's end
  UniqueFd client_end;    // for the client; closed here once it is passed
};

// RESOURCE_EXHAUSTED when descriptors run out.
absl::StatusOr<Bells> MakeBells();

// Never blocks. Nothing is lost if the client has left bytes unread: it is
// awake then, or will be.
void Ring(int client_bell);

}  // namespace optireduce::shm

#endif  // OPTIREDUCE_DATAPLANE_SHM_BELL_H_
