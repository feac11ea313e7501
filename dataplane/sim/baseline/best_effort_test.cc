#include "dataplane/sim/baseline/best_effort.h"

#include <numeric>

#include "gtest/gtest.h"

namespace optireduce::sim::baseline {
namespace {

double ErrorOf(const BestEffortSpec& spec) {
  const std::vector<double> batches = RunBestEffort(spec).squared_error;
  EXPECT_EQ(batches.size(), kBatches);
  return std::accumulate(batches.begin(), batches.end(), 0.0) / kBatches;
}

BestEffortSpec Spec(Algorithm algorithm, size_t hosts, double drop) {
  BestEffortSpec spec;
  spec.algorithm = algorithm;
  spec.hosts = hosts;
  spec.drop = drop;
  return spec;
}

constexpr Algorithm kAll[] = {Algorithm::kRing, Algorithm::kTranspose,
                              Algorithm::kParameterServer};

TEST(BestEffort, WithoutDropsNothingIsWrong) {
  for (const Algorithm algorithm : kAll) {
    EXPECT_EQ(ErrorOf(Spec(algorithm, 5, 0)), 0) << Name(algorithm);
  }
}

// Of two ranks, with every packet dropped, each has half of its own shard right
// and nothing of the other: (v0 + v1) / 2 against v0 / 2 and 0.
TEST(BestEffort, WithEveryPacketDroppedTheOwnShareIsLeft) {
  for (const Algorithm algorithm : kAll) {
    EXPECT_NEAR(ErrorOf(Spec(algorithm, 2, 1)), (0.25 + 0.5) / 2, 0.005)
        << Name(algorithm);
  }
}

// To the first order each of the two stages is p (N - 1) / N^2.
TEST(BestEffort, TransposeAndServerLoseWhatIsDropped) {
  for (const Algorithm algorithm :
       {Algorithm::kTranspose, Algorithm::kParameterServer}) {
    EXPECT_NEAR(ErrorOf(Spec(algorithm, 8, 0.01)), 2 * 0.01 * 7 / 64, 0.0001)
        << Name(algorithm);
  }
}

// A drop takes all that was added so far, or all ranks behind it: half of them
// on average.
TEST(BestEffort, RingLosesHalfOfTheRanksWithADrop) {
  EXPECT_NEAR(ErrorOf(Spec(Algorithm::kRing, 8, 0.001)), 2 * 0.001 * 7 / 64 * 4,
              0.00005);
}

TEST(BestEffort, EqualSeedsDropEqualPackets) {
  BestEffortSpec spec = Spec(Algorithm::kRing, 4, 0.01);
  const BestEffortResult one = RunBestEffort(spec);
  EXPECT_NEAR(static_cast<double>(one.dropped), 1e5 * 4 * 6 * 0.01, 1000);
  EXPECT_EQ(RunBestEffort(spec).trace_hash, one.trace_hash);
  EXPECT_EQ(RunBestEffort(spec).squared_error, one.squared_error);
  spec.seed = 2;
  EXPECT_NE(RunBestEffort(spec).trace_hash, one.trace_hash);
}

}  // namespace
}  // namespace optireduce::sim::baseline
