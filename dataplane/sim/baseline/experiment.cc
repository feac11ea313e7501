#include "dataplane/sim/baseline/experiment.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "dataplane/sim/baseline/ours.h"
#include "dataplane/sim/baseline/reliable.h"

namespace optireduce::sim::baseline {

namespace {

constexpr std::array<std::pair<std::string_view, Algorithm>, 7> kNames = {{
    {"ring", Algorithm::kRing},
    {"bcube", Algorithm::kBCube},
    {"tree", Algorithm::kTree},
    {"ps", Algorithm::kParameterServer},
    {"tar", Algorithm::kTranspose},
    {"tar2d", Algorithm::kTranspose2D},
    {"ours", Algorithm::kOurs},
}};

Duration Percentile(const std::vector<Duration>& sorted, size_t percent) {
  const size_t rank = (sorted.size() * percent + 99) / 100;
  return sorted[std::max<size_t>(rank, 1) - 1];
}

}  // namespace

std::optional<Algorithm> FindAlgorithm(std::string_view name) {
  for (const auto& [known, algorithm] : kNames) {
    if (known == name) return algorithm;
  }
  return std::nullopt;
}

std::string_view Name(Algorithm algorithm) {
  for (const auto& [name, known] : kNames) {
    if (known == algorithm) return name;
  }
  return "";
}

ExperimentResult RunExperiment(const ExperimentSpec& spec) {
  return spec.algorithm == Algorithm::kOurs ? RunOurs(spec) : RunReliable(spec);
}

Summary Summarize(const ExperimentSpec& spec, const ExperimentResult& result) {
  std::vector<Duration> sorted = result.samples;
  std::sort(sorted.begin(), sorted.end());
  Summary summary;
  summary.mean = std::accumulate(sorted.begin(), sorted.end(), Duration()) /
                 static_cast<int64_t>(sorted.size());
  summary.p50 = Percentile(sorted, 50);
  summary.p99 = Percentile(sorted, 99);
  summary.p99_over_p50 = summary.p99.seconds() / summary.p50.seconds();
  summary.goodput_bps =
      static_cast<double>(spec.bytes) * 8 / summary.mean.seconds();
  summary.background_bps = static_cast<double>(result.background_bytes) * 8 /
                           result.elapsed.seconds();
  if (!result.missing.empty()) {
    summary.missing =
        std::accumulate(result.missing.begin(), result.missing.end(), 0.0) /
        static_cast<double>(result.missing.size());
  }
  if (result.repairs.first_bytes > 0) {
    summary.repaired = static_cast<double>(result.repairs.repaired_bytes) /
                       static_cast<double>(result.repairs.first_bytes);
  }
  return summary;
}

}  // namespace optireduce::sim::baseline
