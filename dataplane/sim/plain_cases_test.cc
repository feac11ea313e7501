// Without faults: the right values for every collective, count and world, no
// packet more than needed, at the speed of the link.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "dataplane/sim/scenario.h"
#include "dataplane/sim/simulation.h"
#include "dataplane/sim/testing.h"
#include "gtest/gtest.h"

namespace optireduce::sim {
namespace {

using core::Collective;
using core::Mode;
using core::OpStatus;
using gradcodec::ReduceOp;
using testing::Add;
using testing::AllReduce;
using testing::Exact;
using testing::Floats;
using testing::OpOf;
using testing::Ranks;
using testing::RunWell;

void ExpectAllComplete(const Scenario& scenario, const Outcome& outcome) {
  const GroupSpec& group = scenario.groups[0];
  for (size_t rank = 0; rank < group.hosts.size(); ++rank) {
    for (size_t op = 0; op < group.ops.size(); ++op) {
      EXPECT_EQ(OpOf(outcome, rank, op).report.status, OpStatus::kComplete)
          << "rank " << rank << " op " << op;
    }
  }
}

TEST(PlainCases, EveryCollectiveInWorldsOfMostSizes) {
  for (const size_t world : {1, 2, 3, 4, 5, 7, 8, 16}) {
    Scenario scenario = Ranks(world);
    for (const uint64_t count : {size_t{1}, world + 1, size_t{3000}}) {
      Add(&scenario, AllReduce(count, Mode::kBounded));
      Add(&scenario, AllReduce(count, Mode::kExact));
      Add(&scenario, Exact(Collective::kReduceScatter, count * world));
      OpSpec scatter = AllReduce(count * world, Mode::kBounded);
      scatter.descriptor.collective = Collective::kReduceScatter;
      Add(&scenario, scatter);
      Add(&scenario, Exact(Collective::kAllGather, count * world));
      Add(&scenario, Exact(Collective::kBroadcast, count)).descriptor.root =
          testing::R(world - 1);
    }
    Add(&scenario, Exact(Collective::kBarrier, 0));
    ExpectAllComplete(scenario, RunWell(scenario));
  }
}

TEST(PlainCases, EveryTypeAndOperation) {
  Scenario scenario = Ranks(3);
  for (uint8_t type = 1; type <= 12; ++type) {
    for (uint8_t operation = 1; operation <= 4; ++operation) {
      for (const Mode mode : {Mode::kBounded, Mode::kExact}) {
        OpSpec op = AllReduce(100, mode);
        op.descriptor.dtype = static_cast<gradcodec::Dtype>(type);
        op.descriptor.reduce_op = static_cast<ReduceOp>(operation);
        if (mode == Mode::kExact) op.inputs = InputKind::kBits;
        op.misalignment = type;
        if (gradcodec::IsSupported(op.descriptor.dtype, op.descriptor.reduce_op,
                                   mode == Mode::kBounded)) {
          Add(&scenario, op);
        }
      }
    }
  }
  ExpectAllComplete(scenario, RunWell(scenario));
}

// All ranks refuse alike, buffers stay as they are and the next op is right.
TEST(PlainCases, WhatIsNotInTheTableIsRefusedEverywhere) {
  Scenario scenario = Ranks(3);
  OpSpec average = AllReduce(3, Mode::kExact);
  average.descriptor.dtype = gradcodec::Dtype::kInt32;
  average.descriptor.reduce_op = ReduceOp::kAvg;
  Add(&scenario, average);
  Add(&scenario, AllReduce(3, Mode::kExact));
  const Outcome outcome = RunWell(scenario);
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(OpOf(outcome, rank, 0).submit, core::SubmitResult::kUnsupported);
    EXPECT_EQ(OpOf(outcome, rank, 1).report.status, OpStatus::kComplete);
    EXPECT_EQ(OpOf(outcome, rank, 1).report.op_seq.value(), 0u);
  }
}

TEST(PlainCases, NothingToReduceEndsAtOnceWithoutAPacket) {
  const uint64_t idle = RunWell(Ranks(4)).sent;
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter,
        Collective::kAllGather, Collective::kBroadcast}) {
    Scenario scenario = Ranks(4);
    Add(&scenario, Exact(collective, 0));
    if (collective == Collective::kAllReduce) {
      Add(&scenario, AllReduce(0, Mode::kBounded));
    }
    const Outcome outcome = RunWell(scenario);
    ExpectAllComplete(scenario, outcome);
    EXPECT_EQ(outcome.sent, idle);
    for (size_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(testing::Took(OpOf(outcome, rank)), Duration());
      EXPECT_EQ(OpOf(outcome, rank).report.MissingFraction(), 0);
    }
  }
}

