// Adaptive bounds in a group.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "dataplane/base/require.h"
#include "dataplane/core/bound_controller.h"
#include "dataplane/core/engine_core.h"
#include "dataplane/core/group_testing.h"
#include "dataplane/core/testing.h"

namespace optireduce::core {
namespace {

using wire::PacketType;

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

// An op that rank 0 submits late; the report of rank 1.
const OpReport& RunLate(TestNet* net, OpSeq seq, Duration late) {
  constexpr uint64_t kCount = uint64_t{4} * 8 * kChunk;
  Buffers buffers(4, kCount);
  for (size_t r : {1, 2, 3, 0}) {
    if (r == 0) net->Run(late);
    net->Submit(r, AllReduce(kCount, Mode::kBounded), buffers.View(r));
  }
  net->Run(Duration::Millis(10));
  const OpReport* report = net->report(1, seq);
  Require(report != nullptr);
  return *report;
}

TEST(AdaptiveTest, WhoIsLateIsWaitedForAsLongAsHeUsuallyIs) {
  TestNet net(4, AdaptiveSettings());
  FormOrDie(&net, 4);
  net.set_delay([](const wire::Header& header, Rank, Rank) {
    return header.type == PacketType::kData ? Duration::Micros(1200)
                                            : Duration();
  });
  RunOps(&net, 4, kWarmUp + 3);
  net.set_delay(nullptr);
  // He was never late: half of what ops take, not the bound of 1.7 ms.
  OpReport report = RunLate(&net, OpSeq(kWarmUp + 3), Duration::Micros(1000));
  EXPECT_EQ(report.min_contributors, 3);
  EXPECT_EQ(report.absent, 0u);
  EXPECT_GE(report.closed - report.quorum, Duration::Micros(600));
  EXPECT_LE(report.closed - report.quorum, Duration::Micros(650));
  // He was late by about as much before.
  report = RunLate(&net, OpSeq(kWarmUp + 4), Duration::Micros(1200));
  EXPECT_EQ(report.status, OpStatus::kComplete);
  EXPECT_LE(report.closed - report.quorum, Duration::Micros(1250));
  // By far later than ever, twice: what nobody waits for is no custom.
  for (const size_t op : {kWarmUp + 5, kWarmUp + 6}) {
    report =
        RunLate(&net, OpSeq(static_cast<uint32_t>(op)), Duration::Millis(20));
    EXPECT_EQ(report.min_contributors, 3);
    EXPECT_GE(report.closed - report.quorum, Duration::Micros(1640));
    EXPECT_LT(report.closed - report.quorum, report.stage1_bound);
  }
}

// Time to be late is part of the promise.
TEST(AdaptiveTest, FixedBoundsAreWaitedForWhoeverIsLate) {
  TestNet net(4, FastSettings());
  FormOrDie(&net, 4);
  RunOps(&net, 4, kWarmUp + 3);
  const OpReport report =
      RunLate(&net, OpSeq(kWarmUp + 3), Duration::Micros(5900));
  EXPECT_EQ(report.status, OpStatus::kComplete);
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
  // Rank 3 lacks what rank 2 sends, and so waits for the rest, too.
  net.set_delay([](const wire::Header& header, Rank from, Rank to) {
    const bool slow =
        header.type == PacketType::kData && from == Rank(2) && to == Rank(3);
    return slow ? Duration::Micros(1500) : Duration();
  });
  constexpr uint64_t kCount = uint64_t{4} * 8 * kChunk;
  Buffers buffers(4, kCount);
  for (size_t r : {1, 2, 3}) {
    net.Submit(r, AllReduce(kCount, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Micros(1400));  // 0 to 2 have closed their shards
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

}  // namespace
}  // namespace optireduce::core
