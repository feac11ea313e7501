#include "dataplane/engine/engine.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "dataplane/engine/engine_testing.h"

namespace optireduce::engine {
namespace {

void SubmitAll(Lab& lab, const core::OpDescriptor& op, Buffers& buffers,
               uint64_t cookie) {
  for (size_t r = 0; r < lab.world(); ++r) {
    lab.Submit(r, op, buffers.View(r), cookie);
  }
}

void ExpectAll(const std::vector<float>& values, float expected) {
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], expected) << "element " << i;
  }
}

// ---- ops --------------------------------------------------------------------

TEST(EngineTest, HostsSum) {
  for (const core::Mode mode : {core::Mode::kExact, core::Mode::kBounded}) {
    Lab lab(3, 1, Settings());
    lab.Form();
    Buffers buffers(3, 1000);
    SubmitAll(lab, Sum(1000, mode), buffers, 9);
    lab.Run(Duration::Millis(50));
    for (size_t r = 0; r < 3; ++r) {
      const Completion* done = lab.CompletionOf(r, 9);
      ASSERT_NE(done, nullptr) << "rank " << r;
      EXPECT_EQ(done->submit, core::SubmitResult::kAccepted);
      EXPECT_EQ(done->report.status, core::OpStatus::kComplete);
      EXPECT_EQ(done->group, lab.rank(r).group);
      ExpectAll(buffers.values[r], 6);
    }
  }
}

TEST(EngineTest, RanksOfOneHostNeedNoNic) {
  Lab lab(1, 3, Settings());
  lab.host(0).port.set_away(true);
  lab.Form();
  Buffers buffers(3, 1000);
  SubmitAll(lab, Sum(1000, core::Mode::kExact), buffers, 1);
  lab.Run(Duration::Millis(50));
  for (size_t r = 0; r < 3; ++r) {
    ASSERT_NE(lab.CompletionOf(r, 1), nullptr) << "rank " << r;
    ExpectAll(buffers.values[r], 6);
  }
  EXPECT_EQ(SnapshotCounter(lab, lab.host(0), "engine_datagrams_sent"), 0);
  EXPECT_GT(SnapshotCounter(lab, lab.host(0), "engine_datagrams_looped"), 0);
}

TEST(EngineTest, LocalAndRemoteRanksMix) {
  Lab lab(2, 2, Settings());
  lab.Form();
  Buffers buffers(4, 777);
  SubmitAll(lab, Sum(777, core::Mode::kExact), buffers, 1);
  lab.Run(Duration::Millis(50));
  for (size_t r = 0; r < 4; ++r) ExpectAll(buffers.values[r], 10);
}

TEST(EngineTest, MoreSubmissionsThanTheWindowWaitInOrder) {
  core::GroupConfig settings = Settings();
  settings.window = 4;
  Lab lab(2, 1, settings);
  lab.Form();
  constexpr size_t kOps = 60;
  std::vector<Buffers> buffers(kOps, Buffers(2, 200));
  for (size_t i = 0; i < kOps; ++i) {
    SubmitAll(lab, Sum(200, core::Mode::kExact), buffers[i], i);
  }
  lab.Run(Duration::Millis(400));
  for (size_t r = 0; r < 2; ++r) {
    const auto& completions = lab.rank(r).client->completions();
    ASSERT_EQ(completions.size(), kOps);
    for (size_t i = 0; i < kOps; ++i) {
      const Completion* done = lab.CompletionOf(r, i);
      ASSERT_NE(done, nullptr);
      // Ops are numbered in the client's order.
      EXPECT_EQ(done->report.op_seq.Since(completions[0].report.op_seq),
                static_cast<int32_t>(i) -
                    static_cast<int32_t>(completions[0].cookie));
      ExpectAll(buffers[i].values[r], 3);
    }
  }
}

