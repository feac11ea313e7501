#include "dataplane/sim/seeds.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cinttypes>
#include <ctime>
#include <string>

#include "dataplane/base/byte_order.h"
#include "dataplane/base/xxhash64.h"
#include "dataplane/sim/random_scenario.h"
#include "dataplane/sim/simulation.h"

namespace optireduce::sim {

namespace {

// For the figures only: nothing is decided by it.
using WallClock = std::chrono::steady_clock;

double MillisSince(WallClock::time_point start) {
  return std::chrono::duration<double, std::milli>(WallClock::now() - start)
      .count();
}

double CpuMillis() {
  return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

void PrintFailure(uint64_t seed, const Outcome& outcome, FILE* out) {
  std::fprintf(out,
               "FAILED seed %" PRIu64 "; to replay: optisim run --seed %" PRIu64
               "\n",
               seed, seed);
  for (const std::string& line : outcome.violations) {
    std::fprintf(out, "  %s\n", line.c_str());
  }
  std::fflush(out);
}

void Add(const Outcome& outcome, SeedsSummary* summary) {
  for (size_t i = 0; i < kNumFaultKinds; ++i) {
    if (outcome.injected[i] > 0) ++summary->struck[i];
  }
  std::array<uint8_t, 8> hash;
  StoreLe64(hash.data(), outcome.trace_hash);
  summary->trace_hash = Xxh64(hash, summary->trace_hash);
  summary->events += outcome.events;
  summary->coverage.Add(outcome.coverage);
}

}  // namespace

SeedsSummary RunSeeds(uint64_t first, uint64_t count, bool progress,
                      FILE* out) {
  SeedsSummary summary;
  std::vector<double> millis;
  const WallClock::time_point begin = WallClock::now();
  double next_line = 5000;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t seed = first + i;
    const double start = CpuMillis();
    const Outcome outcome = RunScenario(RandomScenario(seed));
    millis.push_back(CpuMillis() - start);
    ++summary.seeds;
    Add(outcome, &summary);
    if (!outcome.ok()) {
      summary.failing.push_back(seed);
      PrintFailure(seed, outcome, out);
    }
    if (progress && MillisSince(begin) > next_line) {
      std::fprintf(stderr, "%" PRIu64 " of %" PRIu64 " seeds, %zu failing\n",
                   summary.seeds, count, summary.failing.size());
      next_line += 5000;
    }
  }
  summary.total_ms = MillisSince(begin);
  if (!millis.empty()) {
    std::sort(millis.begin(), millis.end());
    summary.median_ms = millis[millis.size() / 2];
    summary.worst_ms = millis.back();
  }
  return summary;
}

void PrintSummary(const SeedsSummary& summary, FILE* out) {
  std::fprintf(
      out,
      "%" PRIu64 " seeds, %zu failing; %" PRIu64
      " events, trace hash %016" PRIx64
      "\nCPU time per seed: median %.2f ms, worst %.1f ms; in all %.1f s "
      "of wall time\n",
      summary.seeds, summary.failing.size(), summary.events, summary.trace_hash,
      summary.median_ms, summary.worst_ms, summary.total_ms / 1e3);
  std::fprintf(out, "share of seeds in which a fault struck:");
  for (size_t i = 0; i < kNumFaultKinds; ++i) {
    const double share = summary.seeds == 0
                             ? 0
                             : 100.0 * static_cast<double>(summary.struck[i]) /
                                   static_cast<double>(summary.seeds);
    std::fprintf(out, " %s %.0f %%", Name(static_cast<FaultKind>(i)).data(),
                 share);
  }
  std::fprintf(out, "\n%zu of %zu pairs of state and event reached\n",
               summary.coverage.reached(), summary.coverage.possible());
}

}  // namespace optireduce::sim
