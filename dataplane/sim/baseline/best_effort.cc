#include "dataplane/sim/baseline/best_effort.h"

#include <array>

#include "dataplane/base/byte_order.h"
#include "dataplane/base/require.h"
#include "dataplane/base/rng.h"
#include "dataplane/base/xxhash64.h"

namespace optireduce::sim::baseline {

namespace {

class BestEffort {
 public:
  explicit BestEffort(const BestEffortSpec& spec)
      : spec_(spec), rng_(spec.seed), values_(spec.hosts) {}

  BestEffortResult Run() {
    Require(spec_.ops % kBatches == 0);
    const uint64_t ops = spec_.ops / kBatches;
    const auto results = static_cast<double>(ops * spec_.hosts * spec_.hosts);
    for (uint64_t batch = 0; batch < kBatches; ++batch) {
      double sum = 0;
      for (uint64_t op = 0; op < ops; ++op) {
        for (size_t shard = 0; shard < spec_.hosts; ++shard) {
          sum += Shard(shard);
        }
      }
      result_.squared_error.push_back(sum / results);
    }
    return result_;
  }

 private:
  // The squared error of one shard, added over all ranks.
  double Shard(size_t shard) {
    double sum = 0;
    for (double& value : values_) {
      value = rng_.Below(2) == 0 ? -1 : 1;
      sum += value;
    }
    const auto n = static_cast<double>(spec_.hosts);
    return spec_.algorithm == Algorithm::kRing
               ? AroundRing(shard, sum / n)
               : OverOwner(spec_.algorithm == Algorithm::kTranspose ? shard : 0,
                           sum / n);
  }

  double OverOwner(size_t owner, double truth) {
    double sum = values_[owner];
    for (size_t rank = 0; rank < spec_.hosts; ++rank) {
      if (rank != owner && !Dropped()) sum += values_[rank];
    }
    const double result = sum / static_cast<double>(spec_.hosts);
    double squared = Square(result - truth);
    for (size_t rank = 0; rank < spec_.hosts; ++rank) {
      if (rank != owner) squared += Square((Dropped() ? 0 : result) - truth);
    }
    return squared;
  }

  double AroundRing(size_t first, double truth) {
    double sum = values_[first];
    for (size_t hop = 1; hop < spec_.hosts; ++hop) {
      const double own = values_[(first + hop) % spec_.hosts];
      sum = Dropped() ? own : sum + own;
    }
    const double result = sum / static_cast<double>(spec_.hosts);
    double squared = Square(result - truth);
    bool there = true;
    for (size_t hop = 1; hop < spec_.hosts; ++hop) {
      // A packet that has nothing to carry can be dropped as well.
      there = !Dropped() && there;
      squared += Square((there ? result : 0) - truth);
    }
    return squared;
  }

  bool Dropped() {
    ++packets_;
    if (!rng_.Chance(spec_.drop)) return false;
    ++result_.dropped;
    std::array<uint8_t, 16> bytes;
    StoreLe64(bytes.data(), result_.trace_hash);
    StoreLe64(bytes.data() + 8, packets_);
    result_.trace_hash = Xxh64(bytes, 0);
    return true;
  }

  static double Square(double number) { return number * number; }

  const BestEffortSpec& spec_;
  Rng rng_;
  std::vector<double> values_;  // of the shard, by rank
  uint64_t packets_ = 0;
  BestEffortResult result_;
};

}  // namespace

BestEffortResult RunBestEffort(const BestEffortSpec& spec) {
  return BestEffort(spec).Run();
}

}  // namespace optireduce::sim::baseline
