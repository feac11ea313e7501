// How fast a group sends, and to how many at once. (rate_controller_test.cc has
// what decides it.)

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "dataplane/core/engine_core.h"
#include "dataplane/core/group_testing.h"
#include "dataplane/core/testing.h"

namespace optireduce::core {
namespace {

using wire::PacketType;

constexpr uint64_t kLine = 1'000'000'000;

EngineConfig Line() {
  EngineConfig config;
  config.rate_bps = kLine;
  return config;
}

GroupConfig Controlled() {
  GroupConfig config = FastSettings();
  config.congestion_control = true;
  return config;
}

// Of so many chunks in each stream.
void RunOp(TestNet* net, size_t world, size_t chunks,
           Duration span = Duration::Millis(30)) {
  Buffers buffers(world, world * chunks * kChunk);
  for (size_t r = 0; r < world; ++r) {
    ASSERT_EQ(net->Submit(r, AllReduce(world * chunks * kChunk, Mode::kBounded),
                          buffers.View(r)),
              SubmitResult::kAccepted);
  }
  net->Run(span);
}

absl::Status Add(const GroupConfig& settings, const EngineConfig& engine) {
  EngineCore core(engine);
  GroupConfig config = settings;
  config.members = {{NetAddress::FromIpv4(1), 1}, {NetAddress::FromIpv4(2), 1}};
  return core.AddGroup(config, Timestamp()).status();
}

TEST(RateTest, SettingsThatCannotBeKeptAreRefused) {
  GroupConfig capped = FastSettings();
  capped.share_cap_permille = 500;
  EXPECT_TRUE(Add(capped, Line()).ok());
  EXPECT_TRUE(Add(Controlled(), Line()).ok());
  for (const GroupConfig& config : {capped, Controlled()}) {
    const absl::Status status = Add(config, EngineConfig{});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.ToString().find("rate_bps"), std::string::npos);
  }
  capped.share_cap_permille = 0;
  EXPECT_FALSE(Add(capped, Line()).ok());
  capped.share_cap_permille = 1001;
  EXPECT_FALSE(Add(capped, Line()).ok());
}

// Owners that rank 0 sends data to, in order.
std::vector<uint16_t> OrderOfData(uint32_t incast) {
  GroupConfig config = FastSettings();
  config.incast = incast;
  TestNet net(4, config);
  FormOrDie(&net, 4);
  std::vector<uint16_t> order;
  net.set_filter([&order](const wire::Header& header, Rank from, Rank to) {
    if (header.type == PacketType::kData && from == Rank(0)) {
      order.push_back(to.value());
    }
    return true;
  });
  RunOp(&net, 4, 3);
  for (size_t r = 0; r < 4; ++r) {
    const OpReport* report = net.report(r, OpSeq(0));
    EXPECT_TRUE(report != nullptr && report->status == OpStatus::kComplete);
  }
  return order;
}

TEST(RateTest, StreamsTakeTurnsUnlessOwnersWantFewerSenders) {
  using Order = std::vector<uint16_t>;
  EXPECT_EQ(OrderOfData(0), (Order{1, 2, 3, 1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(OrderOfData(3), (Order{1, 2, 3, 1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(OrderOfData(2), (Order{1, 2, 1, 2, 1, 2, 3, 3, 3}));
  EXPECT_EQ(OrderOfData(1), (Order{1, 1, 1, 2, 2, 2, 3, 3, 3}));
}

// What all ranks send to each other while an op lasts, in bits per second.
double Throughput(const GroupConfig& config) {
  TestNet net(2, config, Line());
  FormOrDie(&net, 2);
  uint64_t bytes = 0;
  Timestamp last;
  const Timestamp begin = net.now();
  net.set_filter([&](const wire::Header& header, Rank from, Rank) {
    if (header.type != PacketType::kData && header.type != PacketType::kResult)
      return true;
    if (from == Rank(0)) {
      bytes += wire::kHeaderBytes + header.length + wire::kCrcBytes + 42;
      last = net.now();
    }
    return true;
  });
  RunOp(&net, 2, 600);
  return static_cast<double>(bytes) * 8 / (last - begin).seconds();
}

TEST(RateTest, AShareCapHolds) {
  GroupConfig config = FastSettings();
  EXPECT_GT(Throughput(config), 0.9 * kLine);
  config.share_cap_permille = 250;
  // The first 64 KiB are free.
  EXPECT_LT(Throughput(config), 0.3 * kLine);
  EXPECT_GT(Throughput(config), 0.2 * kLine);
  // It is above congestion control, which has no reason to slow down here.
  config.congestion_control = true;
  EXPECT_LT(Throughput(config), 0.3 * kLine);
}

// What was lost comes again at the same rate: never more than what may leave at
// once and what the cap has granted since.
TEST(RateTest, RepairsKeepToTheShareCap) {
  GroupConfig config = FastSettings();
  config.stage1_bound = Duration::Millis(60);
  config.result_bound = Duration::Millis(100);
  config.share_cap_permille = 100;
  TestNet net(2, config, Line());
  FormOrDie(&net, 2);
  const Timestamp begin = net.now();
  double bytes = 0;
  double most_ahead = 0;
  uint32_t repairs = 0;
  net.set_filter([&](const wire::Header& header, Rank from, Rank) {
    if (header.type != PacketType::kData && header.type != PacketType::kResult)
      return true;
    if (from != Rank(0)) return true;
    bytes += wire::kHeaderBytes + header.length + wire::kCrcBytes + 42;
    const double granted = (net.now() - begin).seconds() * kLine / 10 / 8;
    most_ahead = std::max(most_ahead, bytes - granted);
    const bool repair = (header.flags & wire::kFlagRepair) != 0;
    repairs += repair;
    // All that leaves in the first milliseconds is lost.
    return repair || net.now() > begin + Duration::Millis(12);
  });
  RunOp(&net, 2, 400, Duration::Millis(100));
  EXPECT_GT(repairs, 50u);
  EXPECT_LT(most_ahead, 64 * 1024 + 2 * MaxDatagramBytes(kPayload));
}

TEST(RateTest, RoundTripsAreMeasuredWithoutCommonClocks) {
  TestNet net(3, Controlled(), Line());
  FormOrDie(&net, 3);
  RunOp(&net, 3, 40);
  for (size_t r = 0; r < 3; ++r) {
    const GroupStatus status = net.core(r).Status(net.group(r));
    for (size_t i = 0; i < 3; ++i) {
      if (i == r) continue;
      // 10 us each way, in whole microseconds.
      EXPECT_GE(status.peers[i].round_trip, Duration::Micros(19));
      EXPECT_LE(status.peers[i].round_trip, Duration::Micros(22));
      EXPECT_EQ(status.peers[i].rate_bps, kLine / 2);
    }
  }
}

TEST(RateTest, FeedbackComesWithEverySixteenPackets) {
  const auto feedbacks = [](const GroupConfig& config) {
    TestNet net(2, config, Line());
    FormOrDie(&net, 2);
    uint32_t count = 0;
    net.set_filter([&count](const wire::Header& header, Rank, Rank) {
      count += header.type == PacketType::kFeedback;
      return true;
    });
    RunOp(&net, 2, 320);
    return count;
  };
  // 320 packets of data and 320 results each way.
  EXPECT_GE(feedbacks(Controlled()), 2 * 38u);
  EXPECT_LE(feedbacks(Controlled()), 2 * 50u);
  EXPECT_LT(feedbacks(FastSettings()), 20u);
}

TEST(RateTest, APathWithoutFeedbackSlowsDownAndTheOthersDoNot) {
  TestNet net(3, Controlled(), Line());
  FormOrDie(&net, 3);
  net.set_filter([](const wire::Header& header, Rank from, Rank to) {
    return header.type != PacketType::kFeedback || from != Rank(1) ||
           to != Rank(0);
  });
  for (int op = 0; op < 10; ++op) RunOp(&net, 3, 200);
  const GroupStatus status = net.core(0).Status(net.group(0));
  EXPECT_LT(status.peers[1].rate_bps, kLine / 4);
  EXPECT_EQ(status.peers[2].rate_bps, kLine / 2);
}

// Marks slow down the marked path.
TEST(RateTest, AMarkedPathSlowsDown) {
  TestNet net(3, Controlled(), Line());
  FormOrDie(&net, 3);
  net.set_marks([](const wire::Header& header, Rank from, Rank to) {
    return header.type == PacketType::kData && from == Rank(0) && to == Rank(2);
  });
  RunOp(&net, 3, 200);
  const GroupStatus status = net.core(0).Status(net.group(0));
  EXPECT_EQ(status.peers[1].rate_bps, kLine / 2);
  EXPECT_LT(status.peers[2].rate_bps, kLine / 2);
}

}  // namespace
}  // namespace optireduce::core
