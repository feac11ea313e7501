#include "control/config_loader.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"

namespace optireduce::control {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const char kGood[] = "port: \"af_packet:eth0\"\naddress: \"10.0.0.1/24\"\n";

absl::StatusOr<LoadedConfig> Load(
    const std::string& text, std::vector<std::string> environment = {},
    std::vector<std::pair<std::string, std::string>> flags = {}) {
  return LoadConfig({.file_name = "daemon.conf",
                     .file_text = text,
                     .environment = std::move(environment),
                     .flags = std::move(flags)});
}

std::string ErrorOf(
    const std::string& lines, std::vector<std::string> environment = {},
    std::vector<std::pair<std::string, std::string>> flags = {}) {
  const auto loaded =
      Load(kGood + lines, std::move(environment), std::move(flags));
  EXPECT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(loaded.status().message());
}

EffectiveValue EffectiveOf(const LoadedConfig& config, const std::string& key) {
  for (const EffectiveValue& value : config.Effective()) {
    if (value.key == key) return value;
  }
  ADD_FAILURE() << "no key " << key;
  return {};
}

TEST(ConfigLoaderTest, AFileIsEnough) {
  const auto loaded = Load(kGood);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->values().port(), "af_packet:eth0");
  EXPECT_EQ(loaded->values().group_window(), 16u);
  EXPECT_EQ(loaded->values().socket(), "/run/optireduce/control.sock");
}

TEST(ConfigLoaderTest, WhatMustBeSaidIsMissed) {
  EXPECT_THAT(std::string(Load("").status().message()),
              HasSubstr("port is not set"));
  EXPECT_THAT(std::string(Load("port: \"af_packet:eth0\"").status().message()),
              HasSubstr("address is not set"));
}

TEST(ConfigLoaderTest, FlagsOutweighVariablesOutweighTheFile) {
  const std::string file = std::string(kGood) + "mtu: 1000\n";
  auto loaded = Load(file);
  ASSERT_TRUE(loaded.ok());
  EffectiveValue value = EffectiveOf(*loaded, "mtu");
  EXPECT_EQ(value.value, "1000");
  EXPECT_EQ(value.origin, Origin::kFile);
  EXPECT_EQ(value.where, "daemon.conf:3");

  loaded = Load(file, {"PATH=/bin", "OPTIREDUCE_MTU=1100"});
  ASSERT_TRUE(loaded.ok());
  value = EffectiveOf(*loaded, "mtu");
  EXPECT_EQ(value.value, "1100");
  EXPECT_EQ(value.origin, Origin::kEnvironment);
  EXPECT_EQ(value.where, "OPTIREDUCE_MTU");

  loaded = Load(file, {"OPTIREDUCE_MTU=1100"}, {{"mtu", "9"}, {"mtu", "1200"}});
  ASSERT_TRUE(loaded.ok());
  value = EffectiveOf(*loaded, "mtu");
  EXPECT_EQ(value.value, "1200");
  EXPECT_EQ(value.origin, Origin::kFlag);
  EXPECT_EQ(value.where, "--mtu");
  EXPECT_EQ(loaded->values().mtu(), 1200u);

  value = EffectiveOf(*loaded, "rate_bps");
  EXPECT_EQ(value.origin, Origin::kDefault);
  EXPECT_EQ(value.where, "");
}

TEST(ConfigLoaderTest, TheTrainersVariableIsPassedOver) {
  EXPECT_TRUE(
      Load(kGood, {"OPTIREDUCE_LIBRARY=/x.so", "OPTIREDUCE_MTU=1100"}).ok());
}

// G01.
TEST(ConfigLoaderTest, UnknownNamesAreErrorsWithASuggestion) {
  EXPECT_THAT(ErrorOf("hugepges: \"on\"\n"),
              AllOf(HasSubstr("daemon.conf:3"), HasSubstr("\"hugepges\""),
                    HasSubstr("did you mean \"hugepages\"?")));
  EXPECT_THAT(ErrorOf("", {"OPTIREDUCE_MEMRY_MB=64"}),
              AllOf(HasSubstr("\"OPTIREDUCE_MEMRY_MB\""),
                    HasSubstr("did you mean \"OPTIREDUCE_MEMORY_MB\"?")));
  EXPECT_THAT(ErrorOf("", {}, {{"memry_mb", "64"}}),
              AllOf(HasSubstr("\"--memry_mb\""),
                    HasSubstr("did you mean \"--memory_mb\"?")));
  EXPECT_THAT(ErrorOf("\n\nqwertyuiop: 1\n"),
              AllOf(HasSubstr("daemon.conf:5"), Not(HasSubstr("did you"))));
  // Names are names: another case is another word, and case is a slip.
  EXPECT_THAT(ErrorOf("MTU: 1500\n"), HasSubstr("did you mean \"mtu\"?"));
}

