// Each key of the configuration, changed alone, changes what some part of the
// daemon is told.

#include "control/daemon_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "control/config_loader.h"
#include "control/group_settings.h"
#include "control/session_table.h"

namespace optireduce::control {
namespace {

using ::testing::HasSubstr;

config::DaemonConfig With(const std::string& key, const std::string& value) {
  ConfigSources sources;
  sources.flags = {{"port", "af_packet:eth0"}, {"address", "10.0.0.1/24"}};
  if (!key.empty()) sources.flags.emplace_back(key, value);
  const auto loaded = LoadConfig(sources);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return loaded->values();
}

nic::PortSpec SpecOf(const config::DaemonConfig& config) {
  return *nic::ParsePortSpec(config.port());
}

nic::DpdkPortConfig PortOf(const config::DaemonConfig& config) {
  nic::KernelInterface interface;
  interface.name = "eth0";
  interface.mtu = 1500;
  const auto port = MakePortConfig(config, interface, {});
  EXPECT_TRUE(port.ok()) << port.status();
  return *port;
}

core::GroupConfig GroupOf(const config::DaemonConfig& config) {
  const auto settings = ResolveSettings(config, 1500, {});
  EXPECT_TRUE(settings.ok()) << settings.status();
  return ToGroupConfig(*settings);
}

using Effect = std::function<bool(const config::DaemonConfig&)>;
struct Case {
  std::string value;
  Effect effect;  // true where the key has the value, false by default
};

const std::map<std::string, Case>& Cases() {
  static const auto& cases = *new std::map<std::string, Case>{
      {"port",
       {"pci:0000:3b:00.0",
        [](const auto& c) {
          return MakeEalConfig(c, SpecOf(c)).pci_allow ==
                 std::vector<std::string>{"0000:3b:00.0"};
        }}},
      {"address",
       {"10.0.0.9/16",
        [](const auto& c) {
          return PortOf(c).ip == nic::Ipv4Address(0x0A000009) &&
                 PortOf(c).prefix_length == 16;
        }}},
      {"gateway",
       {"10.0.0.254",
        [](const auto& c) {
          return PortOf(c).gateway == nic::Ipv4Address(0x0A0000FE);
        }}},
      {"mtu", {"1400", [](const auto& c) { return PortOf(c).mtu == 1400; }}},
      {"static_neighbour",
       {"10.0.0.2=02:00:00:00:00:02",
        [](const auto& c) { return PortOf(c).static_neighbours.size() == 1; }}},
      {"force_default_route",
       {"true",
        [](const auto& c) {
          nic::KernelInterface interface;
          interface.name = "eth0";
          interface.has_default_route = true;
          return nic::PlanDevice(SpecOf(c), &interface, 0,
                                 c.force_default_route())
              .ok();
        }}},
      {"rate_bps",
       {"200000000",
        [](const auto& c) {
          return MakeEngineOptions(c).core.rate_bps == 200'000'000;
        }}},
      {"burst_bytes",
       {"20000",
        [](const auto& c) {
          return MakeEngineOptions(c).core.burst_bytes == 20'000;
        }}},
      {"udp_port_first",
       {"50000", [](const auto& c) { return PortOf(c).first_port == 50'000; }}},
      {"udp_port_count",
       {"5", [](const auto& c) { return PortOf(c).num_ports == 5; }}},
      {"engine_core",
       {"0",
        [](const auto& c) { return MakeEngineOptions(c).dedicated_core; }}},
      {"hugepages",
       {"off",
        [](const auto& c) {
          return MakeEalConfig(c, SpecOf(c)).pages == nic::PageMode::kSmall &&
                 HugePagesOf(c) == shm::HugePages::kOff;
        }}},
      {"memory_mb",
       {"128",
        [](const auto& c) {
          return MakeEalConfig(c, SpecOf(c)).memory_mb == 128;
        }}},
      {"socket",
       {"/tmp/s",
        [](const auto& c) { return MakeListenOptions(c).path == "/tmp/s"; }}},
      {"socket_mode",
       {"0600",
        [](const auto& c) { return MakeListenOptions(c).mode == 0600; }}},
      {"socket_group",
       {"staff",
        [](const auto& c) { return MakeListenOptions(c).group == "staff"; }}},
      {"allowed_uid",
       {"5,6",
        [](const auto& c) {
          return MakeServerOptions(c).policy.allowed_uids ==
                 std::vector<uid_t>{5, 6};
        }}},
      {"allowed_gid",
       {"7",
        [](const auto& c) {
          return MakeServerOptions(c).policy.allowed_gids ==
                 std::vector<gid_t>{7};
        }}},
      {"max_sessions",
       {"3",
        [](const auto& c) {
          return MakeServerOptions(c).max_connections < 70;
        }}},
      {"group_result_bound_us",
       {"50000",
        [](const auto& c) {
          return GroupOf(c).result_bound == Duration::Millis(50) &&
                 GroupOf(c).stage1_bound == Duration::Millis(30);
        }}},
      {"group_stage1_bound_us",
       {"20000",
        [](const auto& c) {
          return GroupOf(c).stage1_bound == Duration::Millis(20);
        }}},
      {"group_early_wait_us",
       {"1000",
        [](const auto& c) {
          return GroupOf(c).early_wait == Duration::Millis(1);
        }}},
      {"group_adaptive_bounds",
       {"false", [](const auto& c) { return !GroupOf(c).adaptive_bounds; }}},
      {"group_slowest_rate_bps",
       {"1000000",
        [](const auto& c) {
          return GroupOf(c).slowest_rate_bps == 1'000'000;
        }}},
      {"group_hard_limit_us",
       {"1000000",
        [](const auto& c) {
          return GroupOf(c).hard_limit == Duration::Seconds(1);
        }}},
      {"group_window",
       {"8", [](const auto& c) { return GroupOf(c).window == 8; }}},
      {"group_quorum_permille",
       {"500",
        [](const auto& c) { return GroupOf(c).quorum_permille == 500; }}},
      {"group_memory_mb",
       {"64",
        [](const auto& c) {
          return GroupOf(c).memory_budget == size_t{64} << 20;
        }}},
      {"group_owed_mb",
       {"32",
        [](const auto& c) {
          return GroupOf(c).ledger_budget == size_t{32} << 20;
        }}},
      {"group_fill",
       {"own",
        [](const auto& c) {
          return GroupOf(c).fill == core::FillPolicy::kOwn;
        }}},
      {"group_formation_limit_us",
       {"2000000",
        [](const auto& c) {
          return GroupOf(c).formation_limit == Duration::Seconds(2);
        }}},
      {"group_heartbeat_us",
       {"50000",
        [](const auto& c) {
          return GroupOf(c).heartbeat == Duration::Millis(50);
        }}},
      {"group_suspect_after_us",
       {"200000",
        [](const auto& c) {
          return GroupOf(c).suspect_after == Duration::Millis(200);
        }}},
      {"group_dead_after_us",
       {"1000000",
        [](const auto& c) {
          return GroupOf(c).dead_after == Duration::Seconds(1);
        }}},
  };
  return cases;
}

// dispatcher_test has these: the tables use them as they are.
const std::vector<std::string> kQuotas = {
    "max_sessions_per_user", "max_groups_per_session", "max_segment_mb",
    "max_total_segment_mb", "max_total_group_mb"};

// G13.
TEST(DaemonOptionsTest, EveryKeyHasItsEffect) {
  for (const std::string& key : ConfigKeys()) {
    if (std::find(kQuotas.begin(), kQuotas.end(), key) != kQuotas.end()) {
      continue;
    }
    SCOPED_TRACE(key);
    const auto it = Cases().find(key);
    ASSERT_NE(it, Cases().end()) << "say here what the key does";
    EXPECT_FALSE(it->second.effect(With("", "")));
    EXPECT_TRUE(it->second.effect(With(key, it->second.value)));
  }
}

// G02, of the port.
TEST(DaemonOptionsTest, AnMtuBeyondTheInterfacesIsRefused) {
  nic::KernelInterface interface;
  interface.name = "eth0";
  interface.mtu = 1500;
  EXPECT_EQ(MakePortConfig(With("mtu", "1500"), interface, {})->mtu, 1500);
  const auto refused = MakePortConfig(With("mtu", "1501"), interface, {});
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("1501 is above that of eth0, which is 1500"));
  // A device of its own takes what it is told, or says no by itself.
  EXPECT_EQ(MakePortConfig(With("mtu", "9000"), std::nullopt, {})->mtu, 9000);
  EXPECT_EQ(MakePortConfig(With("", ""), std::nullopt, {})->mtu, 1500);
}

// ---- group settings ---------------------------------------------------------

TEST(ResolveSettingsTest, WishesOutweighDefaults) {
  GroupSettings wishes;
  wishes.set_result_bound_us(10'000);
  wishes.set_stage1_bound_us(7'000);
  wishes.set_early_wait_us(500);
  wishes.set_adaptive_bounds(true);
  wishes.set_slowest_rate_bps(1'000'000'000);
  wishes.set_hard_limit_us(2'000'000);
  wishes.set_window(3);
  wishes.set_quorum_permille(1000);
  wishes.set_memory_budget_bytes(5 << 20);
  wishes.set_owed_budget_bytes(6 << 20);
  wishes.set_fill(FILL_OWN);
  wishes.set_mtu(1000);
  wishes.set_formation_limit_us(3'000'000);
  wishes.set_heartbeat_us(10'000);
  wishes.set_suspect_after_us(20'000);
  wishes.set_dead_after_us(30'000);
  const auto resolved = ResolveSettings(With("", ""), 1500, wishes);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->SerializeAsString(), wishes.SerializeAsString());
  const core::GroupConfig group = ToGroupConfig(*resolved);
  EXPECT_EQ(group.result_bound, Duration::Millis(10));
  EXPECT_EQ(group.stage1_bound, Duration::Millis(7));
  EXPECT_EQ(group.early_wait, Duration::Micros(500));
  EXPECT_TRUE(group.adaptive_bounds);
  EXPECT_EQ(group.slowest_rate_bps, 1'000'000'000u);
  EXPECT_EQ(group.hard_limit, Duration::Seconds(2));
  EXPECT_EQ(group.window, 3u);
  EXPECT_EQ(group.quorum_permille, 1000u);
  EXPECT_EQ(group.memory_budget, size_t{5} << 20);
  EXPECT_EQ(group.ledger_budget, size_t{6} << 20);
  EXPECT_EQ(group.fill, core::FillPolicy::kOwn);
  EXPECT_EQ(group.formation_limit, Duration::Seconds(3));
  EXPECT_EQ(group.heartbeat, Duration::Millis(10));
  EXPECT_EQ(group.suspect_after, Duration::Millis(20));
  EXPECT_EQ(group.dead_after, Duration::Millis(30));
}

// Or a client's short deadline would be refused for a long configured stage 1.
TEST(ResolveSettingsTest, ABoundOfTheClientsBringsItsOwnShareForStage1) {
  GroupSettings wishes;
  wishes.set_result_bound_us(10'000);
  const auto resolved =
      ResolveSettings(With("group_stage1_bound_us", "90000"), 1500, wishes);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->stage1_bound_us(), 6'000u);
}

TEST(ResolveSettingsTest, ABoundOfTheClientsHoldsForEveryOp) {
  const auto adaptive = With("", "");
  EXPECT_TRUE(ResolveSettings(adaptive, 1500, {})->adaptive_bounds());
  GroupSettings wishes;
  wishes.set_result_bound_us(10'000);
  EXPECT_FALSE(ResolveSettings(adaptive, 1500, wishes)->adaptive_bounds());
  wishes.clear_result_bound_us();
  wishes.set_stage1_bound_us(10'000);
  EXPECT_FALSE(ResolveSettings(adaptive, 1500, wishes)->adaptive_bounds());
}

// Then it is the most there is for ops of any size, too.
TEST(ResolveSettingsTest, ABoundOfTheClientsThatAdaptsIsNotStretched) {
  GroupSettings wishes;
  EXPECT_GT(ResolveSettings(With("", ""), 1500, wishes)->slowest_rate_bps(),
            0u);
  wishes.set_result_bound_us(10'000);
  wishes.set_adaptive_bounds(true);
  EXPECT_EQ(ResolveSettings(With("", ""), 1500, wishes)->slowest_rate_bps(),
            0u);
}

}  // namespace
}  // namespace optireduce::control
