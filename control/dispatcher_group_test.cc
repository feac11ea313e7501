// Groups, from their preparation to their end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "control/dispatcher_testing.h"

namespace optireduce::control {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(DispatcherTest, AGroupFromPreparationToItsEnd) {
  TestClient client = LiveClient();
  Request request = PrepareRequest(0, 2);
  request.mutable_prepare_group()->mutable_settings()->set_result_bound_us(
      20'000);
  request.mutable_prepare_group()->mutable_settings()->set_window(8);
  request.mutable_prepare_group()->mutable_settings()->set_fill(FILL_OWN);
  const Reply prepared = Ask(client, request);
  ASSERT_TRUE(prepared.has_prepare_group()) << prepared.DebugString();
  const GroupSettings& settings = prepared.prepare_group().settings();
  EXPECT_EQ(settings.result_bound_us(), 20'000u);
  EXPECT_EQ(settings.stage1_bound_us(), 12'000u);
  EXPECT_EQ(settings.early_wait_us(), 2'000u);
  EXPECT_EQ(settings.quorum_permille(), 750u);
  EXPECT_EQ(settings.mtu(), 1500u);
  Member own;
  ASSERT_TRUE(own.ParseFromString(prepared.prepare_group().member()));
  EXPECT_EQ(own.address(), std::string("\x0a\x00\x00\x01", 4));
  EXPECT_EQ(own.port(), 47000u);

  Request form;
  form.set_id(5);
  form.mutable_form_group()->set_group(prepared.prepare_group().group());
  for (const std::string& blob :
       MembersWithPeer(prepared.prepare_group().member())) {
    form.mutable_form_group()->add_members(blob);
  }
  client.Send(form);
  ASSERT_TRUE(RunUntil([&] { return !engine_.commands.empty(); }));
  const auto add = engine_.Take<engine::AddGroup>();
  EXPECT_EQ(add.config.result_bound, Duration::Millis(20));
  EXPECT_EQ(add.config.stage1_bound, Duration::Millis(12));
  EXPECT_EQ(add.config.window, 8u);
  EXPECT_EQ(add.config.fill, core::FillPolicy::kOwn);
  EXPECT_EQ(add.config.payload_bytes, wire::PayloadForMtu(1500));
  EXPECT_EQ(add.config.self, core::Rank(0));
  ASSERT_EQ(add.config.members.size(), 2u);
  EXPECT_EQ(add.config.members[1].address,
            core::NetAddress::FromIpv4(0x0A000002));

  Forming group;
  group.id = core::GroupId(9);
  dispatcher_->OnNotice(engine::GroupAdded{add.request, add.session, group.id});
  Run();
  EXPECT_FALSE(client.Receive());  // not before the peers are heard
  Notify(client, group, core::EventKind::kGroupReady);
  const Reply formed = Answer(client, 5);
  EXPECT_EQ(formed.form_group().tag(), add.config.tag);
  EXPECT_EQ(formed.form_group().payload_bytes(), add.config.payload_bytes);

  // What happens to peers is told unasked.
  Notify(client, group, core::EventKind::kPeerSuspect, 1);
  Notify(client, group, core::EventKind::kPeerHealthy, 1);
  Notify(client, group, core::EventKind::kPeerLost, 1);
  for (const GroupEventKind kind :
       {GROUP_PEER_SUSPECT, GROUP_PEER_HEALTHY, GROUP_PEER_LOST}) {
    const auto frame = client.Receive();
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->group_event().kind(), kind);
    EXPECT_EQ(frame->group_event().rank(), 1u);
    EXPECT_EQ(frame->group_event().group(), add.handle);
  }

  // Leaving is answered once the engine has left.
  Request leave;
  leave.set_id(6);
  leave.mutable_leave_group()->set_group(add.handle);
  client.Send(leave);
  ASSERT_TRUE(RunUntil([&] { return engine_.commands.size() == 2; }));
  const auto left = engine_.Take<engine::LeaveGroup>();
  EXPECT_EQ(left.group, group.id);
  EXPECT_EQ(left.reason, wire::LeaveReason::kLeft);
  Run();
  EXPECT_FALSE(client.Receive());
  AnswerSnapshot(engine_.Take<engine::TakeSnapshot>().request);
  EXPECT_TRUE(Answer(client, 6).has_leave_group());
  // Its port is kept while peers may still send to it.
  EXPECT_EQ(dispatcher_->groups().ports_in_use(), 1u);
  RemoveGroup(client, group);
  EXPECT_EQ(dispatcher_->groups().ports_in_use(), 0u);
  EXPECT_EQ(dispatcher_->groups().memory_in_use(), 0u);
}

// K09.
TEST_F(DispatcherTest, LeavingTwiceIsNoErrorAndNamesAreFreeAgain) {
  TestClient client = LiveClient();
  const size_t descriptors = EntriesOf("/proc/self/fd");
  for (int i = 0; i < 100; ++i) {
    const Reply prepared = Ask(client, PrepareRequest(0, 1));
    ASSERT_TRUE(prepared.has_prepare_group());
    Request leave;
    leave.mutable_leave_group()->set_group(prepared.prepare_group().group());
    EXPECT_TRUE(Ask(client, leave).has_leave_group());
    EXPECT_TRUE(Ask(client, leave).has_leave_group());
  }
  EXPECT_EQ(EntriesOf("/proc/self/fd"), descriptors);
  EXPECT_EQ(dispatcher_->groups().num_groups(), 0u);
  Request leave;
  leave.mutable_leave_group()->set_group(5000);
  EXPECT_EQ(Ask(client, leave).error().code(), ERROR_NOT_FOUND);
}

TEST_F(DispatcherTest, LeavingTwiceWhileTheFirstIsUnderWay) {
  TestClient client = LiveClient();
  const Forming group = ReadyGroup(client);
  Request leave;
  leave.mutable_leave_group()->set_group(group.handle);
  leave.set_id(1);
  client.Send(leave);
  leave.set_id(2);
  client.Send(leave);
  ASSERT_TRUE(RunUntil([&] { return engine_.commands.size() == 4; }));
  engine_.Take<engine::LeaveGroup>();
  const auto first = engine_.Take<engine::TakeSnapshot>();
  AnswerSnapshot(first.request);
  EXPECT_TRUE(Answer(client, 1).has_leave_group());
  EXPECT_TRUE(Answer(client, 2).has_leave_group());
}

TEST_F(DispatcherTest, OneTenantsGroupIsNotAnothers) {
  TestClient first = LiveClient();
  TestClient second = LiveClient();
  const Forming group = ReadyGroup(first);
  Request leave;
  leave.mutable_leave_group()->set_group(group.handle);
  EXPECT_EQ(Ask(second, leave).error().code(), ERROR_NOT_FOUND);
  Request form;
  form.mutable_form_group()->set_group(group.handle);
  EXPECT_EQ(Ask(second, form).error().code(), ERROR_NOT_FOUND);
  EXPECT_TRUE(engine_.commands.empty());
}

TEST_F(DispatcherTest, BadMembersAreRefusedAndThePreparationStays) {
  TestClient client = LiveClient();
  const Reply prepared = Ask(client, PrepareRequest(0, 2));
  Request form;
  form.mutable_form_group()->set_group(prepared.prepare_group().group());
  form.mutable_form_group()->add_members(prepared.prepare_group().member());
  form.mutable_form_group()->add_members(prepared.prepare_group().member());
  const Reply reply = Ask(client, form);
  EXPECT_EQ(reply.error().code(), ERROR_MEMBERS);
  EXPECT_THAT(reply.error().message(), HasSubstr("rank 0 is there twice"));
  EXPECT_THAT(reply.error().disagree(), ElementsAre(0, 1));
  EXPECT_TRUE(engine_.commands.empty());
  form.mutable_form_group()->clear_members();
  for (const std::string& blob :
       MembersWithPeer(prepared.prepare_group().member())) {
    form.mutable_form_group()->add_members(blob);
  }
  client.Send(form);
  ASSERT_TRUE(RunUntil([&] { return !engine_.commands.empty(); }));
  engine_.Take<engine::AddGroup>();
  // But once only.
  EXPECT_THAT(Ask(client, form).error().message(),
              HasSubstr("forming already"));
}

TEST_F(DispatcherTest, AFailedFormationNamesTheRanks) {
  TestClient client = LiveClient();
  const Forming group = StartForming(client);
  engine::GroupChanged failed;
  failed.event.kind = core::EventKind::kGroupFailed;
  failed.event.group = group.id;
  failed.event.silent.Add(core::Rank(1));
  dispatcher_->OnNotice(failed);
  const Reply reply = Answer(client, group.request);
  EXPECT_EQ(reply.error().code(), ERROR_FORMATION);
  EXPECT_THAT(reply.error().silent(), ElementsAre(1));
  EXPECT_THAT(reply.error().message(), HasSubstr("not heard within the limit: "
                                                 "rank 1"));
  EXPECT_EQ(engine_.Take<engine::RemoveGroup>().group, group.id);
  RemoveGroup(client, group);
  EXPECT_EQ(dispatcher_->groups().num_groups(), 0u);
}

TEST_F(DispatcherTest, AGroupThatTheEngineRefuses) {
  TestClient client = LiveClient();
  const Reply prepared = Ask(client, PrepareRequest(0, 1));
  Request form;
  form.set_id(7);
  form.mutable_form_group()->set_group(prepared.prepare_group().group());
  form.mutable_form_group()->add_members(prepared.prepare_group().member());
  client.Send(form);
  ASSERT_TRUE(RunUntil([&] { return !engine_.commands.empty(); }));
  const auto add = engine_.Take<engine::AddGroup>();
  dispatcher_->OnNotice(engine::GroupAdded{
      add.request, add.session, absl::InvalidArgumentError("window: 0")});
  EXPECT_THAT(Answer(client, 7).error().message(), HasSubstr("window: 0"));
  EXPECT_EQ(dispatcher_->groups().num_groups(), 0u);
  EXPECT_EQ(dispatcher_->groups().ports_in_use(), 0u);
}

TEST_F(DispatcherTest, LeavingBeforeTheEngineHasTheGroup) {
  TestClient client = LiveClient();
  const Reply prepared = Ask(client, PrepareRequest(0, 1));
  Request form;
  form.set_id(1);
  form.mutable_form_group()->set_group(prepared.prepare_group().group());
  form.mutable_form_group()->add_members(prepared.prepare_group().member());
  client.Send(form);
  Request leave;
  leave.set_id(2);
  leave.mutable_leave_group()->set_group(prepared.prepare_group().group());
  client.Send(leave);
  EXPECT_EQ(Answer(client, 1).error().code(), ERROR_FORMATION);
  const auto add = engine_.Take<engine::AddGroup>();
  EXPECT_TRUE(engine_.commands.empty());
  dispatcher_->OnNotice(
      engine::GroupAdded{add.request, add.session, core::GroupId(4)});
  EXPECT_EQ(engine_.Take<engine::LeaveGroup>().group, core::GroupId(4));
  AnswerSnapshot(engine_.Take<engine::TakeSnapshot>().request);
  EXPECT_TRUE(Answer(client, 2).has_leave_group());
}

TEST_F(DispatcherTest, SettingsOutOfRangeAreNamed) {
  TestClient client = LiveClient();
  const auto error_of = [&](auto change) {
    Request request = PrepareRequest(0, 2);
    change(request.mutable_prepare_group());
    const Reply reply = Ask(client, request);
    EXPECT_EQ(reply.error().code(), ERROR_INVALID_SETTING);
    return reply.error().message();
  };
  EXPECT_THAT(error_of([](auto* p) { p->set_rank(2); }),
              HasSubstr("rank 2 in a world of 2"));
  EXPECT_THAT(error_of([](auto* p) { p->set_world(0); }),
              HasSubstr("from 1 to 1024"));
  EXPECT_THAT(error_of([](auto* p) { p->set_world(1025); }),
              HasSubstr("a world of 1025"));
  EXPECT_THAT(error_of([](auto* p) { p->set_name(std::string(49, 'x')); }),
              HasSubstr("at most 48 bytes"));
  EXPECT_THAT(error_of([](auto* p) { p->set_name("\x1b[2J"); }),
              HasSubstr("printable"));
  EXPECT_THAT(error_of([](auto* p) { p->mutable_settings()->set_window(0); }),
              AllOf(HasSubstr("group_window"), HasSubstr("from 1 to 256")));
  EXPECT_THAT(error_of([](auto* p) {
                p->mutable_settings()->set_stage1_bound_us(200'000);
              }),
              HasSubstr("group_stage1_bound_us (200000)"));
  EXPECT_THAT(error_of([](auto* p) { p->mutable_settings()->set_mtu(1501); }),
              HasSubstr("mtu: 1501"));
  EXPECT_THAT(error_of([](auto* p) { p->mutable_settings()->set_mtu(500); }),
              HasSubstr("mtu: 500"));
  EXPECT_THAT(error_of([](auto* p) {
                p->mutable_settings()->set_memory_budget_bytes(100);
              }),
              HasSubstr("memory_budget_bytes"));
  EXPECT_THAT(error_of([](auto* p) {
                p->mutable_settings()->set_owed_budget_bytes(UINT64_MAX);
              }),
              HasSubstr("owed_budget_bytes"));
  EXPECT_EQ(dispatcher_->groups().num_groups(), 0u);
}

TEST_F(DispatcherTest, GroupQuotasAreNamed) {
  Start(
      "max_groups_per_session: 2 max_total_group_mb: 300 udp_port_count: 3 "
      "group_memory_mb: 60 group_owed_mb: 40");
  TestClient first = LiveClient();
  EXPECT_TRUE(Ask(first, PrepareRequest(0, 1)).has_prepare_group());
  EXPECT_TRUE(Ask(first, PrepareRequest(0, 1)).has_prepare_group());
  EXPECT_THAT(Ask(first, PrepareRequest(0, 1)).error().message(),
              HasSubstr("max_groups_per_session"));
  TestClient second = LiveClient();
  EXPECT_TRUE(Ask(second, PrepareRequest(0, 1)).has_prepare_group());
  const Reply reply = Ask(second, PrepareRequest(0, 1));
  EXPECT_EQ(reply.error().code(), ERROR_QUOTA);
  EXPECT_THAT(reply.error().message(), HasSubstr("max_total_group_mb"));
  Request small = PrepareRequest(0, 1);
  small.mutable_prepare_group()->mutable_settings()->set_memory_budget_bytes(
      1 << 20);
  first.Close();
  ASSERT_TRUE(RunUntil([&] { return !engine_.commands.empty(); }));
  // Prepared groups go at once.
  EXPECT_EQ(dispatcher_->groups().num_groups(), 1u);
  EXPECT_TRUE(Ask(second, small).has_prepare_group());
}

TEST_F(DispatcherTest, GroupsOutliveTheirSessionUntilPeersNeedNothing) {
  TestClient client = LiveClient();
  const Forming group = ReadyGroup(client);
  client.Close();
  ASSERT_TRUE(RunUntil([&] { return !engine_.commands.empty(); }));
  const auto detach = engine_.Take<engine::DetachSession>();
  dispatcher_->OnNotice(engine::SessionDetached{detach.session});
  EXPECT_TRUE(dispatcher_->sessions().sessions().empty());
  EXPECT_EQ(dispatcher_->groups().num_groups(), 1u);
  // Nobody is there to be told.
  Notify(client, group, core::EventKind::kPeerLost, 1);
  EXPECT_FALSE(dispatcher_->Empty());
  RemoveGroup(client, group);
  EXPECT_TRUE(dispatcher_->Empty());
}

}  // namespace
}  // namespace optireduce::control
