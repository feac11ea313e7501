// One algorithm over one network under one load: how long its ops take.

#ifndef OPTIREDUCE_DATAPLANE_SIM_BASELINE_EXPERIMENT_H_
#define OPTIREDUCE_DATAPLANE_SIM_BASELINE_EXPERIMENT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/base/time.h"
#include "dataplane/core/config.h"
#include "dataplane/sim/baseline/background.h"
#include "dataplane/sim/baseline/sender.h"
#include "dataplane/sim/repair_check.h"

namespace optireduce::sim::baseline {

enum class Algorithm : uint8_t {
  kRing,
  kBCube,
  kTree,
  kParameterServer,
  kTranspose,
  kTranspose2D,
  kOurs,  // the real core, bounded
};

// "ring", "bcube", "tree", "ps", "tar", "tar2d", "ours".
std::optional<Algorithm> FindAlgorithm(std::string_view name);
std::string_view Name(Algorithm algorithm);

// All-reduces of float32, one after the other, one rank on each host.
struct ExperimentSpec {
  Algorithm algorithm = Algorithm::kRing;
  size_t hosts = 8;           // 2 to 1024
  uint64_t bytes = 25 << 20;  // a multiple of 4
  uint64_t rate_bps = 10'000'000'000;
  uint32_t mtu = 1500;
  size_t ops = 100;  // that count; kWarmUpOps come before them
  uint64_t seed = 1;
  double loss = 0;  // of each packet, whoever's
  BackgroundSpec background;

  // Of kOurs only.
  //
  // The share of its line that a host sends at most.
  double share_cap = 1;
  // As in core::GroupConfig.
  bool congestion_control = false;
  uint32_t incast = 0;
  // In times that the bytes take on an idle line (IdealTime): how far apart ops
  // start, if not as soon as the one before is over, and how late rank 0 is
  // with every kLateEvery-th of those that count.
  double period = 0;
  double late = 0;
  // Each rank's start of each op is late by up to so many such times, at
  // random.
  double jitter = 0;
  uint32_t quorum_permille = core::GroupConfig().quorum_permille;
  // From `change_after` on, in the same unit from the start of the simulation,
  // all cables have so many times their rate; 1: no change.
  double change_after = 0;
  double change_factor = 1;
  // 2: a second job of as many hosts does the same; host 0 is in both.
  uint32_t jobs = 1;
};

inline constexpr size_t kWarmUpOps = 2;
inline constexpr size_t kLateEvery = 20;

struct ExperimentResult {
  // From a rank's submit to its result, of every op at every rank: all ranks of
  // the first op, then of the next.
  std::vector<Duration> samples;
  // Share of contributions and results that each of these lacked; baselines
  // lack none, and have none here.
  std::vector<double> missing;
  // What bound each of these had as a whole, from its quorum; ours only.
  std::vector<Duration> bounds;
  // Of those that count, the first op that was submitted after the change of
  // rate; their number if there was none.
  size_t changed_at = 0;
  // When each op that counts was over at host 0, by job; if there are two.
  std::vector<std::vector<Timestamp>> jobs_ended;
  // Of the whole run: how long it was, what the background got through in it,
  // and what the transport did for the background and the baseline together.
  Duration elapsed;
  uint64_t background_bytes = 0;
  SenderCounters transport;
  // What ours sent again; nothing of baselines, `transport` has theirs.
  RepairCounts repairs;
  uint64_t trace_hash = 0;
  // Empty, or why the run counts for nothing.
  std::string failure;
};

// Equal specifications give equal results.
ExperimentResult RunExperiment(const ExperimentSpec& spec);

struct Summary {
  Duration mean;
  Duration p50;
  Duration p99;
  double p99_over_p50 = 0;
  double goodput_bps = 0;     // of the buffer, at the mean
  double background_bps = 0;  // of all hosts together
  double missing = 0;         // mean
  // Bytes sent again, over those sent for the first time; of ours.
  double repaired = 0;
};

// Of at least one sample. Percentiles are samples (nearest rank).
Summary Summarize(const ExperimentSpec& spec, const ExperimentResult& result);

}  // namespace optireduce::sim::baseline

#endif  // OPTIREDUCE_DATAPLANE_SIM_BASELINE_EXPERIMENT_H_
