// Ranks that run one all-reduce after the other over a reliable transport.

#ifndef OPTIREDUCE_DATAPLANE_SIM_BASELINE_COLLECTIVE_H_
#define OPTIREDUCE_DATAPLANE_SIM_BASELINE_COLLECTIVE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "dataplane/base/time.h"
#include "dataplane/sim/baseline/schedule.h"
#include "dataplane/sim/baseline/stack.h"
#include "dataplane/sim/event_loop.h"

namespace optireduce::sim::baseline {

// Rank r is on host r. Each rank submits its next op as soon as it has the
// result of the one before; nobody waits for others but by the algorithm.
// Connections are kept from op to op. Not thread-safe.
class Collective : public Listener {
 public:
  // Everything pointed to must outlive the object.
  Collective(Schedule schedule, size_t ops, EventLoop* loop, Stack* stack);

  // All ranks submit their first op.
  void Start();
  bool over() const { return finished_ == schedule_.world * times_.size(); }
  // From the rank's submit to its result.
  Duration Took(size_t op, size_t rank) const { return times_[op][rank].took; }
  Timestamp DoneAt(size_t op, size_t rank) const {
    return times_[op][rank].submitted + times_[op][rank].took;
  }

  void OnDelivered(uint64_t message) override;

 private:
  struct Times {
    Timestamp submitted;
    Duration took;
  };
  // Of an op that somebody has begun: what is missing still. A transfer also
  // waits for its sender's submit.
  struct Progress {
    std::vector<uint32_t> waits;    // by transfer
    std::vector<uint32_t> missing;  // by rank: transfers to it
    size_t ranks_left = 0;
  };

  Progress& ProgressOf(size_t op);
  void Submit(size_t op, size_t rank);
  void Satisfy(size_t op, uint32_t transfer);
  void Finish(size_t op, size_t rank);
  FlowId FlowOf(const Transfer& transfer);

  Schedule schedule_;
  EventLoop* loop_;
  Stack* stack_;
  std::vector<std::vector<uint32_t>> sends_;   // by rank, transfers from it
  std::vector<std::vector<uint32_t>> behind_;  // by transfer: what waits for it
  Progress fresh_;
  std::map<size_t, Progress> running_;
  std::map<std::tuple<uint16_t, uint16_t, uint16_t>, FlowId> flows_;
  std::vector<std::vector<Times>> times_;  // by op and rank
  std::vector<size_t> submitted_;          // by rank: how many
  size_t finished_ = 0;                    // ops at ranks
};

}  // namespace optireduce::sim::baseline

#endif  // OPTIREDUCE_DATAPLANE_SIM_BASELINE_COLLECTIVE_H_
