#include "dataplane/sim/baseline/samples.h"

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "dataplane/sim/baseline/ours.h"
#include "nlohmann/json.hpp"

namespace optireduce::sim::baseline {

namespace {

int64_t Micros(Duration duration) { return duration.nanos() / 1000; }

nlohmann::json Settings(const ExperimentSpec& spec) {
  const core::GroupConfig config = OursScenario(spec).groups[0].config;
  return {
      {"group_result_bound_us", Micros(config.result_bound)},
      {"group_stage1_bound_us", Micros(config.stage1_bound)},
      {"group_early_wait_us", Micros(config.early_wait)},
      {"group_adaptive_bounds", config.adaptive_bounds},
      {"group_slowest_rate_bps", config.slowest_rate_bps},
      {"group_hard_limit_us", Micros(config.hard_limit)},
      {"group_window", config.window},
      {"group_quorum_permille", config.quorum_permille},
      {"group_memory_mb", config.memory_budget >> 20},
      {"group_fill", config.fill == core::FillPolicy::kZero ? "zero" : "own"},
      {"group_formation_limit_us", Micros(config.formation_limit)},
      {"group_heartbeat_us", Micros(config.heartbeat)},
      {"group_suspect_after_us", Micros(config.suspect_after)},
      {"group_dead_after_us", Micros(config.dead_after)},
  };
}

// By op; `samples` has `hosts` values of each.
template <typename T, typename F>
nlohmann::json ByOp(const std::vector<T>& samples, size_t hosts, F value) {
  nlohmann::json ops = nlohmann::json::array();
  for (size_t i = 0; i < samples.size(); ++i) {
    if (i % hosts == 0) ops.push_back(nlohmann::json::array());
    ops.back().push_back(value(samples[i]));
  }
  return ops;
}

}  // namespace

std::string Hex(uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016" PRIx64, number);
  return text;
}

std::string SamplesLine(const ExperimentSpec& spec,
                        const ExperimentResult& result) {
  nlohmann::json line = {
      {"algorithm", Name(spec.algorithm)},
      {"hosts", spec.hosts},
      {"bytes", spec.bytes},
      {"rate_bps", spec.rate_bps},
      {"mtu", spec.mtu},
      {"ops", spec.ops},
      {"seed", spec.seed},
      {"loss", spec.loss},
      {"background", spec.background.name},
      {"share_cap", spec.share_cap},
      {"congestion_control", spec.congestion_control},
      {"incast", spec.incast},
      {"period", spec.period},
      {"late", spec.late},
      {"jitter", spec.jitter},
      {"change_after", spec.change_after},
      {"change_factor", spec.change_factor},
      {"jobs", spec.jobs},
      {"ideal_ns", IdealTime(spec).nanos()},
      {"took_ns", ByOp(result.samples, spec.hosts,
                       [](Duration took) { return took.nanos(); })},
      {"missing",
       ByOp(result.missing, spec.hosts, [](double share) { return share; })},
      {"elapsed_ns", result.elapsed.nanos()},
      {"background_bytes", result.background_bytes},
      {"timeouts", result.transport.timeouts},
      {"trace_hash", Hex(result.trace_hash)},
  };
  if (spec.algorithm == Algorithm::kOurs) {
    line["settings"] = Settings(spec);
    line["bound_ns"] = ByOp(result.bounds, spec.hosts,
                            [](Duration bound) { return bound.nanos(); });
    line["changed_at"] = result.changed_at;
  }
  for (const auto& job : result.jobs_ended) {
    nlohmann::json ended = nlohmann::json::array();
    for (const Timestamp at : job) ended.push_back(at.nanos());
    line["jobs_ended_ns"].push_back(ended);
  }
  return line.dump() + "\n";
}

}  // namespace optireduce::sim::baseline