TEST(EngineTest, WaitingForTheWindowCountsAgainstTheLimit) {
  core::GroupConfig settings = Settings();
  settings.window = 1;
  settings.stage1_bound = Duration::Millis(30);
  settings.result_bound = Duration::Millis(40);
  Lab lab(4, 1, settings);
  lab.Form();
  // One trainer never comes: the ops end by their limits, and the window slides
  // when the daemon closes, 40 ms after the quorum.
  core::OpDescriptor op = Sum(100, core::Mode::kBounded);
  op.soft_limit = Duration::Millis(20);
  Buffers first(4, 100);
  Buffers second(4, 100);
  for (size_t r = 0; r < 3; ++r) {
    lab.Submit(r, op, first.View(r), 1);
    lab.Submit(r, op, second.View(r), 2);
  }
  const Timestamp submitted = lab.clock().Now();
  lab.Run(Duration::Millis(200));
  for (size_t r = 0; r < 3; ++r) {
    const Completion* done = lab.CompletionOf(r, 1);
    ASSERT_NE(done, nullptr);
    EXPECT_LE(done->report.closed - submitted, Duration::Millis(21));
    done = lab.CompletionOf(r, 2);
    ASSERT_NE(done, nullptr);
    EXPECT_LE(done->report.closed - submitted, Duration::Millis(45));
  }
}

TEST(EngineTest, OneGroupsFullWindowHoldsUpNoOther) {
  core::GroupConfig settings = Settings();
  settings.window = 1;
  Lab lab(2, 1, settings);
  lab.Form();
  // A second group of the same two clients.
  for (size_t r = 0; r < 2; ++r) {
    core::GroupConfig config = lab.ConfigOf(r);
    config.tag = 0x9999;
    ASSERT_TRUE(lab.host(r).engine.Post(
        AddGroup{50 + r, config, lab.rank(r).session, 78}));
  }
  lab.Run(Duration::Millis(200));
  Buffers stuck(2, 100);
  lab.Submit(0, Sum(100, core::Mode::kExact), stuck.View(0), 1);
  lab.Submit(0, Sum(100, core::Mode::kExact), stuck.View(0), 2);  // waits
  Buffers buffers(2, 100);
  for (size_t r = 0; r < 2; ++r) {
    lab.rank(r).client->Submit(
        {lab.rank(r).client->groups().at(78),
         OpRequest{Sum(100, core::Mode::kExact), buffers.View(r)}, 3});
  }
  lab.Run(Duration::Millis(50));
  EXPECT_EQ(lab.CompletionOf(0, 1), nullptr);
  ASSERT_NE(lab.CompletionOf(0, 3), nullptr);
  ExpectAll(buffers.values[0], 3);
}

TEST(EngineTest, RefusalsAreAnswered) {
  Lab lab(2, 1, Settings());
  lab.Form();
  core::OpDescriptor op = Sum(100, core::Mode::kExact);
  op.collective = core::Collective::kBroadcast;
  op.root = core::Rank(2);
  Buffers buffers(2, 100);
  lab.Submit(0, op, buffers.View(0), 4);
  lab.Run(Duration::Millis(1));
  const Completion* done = lab.CompletionOf(0, 4);
  ASSERT_NE(done, nullptr);
  EXPECT_EQ(done->submit, core::SubmitResult::kBadRoot);
}

// ---- time -------------------------------------------------------------------

TEST(EngineTest, StalledPollerLosesNothingThatArrivedInTime) {
  core::GroupConfig settings = Settings();
  settings.quorum_permille =
      500;  // one of two: clocks start at host 1's submit
  Lab lab(2, 1, settings);
  lab.Form();
  Buffers buffers(2, 1000);
  const core::OpDescriptor op = Sum(1000, core::Mode::kBounded);
  lab.Submit(1, op, buffers.View(1), 1);
  lab.Run(Duration());
  lab.host(1).stalled = true;
  lab.Submit(0, op, buffers.View(0), 1);
  lab.Run(Duration::Millis(3));
  // Far beyond the bounds of the op: host 1 has polled nothing meanwhile.
  lab.clock().AdvanceTo(lab.clock().Now() + Duration::Millis(100));
  lab.host(1).stalled = false;
  lab.Run(Duration::Millis(20));
  const Completion* done = lab.CompletionOf(1, 1);
  ASSERT_NE(done, nullptr);
  EXPECT_EQ(done->report.status, core::OpStatus::kComplete);
  ExpectAll(buffers.values[1], 3);
}

