// Formation, liveness and leaving, rank by rank.

#include <gtest/gtest.h>

#include <vector>

#include "dataplane/core/engine_core.h"
#include "dataplane/core/group_testing.h"
#include "dataplane/core/plan.h"
#include "dataplane/core/testing.h"

namespace optireduce::core {
namespace {

using wire::PacketType;

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

// A daemon that stands still for a while.
TEST(MembershipTest, WhoIsHeardAgainIsHealthyAndNothingIsLost) {
  GroupConfig settings = FastSettings();
  settings.suspect_after = Duration::Millis(300);
  settings.dead_after = Duration::Seconds(5);
  TestNet net(3, settings);
  FormOrDie(&net, 3);
  net.set_filter([](const wire::Header&, Rank from, Rank to) {
    return from != Rank(1) && to != Rank(1);
  });
  net.Run(Duration::Seconds(2));
  net.set_filter(nullptr);
  net.Run(Duration::Millis(200));
  Buffers buffers(3, 300);
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(net.Submit(r, AllReduce(300, Mode::kBounded), buffers.View(r)),
              SubmitResult::kAccepted);
  }
  net.Run(Duration::Millis(5));
  for (const size_t r : {0, 2}) {
    ASSERT_EQ(net.events(r).size(), 4u);
    EXPECT_EQ(net.events(r)[1].kind, EventKind::kPeerSuspect);
    EXPECT_EQ(net.events(r)[2].kind, EventKind::kPeerHealthy);
    EXPECT_EQ(net.events(r)[2].peer, Rank(1));
    EXPECT_EQ(net.events(r)[3].report.status, OpStatus::kComplete);
  }
}

// Contributions as they might be, to a group that is not formed yet, and to one
// that does not exist.
TEST(MembershipTest, WhatComesBeforeTheFormationIsCountedAndDoesNoHarm) {
  TestNet net(3, FastSettings());
  const OpDescriptor op = AllReduce(3 * kChunk, Mode::kBounded);
  std::vector<uint8_t> packet(wire::kHeaderBytes + kPayload + wire::kCrcBytes);
  constexpr uint64_t kPackets = 10'000;
  for (uint32_t i = 0; i < kPackets; ++i) {
    wire::Header header;
    header.type = PacketType::kData;
    header.tag = TestNet::kTag + i % 2;
    header.source = static_cast<uint16_t>(1 + i % 4 / 2);
    header.op_seq = i % 64;
    header.fingerprint = Fingerprint(op);
    header.chunk = i % 3;
    header.length = kPayload;
    wire::EncodeHeader(header, packet.data());
    wire::Seal(packet.data(), wire::kHeaderBytes + kPayload);
    const auto source = NetAddress::FromIpv4(0x0A000001u + header.source);
    net.core(0).OnPacket({source, 5000, false, packet}, net.now(), net.now());
  }
  EXPECT_EQ(net.core(0).counters().Get(Verdict::kUnknownTag), kPackets / 2);
  EXPECT_EQ(net.core(0).counters().Get(Verdict::kAccepted), 0u);
  FormOrDie(&net, 3);
  Buffers buffers(3, op.count);
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(net.Submit(r, op, buffers.View(r)), SubmitResult::kAccepted);
  }
  net.Run(Duration::Millis(5));
  for (size_t r = 0; r < 3; ++r) {
    ASSERT_NE(net.report(r, OpSeq(0)), nullptr);
    EXPECT_EQ(net.report(r, OpSeq(0))->status, OpStatus::kComplete);
    EXPECT_EQ(buffers.values[r][8], 600 + 3 * (8 % 7));
  }
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

}  // namespace
}  // namespace optireduce::core
