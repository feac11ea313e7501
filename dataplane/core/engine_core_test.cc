// The protocol's main ways, rank by rank and packet by packet. Random networks
// are the simulator's business.

#include "dataplane/core/engine_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "dataplane/base/rng.h"
#include "dataplane/core/bound_controller.h"
#include "dataplane/core/plan.h"
#include "dataplane/core/reduction.h"
#include "dataplane/core/testing.h"

namespace optireduce::core {
namespace {

using wire::PacketType;

constexpr uint32_t kPayload = 496;
constexpr uint64_t kChunk = kPayload / sizeof(float);

GroupConfig FastSettings() {
  GroupConfig config;
  config.payload_bytes = kPayload;
  config.stage1_bound = Duration::Millis(6);
  config.result_bound = Duration::Millis(10);
  config.adaptive_bounds = false;
  config.early_wait = Duration::Millis(1);
  config.hard_limit = Duration::Millis(500);
  config.memory_budget = 1 << 20;
  return config;
}

// One float buffer per rank, reduced in place.
struct Buffers {
  Buffers(size_t world, size_t count) : values(world) {
    for (size_t r = 0; r < world; ++r) {
      values[r].resize(count);
      for (size_t i = 0; i < count; ++i) {
        values[r][i] = static_cast<float>((r + 1) * 100 + i % 7);
      }
    }
  }
  BufferView View(size_t rank) {
    auto* bytes = reinterpret_cast<uint8_t*>(values[rank].data());
    return {bytes, bytes};
  }
  std::vector<std::vector<float>> values;
};

OpDescriptor AllReduce(
    uint64_t count, Mode mode,
    gradcodec::ReduceOp reduce_op = gradcodec::ReduceOp::kSum) {
  OpDescriptor op;
  op.count = count;
  op.mode = mode;
  op.reduce_op = reduce_op;
  return op;
}

void FormOrDie(TestNet* net, size_t world) {
  net->Run(Duration::Millis(50));
  for (size_t r = 0; r < world; ++r) {
    ASSERT_FALSE(net->events(r).empty()) << "rank " << r;
    ASSERT_EQ(net->events(r).front().kind, EventKind::kGroupReady);
  }
}

class ModeTest : public testing::TestWithParam<Mode> {};

TEST_P(ModeTest, SumsWhatEveryRankHas) {
  for (size_t world : {1, 2, 3, 4, 5, 7, 8}) {
    for (uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{3},
                           uint64_t{1000}, uint64_t{5001}}) {
      TestNet net(world, FastSettings());
      FormOrDie(&net, world);
      Buffers buffers(world, count);
      for (size_t r = 0; r < world; ++r) {
        ASSERT_EQ(net.Submit(r, AllReduce(count, GetParam()), buffers.View(r)),
                  SubmitResult::kAccepted);
      }
      net.Run(Duration::Millis(3));
      for (size_t r = 0; r < world; ++r) {
        const OpReport* report = net.report(r, OpSeq(0));
        ASSERT_NE(report, nullptr)
            << world << " ranks, " << count << ", rank " << r;
        EXPECT_EQ(report->status, OpStatus::kComplete);
        EXPECT_EQ(report->contributions, count * world);
        for (size_t i = 0; i < count; ++i) {
          const size_t sum = world * (world + 1) / 2 * 100 + world * (i % 7);
          ASSERT_EQ(buffers.values[r][i], static_cast<float>(sum)) << i;
        }
      }
      // Everything is given back once all know that all are done.
      net.Run(Duration::Millis(100));
      for (size_t r = 0; r < world; ++r) {
        const GroupStatus status = net.core(r).Status(net.group(r));
        EXPECT_EQ(status.memory_used, 0u);
        EXPECT_EQ(status.ops_kept, 0u);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, ModeTest,
                         testing::Values(Mode::kBounded, Mode::kExact));

TEST(BoundedTest, DividesByTheContributorsOfEachChunk) {
  TestNet net(4, FastSettings());
  FormOrDie(&net, 4);
  Buffers buffers(4, 400);
  for (auto& values : buffers.values) {
    std::fill(values.begin(), values.end(), 3.0f);
  }
  // Rank 2's contributions to rank 1 are lost.
  net.set_filter([](const wire::Header& header, Rank from, Rank to) {
    return !(header.type == PacketType::kData && from == Rank(2) &&
             to == Rank(1));
  });
  for (size_t r = 0; r < 4; ++r) {
    net.Submit(r, AllReduce(400, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Millis(20));
  for (size_t r = 0; r < 4; ++r) {
    const OpReport* report = net.report(r, OpSeq(0));
    ASSERT_NE(report, nullptr);
    EXPECT_EQ(report->status, OpStatus::kPartial);
    EXPECT_EQ(report->absent, 0u);
    EXPECT_EQ(report->min_contributors, 3);
    EXPECT_DOUBLE_EQ(report->Stage1Loss(), 100.0 / 1600);
    // SUM is scaled by N / c: all hold the same, so 4 times it everywhere.
    for (float value : buffers.values[r]) ASSERT_EQ(value, 12.0f);
  }
}

TEST(BoundedTest, AbsentChunksAreZeroAndCounted) {
  TestNet net(4, FastSettings());
  FormOrDie(&net, 4);
  Buffers buffers(4, 400);
  net.set_filter([](const wire::Header& header, Rank from, Rank to) {
    return !(header.type == PacketType::kResult && from == Rank(3) &&
             to == Rank(1));
  });
  for (size_t r = 0; r < 4; ++r) {
    net.Submit(r, AllReduce(400, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Millis(20));
  const OpReport* report = net.report(1, OpSeq(0));
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->status, OpStatus::kPartial);
  EXPECT_EQ(report->absent, 100u);
  EXPECT_EQ(report->min_contributors, 4);
  EXPECT_TRUE(report->missing.Contains(Rank(3)));
  EXPECT_EQ(report->missing.Count(), 1u);
  EXPECT_EQ(
      std::count(buffers.values[1].begin(), buffers.values[1].end(), 0.0f),
      100);
  EXPECT_EQ(net.report(0, OpSeq(0))->status, OpStatus::kComplete);
}

TEST(BoundedTest, ALateRankHoldsNobodyAndCatchesUp) {
  TestNet net(4, FastSettings());
  FormOrDie(&net, 4);
  Buffers buffers(4, 400);
  for (size_t r = 0; r < 3; ++r) {
    net.Submit(r, AllReduce(400, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Millis(11));
  for (size_t r = 0; r < 3; ++r) {
    const OpReport* report = net.report(r, OpSeq(0));
    ASSERT_NE(report, nullptr);
    EXPECT_EQ(report->status, OpStatus::kPartial);
    EXPECT_EQ(report->absent, 0u) << "its daemon serves its shard";
    EXPECT_EQ(report->min_contributors, 3);
    EXPECT_TRUE(report->missing.Contains(Rank(3)));
    EXPECT_LE(report->closed - report->submitted, Duration::Micros(10'100));
  }
  net.Run(Duration::Millis(200));
  net.Submit(3, AllReduce(400, Mode::kBounded), buffers.View(3));
  net.Run(Duration::Nanos(0));
  const OpReport* report = net.report(3, OpSeq(0));
  ASSERT_NE(report, nullptr) << "a late submit completes at once";
  EXPECT_EQ(report->absent, 0u);
  EXPECT_EQ(buffers.values[3], buffers.values[0]);
}

TEST(BoundedTest, OneEarlyRankClosesNobodysOp) {
  TestNet net(8, FastSettings());
  FormOrDie(&net, 8);
  Buffers buffers(8, 800);
  net.Submit(0, AllReduce(800, Mode::kBounded), buffers.View(0));
  net.Run(Duration::Millis(400));
  EXPECT_EQ(net.report(0, OpSeq(0)), nullptr);
  for (size_t r = 1; r < 8; ++r) {
    net.Submit(r, AllReduce(800, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Millis(20));
  for (size_t r = 0; r < 8; ++r) {
    ASSERT_NE(net.report(r, OpSeq(0)), nullptr);
    EXPECT_EQ(net.report(r, OpSeq(0))->status, OpStatus::kComplete);
  }
}

TEST(BoundedTest, AQuorumIsRoundedUp) {
  TestNet net(5, FastSettings());
  FormOrDie(&net, 5);
  Buffers buffers(5, 500);
  for (size_t r = 0; r < 3; ++r) {  // 3.75 of five are needed
    net.Submit(r, AllReduce(500, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Millis(400));
  EXPECT_EQ(net.report(0, OpSeq(0)), nullptr);
  net.Submit(3, AllReduce(500, Mode::kBounded), buffers.View(3));
  net.Run(Duration::Millis(11));
  for (size_t r = 0; r < 4; ++r) {
    ASSERT_NE(net.report(r, OpSeq(0)), nullptr);
    EXPECT_EQ(net.report(r, OpSeq(0))->min_contributors, 4);
  }
}

TEST(BoundedTest, TheCallersLimitBindsTheCallerOnly) {
  TestNet net(3, FastSettings());
  FormOrDie(&net, 3);
  Buffers buffers(3, 300);
  net.set_filter([](const wire::Header& header, Rank from, Rank) {
    return header.type != PacketType::kResult || from != Rank(2);
  });
  for (size_t r = 0; r < 3; ++r) {
    OpDescriptor op = AllReduce(300, Mode::kBounded);
    if (r == 0) op.soft_limit = Duration::Millis(2);
    net.Submit(r, op, buffers.View(r));
  }
  const Timestamp start = net.now();
  net.Run(Duration::Millis(20));
  const OpReport* own = net.report(0, OpSeq(0));
  ASSERT_NE(own, nullptr);
  EXPECT_EQ(own->status, OpStatus::kPartial);
  EXPECT_EQ(own->cause, EndCause::kDeadline);
  EXPECT_EQ(own->closed, start + Duration::Millis(2));
  const OpReport* other = net.report(1, OpSeq(0));
  ASSERT_NE(other, nullptr);
  EXPECT_GT(other->closed, start + Duration::Millis(9));
}

// The first OPEN of every rank is lost, and with it nothing else.
TEST(BoundedTest, ALostOpenCostsNoData) {
  TestNet net(4, FastSettings());
  FormOrDie(&net, 4);
  Buffers buffers(4, 400);
  std::map<std::pair<Rank, Rank>, int> opens;
  net.set_filter([&](const wire::Header& header, Rank from, Rank to) {
    return header.type != PacketType::kOpen || ++opens[{from, to}] > 1;
  });
  net.Submit(0, AllReduce(400, Mode::kBounded), buffers.View(0));
  net.Run(Duration::Micros(15));  // all of its data is there, no question yet
  for (size_t r = 1; r < 4; ++r) {
    net.Submit(r, AllReduce(400, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Millis(20));
  for (size_t r = 0; r < 4; ++r) {
    ASSERT_NE(net.report(r, OpSeq(0)), nullptr);
    EXPECT_EQ(net.report(r, OpSeq(0))->status, OpStatus::kComplete);
  }
}

TEST(BoundedTest, WhoHasOpenedGetsOneOpen) {
  TestNet net(4, FastSettings());
  FormOrDie(&net, 4);
  Buffers buffers(4, 400);
  std::map<std::pair<Rank, Rank>, int> opens;
  net.set_filter([&](const wire::Header& header, Rank from, Rank to) {
    if (header.type == PacketType::kOpen) ++opens[{from, to}];
    return true;
  });
  for (size_t r = 0; r < 4; ++r) {
    net.Submit(r, AllReduce(400, Mode::kBounded), buffers.View(r));
    net.Run(Duration::Micros(100));
  }
  for (uint16_t r = 0; r < 4; ++r) {
    for (uint16_t to = 0; to < 4; ++to) {
      if (r == to) continue;
      EXPECT_EQ((opens[{Rank(r), Rank(to)}]), r < to ? 2 : 1) << r << to;
    }
  }
}

// One contribution is lost, so that its owner sends its last result only when
// it has waited for it in vain; the others wait for that result.
TEST(BoundedTest, AnEarlyEndLeavesTimeForWhatOwnersWaitedFor) {
  TestNet net(4, FastSettings());
  FormOrDie(&net, 4);
  const uint64_t count = 4 * kChunk * 20;
  Buffers buffers(4, count);
  int lost = 0;
  net.set_filter([&](const wire::Header& header, Rank from, Rank to) {
    return header.type != PacketType::kData || from != Rank(2) ||
           to != Rank(1) || ++lost != 10;
  });
  net.set_delay([](const wire::Header& header, Rank, Rank) {
    return header.type == PacketType::kResult && header.contributors < 4
               ? Duration::Micros(50)
               : Duration();
  });
  for (size_t r = 0; r < 4; ++r) {
    net.Submit(r, AllReduce(count, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Millis(5));
  for (size_t r = 0; r < 4; ++r) {
    const OpReport* report = net.report(r, OpSeq(0));
    ASSERT_NE(report, nullptr);
    EXPECT_EQ(report->absent, 0u) << "rank " << r;
    EXPECT_EQ(report->contributions, 4 * count - kChunk);
    EXPECT_LT(report->closed - report->submitted, Duration::Micros(1'200));
  }
}

// Once an owner has closed its stage 1 nothing but what is lost lacks.
TEST(BoundedTest, OneSilenceIsEnoughAfterAnOwnersClose) {
  TestNet net(4, FastSettings());
  FormOrDie(&net, 4);
  const uint64_t count = 4 * kChunk * 20;
  Buffers buffers(4, count);
  int lost = 0;
  int results = 0;
  net.set_filter([&](const wire::Header& header, Rank from, Rank to) {
    if (header.type == PacketType::kData && from == Rank(2) && to == Rank(1)) {
      return ++lost != 10;
    }
    return header.type != PacketType::kResult || from != Rank(1) ||
           to != Rank(3) || ++results != 5;
  });
  for (size_t r = 0; r < 4; ++r) {
    net.Submit(r, AllReduce(count, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Millis(5));
  const OpReport* report = net.report(3, OpSeq(0));
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->absent, 124u);
  EXPECT_EQ(report->cause, EndCause::kEarly);
  // The owner's silence, then our own.
  EXPECT_NEAR((report->closed - report->submitted).nanos(), 2'000'000, 200'000);
}

// Everybody starts with another owner, and everybody's stream to an owner at
// another chunk: a cut tail hits other chunks each time.
TEST(BoundedTest, StreamsAreStaggered) {
  constexpr size_t kWorld = 4;
  TestNet net(kWorld, FastSettings());
  FormOrDie(&net, kWorld);
  const OpDescriptor op = AllReduce(kWorld * kChunk * 50, Mode::kBounded);
  const ChunkPlan plan(op, kWorld, kPayload, 0xABCD1234, OpSeq(0));
  Buffers buffers(kWorld, op.count);
  std::map<std::pair<Rank, Rank>, uint32_t> first_chunk;
  std::map<Rank, Rank> first_owner;
  net.set_filter([&](const wire::Header& header, Rank from, Rank to) {
    if (header.type != PacketType::kData) return true;
    first_chunk.try_emplace({from, to}, plan.Locate(header.chunk)->local);
    first_owner.try_emplace(from, to);
    return true;
  });
  for (size_t r = 0; r < kWorld; ++r) net.Submit(r, op, buffers.View(r));
  net.Run(Duration::Millis(3));
  ASSERT_EQ(first_chunk.size(), kWorld * (kWorld - 1));
  for (const auto& [stream, local] : first_chunk) {
    EXPECT_EQ(local, StreamOffset(0xABCD1234, OpSeq(0), stream.first,
                                  stream.second, 50));
  }
  for (const auto& [from, to] : first_owner) {
    EXPECT_EQ(to.index(), (from.index() + 1) % kWorld);
  }
}

TEST(BoundedTest, HardLimitNamesTheMissing) {
  TestNet net(4, FastSettings());
  FormOrDie(&net, 4);
  Buffers buffers(4, 400);
  for (size_t r = 0; r < 2; ++r) {  // two of four are no quorum
    net.Submit(r, AllReduce(400, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Millis(499));
  EXPECT_EQ(net.report(0, OpSeq(0)), nullptr);
  net.Run(Duration::Millis(2));
  const OpReport* report = net.report(0, OpSeq(0));
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->status, OpStatus::kHardLimit);
  EXPECT_TRUE(report->missing.Contains(Rank(2)));
  EXPECT_TRUE(report->missing.Contains(Rank(3)));
  EXPECT_FALSE(report->missing.Contains(Rank(1)));
}

TEST(BoundedTest, HadamardSpreadsTheLossOfAChunk) {
  TestNet net(2, FastSettings());
  FormOrDie(&net, 2);
  const size_t count = 20'000;
  Buffers buffers(2, count);
  const Buffers before = buffers;
  OpDescriptor op = AllReduce(count, Mode::kBounded, gradcodec::ReduceOp::kAvg);
  op.codec = Codec::kHadamard;
  for (size_t r = 0; r < 2; ++r) net.Submit(r, op, buffers.View(r));
  net.Run(Duration::Millis(20));
  for (size_t r = 0; r < 2; ++r) {
    ASSERT_EQ(net.report(r, OpSeq(0))->status, OpStatus::kComplete);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_NEAR(buffers.values[r][i],
                  (before.values[0][i] + before.values[1][i]) / 2, 1e-2);
    }
  }
}

// Exact mode survives the loss of any kind of packet, a third of them.
// ---- adaptive bounds (bound_controller_test.cc has the arithmetic)

GroupConfig AdaptiveSettings() {
  GroupConfig config = FastSettings();
  config.adaptive_bounds = true;
  config.least_bound = Duration::Micros(500);
  return config;
}

constexpr size_t kWarmUp = BoundController::kWarmUp;

// Ops one after the other, of some chunks per stream.
void RunOps(TestNet* net, size_t world, size_t ops,
            Mode mode = Mode::kBounded) {
  for (size_t op = 0; op < ops; ++op) {
    Buffers buffers(world, world * 8 * kChunk);
    for (size_t r = 0; r < world; ++r) {
      ASSERT_EQ(
          net->Submit(r, AllReduce(world * 8 * kChunk, mode), buffers.View(r)),
          SubmitResult::kAccepted);
    }
    net->Run(Duration::Millis(30));
  }
}

TEST(AdaptiveTest, AnOpIsGivenWhatTheOnesBeforeItTook) {
  TestNet net(4, AdaptiveSettings());
  FormOrDie(&net, 4);
  RunOps(&net, 4, kWarmUp + 2);
  const OpReport* first = net.report(0, OpSeq(kWarmUp - 1));
  EXPECT_EQ(first->stage1_bound, FastSettings().stage1_bound);
  EXPECT_EQ(first->result_bound, FastSettings().result_bound);
  // Now a whole stream is lost.
  net.set_filter([](const wire::Header& header, Rank from, Rank to) {
    return header.type != PacketType::kData || from != Rank(2) || to != Rank(1);
  });
  RunOps(&net, 4, 1);
  for (size_t r = 0; r < 4; ++r) {
    const OpReport* report = net.report(r, OpSeq(kWarmUp + 2));
    ASSERT_NE(report, nullptr);
    EXPECT_EQ(report->status, OpStatus::kPartial);
    EXPECT_EQ(report->absent, 0u);
    EXPECT_EQ(report->min_contributors, 3);
    EXPECT_EQ(report->stage1_bound, Duration::Micros(500));
    EXPECT_GE(report->closed - report->quorum, Duration::Micros(400));
    EXPECT_LE(report->closed - report->quorum, Duration::Micros(750));
  }
}

TEST(AdaptiveTest, FixedBoundsHoldForEveryOp) {
  TestNet net(4, FastSettings());
  FormOrDie(&net, 4);
  RunOps(&net, 4, kWarmUp * 2);
  const OpReport* report = net.report(0, OpSeq(kWarmUp * 2 - 1));
  EXPECT_EQ(report->stage1_bound, FastSettings().stage1_bound);
  EXPECT_EQ(report->result_bound, FastSettings().result_bound);
  EXPECT_EQ(report->deadline, report->quorum + FastSettings().result_bound);
}

TEST(AdaptiveTest, BoundedDataAndResultsCarryTheStageTime) {
  TestNet net(3, AdaptiveSettings());
  FormOrDie(&net, 3);
  std::map<PacketType, uint16_t> longest;
  net.set_filter([&longest](const wire::Header& header, Rank, Rank) {
    uint16_t& most = longest[header.type];
    most = std::max(most, header.timeout);
    return true;
  });
  net.set_delay([](const wire::Header& header, Rank, Rank) {
    return header.type == PacketType::kData ? Duration::Micros(630)
                                            : Duration();
  });
  RunOps(&net, 3, kWarmUp);
  EXPECT_EQ(longest[PacketType::kData], 0);
  RunOps(&net, 3, 1);
  // 640 us in units of 64.
  EXPECT_EQ(longest[PacketType::kData], 10);
  EXPECT_EQ(longest[PacketType::kResult], 10);
  longest.clear();
  RunOps(&net, 3, 1, Mode::kExact);
  EXPECT_EQ(longest[PacketType::kData], 0);
  EXPECT_EQ(longest[PacketType::kResult], 0);
}

// Rank 3 gets its data later than the others get theirs.
TEST(AdaptiveTest, ReceiversWaitForASlowerOwner) {
  TestNet net(4, AdaptiveSettings());
  FormOrDie(&net, 4);
  net.set_delay([](const wire::Header& header, Rank, Rank to) {
    if (header.type != PacketType::kData) return Duration();
    return to == Rank(3) ? Duration::Micros(1200) : Duration::Micros(800);
  });
  RunOps(&net, 4, kWarmUp + 3);
  const OpSeq last(kWarmUp + 2);
  const Duration slowest = net.report(3, last)->stage1_bound;
  EXPECT_GT(slowest, Duration::Micros(1600));
  for (size_t r = 0; r < 3; ++r) {
    const OpReport* report = net.report(r, last);
    EXPECT_LT(report->stage1_bound, Duration::Micros(1300));
    EXPECT_GE(report->result_bound, slowest + Duration::Micros(600));
    EXPECT_LT(report->result_bound, Duration::Micros(2500));
  }
}

// What comes too late for the own shard may be in time for others.
TEST(AdaptiveTest, ALateSubmitIsSentToOwnersThatStillWait) {
  TestNet net(4, AdaptiveSettings());
  FormOrDie(&net, 4);
  net.set_delay([](const wire::Header& header, Rank, Rank to) {
    if (header.type != PacketType::kData) return Duration();
    return to == Rank(3) ? Duration::Micros(1200) : Duration::Micros(800);
  });
  RunOps(&net, 4, kWarmUp + 3);
  net.set_delay(nullptr);
  constexpr uint64_t kCount = 4 * 8 * kChunk;
  Buffers buffers(4, kCount);
  for (size_t r : {1, 2, 3}) {
    net.Submit(r, AllReduce(kCount, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Micros(1400));  // 0 to 2 close their shards after 1.2 ms
  net.Submit(0, AllReduce(kCount, Mode::kBounded), buffers.View(0));
  net.Run(Duration::Millis(10));
  for (size_t r = 0; r < 4; ++r) {
    const OpReport* report = net.report(r, OpSeq(kWarmUp + 3));
    ASSERT_NE(report, nullptr);
    EXPECT_EQ(report->absent, 0u);
    EXPECT_EQ(report->min_contributors, 3);
    EXPECT_EQ(report->contributions, kCount * 3 + kCount / 4);
  }
}

TEST(ExactTest, EveryCollectiveSurvivesLoss) {
  for (Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter,
        Collective::kAllGather, Collective::kBroadcast, Collective::kBarrier}) {
    for (size_t world : {2, 3, 5}) {
      TestNet net(world, FastSettings());
      FormOrDie(&net, world);
      Rng rng(world * 10 + static_cast<size_t>(collective));
      net.set_filter(
          [&](const wire::Header&, Rank, Rank) { return rng.Below(3) != 0; });
      OpDescriptor op;
      op.collective = collective;
      op.mode = Mode::kExact;
      op.root = Rank(1);
      op.count = collective == Collective::kBarrier ? 0 : 3000 * world;
      op.hard_limit = Duration::Seconds(100);
      Buffers in(world, op.count);
      Buffers out(world, op.count);
      for (size_t r = 0; r < world; ++r) {
        std::fill(out.values[r].begin(), out.values[r].end(), -1.0f);
        const BufferView view{in.View(r).input, out.View(r).output};
        ASSERT_EQ(net.Submit(r, op, view), SubmitResult::kAccepted);
      }
      net.Run(Duration::Seconds(30));
      for (size_t r = 0; r < world; ++r) {
        const OpReport* report = net.report(r, OpSeq(0));
        ASSERT_NE(report, nullptr)
            << static_cast<int>(collective) << " of " << world;
        ASSERT_EQ(report->status, OpStatus::kComplete);
        for (size_t i = 0; i < OutputBytes(op, world) / 4; ++i) {
          const float got = out.values[r][i];
          float want = 0;
          if (collective == Collective::kAllGather) {
            want = in.values[i / 3000][i % 3000];
          } else if (collective == Collective::kBroadcast) {
            want = in.values[1][i];
          } else {
            const size_t at =
                collective == Collective::kReduceScatter ? r * 3000 + i : i;
            for (size_t s = 0; s < world; ++s) want += in.values[s][at];
          }
          ASSERT_EQ(got, want) << i;
        }
      }
    }
  }
}

TEST(ExactTest, SendsNoFurtherThanTheOwnerCanHold) {
  TestNet net(2, FastSettings());
  FormOrDie(&net, 2);
  const uint32_t window = Reduction::CreditWindow(kPayload, 2);
  const OpDescriptor op = AllReduce(2 * kChunk * (window + 50), Mode::kExact);
  Buffers buffers(2, op.count);
  size_t sent = 0;
  // Rank 1 has opened the op, but rank 0 never hears how far it is.
  net.set_filter([&](const wire::Header& header, Rank from, Rank) {
    if (from == Rank(1)) return header.type == PacketType::kOpen;
    sent += header.type == PacketType::kData &&
            (header.flags & wire::kFlagRepair) == 0;
    return true;
  });
  for (size_t r = 0; r < 2; ++r) net.Submit(r, op, buffers.View(r));
  net.Run(Duration::Millis(100));
  EXPECT_EQ(sent, window);
}

TEST(ExactTest, EndsAtItsHardLimit) {
  TestNet net(2, FastSettings());
  FormOrDie(&net, 2);
  Buffers buffers(2, 200);
  OpDescriptor op = AllReduce(200, Mode::kExact);
  op.hard_limit = Duration::Millis(20);
  net.Submit(0, op, buffers.View(0));
  const Timestamp start = net.now();
  net.Run(Duration::Millis(30));
  const OpReport* report = net.report(0, OpSeq(0));
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->status, OpStatus::kHardLimit);
  EXPECT_EQ(report->closed, start + Duration::Millis(20));
  EXPECT_TRUE(report->missing.Contains(Rank(1)));
}

TEST(ExactTest, BarrierWaitsForTheLast) {
  TestNet net(3, FastSettings());
  FormOrDie(&net, 3);
  OpDescriptor op;
  op.collective = Collective::kBarrier;
  op.mode = Mode::kExact;
  net.Submit(0, op, {});
  net.Submit(1, op, {});
  net.Run(Duration::Millis(100));
  EXPECT_EQ(net.report(0, OpSeq(0)), nullptr);
  net.Submit(2, op, {});
  net.Run(Duration::Millis(5));
  for (size_t r = 0; r < 3; ++r) {
    ASSERT_NE(net.report(r, OpSeq(0)), nullptr);
    EXPECT_EQ(net.report(r, OpSeq(0))->status, OpStatus::kComplete);
  }
}

TEST(MismatchTest, AllRanksGetBothDescriptionsAndGoOn) {
  TestNet net(3, FastSettings());
  FormOrDie(&net, 3);
  Buffers buffers(3, 256);
  for (size_t r = 0; r < 3; ++r) {
    OpDescriptor op = AllReduce(256, Mode::kBounded);
    if (r == 1) op.dtype = gradcodec::Dtype::kBfloat16;
    net.Submit(r, op, buffers.View(r));
  }
  net.Run(Duration::Millis(30));
  for (size_t r = 0; r < 3; ++r) {
    const OpReport* report = net.report(r, OpSeq(0));
    ASSERT_NE(report, nullptr);
    EXPECT_EQ(report->status, OpStatus::kMismatch) << r;
    EXPECT_EQ(
        report->mismatch_descriptor.dtype,
        r == 1 ? gradcodec::Dtype::kFloat32 : gradcodec::Dtype::kBfloat16);
  }
  for (size_t r = 0; r < 3; ++r) {
    net.Submit(r, AllReduce(256, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Millis(30));
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(net.report(r, OpSeq(1))->status, OpStatus::kComplete);
  }
}

TEST(MembershipTest, ASilentRankIsNamedWhenTheGroupDoesNotForm) {
  GroupConfig settings = FastSettings();
  settings.formation_limit = Duration::Millis(300);
  TestNet net(3, settings);
  net.set_filter([](const wire::Header& header, Rank from, Rank) {
    // Rank 2 is silent; full-size packets of rank 1 get lost on the way.
    return from != Rank(2) &&
           !(from == Rank(1) && header.type == PacketType::kProbe);
  });
  net.Run(Duration::Millis(400));
  ASSERT_EQ(net.events(0).size(), 1u);
  const Event& event = net.events(0).front();
  EXPECT_EQ(event.kind, EventKind::kGroupFailed);
  EXPECT_TRUE(event.silent.Contains(Rank(2)));
  EXPECT_TRUE(event.narrow.Contains(Rank(1)));
}

TEST(MembershipTest, SuspectThenDeadAtTheSetTimes) {
  GroupConfig settings = FastSettings();
  settings.suspect_after = Duration::Millis(300);
  settings.dead_after = Duration::Seconds(1);
  TestNet net(2, settings);
  FormOrDie(&net, 2);
  net.Run(Duration::Seconds(10));
  EXPECT_EQ(net.events(0).size(), 1u) << "healthy all the time";
  net.set_filter(
      [](const wire::Header&, Rank from, Rank) { return from != Rank(1); });
  net.Run(Duration::Seconds(2));
  ASSERT_EQ(net.events(0).size(), 3u);
  EXPECT_EQ(net.events(0)[1].kind, EventKind::kPeerSuspect);
  EXPECT_EQ(net.events(0)[2].kind, EventKind::kPeerLost);
  Buffers buffers(2, 4);
  EXPECT_EQ(net.Submit(0, AllReduce(4, Mode::kExact), buffers.View(0)),
            SubmitResult::kPeerLost);
}

TEST(MembershipTest, ADeadRankEndsExactOpsAtOnce) {
  GroupConfig settings = FastSettings();
  settings.dead_after = Duration::Millis(400);
  settings.hard_limit = Duration::Seconds(60);
  TestNet net(3, settings);
  FormOrDie(&net, 3);
  Buffers buffers(3, 400);
  net.Submit(0, AllReduce(400, Mode::kExact), buffers.View(0));
  net.Submit(1, AllReduce(400, Mode::kExact), buffers.View(1));
  net.set_filter(
      [](const wire::Header&, Rank from, Rank) { return from != Rank(2); });
  net.Run(Duration::Millis(600));
  for (size_t r = 0; r < 2; ++r) {
    const OpReport* report = net.report(r, OpSeq(0));
    ASSERT_NE(report, nullptr);
    EXPECT_EQ(report->status, OpStatus::kPeerLost);
    EXPECT_TRUE(report->missing.Contains(Rank(2)));
  }
}

// Rank 2 opens an op and dies; rank 1 hears of it before it submits, and so
// never will. Rank 0, which has, must not wait for its hard limit.
TEST(MembershipTest, NobodyWaitsForARankThatMaySubmitNoMore) {
  for (const Mode mode : {Mode::kBounded, Mode::kExact}) {
    for (const bool leaves : {false, true}) {
      GroupConfig settings = FastSettings();
      settings.dead_after = Duration::Millis(400);
      settings.hard_limit = Duration::Seconds(60);
      TestNet net(3, settings);
      FormOrDie(&net, 3);
      Buffers buffers(3, 400);
      net.Submit(0, AllReduce(400, mode), buffers.View(0));
      net.Submit(2, AllReduce(400, mode), buffers.View(2));
      net.Run(Duration::Millis(20));
      if (leaves) {
        net.core(2).Leave(net.group(2), wire::LeaveReason::kLeft, net.now());
      } else {
        net.set_filter([](const wire::Header&, Rank from, Rank) {
          return from != Rank(2);
        });
        net.Run(Duration::Millis(500));
      }
      net.Run(settings.result_bound + Duration::Millis(20));
      EXPECT_EQ(net.Submit(1, AllReduce(400, mode), buffers.View(1)),
                SubmitResult::kPeerLost);
      const OpReport* report = net.report(0, OpSeq(0));
      ASSERT_NE(report, nullptr);
      EXPECT_EQ(report->status, OpStatus::kPeerLost);
      EXPECT_TRUE(report->missing.Contains(Rank(2)));
      EXPECT_FALSE(report->missing.Contains(Rank(1)));
    }
  }
}

// The owner ends the op and leaves before the waiting rank has heard that the
// third has opened it, too. It hears that in time; the result comes later.
TEST(MembershipTest, AnOpThatAllHaveOpenedIsNotGivenUp) {
  const GroupConfig settings = FastSettings();
  TestNet net(3, settings);
  FormOrDie(&net, 3);
  const OpDescriptor op = AllReduce(1, Mode::kExact);
  const ChunkPlan plan(op, 3, settings.payload_bytes, TestNet::kTag, OpSeq(0));
  const size_t owner = plan.rotation();
  ASSERT_EQ(plan.ChunksOf(Rank(static_cast<uint16_t>(owner))), 1u);
  const size_t waiting = (owner + 1) % 3;
  const size_t third = (owner + 2) % 3;
  const Timestamp start = net.now();
  net.set_filter([&](const wire::Header& header, Rank from, Rank to) {
    const Duration after = net.now() - start;
    if (to.index() != waiting) return true;
    if (from.index() == third) return after > Duration::Millis(5);
    return header.type != PacketType::kResult || after > Duration::Millis(15);
  });
  Buffers buffers(3, 1);
  for (size_t r = 0; r < 3; ++r) net.Submit(r, op, buffers.View(r));
  net.Run(Duration::Millis(1));
  ASSERT_NE(net.report(owner, OpSeq(0)), nullptr);
  net.core(owner).Leave(net.group(owner), wire::LeaveReason::kLeft, net.now());
  net.Run(Duration::Millis(13));
  EXPECT_EQ(net.report(waiting, OpSeq(0)), nullptr);
  net.Run(Duration::Millis(20));
  const OpReport* report = net.report(waiting, OpSeq(0));
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->status, OpStatus::kComplete);
}

// A receiver that gave a broadcast up acknowledges nothing any more.
TEST(MembershipTest, WhoLeavesAfterABrokenOpIsNotWaitedFor) {
  GroupConfig settings = FastSettings();
  settings.hard_limit = Duration::Seconds(60);
  TestNet net(3, settings);
  FormOrDie(&net, 3);
  OpDescriptor op = AllReduce(200, Mode::kExact);
  op.collective = Collective::kBroadcast;
  OpDescriptor impatient = op;
  impatient.hard_limit = Duration::Millis(30);
  // Rank 2 hears of the op, but gets nothing of it.
  net.set_filter([](const wire::Header& header, Rank, Rank to) {
    return to != Rank(2) || header.type != PacketType::kResult;
  });
  Buffers buffers(3, 200);
  net.Submit(0, op, buffers.View(0));
  net.Submit(1, op, buffers.View(1));
  net.Submit(2, impatient, buffers.View(2));
  net.Run(Duration::Millis(40));
  ASSERT_NE(net.report(2, OpSeq(0)), nullptr);
  ASSERT_EQ(net.report(2, OpSeq(0))->status, OpStatus::kHardLimit);
  ASSERT_EQ(net.report(0, OpSeq(0)), nullptr);
  net.core(2).Leave(net.group(2), wire::LeaveReason::kLeft, net.now());
  net.Run(Duration::Millis(5));
  ASSERT_NE(net.report(0, OpSeq(0)), nullptr);
  EXPECT_EQ(net.report(0, OpSeq(0))->status, OpStatus::kPeerLost);
  EXPECT_TRUE(net.report(0, OpSeq(0))->missing.Contains(Rank(2)));
}

TEST(MembershipTest, WhoLeavesServesWhatIsOwedFirst) {
  TestNet net(2, FastSettings());
  FormOrDie(&net, 2);
  Buffers buffers(2, 400);
  // Rank 0's results are lost at first; it leaves right after its own end.
  const Timestamp heals = net.now() + Duration::Millis(50);
  net.set_filter([&](const wire::Header& header, Rank from, Rank) {
    return header.type != PacketType::kResult || from != Rank(0) ||
           net.now() > heals;
  });
  for (size_t r = 0; r < 2; ++r) {
    net.Submit(r, AllReduce(400, Mode::kExact), buffers.View(r));
  }
  net.Run(Duration::Millis(1));
  ASSERT_NE(net.report(0, OpSeq(0)), nullptr);
  ASSERT_EQ(net.report(1, OpSeq(0)), nullptr);
  net.core(0).Leave(net.group(0), wire::LeaveReason::kLeft, net.now());
  net.Run(Duration::Millis(40));
  EXPECT_NE(net.events(0).back().kind, EventKind::kGroupReleased);
  net.Run(Duration::Millis(160));
  ASSERT_NE(net.report(1, OpSeq(0)), nullptr);
  EXPECT_EQ(net.report(1, OpSeq(0))->status, OpStatus::kComplete);
  EXPECT_EQ(net.events(0).back().kind, EventKind::kGroupReleased);
  EXPECT_EQ(net.events(1)[1].kind, EventKind::kPeerLost);
  EXPECT_EQ(net.events(1)[1].peer, Rank(0));
}

TEST(MembershipTest, SilenceOfWhoHasLeftWakesNobody) {
  TestNet net(2, FastSettings());
  FormOrDie(&net, 2);
  net.core(1).Leave(net.group(1), wire::LeaveReason::kLeft, net.now());
  net.Run(Duration::Millis(50));
  ASSERT_EQ(net.events(1).back().kind, EventKind::kGroupReleased);
  EngineCore& core = net.core(0);
  std::vector<uint8_t> buffer(2048);
  for (int ms = 1; ms < 6000; ++ms) {
    const Timestamp now = net.now() + Duration::Millis(ms);
    core.Advance(now);
    TxDescriptor out;
    do {
      out.buffer = buffer.data();
      out.capacity = static_cast<uint32_t>(buffer.size());
    } while (core.PollTx({&out, 1}, now) != 0);
    ASSERT_GT(core.NextWakeup(), now) << ms << " ms after it left";
  }
}

TEST(WindowTest, NumbersWrapAndTheWindowHolds) {
  GroupConfig settings = FastSettings();
  settings.first_op = OpSeq(UINT32_MAX - 5);
  settings.window = 4;
  TestNet net(3, settings);
  FormOrDie(&net, 3);
  Buffers buffers(3, 100);
  for (uint32_t op = 0; op < 20; ++op) {
    for (size_t r = 0; r < 3; ++r) {
      ASSERT_EQ(net.Submit(r, AllReduce(100, Mode::kBounded), buffers.View(r)),
                SubmitResult::kAccepted);
    }
    net.Run(Duration::Millis(12));
    for (size_t r = 0; r < 3; ++r) {
      const OpReport* report = net.report(r, settings.first_op.Plus(op));
      ASSERT_NE(report, nullptr);
      EXPECT_EQ(report->status, OpStatus::kComplete);
    }
  }
  Buffers more(3, 100);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(net.Submit(0, AllReduce(100, Mode::kBounded), more.View(0)),
              SubmitResult::kAccepted);
  }
  EXPECT_EQ(net.Submit(0, AllReduce(100, Mode::kBounded), more.View(0)),
            SubmitResult::kWindowFull);
}

// The first op number from which on rank 0 owns the only chunk of two ops.
OpSeq OwnedTwice(const OpDescriptor& op, const GroupConfig& config) {
  const auto owned = [&](OpSeq seq) {
    return ChunkPlan(op, 3, config.payload_bytes, TestNet::kTag, seq)
               .ChunksOf(Rank(0)) == 1;
  };
  OpSeq seq(0);
  while (!owned(seq) || !owned(seq.Next())) seq = seq.Next();
  return seq;
}

// Three ranks run `ops` under every budget that is not refused; rank 0 comes
// late, when the others have opened more than its memory may hold. Every op
// must find room in the end. Counts how often contributions were given up.
void RunUnderEveryBudget(GroupConfig settings,
                         const std::vector<OpDescriptor>& ops,
                         size_t* given_up) {
  size_t runs = 0;
  for (size_t budget = 256; budget < 32768; budget += 64) {
    settings.memory_budget = budget;
    TestNet net(3, settings);
    FormOrDie(&net, 3);
    Buffers buffers(3 * ops.size(), 372);
    std::array<size_t, 3> next{};
    bool too_large = false;
    for (int round = 0; round < 100 && !too_large; ++round) {
      for (size_t r = 0; r < 3; ++r) {
        if (next[r] == ops.size() || (r == 0 && round < 20)) continue;
        const SubmitResult result =
            net.Submit(r, ops[next[r]], buffers.View(3 * next[r] + r));
        too_large |= result == SubmitResult::kTooLarge;
        next[r] += result == SubmitResult::kAccepted;
      }
      net.Run(Duration::Millis(1));
    }
    if (too_large) continue;
    ++runs;
    for (size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(next[r], ops.size()) << "rank " << r << ", budget " << budget;
      ASSERT_NE(net.report(r, settings.first_op), nullptr);
      EXPECT_NE(net.report(r, settings.first_op)->status, OpStatus::kHardLimit);
      for (const Event& event : net.events(r)) {
        if (event.kind != EventKind::kContributionsLost) continue;
        ++*given_up;
        EXPECT_EQ(event.report.op_seq, settings.first_op.Next());
      }
    }
    net.Run(Duration::Millis(100));
    for (size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(net.core(r).Status(net.group(r)).memory_used, 0u);
    }
  }
  EXPECT_GT(runs, 20u);
}

TEST(MemoryTest, GoesByOpOrder) {
  GroupConfig settings = FastSettings();
  settings.quorum_permille = 1000;  // the clocks wait for rank 0
  const OpDescriptor exact = AllReduce(1, Mode::kExact);
  settings.first_op = OwnedTwice(exact, settings);
  size_t given_up = 0;
  RunUnderEveryBudget(settings, {exact, AllReduce(1, Mode::kBounded)},
                      &given_up);
  EXPECT_GT(given_up, 0u);
}

// Results that came before the submit must leave room for the submit.
TEST(MemoryTest, IsTakenAtOnce) {
  OpDescriptor op = AllReduce(372, Mode::kBounded);
  op.codec = Codec::kHadamard;
  size_t given_up = 0;
  RunUnderEveryBudget(FastSettings(), {op, op}, &given_up);
}

TEST(SubmitTest, RefusesWhatNoRankCouldRun) {
  TestNet net(3, FastSettings());
  Buffers buffers(3, 300);
  EXPECT_EQ(net.Submit(0, AllReduce(300, Mode::kBounded), buffers.View(0)),
            SubmitResult::kNotReady);
  FormOrDie(&net, 3);
  OpDescriptor op = AllReduce(300, Mode::kExact, gradcodec::ReduceOp::kAvg);
  op.dtype = gradcodec::Dtype::kInt32;
  EXPECT_EQ(net.Submit(0, op, buffers.View(0)), SubmitResult::kUnsupported);
  op = AllReduce(300, Mode::kBounded);
  op.collective = Collective::kBroadcast;
  EXPECT_EQ(net.Submit(0, op, buffers.View(0)), SubmitResult::kUnsupported);
  op.mode = Mode::kExact;
  op.root = Rank(3);
  EXPECT_EQ(net.Submit(0, op, buffers.View(0)), SubmitResult::kBadRoot);
  op.collective = Collective::kAllGather;
  op.count = 301;
  EXPECT_EQ(net.Submit(0, op, buffers.View(0)), SubmitResult::kBadCount);
  EXPECT_EQ(net.Submit(0, AllReduce(uint64_t{1} << 32, Mode::kBounded),
                       buffers.View(0)),
            SubmitResult::kBadCount);
  EXPECT_EQ(
      net.Submit(0, AllReduce(50'000'000, Mode::kBounded), buffers.View(0)),
      SubmitResult::kTooLarge);
  op = AllReduce(300, Mode::kBounded);
  op.soft_limit = Duration::Seconds(1);
  EXPECT_EQ(net.Submit(0, op, buffers.View(0)), SubmitResult::kBadLimits);
}

}  // namespace
}  // namespace optireduce::core