TEST(ConfigLoaderTest, OtherPeoplesVariablesAreNobodysBusiness) {
  EXPECT_TRUE(Load(kGood, {"HOME=/", "OPTIREDUC_MTU=1", "X"}).ok());
}

TEST(ConfigLoaderTest, ValuesOfTheWrongTypeAreRefused) {
  EXPECT_THAT(ErrorOf("mtu: \"1500\"\n"),
              AllOf(HasSubstr("daemon.conf:3"), HasSubstr("mtu"),
                    HasSubstr("a number from 576 to 9216, or 0")));
  EXPECT_THAT(ErrorOf("mtu: -1\n"), HasSubstr("daemon.conf:3"));
  EXPECT_THAT(ErrorOf("mtu: 4294967296\n"), HasSubstr("daemon.conf:3"));
  EXPECT_THAT(ErrorOf("mtu: 1500.5\n"), HasSubstr("daemon.conf:3"));
  EXPECT_THAT(ErrorOf("socket: 5\n"), HasSubstr("socket"));
  EXPECT_THAT(ErrorOf("mtu 1500\n"), HasSubstr("daemon.conf:3"));
  EXPECT_THAT(ErrorOf("mtu: 1500 mtu: 1400\n"), HasSubstr("daemon.conf:3"));
  for (const char* bad : {"", " 1500", "1500 ", "0x5DC", "1e3", "+1500",
                          "-1500", "4294967296", "1500,1500", "one"}) {
    EXPECT_THAT(
        ErrorOf("", {std::string("OPTIREDUCE_MTU=") + bad}),
        AllOf(HasSubstr("OPTIREDUCE_MTU"), HasSubstr("a number from 576")))
        << bad;
    EXPECT_THAT(ErrorOf("", {}, {{"mtu", bad}}), HasSubstr("--mtu")) << bad;
  }
}

// G12.
TEST(ConfigLoaderTest, BooleansAreTrueOrFalse) {
  const char* key = "force_default_route";
  for (const bool value : {true, false}) {
    const std::string text = value ? "true" : "false";
    EXPECT_EQ(Load(kGood, {}, {{key, text}})->values().force_default_route(),
              value);
    EXPECT_EQ(Load(std::string(kGood) + key + ": " + text)
                  ->values()
                  .force_default_route(),
              value);
  }
  for (const char* bad : {"maybe", "", "TRUE", "yes", "2", "no", "on", "1"}) {
    EXPECT_THAT(ErrorOf("", {}, {{key, bad}}), HasSubstr("true or false"))
        << bad;
  }
  EXPECT_THAT(ErrorOf("force_default_route: maybe\nmtu: 1500\n"),
              AllOf(HasSubstr("daemon.conf:3: "), HasSubstr("true or false")));
  EXPECT_THAT(ErrorOf("force_default_route:\n"), HasSubstr("daemon.conf"));
  EXPECT_THAT(ErrorOf("force_default_route: \"false\"\n"),
              HasSubstr("true or false"));
}

// G11.
TEST(ConfigLoaderTest, NamesAreNeverTakenForOthers) {
  EXPECT_THAT(ErrorOf("group_fill: \"Zero\"\n"),
              AllOf(HasSubstr("daemon.conf:3"), HasSubstr("one of zero, own"),
                    HasSubstr("did you mean \"zero\"?")));
  EXPECT_THAT(ErrorOf("group_fill: \"previous\"\n"),
              HasSubstr("one of zero, own"));
  EXPECT_THAT(ErrorOf("hugepages: \"\"\n"), HasSubstr("one of auto, on, off"));
  EXPECT_THAT(ErrorOf("port: \"afpacket:eth0\"\n"), HasSubstr("daemon.conf"));
  EXPECT_THAT(ErrorOf("socket_mode: \"0666\"\n"),
              HasSubstr("one of 0660, 0600"));
}

