// Everything that decides a run. Plain data: written by hand, read from JSON or
// drawn from a seed.

#ifndef OPTIREDUCE_DATAPLANE_SIM_SCENARIO_H_
#define OPTIREDUCE_DATAPLANE_SIM_SCENARIO_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/base/time.h"
#include "dataplane/core/config.h"
#include "dataplane/core/types.h"
#include "dataplane/sim/fault.h"
#include "dataplane/sim/network.h"

namespace optireduce::sim {

struct HostSpec {
  LinkSpec link;
  // Shortest time between two polls of the engine, while there is work.
  Duration poll_interval = Duration::Micros(2);
  // Whether packets carry the NIC's arrival time; else it is the previous poll.
  bool hardware_clock = true;
  // What this host's clock says at the start of the simulation.
  Duration clock_start{};
  uint32_t receive_ring = 4096;  // packets
  uint64_t pacer_bps = 0;        // the engine's own limit; 0: none
};

enum class InputKind : uint8_t {
  // Whole numbers, so small that every partial sum is exact, and so mixed that
  // a sum tells whose inputs are in it.
  kSummable,
  kBits,      // of any kind, finite where floating
  kRankPlus,  // rank r holds r + 1 everywhere
  kIota,      // rank r's element i is 4096 r + i
  kZero,      // of a flush
  kListed,    // as in `listed`
};

struct OpSpec {
  core::OpDescriptor descriptor;
  // By rank; empty: the descriptor above on all of them.
  std::vector<core::OpDescriptor> by_rank;
  // By rank, from the start (GroupSpec); a rank submits in order, so an op is
  // not submitted before the one in front of it. Empty: at once.
  std::vector<Duration> submit_after;
  InputKind inputs = InputKind::kSummable;
  // By rank, the bits of its elements, repeated as often as needed.
  std::vector<std::vector<uint64_t>> listed;
  bool in_place = true;      // where input and output have one size
  uint8_t misalignment = 0;  // of both buffers, in bytes
};

// What a trainer does once its last op is reported.
enum class Ending : uint8_t {
  kDrain,  // waits until nothing is kept for the group, then leaves
  kLeave,  // leaves at once
};

struct GroupSpec {
  core::GroupConfig config;          // but for self and members
  std::vector<uint16_t> hosts;       // by rank
  std::vector<Duration> join_after;  // by rank; empty: at the start
  // Joins when this group (a place in Scenario::groups) is over, on the same
  // ports: the next epoch. Hosts whose daemon died start again.
  std::optional<size_t> next_epoch_of;
  // When submit times count from: when all ranks are ready, or when the rank
  // itself is.
  bool start_together = true;
  uint32_t max_in_flight = 8;
  Ending ending = Ending::kDrain;
  // A rank closes a step when all its ops have ended and it has nothing more of
  // it to submit, this much later; some it skips.
  Duration close_after{};
  std::vector<uint64_t> skipped_steps;
  // To the end, to see that nothing writes to them; else until the rank's next
  // report, for runs of many large ops.
  bool keep_buffers = true;
  std::vector<OpSpec> ops;
};

struct Stall {
  uint16_t host = 0;
  Window window;
  bool whole_host = false;  // trainers too, and its NIC receives nothing
};

// From then on a host's cable has another rate.
struct RateChange {
  uint16_t host = 0;
  Duration after{};  // from the start of the simulation
  uint64_t rate_bps = 0;
};

// A trainer dies alone (its daemon serves on), a daemon with all that is on its
// host.
struct Death {
  size_t group = 0;
  core::Rank rank{};
  Duration after{};  // from the start of the simulation
  bool daemon = false;
};

enum class ScriptAction : uint8_t {
  kDrop,
  kDelay,
  kDuplicate,
  kFlip,
  kStale,     // comes again after `delay`
  kOldEpoch,  // the same, with the tag of an earlier epoch
  kCutTail,   // drops the last `length` packets of the stream
};

// A fault by name. What is not set matches everything.
struct ScriptedFault {
  size_t group = 0;
  std::optional<uint32_t> op;     // place in GroupSpec::ops
  std::optional<uint32_t> stage;  // 1: data, 2: result
  std::optional<wire::PacketType> type;
  std::optional<core::Rank> source;
  std::optional<core::Rank> destination;
  std::optional<uint32_t> chunk;
  ScriptAction action = ScriptAction::kDrop;
  Duration delay{};
  uint32_t length = 1;
  // Strikes this many packets after letting `skip` pass; the default is every
  // copy for as long as the op lasts at its receiver.
  uint32_t skip = 0;
  std::optional<uint32_t> times;
  bool repairs = false;  // whether repairs are struck too
};

// Drawn for each packet anew; 0: never.
struct RandomFaults {
  Window window;
  double loss = 0;
  double burst_start = 0;
  double burst_end = 0.1;
  double burst_loss = 0.7;
  uint32_t tail_permille = 0;
  double duplicate = 0;
  double reorder = 0;
  Duration reorder_longest = Duration::Millis(1);
  double corrupt = 0;
  double corrupt_flipped = 0.5;
  double old_epoch = 0;
  double stale = 0;
  double forged = 0;
  double invented = 0;
  Duration replay_longest = Duration::Millis(20);
};

struct PartitionSpec {
  Window window;
  uint16_t from_host = 0;
  uint16_t to_host = 0;
};

struct Scenario {
  uint64_t seed = 1;
  std::vector<HostSpec> hosts;
  std::vector<GroupSpec> groups;
  RandomFaults random;
  std::vector<ScriptedFault> script;
  std::vector<PartitionSpec> partitions;
  std::vector<Background> backgrounds;
  std::vector<RateChange> rate_changes;
  std::vector<Stall> stalls;
  std::vector<Death> deaths;
  // Late submits that are meant as such, to be counted.
  uint32_t trainer_stalls = 0;
  // Queues that are meant to overflow.
  bool short_queues = false;
  // A run that is not over by then has failed.
  Duration give_up = Duration::Seconds(100);
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_SCENARIO_H_