TEST(PlainCases, FewerElementsThanRanksEndBeforeTheSoftLimit) {
  for (const auto& [world, count] :
       {std::pair<size_t, uint64_t>{4, 1}, std::pair<size_t, uint64_t>{8, 3}}) {
    Scenario scenario = Ranks(world);
    for (const Mode mode : {Mode::kBounded, Mode::kExact}) {
      for (const ReduceOp operation : {ReduceOp::kSum, ReduceOp::kAvg}) {
        OpSpec op = AllReduce(count, mode);
        op.descriptor.reduce_op = operation;
        if (mode == Mode::kBounded) {
          op.descriptor.soft_limit = Duration::Millis(5);
        }
        op.inputs = InputKind::kRankPlus;
        Add(&scenario, op);
      }
    }
    const Outcome outcome = RunWell(scenario);
    const auto ranks = static_cast<float>(world);
    for (size_t rank = 0; rank < world; ++rank) {
      for (size_t op = 0; op < 4; ++op) {
        const OpOutcome& result = OpOf(outcome, rank, op);
        EXPECT_EQ(result.report.cause, core::EndCause::kAllIn);
        EXPECT_LT(testing::Took(result), Duration::Millis(5));
        const float sum = ranks * (ranks + 1) / 2;
        for (const float value : Floats(result)) {
          EXPECT_EQ(value, op % 2 == 0 ? sum : sum / ranks);
        }
      }
    }
  }
}

TEST(PlainCases, AWorldOfOneKeepsEveryBitAndSendsNothing) {
  Scenario scenario = Ranks(1);
  for (const ReduceOp operation : {ReduceOp::kSum, ReduceOp::kAvg}) {
    for (const Mode mode : {Mode::kBounded, Mode::kExact}) {
      OpSpec op = AllReduce(4, mode);
      op.descriptor.reduce_op = operation;
      op.inputs = InputKind::kListed;
      op.listed = {{0x7FC12345, 0x80000000, 1, 0x7F800000}};
      op.in_place = false;
      Add(&scenario, op);
    }
  }
  const Outcome outcome = RunWell(scenario);
  EXPECT_EQ(outcome.sent, 0u);
  const uint32_t bits[] = {0x7FC12345, 0x80000000, 1, 0x7F800000};
  for (size_t op = 0; op < 4; ++op) {
    ASSERT_EQ(OpOf(outcome, 0, op).output.size(), sizeof(bits));
    EXPECT_EQ(
        std::memcmp(OpOf(outcome, 0, op).output.data(), bits, sizeof(bits)), 0);
  }
}

TEST(PlainCases, WorldsAroundAndAboveAWordOfBits) {
  for (const size_t world : {64, 65, 100}) {
    Scenario scenario = Ranks(world);
    OpSpec sum = AllReduce(3, Mode::kExact);
    sum.inputs = InputKind::kRankPlus;
    OpSpec average = AllReduce(3, Mode::kBounded);
    average.descriptor.reduce_op = ReduceOp::kAvg;
    average.inputs = InputKind::kRankPlus;
    Add(&scenario, sum);
    Add(&scenario, average);
    const Outcome outcome = RunWell(scenario);
    ExpectAllComplete(scenario, outcome);
    const size_t of_ranks = world * (world + 1) / 2;
    const auto total = static_cast<float>(of_ranks);
    for (size_t rank = 0; rank < world; ++rank) {
      EXPECT_EQ(Floats(OpOf(outcome, rank, 0)), std::vector<float>(3, total));
      EXPECT_EQ(Floats(OpOf(outcome, rank, 1)),
                std::vector<float>(3, total / static_cast<float>(world)));
    }
  }
}

TEST(PlainCases, EightOpsInFlightDoNotShareASlot) {
  Scenario scenario = Ranks(4);
  scenario.groups[0].config.window = 8;
  for (uint64_t i = 0; i < 24; ++i) {
    Add(&scenario, AllReduce(500 + 700 * (i * 5 % 8),
                             i % 3 == 0 ? Mode::kExact : Mode::kBounded));
  }
  ExpectAllComplete(scenario, RunWell(scenario));
}

