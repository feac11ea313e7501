// What an engine and a group are told when they are set up.

#ifndef OPTIREDUCE_DATAPLANE_CORE_CONFIG_H_
#define OPTIREDUCE_DATAPLANE_CORE_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/base/time.h"
#include "dataplane/core/types.h"

namespace optireduce::core {

struct EngineConfig {
  // Bits per second of UDP payload and headers this engine may send; 0: no
  // pacing of our own.
  uint64_t rate_bps = 0;
  // Bytes that may leave back to back before the rate holds.
  uint32_t burst_bytes = 64 * 1024;
};

// Everything up to `ledger_budget` must be alike on all ranks; SettingsHash
// covers it, and a group whose ranks differ is not formed.
struct GroupConfig {
  uint32_t payload_bytes = 1424;  // of a chunk: wire::PayloadForMtu(least MTU)
  uint32_t window = 16;           // ops in flight, 1..256
  uint32_t quorum_permille = 750;
  // From the quorum: an owner closes its shard after stage1_bound, a receiver
  // its op after result_bound. stage1_bound <= result_bound.
  Duration stage1_bound = Duration::Millis(60);
  Duration result_bound = Duration::Millis(100);
  // Adaptive: these two and `early_wait` hold until ops have shown what they
  // take, and are the most there ever is (bound_controller.h). Otherwise they
  // hold for every op.
  bool adaptive_bounds = true;
  // Adaptive: the first two are longer by twice and four times what the op's
  // bytes take at this rate. 0: alike for all sizes.
  uint64_t slowest_rate_bps = 0;
  // No adaptive stage-1 bound is shorter: hosts pause for about so long.
  Duration least_bound = Duration::Millis(2);
  // Silence after which a stage ends early once all tails are in.
  Duration early_wait = Duration::Millis(5);
  Duration hard_limit = Duration::Seconds(30);  // from the submit
  FillPolicy fill = FillPolicy::kZero;
  size_t memory_budget = size_t{256} << 20;  // bytes of op state
  size_t ledger_budget = size_t{64} << 20;   // bytes of residuals and debts
  // Each path's rate follows what its queues do (rate_controller.h). Needs
  // EngineConfig::rate_bps.
  bool congestion_control = false;
  // How many ranks send contributions to one owner at a time; 0: all others.
  uint32_t incast = 0;

  // This formation, drawn anew each time.
  uint32_t tag = 0;
  OpSeq first_op{};
  Rank self{};
  std::vector<Endpoint> members;  // by rank; size() is N, 1..1024

  // A local matter: the share of EngineConfig::rate_bps, which is then needed,
  // that the group may use; 1000: all of it.
  uint32_t share_cap_permille = 1000;

  // Liveness, repair and room, local matters.
  uint32_t max_buckets = 1024;  // with residuals and debts, at least 1
  Duration formation_limit = Duration::Seconds(10);
  Duration heartbeat = Duration::Millis(100);
  Duration suspect_after = Duration::Millis(300);
  Duration dead_after = Duration::Seconds(5);
  Duration feedback_interval = Duration::Millis(2);
  Duration nack_interval = Duration::Millis(5);
};

// A hash of the settings that all ranks must share (not tag, self, members).
uint32_t SettingsHash(const GroupConfig& config);

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_CONFIG_H_