TEST(EngineTest, LatenessTellsTheStallFromTheDecision) {
  Lab lab(2, 1, Settings());
  lab.Form();
  core::OpDescriptor op = Sum(100, core::Mode::kBounded);
  op.soft_limit = Duration::Millis(20);
  Buffers buffers(2, 100);
  lab.Submit(0, op, buffers.View(0), 1);
  lab.Run(Duration::Millis(1));
  lab.host(0).stalled = true;
  lab.Run(Duration::Millis(50));
  lab.host(0).stalled = false;
  lab.Run(Duration::Millis(5));
  const Completion* done = lab.CompletionOf(0, 1);
  ASSERT_NE(done, nullptr);
  EXPECT_GE(done->wall_late, Duration::Millis(30));
  EXPECT_EQ(done->decision_late, Duration());
}

TEST(EngineTest, ASubmitAfterTheDeadlineIsNotLateByThat) {
  Lab lab(4, 1, Settings());
  lab.Form();
  const core::OpDescriptor op = Sum(100, core::Mode::kBounded);
  Buffers buffers(4, 100);
  for (size_t r = 0; r < 3; ++r) lab.Submit(r, op, buffers.View(r), 1);
  lab.Run(Duration::Millis(50));
  lab.Submit(3, op, buffers.View(3), 1);
  lab.Run(Duration::Millis(5));
  const Completion* done = lab.CompletionOf(3, 1);
  ASSERT_NE(done, nullptr);
  EXPECT_LT(done->report.deadline, done->report.submitted);
  EXPECT_LT(done->wall_late, Duration::Millis(1));
}

TEST(EngineTest, IdleEnginesRest) {
  Lab lab(2, 1, Settings());
  lab.Form();
  lab.host(0).polls = 0;
  lab.Run(Duration::Seconds(10));
  // Heartbeats, probes of the peers, and the longest sleep of 100 ms.
  EXPECT_LT(lab.host(0).polls, 2000);
  EXPECT_GE(lab.host(0).polls, 100);
}

// ---- the port ---------------------------------------------------------------