TEST(PlainCases, NumbersWrapWithoutNotice) {
  for (const uint32_t first : {UINT32_MAX - 3, 0x7FFFFFFCu}) {
    Scenario scenario = Ranks(3);
    scenario.groups[0].config.first_op = core::OpSeq(first);
    scenario.groups[0].config.window = 4;
    // The 24 bits of the send time wrap meanwhile.
    for (HostSpec& host : scenario.hosts) {
      host.clock_start = Duration::Micros((1 << 24) - 2000);
    }
    for (int i = 0; i < 12; ++i) {
      Add(&scenario,
          AllReduce(1000, i % 2 == 0 ? Mode::kExact : Mode::kBounded));
    }
    const Outcome outcome = RunWell(scenario);
    ExpectAllComplete(scenario, outcome);
    EXPECT_EQ(OpOf(outcome, 0, 11).report.op_seq.value(), first + 11);
  }
}

TEST(PlainCases, TwoGroupsAndSeveralRanksShareHosts) {
  Scenario scenario = Ranks(4);
  scenario.hosts.resize(2);
  scenario.groups[0].hosts = {0, 0, 1, 1};
  Add(&scenario, AllReduce(2000, Mode::kBounded));
  Add(&scenario, AllReduce(2000, Mode::kExact));
  GroupSpec other = scenario.groups[0];
  other.config.tag = 0xBEEF;
  other.hosts = {1, 0};
  scenario.groups.push_back(other);
  const Outcome outcome = RunWell(scenario);
  ExpectAllComplete(scenario, outcome);
  for (const RankOutcome& rank : outcome.groups[1]) {
    for (const OpOutcome& op : rank.ops) {
      EXPECT_EQ(op.report.status, OpStatus::kComplete);
    }
  }
}

TEST(PlainCases, EncodedOpsComeBackWithinSinglePrecision) {
  for (const uint64_t count : {1, 12, 1000, 4096, 10000, 40000}) {
    Scenario scenario = Ranks(3);
    OpSpec op = AllReduce(count, Mode::kBounded);
    op.descriptor.codec = core::Codec::kHadamard;
    Add(&scenario, op);
    op.in_place = false;
    op.descriptor.reduce_op = ReduceOp::kAvg;
    Add(&scenario, op);
    ExpectAllComplete(scenario, RunWell(scenario));
  }
}

