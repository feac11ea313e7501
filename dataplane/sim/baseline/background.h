// Somebody else's bulk traffic: the fixed, published load that experiments run
// under.

#ifndef OPTIREDUCE_DATAPLANE_SIM_BASELINE_BACKGROUND_H_
#define OPTIREDUCE_DATAPLANE_SIM_BASELINE_BACKGROUND_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/rng.h"
#include "dataplane/base/time.h"
#include "dataplane/sim/baseline/stack.h"
#include "dataplane/sim/event_loop.h"

namespace optireduce::sim::baseline {

// On/off traffic as netlab's: each host's source pauses, then sends as much as
// it can over `flows` new connections to one random other host, for a time that
// does not depend on what gets through, and pauses again. Pauses and times are
// uniform in their ranges.
struct BackgroundSpec {
  std::string name = "none";
  uint32_t flows = 0;  // 0: no traffic
  Duration shortest_pause{};
  Duration longest_pause{};
  Duration shortest_burst{};
  Duration longest_burst{};

  // The share of the time in which a source is on: of each host's line that is
  // offered.
  double OfferedLoad() const;
};

// "none"; "tail15" and "tail30", under which the ring's P99 is 1.5 and 3.0
// times its P50 (8 hosts, 25 MiB, 10 Gb/s, MTU 1500): docs/EXPERIMENTS.md says
// how they were found.
std::optional<BackgroundSpec> FindBackground(const std::string& name);

// Not thread-safe. Draws from a generator of its own: the times and places of
// bursts depend on the seed alone.
class BackgroundTraffic : public Actor {
 public:
  // Everything pointed to must outlive the events.
  BackgroundTraffic(const BackgroundSpec& spec, uint64_t seed, size_t hosts,
                    EventLoop* loop, Stack* stack);

  void Start();
  // Bytes that have arrived in order.
  uint64_t Received() const;
  uint64_t bursts() const { return bursts_; }

  void OnEvent(uint32_t code, uint64_t argument) override;

 private:
  enum Code : uint32_t { kBegin, kEnd };

  struct Source {
    explicit Source(uint64_t seed) : rng(seed) {}
    Rng rng;
    std::vector<FlowId> flows;  // of the burst that is on
  };

  void Begin(uint16_t host);
  void End(uint16_t host);

  BackgroundSpec spec_;
  EventLoop* loop_;
  Stack* stack_;
  std::vector<Source> sources_;  // by host
  uint64_t bursts_ = 0;
  uint64_t received_ = 0;  // in bursts that are over
};

}  // namespace optireduce::sim::baseline

#endif  // OPTIREDUCE_DATAPLANE_SIM_BASELINE_BACKGROUND_H_