TEST(EngineTest, RefusingPortIsNotSpunOnAndTheRestIsServed) {
  Lab lab(2, 1, Settings());
  lab.Form();
  FakeHost& host = lab.host(0);
  host.port.set_refuses_transmit(true);
  Buffers buffers(2, 50'000);  // more than the port's backlog takes
  SubmitAll(lab, Sum(50'000, core::Mode::kExact), buffers, 1);
  const uint64_t accepted = SnapshotCounter(lab, host, "core_accepted");
  host.polls = 0;
  lab.Run(Duration::Millis(100));
  EXPECT_LT(host.polls, 3000);
  EXPECT_EQ(lab.CompletionOf(0, 1), nullptr);
  // Received, meanwhile, and answered to control.
  EXPECT_GT(SnapshotCounter(lab, host, "core_accepted"), accepted);
  EXPECT_GT(SnapshotCounter(lab, host, "engine_no_transmit_buffer"), 0);

  host.port.set_refuses_transmit(false);
  lab.Run(Duration::Millis(300));
  for (size_t r = 0; r < 2; ++r) {
    ASSERT_NE(lab.CompletionOf(r, 1), nullptr);
    ExpectAll(buffers.values[r], 3);
  }
}

TEST(EngineTest, PortGoesAwayAndReturns) {
  core::GroupConfig settings = Settings();
  settings.hard_limit = Duration::Seconds(1);
  settings.window = 64;  // ops without quorum keep their place in it
  Lab lab(2, 1, settings);
  lab.Form();
  core::OpDescriptor op = Sum(100, core::Mode::kBounded);
  op.soft_limit = Duration::Millis(20);
  std::deque<Buffers> buffers;
  const auto run = [&](uint64_t cookie) {
    buffers.emplace_back(2, 100);
    SubmitAll(lab, op, buffers.back(), cookie);
    lab.Run(Duration::Millis(100));
    const Completion* done = lab.CompletionOf(0, cookie);
    return done == nullptr ? core::OpStatus::kCancelled : done->report.status;
  };
  EXPECT_EQ(run(0), core::OpStatus::kComplete);
  lab.host(0).port.set_away(true);
  for (uint64_t cookie = 1; cookie <= 30; ++cookie) {
    EXPECT_EQ(run(cookie), core::OpStatus::kPartial) << cookie;
  }
  const auto* changed = FindNotice<PortChanged>(lab.host(0));
  ASSERT_NE(changed, nullptr);
  EXPECT_FALSE(changed->up);

  lab.host(0).port.set_away(false);
  lab.Run(Duration::Millis(500));
  EXPECT_EQ(run(99), core::OpStatus::kComplete);
  EXPECT_EQ(CountNotices<PortChanged>(lab.host(0)), 2);
}

// ---- groups and sessions ----------------------------------------------------

std::string AddGroupError(Lab& lab, const core::GroupConfig& config,
                          SessionId session) {
  FakeHost& host = lab.host(0);
  host.notices.clear();
  EXPECT_TRUE(host.engine.Post(AddGroup{7, config, session, 1}));
  lab.Run(Duration());
  const auto* added = FindNotice<GroupAdded>(host);
  if (added == nullptr) return "no answer";
  EXPECT_EQ(added->request, 7);
  return added->group.ok() ? "added"
                           : std::string(added->group.status().message());
}

TEST(EngineTest, GroupsThatCannotWorkAreRefused) {
  Lab lab(2, 1, Settings());
  lab.Form();
  const SessionId session = lab.rank(0).session;
  core::GroupConfig config = lab.ConfigOf(0);
  config.tag = 5;

  EXPECT_EQ(AddGroupError(lab, config, SessionId(1)), "the session is gone");

  core::GroupConfig wrong = config;
  wrong.self = core::Rank(1);
  EXPECT_NE(AddGroupError(lab, wrong, session).find("10.0.0.2"),
            std::string::npos);

  // MTU 1500 takes 1,472 bytes: 32 of header, 16 of trailer, 1,424 of payload.
  wrong = config;
  wrong.payload_bytes = 1440;
  EXPECT_NE(AddGroupError(lab, wrong, session).find("1472"), std::string::npos);
  wrong.payload_bytes = 1424;
  EXPECT_EQ(AddGroupError(lab, wrong, session), "added");

  wrong = config;
  wrong.members[1].address.bytes[0] = 0x20;
  EXPECT_NE(AddGroupError(lab, wrong, session).find("rank 1"),
            std::string::npos);

  wrong = config;
  wrong.self = core::Rank(9);
  EXPECT_NE(AddGroupError(lab, wrong, session), "added");
}

TEST(EngineTest, LeavingCancelsAndReleases) {
  Lab lab(2, 1, Settings());
  lab.Form();
  Buffers buffers(2, 100);
  lab.Submit(0, Sum(100, core::Mode::kExact), buffers.View(0), 1);
  lab.Run(Duration::Millis(2));
  for (size_t r = 0; r < 2; ++r) {
    ASSERT_TRUE(lab.host(r).engine.Post(
        LeaveGroup{lab.rank(r).group, wire::LeaveReason::kLeft}));
  }
  lab.Run(Duration::Millis(1));
  const Completion* done = lab.CompletionOf(0, 1);
  ASSERT_NE(done, nullptr);
  EXPECT_EQ(done->report.status, core::OpStatus::kCancelled);
  lab.Run(Duration::Seconds(2));
  for (size_t r = 0; r < 2; ++r) {
    const auto* removed = FindNotice<GroupRemoved>(lab.host(r));
    ASSERT_NE(removed, nullptr) << r;
    EXPECT_EQ(removed->session, lab.rank(r).session);
    EXPECT_TRUE(lab.rank(r).client->groups().empty());
  }
}

TEST(EngineTest, DetachedSessionIsNotTouchedAgain) {
  Lab lab(2, 1, Settings());
  lab.Form();
  Buffers buffers(2, 1000);
  lab.Submit(0, Sum(1000, core::Mode::kExact), buffers.View(0), 1);
  lab.Run(Duration::Millis(2));
  ASSERT_TRUE(lab.host(0).engine.Post(
      DetachSession{lab.rank(0).session, wire::LeaveReason::kClientDied}));
  lab.Run(Duration());
  ASSERT_NE(FindNotice<SessionDetached>(lab.host(0)), nullptr);
  // As good as unmapped: the engine would crash on them.
  buffers.values[0].clear();
  buffers.values[0].shrink_to_fit();
  lab.rank(0).client.reset();
  lab.Submit(1, Sum(1000, core::Mode::kExact), buffers.View(1), 1);
  lab.Run(Duration::Seconds(2));
  EXPECT_NE(FindNotice<GroupRemoved>(lab.host(0)), nullptr);
  const Completion* done = lab.CompletionOf(1, 1);
  ASSERT_NE(done, nullptr) << "the survivor waits";
  EXPECT_EQ(done->submit == core::SubmitResult::kAccepted
                ? done->report.status
                : core::OpStatus::kPeerLost,
            core::OpStatus::kPeerLost);
}

TEST(EngineTest, FailedGroupIsRemovedAtOnce) {
  core::GroupConfig settings = Settings();
  settings.formation_limit = Duration::Millis(50);
  Lab lab(2, 1, settings);
  FakeRank& rank = lab.rank(0);
  ASSERT_TRUE(
      lab.host(0).engine.Post(AttachSession{rank.session, rank.client.get()}));
  ASSERT_TRUE(
      lab.host(0).engine.Post(AddGroup{1, lab.ConfigOf(0), rank.session, 5}));
  lab.Run(Duration::Millis(100));
  const auto* changed = FindNotice<GroupChanged>(lab.host(0));
  ASSERT_NE(changed, nullptr);
  EXPECT_EQ(changed->event.kind, core::EventKind::kGroupFailed);
  ASSERT_TRUE(
      lab.host(0).engine.Post(RemoveGroup{rank.client->groups().at(5)}));
  lab.Run(Duration());
  EXPECT_NE(FindNotice<GroupRemoved>(lab.host(0)), nullptr);
  EXPECT_TRUE(rank.client->groups().empty());
}

TEST(EngineTest, OpsOfARemovedGroupEnd) {
  Lab lab(2, 1, Settings());
  lab.Form();
  Buffers buffers(2, 100);
  lab.Submit(0, Sum(100, core::Mode::kExact), buffers.View(0), 1);
  lab.Run(Duration::Millis(1));
  ASSERT_TRUE(lab.host(0).engine.Post(RemoveGroup{lab.rank(0).group}));
  lab.Run(Duration());
  const Completion* done = lab.CompletionOf(0, 1);
  ASSERT_NE(done, nullptr);
  EXPECT_EQ(done->report.status, core::OpStatus::kCancelled);
}

TEST(EngineTest, BrokenClientIsNamedOnceAndHarmsNobody) {
  Lab lab(1, 2, Settings());
  lab.Form();
  FakeSession bad;
  ASSERT_TRUE(lab.host(0).engine.Post(AttachSession{SessionId(7), &bad}));
  bad.Break();
  Buffers buffers(2, 100);
  SubmitAll(lab, Sum(100, core::Mode::kExact), buffers, 1);
  lab.Run(Duration::Millis(20));
  EXPECT_EQ(CountNotices<SessionBroken>(lab.host(0)), 1);
  EXPECT_EQ(FindNotice<SessionBroken>(lab.host(0))->session, SessionId(7));
  EXPECT_EQ(bad.pulls_when_broken(), 1);
  ASSERT_NE(lab.CompletionOf(0, 1), nullptr);
  ASSERT_TRUE(lab.host(0).engine.Post(
      DetachSession{SessionId(7), wire::LeaveReason::kClientDied}));
  lab.Run(Duration());
  EXPECT_EQ(CountNotices<SessionDetached>(lab.host(0)), 1);
}

TEST(EngineTest, SnapshotTellsTheState) {
  Lab lab(2, 1, Settings());
  lab.Form();
  Buffers buffers(2, 100);
  lab.Submit(0, Sum(100, core::Mode::kExact), buffers.View(0), 1);
  lab.Run(Duration::Millis(1));
  lab.host(0).port.SetSilent(nic::Ipv4Address(0x0a000063));
  ASSERT_TRUE(lab.host(0).engine.Post(TakeSnapshot{5}));
  lab.Run(Duration());
  const auto* found = FindNotice<std::unique_ptr<Snapshot>>(lab.host(0));
  ASSERT_NE(found, nullptr);
  const Snapshot& snapshot = **found;
  EXPECT_EQ(snapshot.request, 5);
  ASSERT_EQ(snapshot.groups.size(), 1);
  EXPECT_EQ(snapshot.groups[0].group, lab.rank(0).group);
  EXPECT_EQ(snapshot.groups[0].session, lab.rank(0).session);
  EXPECT_EQ(snapshot.groups[0].ops_in_flight, 1);
  EXPECT_EQ(snapshot.groups[0].status.world, 2);
  EXPECT_TRUE(snapshot.groups[0].status.formed);
  EXPECT_EQ(snapshot.silent_next_hops.size(), 1);
  EXPECT_TRUE(snapshot.port_up);
}

TEST(EngineTest, SnapshotTellsHowOpsWentIfAsked) {
  Lab lab(2, 1, Settings());
  lab.Form();
  Buffers buffers(2, 100);
  for (size_t r = 0; r < 2; ++r) {
    lab.Submit(r, Sum(100, core::Mode::kBounded), buffers.View(r), r);
  }
  lab.Run(Duration::Millis(5));
  ASSERT_TRUE(lab.host(0).engine.Post(TakeSnapshot{1}));
  ASSERT_TRUE(lab.host(0).engine.Post(TakeSnapshot{2, /*with_ops=*/true}));
  lab.Run(Duration());
  std::vector<const Snapshot*> snapshots;
  for (const Notice& notice : lab.host(0).notices) {
    const auto* found = std::get_if<std::unique_ptr<Snapshot>>(&notice);
    if (found != nullptr) snapshots.push_back(found->get());
  }
  ASSERT_EQ(snapshots.size(), 2u);
  EXPECT_TRUE(snapshots[0]->groups.at(0).ops.empty());
  const std::vector<core::OpRecord>& ops = snapshots[1]->groups.at(0).ops;
  ASSERT_EQ(ops.size(), 1u);
  EXPECT_EQ(ops[0].descriptor.count, 100u);
  EXPECT_TRUE(ops[0].has_ended());
  EXPECT_EQ(ops[0].history.stages[0].cause(), core::EndCause::kAllIn);
}

TEST(EngineTest, NoticesSurviveAControlThatSleeps) {
  Lab lab(1, 1, Settings());
  // More than the mailbox holds, before anybody takes one.
  for (uint64_t i = 0; i < 3000; ++i) {
    ASSERT_TRUE(lab.host(0).engine.Post(TakeSnapshot{i}));
    lab.host(0).engine.Poll();
  }
  lab.Run(Duration());
  lab.Run(Duration());
  lab.Run(Duration());
  EXPECT_EQ(CountNotices<std::unique_ptr<Snapshot>>(lab.host(0)), 3000);
}

}  // namespace
}  // namespace optireduce::engine
