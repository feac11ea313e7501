#include "dataplane/sim/baseline/experiment.h"

#include <algorithm>
#include <vector>

#include "dataplane/base/rng.h"
#include "dataplane/sim/baseline/background.h"
#include "dataplane/sim/baseline/ours.h"
#include "dataplane/sim/baseline/segment.h"
#include "dataplane/sim/baseline/stack.h"
#include "dataplane/sim/event_loop.h"
#include "dataplane/sim/network.h"
#include "dataplane/sim/packet_pool.h"
#include "dataplane/sim/trace.h"
#include "gtest/gtest.h"

namespace optireduce::sim::baseline {
namespace {

ExperimentSpec Spec(Algorithm algorithm, uint64_t bytes = 4 << 20,
                    size_t hosts = 8, size_t ops = 5) {
  ExperimentSpec spec;
  spec.algorithm = algorithm;
  spec.bytes = bytes;
  spec.hosts = hosts;
  spec.ops = ops;
  return spec;
}

// One burst in a few milliseconds.
ExperimentSpec Loaded(ExperimentSpec spec) {
  spec.background.flows = 4;
  spec.background.shortest_pause = Duration::Millis(3);
  spec.background.longest_pause = Duration::Millis(30);
  spec.background.shortest_burst = Duration::Millis(2);
  spec.background.longest_burst = Duration::Millis(5);
  return spec;
}

Summary RunWell(const ExperimentSpec& spec) {
  const ExperimentResult result = RunExperiment(spec);
  EXPECT_EQ(result.failure, "");
  EXPECT_EQ(result.samples.size(), spec.ops * spec.hosts);
  return Summarize(spec, result);
}

// Seconds on the line for so many bytes of a stream, with headers; an
// acknowledgement for every second segment comes on top where data goes the
// other way, too.
double OnLine(double bytes, const ExperimentSpec& spec) {
  const double full = SegmentBytes(spec.mtu);
  const double wire = spec.mtu - 28 + kWireOverhead;
  const double ack = (kTcpBeyondUdp + kWireOverhead) / 2.0;
  return bytes / full * (wire + ack) * 8 / static_cast<double>(spec.rate_bps);
}

TEST(Experiment, RingTakesItsBytesAndItsSteps) {
  for (const size_t hosts : {2, 4, 8, 16}) {
    const ExperimentSpec spec = Spec(Algorithm::kRing, 4 << 20, hosts);
    const double n = static_cast<double>(hosts);
    const double bytes = 2 * (n - 1) / n * static_cast<double>(spec.bytes);
    // A step's last packet: four microseconds of cable, twice its own length
    // in store and forward.
    const double steps = 2 * (n - 1) * (4e-6 + 2 * 1.25e-6);
    const double ideal = OnLine(bytes, spec) + steps;
    EXPECT_NEAR(RunWell(spec).mean.seconds(), ideal, ideal * 0.03) << hosts;
  }
}

TEST(Experiment, RateAndSizeScaleTheRing) {
  ExperimentSpec spec = Spec(Algorithm::kRing, 16 << 20);
  const double whole = RunWell(spec).mean.seconds();
  spec.rate_bps /= 4;
  EXPECT_NEAR(RunWell(spec).mean.seconds(), whole * 4, whole * 0.1);
  spec.bytes /= 4;
  EXPECT_NEAR(RunWell(spec).mean.seconds(), whole, whole * 0.05);
}

TEST(Experiment, JumboFramesCarryMore) {
  ExperimentSpec spec = Spec(Algorithm::kRing, 16 << 20);
  const double small = RunWell(spec).mean.seconds();
  spec.mtu = 9000;
  const double ideal = OnLine(1.75 * 16 * (1 << 20), spec);
  EXPECT_NEAR(RunWell(spec).mean.seconds(), ideal, ideal * 0.04);
  EXPECT_LT(RunWell(spec).mean.seconds(), small);
}

TEST(Experiment, TransposeAndBCubeMoveAsMuchAsTheRing) {
  for (const Algorithm algorithm : {Algorithm::kTranspose, Algorithm::kBCube}) {
    const ExperimentSpec spec = Spec(algorithm);
    const double ideal = OnLine(1.75 * static_cast<double>(spec.bytes), spec);
    EXPECT_NEAR(RunWell(spec).mean.seconds(), ideal, ideal * 0.05)
        << Name(algorithm);
  }
}

TEST(Experiment, TransposeInTwoDimensionsMovesTwoAndAHalfBuffers) {
  const ExperimentSpec spec = Spec(Algorithm::kTranspose2D);
  const double ideal = OnLine(2.5 * static_cast<double>(spec.bytes), spec);
  EXPECT_NEAR(RunWell(spec).mean.seconds(), ideal, ideal * 0.05);
}

// Twice the buffer at most at any rank, and the way down to the leaves.
TEST(Experiment, TreeTakesUnderTwiceTheBuffer) {
  const ExperimentSpec spec = Spec(Algorithm::kTree, 16 << 20);
  const double most = OnLine(2.0 * static_cast<double>(spec.bytes), spec);
  const double mean = RunWell(spec).mean.seconds();
  EXPECT_LT(mean, most * 1.35);
  EXPECT_GT(mean, most * 0.7);
}

// All workers into one line: N - 1 buffers in, and the same out, a part behind.
TEST(Experiment, ServerIsBoundByItsOwnLine) {
  const ExperimentSpec spec = Spec(Algorithm::kParameterServer);
  const double in = OnLine(7.0 * static_cast<double>(spec.bytes), spec);
  const Summary summary = RunWell(spec);
  EXPECT_GT(summary.mean.seconds(), in);
  EXPECT_LT(summary.mean.seconds(), in * 1.5);
}

TEST(Experiment, SmallOpsTakeTheirLatency) {
  // 14 steps of one small segment: cable and store and forward.
  EXPECT_LT(RunWell(Spec(Algorithm::kRing, 800)).mean,
            Duration::Micros(6) * 14);
  EXPECT_GT(RunWell(Spec(Algorithm::kRing, 800)).mean,
            Duration::Micros(4) * 14);
}

TEST(Experiment, EqualSeedsGiveEqualTraces) {
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kOurs}) {
    ExperimentSpec spec = Loaded(Spec(algorithm, 1 << 20));
    const ExperimentResult one = RunExperiment(spec);
    const ExperimentResult again = RunExperiment(spec);
    EXPECT_EQ(one.trace_hash, again.trace_hash) << Name(algorithm);
    EXPECT_EQ(one.samples, again.samples) << Name(algorithm);
    EXPECT_EQ(one.background_bytes, again.background_bytes);
    spec.seed = 2;
    EXPECT_NE(RunExperiment(spec).trace_hash, one.trace_hash)
        << Name(algorithm);
  }
}

