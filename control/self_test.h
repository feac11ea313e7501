// Whether packets really pass, before the daemon says that it is ready.

#ifndef OPTIREDUCE_CONTROL_SELF_TEST_H_
#define OPTIREDUCE_CONTROL_SELF_TEST_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "dataplane/base/time.h"
#include "dataplane/nic/address.h"
#include "dataplane/nic/packet_port.h"

namespace optireduce::control {

struct SelfTestOptions {
  Duration limit = Duration::Seconds(60);
  // How long somebody else who has our address may take to say so.
  Duration conflict_wait = Duration::Millis(200);
  // Must answer, if there is one.
  std::optional<nic::Ipv4Address> gateway;
};

// What the test needs from outside.
struct SelfTestHooks {
  std::function<Timestamp()> now;
  // Waits until the port may have something, at most this long.
  std::function<void(Duration)> wait;
  // What is being waited for; told when it changes.
  std::function<void(const std::string&)> progress;
  // Asked now and then: true gives up.
  std::function<bool()> interrupted;
};

// Waits for the link, sees that the device takes a frame (the port announces
// our address, which nobody must answer), and reaches the gateway. Errors are
// plain sentences; CANCELLED if interrupted. Uses the port alone.
absl::Status TestDataPort(nic::PacketPort* port, const SelfTestOptions& options,
                          const SelfTestHooks& hooks);

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_SELF_TEST_H_