TEST(PlainCases, NarrowCodecsTakeHalfTheTime) {
  for (const core::Codec codec :
       {core::Codec::kBfloat16, core::Codec::kFloat16}) {
    Duration took[2];
    for (const bool narrow : {false, true}) {
      Scenario scenario = Ranks(4);
      for (HostSpec& host : scenario.hosts) {
        host.link.rate_bps = 1'000'000'000;
      }
      OpSpec op = AllReduce(100'000, Mode::kBounded);
      if (narrow) op.descriptor.codec = codec;
      Add(&scenario, op);
      op.in_place = false;
      op.misalignment = 3;
      op.descriptor.reduce_op = ReduceOp::kAvg;
      Add(&scenario, op);
      const Outcome outcome = RunWell(scenario);
      ExpectAllComplete(scenario, outcome);
      took[narrow ? 1 : 0] = testing::Took(OpOf(outcome, 0));
    }
    EXPECT_LT(took[1], took[0] * 6 / 10);
  }
}

// A training, with losses both ways: the oracle for residuals and debts holds
// to single precision, and the flush leaves nothing.
TEST(PlainCases, NarrowCodecsLoseNothingInBuckets) {
  for (const core::Codec codec :
       {core::Codec::kBfloat16, core::Codec::kFloat16}) {
    Scenario scenario = Ranks(4);
    scenario.groups[0].ending = Ending::kDrain;
    scenario.random.loss = 0.05;
    OpSpec op = AllReduce(5000, Mode::kBounded);
    op.descriptor.codec = codec;
    op.descriptor.bucket = 1;
    for (uint64_t step = 1; step <= 20; ++step) {
      op.descriptor.step = step;
      Add(&scenario, op);
    }
    op.descriptor.step = 0;
    op.descriptor.codec = core::Codec::kNone;
    op.descriptor.mode = Mode::kFlush;
    op.inputs = InputKind::kZero;
    op.in_place = true;
    Add(&scenario, op);
    RunWell(scenario);
  }
}

// The gradient path of sharded training: the same oracle, for each rank's part.
TEST(PlainCases, BoundedReduceScattersLoseNothingInBuckets) {
  for (const size_t world : {2, 4, 9}) {
    Scenario scenario = Ranks(world);
    scenario.random.loss = 0.05;
    OpSpec op = AllReduce(1000 * world, Mode::kBounded);
    op.descriptor.collective = Collective::kReduceScatter;
    op.descriptor.bucket = 1;
    for (uint64_t step = 1; step <= 20; ++step) {
      op.descriptor.step = step;
      Add(&scenario, op);
    }
    op.descriptor.step = 0;
    op.descriptor.collective = Collective::kAllReduce;
    op.descriptor.mode = Mode::kFlush;
    op.inputs = InputKind::kZero;
    Add(&scenario, op);
    RunWell(scenario);
  }
}

// An account has 8 * 496 bits, each for a chunk; shards of two and one chunk.
TEST(PlainCases, LongShardsHaveSeveralAccounts) {
  Scenario scenario = Ranks(2);
  core::GroupConfig& config = scenario.groups[0].config;
  config.payload_bytes = 496;
  config.memory_budget = size_t{64} << 20;
  config.stage1_bound = Duration::Millis(200);
  config.result_bound = Duration::Millis(300);
  scenario.random.loss = 0.001;
  OpSpec op = AllReduce(2 * 124 * (2 * 496 * 8 + 1), Mode::kBounded);
  op.descriptor.collective = Collective::kReduceScatter;
  op.descriptor.bucket = 1;
  for (uint64_t step = 1; step <= 2; ++step) {
    op.descriptor.step = step;
    Add(&scenario, op);
  }
  RunWell(scenario);
}

// 2 S (N-1)/N bytes leave and enter each host, at the rate of its link; plus
// headers, and a few round trips.
TEST(PlainCases, ALoneOpTakesAtMostAFifthLongerThanTheLinkNeeds) {
  for (const size_t world : {2, 4, 8}) {
    for (const Mode mode : {Mode::kBounded, Mode::kExact}) {
      Scenario scenario = Ranks(world);
      scenario.groups[0].config.memory_budget = size_t{64} << 20;
      for (HostSpec& host : scenario.hosts) {
        host.link.rate_bps = 1'000'000'000;
        host.link.switch_queue_bytes = 64 << 20;
        host.pacer_bps = host.link.rate_bps;
      }
      scenario.groups[0].config.stage1_bound = Duration::Seconds(1);
      scenario.groups[0].config.result_bound = Duration::Seconds(2);
      const uint64_t count = 1 << 20;
      Add(&scenario, AllReduce(count, mode));
      const Outcome outcome = RunWell(scenario);
      ExpectAllComplete(scenario, outcome);
      const double chunk = 1424.0 / sizeof(float);
      const double packets =
          std::ceil(count / static_cast<double>(world) / chunk) * 2 *
          static_cast<double>(world - 1);
      const double wire_bytes = packets * (1424 + 32 + 4 + kWireOverhead);
      const double seconds = wire_bytes * 8 / 1e9 + 4 * 2 * 2e-6;
      for (size_t rank = 0; rank < world; ++rank) {
        EXPECT_LE(testing::Took(OpOf(outcome, rank)).seconds(), 1.2 * seconds)
            << "world " << world;
      }
      EXPECT_EQ(testing::Injected(outcome, FaultKind::kQueue), 0u);
    }
  }
}

TEST(PlainCases, FreedBuffersChangeNothing) {
  Scenario scenario = Ranks(4);
  for (int i = 0; i < 5; ++i) {
    Add(&scenario, AllReduce(3000, i % 2 == 0 ? Mode::kExact : Mode::kBounded));
  }
  const Outcome kept = RunWell(scenario);
  scenario.groups[0].keep_buffers = false;
  const Outcome freed = RunWell(scenario);
  EXPECT_EQ(freed.trace_hash, kept.trace_hash);
  for (size_t rank = 0; rank < 4; ++rank) {
    for (size_t op = 0; op < 5; ++op) {
      EXPECT_EQ(OpOf(freed, rank, op).output, OpOf(kept, rank, op).output);
    }
  }
}

TEST(PlainCases, EqualScenariosHaveEqualTraces) {
  Scenario scenario = Ranks(4);
  scenario.random.loss = 0.05;
  scenario.random.reorder = 0.1;
  Add(&scenario, AllReduce(3000, Mode::kExact));
  const uint64_t hash = RunWell(scenario).trace_hash;
  EXPECT_EQ(RunWell(scenario).trace_hash, hash);
  scenario.seed = 2;
  EXPECT_NE(RunWell(scenario).trace_hash, hash);
}

}  // namespace
}  // namespace optireduce::sim