TEST(Experiment, BackgroundSlowsTheRingAndGetsItsPart) {
  const ExperimentSpec quiet = Spec(Algorithm::kRing, 4 << 20, 8, 20);
  const ExperimentSpec loaded = Loaded(quiet);
  const ExperimentResult result = RunExperiment(loaded);
  EXPECT_GT(Summarize(loaded, result).mean, RunWell(quiet).mean * 11 / 10);
  EXPECT_GT(Summarize(loaded, result).background_bps, 1e9);
  EXPECT_LT(Summarize(loaded, result).background_bps, 8e10);
}

// Fewer ops than the published figures are over: who is slower is plain.
TEST(Experiment, PresetsMakeTheTailsThatTheyAreNamedFor) {
  ExperimentSpec spec = Spec(Algorithm::kRing, 25 << 20, 8, 30);
  spec.background = *FindBackground("tail15");
  const Summary tail15 = RunWell(spec);
  EXPECT_GT(tail15.p99_over_p50, 1.2);
  EXPECT_LT(tail15.p99_over_p50, 1.9);
  spec.background = *FindBackground("tail30");
  const Summary tail30 = RunWell(spec);
  EXPECT_GT(tail30.p99_over_p50, 1.9);
  EXPECT_LT(tail30.p99_over_p50, 4.0);
  EXPECT_GT(tail30.mean, tail15.mean);
}

// The bursts are there before the first op, and the same for everybody.
TEST(Experiment, BurstsDependOnTheSeedAlone) {
  ExperimentSpec spec = Loaded(Spec(Algorithm::kRing, 1 << 20));
  EventLoop loop;
  PacketPool pool(kForeignBytes);
  Rng rng(1);
  Trace trace;
  FaultCounts faults{};
  Network network(&loop, &pool, &rng, &trace, &faults,
                  std::vector<LinkSpec>(4));
  Stack stack(&loop, &pool, &network, 4, 1500, Duration());
  BackgroundTraffic one(spec.background, 7, 4, &loop, &stack);
  BackgroundTraffic same(spec.background, 7, 4, &loop, &stack);
  BackgroundTraffic other(spec.background, 8, 4, &loop, &stack);
  one.Start();
  same.Start();
  other.Start();
  bool differ = false;
  while (loop.now() < Timestamp() + Duration::Millis(200)) {
    loop.RunNext();
    differ = differ || one.bursts() != other.bursts();
  }
  // At most the two events of one moment apart.
  EXPECT_NEAR(static_cast<double>(one.bursts()),
              static_cast<double>(same.bursts()), 1);
  EXPECT_GT(one.bursts(), 20u);
  EXPECT_TRUE(differ);
}

TEST(Experiment, OursRunsOnTheSameNetworkBesideTheSameBackground) {
  const ExperimentSpec quiet = Spec(Algorithm::kOurs, 1 << 20);
  const ExperimentResult alone = RunExperiment(quiet);
  EXPECT_EQ(alone.failure, "");
  EXPECT_EQ(alone.background_bytes, 0u);
  EXPECT_EQ(alone.missing, std::vector<double>(size_t{8} * 5, 0));
  const double ideal = OnLine(1.75 * static_cast<double>(quiet.bytes), quiet);
  EXPECT_NEAR(Summarize(quiet, alone).p50.seconds(), ideal, ideal * 0.2);

  const ExperimentSpec loaded = Loaded(Spec(Algorithm::kOurs, 1 << 20, 8, 30));
  const ExperimentResult result = RunExperiment(loaded);
  EXPECT_EQ(result.failure, "");
  EXPECT_EQ(result.samples.size(), 8u * 30);
  EXPECT_GT(result.background_bytes, 1u << 20);
  const GroupSpec group = OursScenario(loaded).groups[0];
  for (const Duration sample : result.samples) {
    EXPECT_LT(sample, group.config.result_bound * 2);
  }
}

