// Figures of one row: of one rank, and of all ranks together.

#ifndef OPTIREDUCE_CLIENT_OPTIPERF_STATS_H_
#define OPTIREDUCE_CLIENT_OPTIPERF_STATS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "client/optiperf/options.h"
#include "client/optireduce.h"

namespace optireduce::optiperf {

// The value that `percent` % of the values do not exceed (nearest rank); 0 if
// there are none. Sorts.
double Percentile(std::vector<double>* values, double percent);

// What one rank saw. Only doubles: the ranks exchange it as it is.
struct RankFigures {
  double time_us = 0;  // mean
  double p50_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  double wrong = 0;     // elements of checked operations
  double missing = 0;   // mean share
  double repaired = 0;  // packets of an operation, mean
  double deadline = 0;  // share of operations
  double expired = 0;   // operations
  double decision_late_max_us = 0;
  double wall_late_p99_us = 0;
  double wall_late_max_us = 0;
  double error = 0;  // sums over checked operations
  double norm = 0;
  // Of all checked outputs, in two halves that a double holds exactly.
  double hash_high = 0;
  double hash_low = 0;
};
inline constexpr size_t kFigures = sizeof(RankFigures) / sizeof(double);

// Collects operations of one row at one rank.
class Collector {
 public:
  void AddOperation(double latency_us, const or_report& report);
  // An operation whose result was gone when this rank submitted it.
  void AddExpired();
  void AddCheck(uint64_t wrong, double error, double norm);
  // Goes into the hash, in order; only outputs that all ranks share.
  void AddOutput(std::span<const uint8_t> output);
  // `mean_us`: of an operation, as the caller measured it.
  RankFigures Finish(double mean_us);

 private:
  std::vector<double> latencies_us_;
  std::vector<double> wall_late_us_;
  uint64_t operations_ = 0;
  RankFigures figures_;
  uint64_t hash_ = 0;
};

// One row of the table and of the JSON file.
struct Row {
  uint64_t bytes = 0;
  uint64_t count = 0;
  gradcodec::Dtype dtype{};
  gradcodec::ReduceOp op{};
  int32_t root = -1;
  or_mode mode = OR_EXACT;
  uint32_t world = 1;
  bool checked = false;

  double time_us = 0;
  double p50_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  double algbw = 0;  // GB/s, 1e9
  double busbw = 0;
  uint64_t wrong = 0;
  bool identical = true;
  double missing = 0;
  double repaired = 0;
  double deadline = 0;
  uint64_t expired = 0;
  double decision_late_max_us = 0;
  double wall_late_p99_us = 0;
  double wall_late_max_us = 0;
  double relative_error = 0;
};

// Bus bytes per byte of size.
double BusFactor(or_collective collective, uint32_t world);

// Fills in the figures of *row from those of all ranks.
void Combine(std::span<const RankFigures> ranks, Average average,
             or_collective collective, Row* row);

}  // namespace optireduce::optiperf

#endif  // OPTIREDUCE_CLIENT_OPTIPERF_STATS_H_
