#include "dataplane/shm/bell.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "absl/strings/str_cat.h"

namespace optireduce::shm {

absl::StatusOr<Bells> MakeBells() {
  Bells bells;
  bells.engine_event = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  int ends[2] = {-1, -1};
  if (!bells.engine_event.valid() ||
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                 ends) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("making a session's bells: ", strerror(errno)));
  }
  bells.client_bell = UniqueFd(ends[0]);
  bells.client_end = UniqueFd(ends[1]);
  return bells;
}

void Ring(int client_bell) {
  const char byte = 1;
  // A client that has closed its end is dealt with by the control socket.
  [[maybe_unused]] const ssize_t sent =
      send(client_bell, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace optireduce::shm