TEST(Experiment, IdealIsTheBytesOnTheLine) {
  // Shards of 1000 elements in packets of 1424 bytes: two full ones and a part.
  ExperimentSpec spec = Spec(Algorithm::kOurs, 16'000, 4);
  const double bytes = 2 * 3 * (4000 + 3 * (32 + 4 + kWireOverhead));
  EXPECT_NEAR(IdealTime(spec).seconds(), bytes * 8 / 1e10, 1e-9);
  spec.rate_bps /= 10;
  EXPECT_NEAR(IdealTime(spec).seconds(), bytes * 8 / 1e9, 1e-9);
}

TEST(Experiment, OursKeepsToItsShareOfTheLine) {
  ExperimentSpec spec = Spec(Algorithm::kOurs);
  spec.share_cap = 0.5;
  const double ideal = IdealTime(spec).seconds();
  // The cap is on UDP's bytes.
  EXPECT_NEAR(RunWell(spec).p50.seconds(), ideal * 2, ideal * 0.15);
}

TEST(Experiment, LossStrikesEverybody) {
  ExperimentSpec spec = Spec(Algorithm::kRing, 1 << 20);
  EXPECT_EQ(RunExperiment(spec).transport.retransmitted, 0u);
  spec.loss = 0.01;
  EXPECT_GT(RunExperiment(spec).transport.retransmitted, 10u);
  spec.algorithm = Algorithm::kOurs;
  const Summary ours = Summarize(spec, RunExperiment(spec));
  EXPECT_GT(ours.repaired, 0.008);
  EXPECT_LT(ours.repaired, 0.02);
  EXPECT_LT(ours.missing, 0.0005);
}

TEST(Experiment, ALateRankIsLateWithEveryTwentieth) {
  ExperimentSpec spec = Spec(Algorithm::kOurs, 1 << 20, 4, 21);
  spec.rate_bps = 1'000'000'000;
  spec.period = 2;
  spec.late = 10;
  const ExperimentResult result = RunExperiment(spec);
  EXPECT_EQ(result.failure, "");
  ASSERT_EQ(result.missing.size(), spec.hosts * spec.ops);
  const auto at = [&](size_t op, size_t rank) {
    return op * spec.hosts + rank;
  };
  for (size_t rank = 0; rank < spec.hosts; ++rank) {
    EXPECT_EQ(result.missing[at(0, rank)], 0);
    EXPECT_EQ(result.missing[at(18, rank)], 0);
    EXPECT_NEAR(result.missing[at(19, rank)], 0.25, 0.001);  // one of four
  }
  EXPECT_LT(result.samples[at(19, 0)], IdealTime(spec) / 10);
  EXPECT_LT(result.samples[at(19, 1)], IdealTime(spec) * 5 / 4);
}

// Of 4 ranks 2 are enough, or all.
TEST(Experiment, ALowQuorumDoesNotWaitForWhoIsLate) {
  ExperimentSpec spec = Spec(Algorithm::kOurs, 1 << 20, 4, 30);
  spec.rate_bps = 1'000'000'000;
  spec.period = 8;
  spec.jitter = 6;
  spec.quorum_permille = 1000;
  EXPECT_EQ(RunWell(spec).missing, 0);
  spec.quorum_permille = 500;
  EXPECT_GT(RunWell(spec).missing, 0.1);
}

TEST(Experiment, PercentilesAreNearestRanks) {
  const ExperimentSpec spec = Spec(Algorithm::kRing);
  ExperimentResult result;
  result.elapsed = Duration::Seconds(2);
  result.background_bytes = 500'000'000;
  for (int i = 200; i >= 1; --i) {
    result.samples.push_back(Duration::Millis(i));
  }
  const Summary summary = Summarize(spec, result);
  EXPECT_EQ(summary.mean, Duration::Micros(100'500));
  EXPECT_EQ(summary.p50, Duration::Millis(100));
  EXPECT_EQ(summary.p99, Duration::Millis(198));
  EXPECT_DOUBLE_EQ(summary.p99_over_p50, 1.98);
  EXPECT_DOUBLE_EQ(summary.background_bps, 2e9);
  EXPECT_DOUBLE_EQ(summary.goodput_bps, (4 << 20) * 8 / 0.1005);
}

TEST(Experiment, NamesGoBothWays) {
  for (const char* name :
       {"ring", "bcube", "tree", "ps", "tar", "tar2d", "ours"}) {
    const auto algorithm = FindAlgorithm(name);
    ASSERT_TRUE(algorithm) << name;
    EXPECT_EQ(Name(*algorithm), name);
  }
  EXPECT_FALSE(FindAlgorithm("Ring"));
}

}  // namespace
}  // namespace optireduce::sim::baseline