TEST(ConfigLoaderTest, RangesAreChecked) {
  EXPECT_TRUE(Load(std::string(kGood) + "group_window: 256").ok());
  EXPECT_TRUE(Load(std::string(kGood) + "mtu: 0").ok());
  EXPECT_THAT(ErrorOf("group_window: 257\n"),
              AllOf(HasSubstr("daemon.conf:3"), HasSubstr("\"257\""),
                    HasSubstr("a number from 1 to 256")));
  EXPECT_THAT(ErrorOf("group_window: 0\n"), HasSubstr("daemon.conf:3"));
  EXPECT_THAT(ErrorOf("", {"OPTIREDUCE_MTU=575"}),
              HasSubstr("OPTIREDUCE_MTU: mtu"));
  EXPECT_THAT(ErrorOf("", {}, {{"mtu", "9217"}}), HasSubstr("--mtu: mtu"));
}

TEST(ConfigLoaderTest, ListsFromAnywhere) {
  const std::string file =
      std::string(kGood) + "allowed_uid: 5\nallowed_uid: [6, 7]\n";
  auto loaded = Load(file);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(EffectiveOf(*loaded, "allowed_uid").value, "5,6,7");
  EXPECT_EQ(EffectiveOf(*loaded, "allowed_uid").where, "daemon.conf:3");
  // A flag replaces the list.
  loaded = Load(file, {}, {{"allowed_uid", "8,9"}});
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->values().allowed_uid_size(), 2);
  loaded = Load(file, {}, {{"allowed_uid", ""}});
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->values().allowed_uid_size(), 0);
  EXPECT_THAT(ErrorOf("", {}, {{"allowed_uid", "8,,9"}}),
              HasSubstr("a list of numbers"));
}

TEST(ConfigLoaderTest, AddressesAreHostsAddresses) {
  const auto with = [](const std::string& address) {
    return std::string(
        Load("port: \"af_packet:eth0\" address: \"" + address + "\"")
            .status()
            .message());
  };
  EXPECT_EQ(with("10.0.0.1/24"), "");
  EXPECT_EQ(with("10.0.0.0/31"), "");
  EXPECT_THAT(with("127.0.0.1/8"), HasSubstr("loopback"));
  EXPECT_THAT(with("10.0.0.1"), HasSubstr("with its prefix"));
  EXPECT_THAT(with("10.0.0.1/33"), HasSubstr("with its prefix"));
  EXPECT_THAT(with("10.0.0.1/0"), HasSubstr("with its prefix"));
  EXPECT_THAT(with("10.0.0/24"), HasSubstr("with its prefix"));
  EXPECT_THAT(with("224.0.0.1/24"), HasSubstr("not a host's"));
  EXPECT_THAT(with("0.0.0.0/24"), HasSubstr("not a host's"));
  EXPECT_THAT(with("10.0.0.0/24"), HasSubstr("not a host's"));
  EXPECT_THAT(with("10.0.0.255/24"), HasSubstr("not a host's"));
}

TEST(ConfigLoaderTest, KeysMustGoTogether) {
  EXPECT_THAT(ErrorOf("gateway: \"10.0.1.1\"\n"), HasSubstr("10.0.0.1/24"));
  EXPECT_THAT(ErrorOf("gateway: \"10.0.0.1\"\n"), HasSubstr("gateway"));
  EXPECT_TRUE(Load(std::string(kGood) + "gateway: \"10.0.0.254\"").ok());
  EXPECT_THAT(ErrorOf("static_neighbour: \"10.0.0.2\"\n"),
              HasSubstr("static_neighbour"));
  EXPECT_THAT(ErrorOf("udp_port_first: 65000 udp_port_count: 1000\n"),
              HasSubstr("65535"));
  EXPECT_THAT(ErrorOf("engine_core: \"first\"\n"), HasSubstr("engine_core"));
  EXPECT_THAT(ErrorOf("socket: \"run.sock\"\n"), HasSubstr("absolute"));
  EXPECT_THAT(ErrorOf("group_stage1_bound_us: 200000\n"),
              AllOf(HasSubstr("group_stage1_bound_us (200000)"),
                    HasSubstr("group_result_bound_us (100000)")));
  EXPECT_THAT(ErrorOf("group_hard_limit_us: 50000\n"),
              HasSubstr("group_hard_limit_us"));
  EXPECT_THAT(ErrorOf("group_suspect_after_us: 9000000\n"),
              HasSubstr("group_dead_after_us"));
  EXPECT_THAT(ErrorOf("group_heartbeat_us: 400000\n"),
              HasSubstr("group_suspect_after_us"));
  EXPECT_THAT(ErrorOf("max_segment_mb: 20000\n"),
              HasSubstr("max_total_segment_mb"));
  EXPECT_THAT(ErrorOf("group_memory_mb: 20000\n"),
              HasSubstr("max_total_group_mb"));
  EXPECT_THAT(ErrorOf("group_memory_mb: 10000 group_owed_mb: 6385\n"),
              AllOf(HasSubstr("group_owed_mb (16385)"),
                    HasSubstr("max_total_group_mb (16384)")));
}

