#include "control/optictl/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace optireduce::control {
namespace {

using nlohmann::json;

Reply Groups() {
  Reply reply;
  auto& group = *reply.mutable_groups()->add_groups();
  group.set_session(1);
  group.set_client("train");
  group.set_group(3);
  group.set_state("ready");
  group.set_tag(0xAB);
  group.set_world(4);
  group.set_memory_used(uint64_t{1} << 40);
  return reply;
}

TEST(RenderTest, ListsAreTables) {
  Reply reply = Groups();
  reply.mutable_groups()->add_groups()->set_client("a-longer-name");
  EXPECT_EQ(
      ToTable(reply),
      "SESSION  CLIENT         GROUP  NAME  STATE  TAG       RANK  WORLD  "
      "NEXT_OP  OPS_KEPT  MEMORY_USED    MEMORY_BUDGET  PAYLOAD_BYTES  "
      "OWED_BYTES  OWED_BUDGET  FORGIVEN_CONTRIBUTIONS  FORGIVEN_RESULTS  "
      "STEPS_JUDGED  STEPS_BAD  BAD_IN_A_ROW  LEAST_PRESENT  DIVERGENCE\n"
      "1        train          3      -     ready  000000ab  0     4      "
      "0        0         1099511627776  0              0              "
      "0           0            0                       0                 "
      "0             0          0             0              0\n"
      "0        a-longer-name  0      -     -      00000000  0     0      "
      "0        0         0              0              0              "
      "0           0            0                       0                 "
      "0             0          0             0              0\n");
}

TEST(RenderTest, OpsHaveATableOfTheirOwn) {
  Reply reply;
  reply.mutable_ops();
  EXPECT_EQ(ToTable(reply).substr(0, 9), "GROUP  OP");
}

TEST(RenderTest, AnEmptyListIsItsHeader) {
  Reply reply;
  reply.mutable_peers();
  const std::string text = ToTable(reply);
  EXPECT_EQ(text.substr(0, 14), "SESSION  GROUP");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(RenderTest, StatusIsLines) {
  Reply reply;
  reply.mutable_status()->set_version("1.2");
  reply.mutable_status()->add_notes("one");
  reply.mutable_status()->add_notes("two");
  const std::string text = ToTable(reply);
  EXPECT_THAT(text, ::testing::HasSubstr("version    1.2\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("notes      one\nnotes      two\n"));
}

TEST(RenderTest, JsonHasAllKeysAndNumbers) {
  const json groups = json::parse(ToJson(Groups()));
  const json& group = groups.at("groups").at(0);
  EXPECT_EQ(group.at("client"), "train");
  EXPECT_EQ(group.at("tag"), 0xAB);
  EXPECT_EQ(group.at("memory_used"), uint64_t{1} << 40);
  EXPECT_EQ(group.at("name"), "");
  EXPECT_EQ(group.size(), 22u);

  Reply ops;
  auto& op = *ops.mutable_ops()->add_ops();
  op.set_missing_fraction(0.25);
  op.add_missing(3);
  const json row = json::parse(ToJson(ops)).at("ops").at(0);
  EXPECT_EQ(row.at("missing_fraction"), 0.25);
  EXPECT_EQ(row.at("missing"), json::array({3}));
  // What is not set is told from 0, and what is known in parts is an object.
  EXPECT_EQ(row.at("saved_us"), nullptr);
  EXPECT_EQ(row.at("stage1"), nullptr);
  op.set_saved_us(0);
  auto& lack = *op.mutable_stage1()->add_lacking();
  lack.set_begun(true);
  op.mutable_owed()->set_debt(7);
  const json known = json::parse(ToJson(ops)).at("ops").at(0);
  EXPECT_EQ(known.at("saved_us"), 0);
  EXPECT_EQ(known.at("owed").at("debt"), 7);
  EXPECT_EQ(known.at("owed").at("skipped"), false);
  EXPECT_EQ(known.at("stage1").at("closed_us"), nullptr);
  EXPECT_EQ(known.at("stage1").at("lacking").at(0).at("begun"), true);

  Reply status;
  status.mutable_status();
  EXPECT_EQ(json::parse(ToJson(status)).at("notes"), json::array());
}

TEST(RenderTest, CountersAndKeysByName) {
  Reply stats;
  auto& counter = *stats.mutable_stats()->add_counters();
  counter.set_name("core_bad_crc");
  counter.set_value(UINT64_MAX);
  EXPECT_EQ(json::parse(ToJson(stats)).at("core_bad_crc"), UINT64_MAX);

  Reply config;
  auto& entry = *config.mutable_config()->add_entries();
  entry.set_key("mtu");
  entry.set_value("1500");
  entry.set_origin("file");
  entry.set_where("a.conf:3");
  EXPECT_EQ(
      json::parse(ToJson(config)).at("mtu"),
      json({{"value", "1500"}, {"origin", "file"}, {"where", "a.conf:3"}}));
  EXPECT_THAT(ToTable(config),
              ::testing::HasSubstr("mtu  1500   file    a.conf:3"));
}

TEST(RenderTest, EmptyAnswersAreObjects) {
  Reply reply;
  reply.mutable_groups();
  EXPECT_EQ(json::parse(ToJson(reply)).at("groups"), json::array());
  reply.mutable_stats();
  EXPECT_EQ(json::parse(ToJson(reply)), json::object());
}

}  // namespace
}  // namespace optireduce::control
