#include "client/optiperf/stats.h"

#include <algorithm>
#include <cmath>

#include "dataplane/base/xxhash64.h"

namespace optireduce::optiperf {
namespace {

double Combined(std::span<const RankFigures> ranks, Average average,
                double RankFigures::*figure) {
  const auto less = [figure](const RankFigures& a, const RankFigures& b) {
    return a.*figure < b.*figure;
  };
  switch (average) {
    case Average::kRank0:
      return ranks.front().*figure;
    case Average::kMin:
      return *std::min_element(ranks.begin(), ranks.end(), less).*figure;
    case Average::kMax:
      return *std::max_element(ranks.begin(), ranks.end(), less).*figure;
    case Average::kMean:
      break;
  }
  double sum = 0;
  for (const RankFigures& rank : ranks) sum += rank.*figure;
  return sum / static_cast<double>(ranks.size());
}

double Sum(std::span<const RankFigures> ranks, double RankFigures::*figure) {
  double sum = 0;
  for (const RankFigures& rank : ranks) sum += rank.*figure;
  return sum;
}

}  // namespace

double Percentile(std::vector<double>* values, double percent) {
  if (values->empty()) return 0;
  std::sort(values->begin(), values->end());
  // 99.9 % of 1000 are 999, whatever the binary fractions say.
  const double rank =
      std::ceil(percent * static_cast<double>(values->size()) / 100 - 1e-9);
  const size_t index =
      std::min(values->size(), static_cast<size_t>(std::max(rank, 1.0))) - 1;
  return (*values)[index];
}

void Collector::AddOperation(double latency_us, const or_report& report) {
  ++operations_;
  latencies_us_.push_back(latency_us);
  wall_late_us_.push_back(static_cast<double>(report.wall_late_ns) / 1e3);
  figures_.missing += report.missing_fraction;
  figures_.repaired += static_cast<double>(report.repaired);
  figures_.deadline += report.cause == OR_CAUSE_DEADLINE;
  figures_.decision_late_max_us =
      std::max(figures_.decision_late_max_us,
               static_cast<double>(report.decision_late_ns) / 1e3);
}

void Collector::AddExpired() {
  ++operations_;
  figures_.expired += 1;
  figures_.missing += 1;
}

void Collector::AddCheck(uint64_t wrong, double error, double norm) {
  figures_.wrong += static_cast<double>(wrong);
  figures_.error += error;
  figures_.norm += norm;
}

void Collector::AddOutput(std::span<const uint8_t> output) {
  hash_ = Xxh64(output, hash_);
}

RankFigures Collector::Finish(double mean_us) {
  const double operations = std::max(1.0, static_cast<double>(operations_));
  figures_.time_us = mean_us;
  figures_.p50_us = Percentile(&latencies_us_, 50);
  figures_.p99_us = Percentile(&latencies_us_, 99);
  figures_.p999_us = Percentile(&latencies_us_, 99.9);
  figures_.missing /= operations;
  figures_.repaired /= operations;
  figures_.deadline /= operations;
  figures_.wall_late_p99_us = Percentile(&wall_late_us_, 99);
  figures_.wall_late_max_us = Percentile(&wall_late_us_, 100);
  figures_.hash_high = static_cast<double>(hash_ >> 32);
  figures_.hash_low = static_cast<double>(hash_ & UINT32_MAX);
  return figures_;
}

double BusFactor(or_collective collective, uint32_t world) {
  const double others = static_cast<double>(world - 1) / world;
  switch (collective) {
    case OR_ALL_REDUCE:
      return 2 * others;
    case OR_REDUCE_SCATTER:
    case OR_ALL_GATHER:
      return others;
    default:
      return 1;
  }
}

void Combine(std::span<const RankFigures> ranks, Average average,
             or_collective collective, Row* row) {
  row->time_us = Combined(ranks, average, &RankFigures::time_us);
  row->p50_us = Combined(ranks, average, &RankFigures::p50_us);
  row->p99_us = Combined(ranks, average, &RankFigures::p99_us);
  row->p999_us = Combined(ranks, average, &RankFigures::p999_us);
  row->algbw = row->time_us > 0
                   ? static_cast<double>(row->bytes) / row->time_us / 1e3
                   : 0;
  row->busbw = row->algbw * BusFactor(collective, row->world);
  row->wrong = static_cast<uint64_t>(Sum(ranks, &RankFigures::wrong));
  row->expired = static_cast<uint64_t>(Sum(ranks, &RankFigures::expired));
  row->missing = Combined(ranks, Average::kMean, &RankFigures::missing);
  row->repaired = Combined(ranks, Average::kMean, &RankFigures::repaired);
  row->deadline = Combined(ranks, Average::kMean, &RankFigures::deadline);
  row->decision_late_max_us =
      Combined(ranks, Average::kMax, &RankFigures::decision_late_max_us);
  row->wall_late_p99_us =
      Combined(ranks, Average::kMax, &RankFigures::wall_late_p99_us);
  row->wall_late_max_us =
      Combined(ranks, Average::kMax, &RankFigures::wall_late_max_us);
  const double norm = Sum(ranks, &RankFigures::norm);
  row->relative_error =
      norm > 0 ? std::sqrt(Sum(ranks, &RankFigures::error) / norm) : 0;
  row->identical =
      std::all_of(ranks.begin(), ranks.end(), [&](const RankFigures& rank) {
        return rank.hash_high == ranks.front().hash_high &&
               rank.hash_low == ranks.front().hash_low;
      });
}

}  // namespace optireduce::optiperf