// G13, the part of the loader: each key, changed alone, shows.
TEST(ConfigLoaderTest, EveryKeyCanBeSetFromEverywhere) {
  const std::map<std::string, std::string> others = {
      {"port", "memif:/run/a.sock,id=0,role=server"},
      {"address", "10.0.0.9/25"},
      {"gateway", "10.0.0.254"},
      {"static_neighbour", "10.0.0.2=02:00:00:00:00:02"},
      {"force_default_route", "true"},
      {"mtu", "9000"},
      {"rate_bps", "200000000"},
      {"engine_core", "1"},
      {"hugepages", "off"},
      {"socket", "/tmp/s"},
      {"socket_mode", "0600"},
      {"socket_group", "optireduce"},
      {"allowed_uid", "1000,1001"},
      {"allowed_gid", "1000"},
      {"group_stage1_bound_us", "50000"},
      {"group_early_wait_us", "5000"},
      {"group_fill", "own"},
      {"group_adaptive_bounds", "false"},
  };
  const auto defaults = Load(kGood);
  ASSERT_TRUE(defaults.ok());
  for (const std::string& key : ConfigKeys()) {
    const EffectiveValue before = EffectiveOf(*defaults, key);
    const auto other = others.find(key);
    // Any other number will do for the rest.
    const std::string value =
        other != others.end() ? other->second
                              : std::to_string(std::stoull(before.value) - 1);
    ASSERT_NE(value, before.value) << key;
    std::string variable = "OPTIREDUCE_" + key;
    for (char& c : variable) c = static_cast<char>(toupper(c));

    const auto by_flag = Load(kGood, {}, {{key, value}});
    ASSERT_TRUE(by_flag.ok()) << by_flag.status();
    EXPECT_EQ(EffectiveOf(*by_flag, key).value, value);
    EXPECT_EQ(EffectiveOf(*by_flag, key).origin, Origin::kFlag);
    const auto by_variable = Load(kGood, {absl::StrCat(variable, "=", value)});
    ASSERT_TRUE(by_variable.ok()) << by_variable.status();
    EXPECT_EQ(EffectiveOf(*by_variable, key).value, value);
    EXPECT_EQ(EffectiveOf(*by_variable, key).origin, Origin::kEnvironment);
    // And nothing else does.
    for (const EffectiveValue& rest : by_flag->Effective()) {
      if (rest.key == key) continue;
      EXPECT_EQ(rest.value, EffectiveOf(*defaults, rest.key).value) << key;
    }
  }
}

TEST(ConfigLoaderTest, TheSchemaDescribesItself) {
  std::set<std::string> seen;
  for (const std::string& key : ConfigKeys()) {
    EXPECT_TRUE(seen.insert(key).second);
    const std::string text = DescribeKey(key);
    EXPECT_GT(text.size(), 20u) << key;
    const auto* field =
        config::DaemonConfig::descriptor()->FindFieldByName(key);
    const bool number =
        field->cpp_type() ==
            google::protobuf::FieldDescriptor::CPPTYPE_UINT32 ||
        field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_UINT64;
    if (number && !field->is_repeated()) {
      EXPECT_TRUE(field->options().HasExtension(config::range)) << key;
    }
  }
}

TEST(ConfigLoaderTest, NoFileIsFine) {
  ConfigSources sources;
  sources.flags = {{"port", "af_packet:eth0"}, {"address", "10.0.0.1/24"}};
  const auto loaded = LoadConfig(sources);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
}

TEST(ConfigLoaderTest, HostileTextIsAnErrorAndNoMore) {
  for (const std::string& text :
       {std::string("\0\0\0", 3), std::string("{{{{"), std::string("\xff\xfe"),
        std::string(100'000, '{'), std::string("mtu: "),
        std::string("[optireduce.config.help]: 1"), std::string("\"")}) {
    EXPECT_FALSE(Load(kGood + text).ok());
  }
}

}  // namespace
}  // namespace optireduce::control
