// What optictl asks, and stopping.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/dispatcher_testing.h"

namespace optireduce::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(DispatcherTest, StatusNeedsNoSession) {
  TestClient client = Connect();
  Request request;
  request.set_id(1);
  request.mutable_status();
  client.Send(request);
  ASSERT_TRUE(RunUntil([&] { return !engine_.commands.empty(); }));
  engine::Snapshot snapshot;
  snapshot.port_up = true;
  snapshot.silent_next_hops = {nic::Ipv4Address(0x0A000009)};
  AnswerSnapshot(engine_.Take<engine::TakeSnapshot>().request,
                 std::move(snapshot));
  const StatusReply status = Answer(client, 1).status();
  EXPECT_EQ(status.version(), "1.2.3");
  EXPECT_EQ(status.state(), "ready");
  EXPECT_EQ(status.address(), "10.0.0.1");
  EXPECT_EQ(status.driver(), "net_test");
  EXPECT_EQ(status.mtu(), 1500u);
  EXPECT_THAT(status.notes(),
              ElementsAre("a fallback", HasSubstr("10.0.0.9 answers no ARP")));
}

TEST_F(DispatcherTest, GroupsPeersAndStats) {
  TestClient client = LiveClient();
  const Forming group = ReadyGroup(client);
  engine::Snapshot snapshot;
  snapshot.counters = {{"core_bad_crc", 3}};
  engine::GroupSnapshot row;
  row.group = group.id;
  row.status.next_op = core::OpSeq(12);
  row.status.memory_used = 77;
  row.status.ledger_used = 88;
  row.status.ledger_budget = 99;
  const auto forgiven_for = [&row](core::ForgivenFor reason) -> auto& {
    return row.status.forgiven[static_cast<size_t>(reason)];
  };
  forgiven_for(core::ForgivenFor::kOwnerGone) = {.contributions = 5,
                                                 .results = 0};
  forgiven_for(core::ForgivenFor::kNoMemory) = {.contributions = 6,
                                                .results = 7};
  row.verdicts.Note({.step = 1, .below_floor = true, .halt_advised = true});
  row.verdicts.Note({.step = 2,
                     .below_floor = true,
                     .non_finite = true,
                     .bad_steps = 2,
                     .present_ppm = 250'000,
                     .divergence_ppb = 5'000'000});
  row.verdicts.Note({.step = 3,
                     .non_finite = true,
                     .bad_steps = 3,
                     .present_ppm = 500'000,
                     .divergence_ppb = 7'000'000});
  row.status.peers.resize(2);
  row.status.peers[1].suspect = true;
  row.status.peers[1].packets_received = 5;
  row.status.peers[1].endpoint = {core::NetAddress::FromIpv4(0x0A000002),
                                  47000};
  snapshot.groups = {row};
  const auto ask = [&](Request request) {
    request.set_id(1);
    client.Send(request);
    EXPECT_TRUE(RunUntil([&] { return !engine_.commands.empty(); }));
    AnswerSnapshot(engine_.Take<engine::TakeSnapshot>().request, snapshot);
    return Answer(client, 1);
  };
  Request request;
  request.mutable_groups();
  const GroupsReply groups = ask(request).groups();
  ASSERT_EQ(groups.groups_size(), 1);
  EXPECT_EQ(groups.groups(0).name(), "job");
  EXPECT_EQ(groups.groups(0).client(), "test");
  EXPECT_EQ(groups.groups(0).state(), "ready");
  EXPECT_EQ(groups.groups(0).next_op(), 12u);
  EXPECT_EQ(groups.groups(0).memory_used(), 77u);
  EXPECT_EQ(groups.groups(0).owed_bytes(), 88u);
  EXPECT_EQ(groups.groups(0).owed_budget(), 99u);
  EXPECT_EQ(groups.groups(0).forgiven_contributions(), 11u);
  EXPECT_EQ(groups.groups(0).forgiven_results(), 7u);
  EXPECT_EQ(groups.groups(0).steps_judged(), 3u);
  EXPECT_EQ(groups.groups(0).steps_bad(), 3u);
  EXPECT_EQ(groups.groups(0).bad_in_a_row(), 3u);
  EXPECT_EQ(groups.groups(0).least_present(), 0.5);
  EXPECT_EQ(groups.groups(0).divergence(), 0.007);
  EXPECT_EQ(groups.groups(0).tag(), group.config.tag);
  request.mutable_peers();
  const PeersReply peers = ask(request).peers();
  ASSERT_EQ(peers.peers_size(), 1);
  EXPECT_EQ(peers.peers(0).rank(), 1u);
  EXPECT_EQ(peers.peers(0).state(), "suspect");
  EXPECT_EQ(peers.peers(0).endpoint(), "10.0.0.2:47000");
  request.mutable_stats();
  const StatsReply stats = ask(request).stats();
  std::map<std::string, uint64_t> counters;
  for (const auto& counter : stats.counters()) {
    counters[counter.name()] = counter.value();
  }
  EXPECT_EQ(counters.at("core_bad_crc"), 3u);
  const std::string forgiven =
      absl::StrCat("group_", groups.groups(0).group(), "_forgiven_");
  EXPECT_EQ(counters.at(forgiven + "owner_gone_contributions"), 5u);
  EXPECT_EQ(counters.at(forgiven + "no_memory_contributions"), 6u);
  EXPECT_EQ(counters.at(forgiven + "no_memory_results"), 7u);
  EXPECT_EQ(counters.count(forgiven + "reset_results"), 0u);
  const std::string steps =
      absl::StrCat("group_", groups.groups(0).group(), "_steps_");
  EXPECT_EQ(counters.at(steps + "judged"), 3u);
  EXPECT_EQ(counters.at(steps + "bad"), 3u);
  EXPECT_EQ(counters.at(steps + "below_floor"), 2u);
  EXPECT_EQ(counters.at(steps + "non_finite"), 2u);
  EXPECT_EQ(counters.at(steps + "halt_advised"), 1u);
  EXPECT_EQ(counters.at(steps + "bad_in_a_row"), 3u);
  EXPECT_EQ(counters.at(steps + "present_ppm"), 500'000u);
  EXPECT_EQ(counters.at(steps + "divergence_ppb"), 7'000'000u);
  EXPECT_EQ(counters.at("control_sessions"), 1u);
  EXPECT_EQ(counters.at("control_data_ports"), 1u);
}

TEST_F(DispatcherTest, ConfigNeedsNoEngine) {
  TestClient client = LiveClient();
  Request request;
  request.mutable_config();
  const ConfigReply config = Ask(client, request).config();
  std::map<std::string, ConfigReply::Entry> entries;
  for (const auto& entry : config.entries()) entries[entry.key()] = entry;
  EXPECT_EQ(entries.size(), ConfigKeys().size());
  EXPECT_EQ(entries.at("port").value(), "af_packet:eth0");
  EXPECT_EQ(entries.at("port").origin(), "file");
  EXPECT_EQ(entries.at("port").where(), "test.conf:1");
  EXPECT_EQ(entries.at("group_window").origin(), "default");
}

TEST_F(DispatcherTest, WhileItDrainsNothingNewBegins) {
  TestClient client = LiveClient();
  dispatcher_->BeginDrain();
  EXPECT_TRUE(dispatcher_->Drained());
  EXPECT_EQ(Ask(client, PrepareRequest(0, 1)).error().code(),
            ERROR_SHUTTING_DOWN);
  TestClient late = Connect();
  EXPECT_EQ(SayHello(late).error().code(), ERROR_SHUTTING_DOWN);
  server_->DropAll(ERROR_SHUTTING_DOWN, "the daemon stops");
  Run();
  const auto detach = engine_.Take<engine::DetachSession>();
  EXPECT_EQ(detach.reason, wire::LeaveReason::kShutdown);
  dispatcher_->OnNotice(engine::SessionDetached{detach.session});
  EXPECT_TRUE(dispatcher_->Empty());
}

}  // namespace
}  // namespace optireduce::control
