#include "dataplane/sim/scenario_json.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dataplane/sim/simulation.h"
#include "gtest/gtest.h"

namespace optireduce::sim {
namespace {

nlohmann::json OutcomeOf(const std::string& text) {
  const auto scenario = ScenarioFromJson(text);
  EXPECT_TRUE(scenario.ok()) << scenario.status().ToString();
  if (!scenario.ok()) return {};
  RunOptions options;
  options.keep_outputs = true;
  return nlohmann::json::parse(
      OutcomeToJson(*scenario, RunScenario(*scenario, options)));
}

std::string Error(const std::string& text) {
  return std::string(ScenarioFromJson(text).status().message());
}

TEST(ScenarioJsonTest, TheMeanOfTwoRanks) {
  const auto out = OutcomeOf(R"({
    "world": 2, "count": 5, "op": "avg", "inputs": [[1.0], ["40400000"]]})");
  EXPECT_EQ(out["ok"], true);
  ASSERT_EQ(out["ranks"].size(), 2u);
  for (const auto& rank : out["ranks"]) {
    EXPECT_EQ(rank["ops"][0]["status"], "complete");
    EXPECT_EQ(rank["ops"][0]["values"],
              (std::vector<std::string>(5, "40000000")));
  }
}

TEST(ScenarioJsonTest, NamedFaultsStrikeWhatTheyName) {
  const auto out = OutcomeOf(R"({
    "world": 4, "count": 4000, "op": "avg", "inputs": "rank_plus",
    "group": {"early_wait_us": 1000},
    "faults": [{"op": 0, "stage": 2, "source": 3, "destination": 1,
                "action": "drop", "repairs": true}]})");
  EXPECT_EQ(out["ok"], true);
  EXPECT_EQ(out["ranks"][1]["ops"][0]["status"], "partial");
  EXPECT_EQ(out["ranks"][1]["ops"][0]["stage2_loss"], 0.25);
  EXPECT_EQ(out["ranks"][1]["ops"][0]["missing"], std::vector<int>{3});
  EXPECT_EQ(out["ranks"][0]["ops"][0]["status"], "complete");
  EXPECT_GT(out["injected"]["scripted"], 0);
}

TEST(ScenarioJsonTest, OpsTakeWhatStandsAtTheTopUnlessTheySayOtherwise) {
  const auto out = OutcomeOf(R"({
    "world": 3, "hosts": 2, "count": 10, "dtype": "int32", "mode": "exact",
    "first_op": 4294967295, "clock_start_ns": [5, 7000000000],
    "link": {"rate_bps": 1000000000, "delay_us": 10.5},
    "ops": [{}, {"dtype": "float16", "mode": "bounded"},
            {"collective": "broadcast", "root": 2},
            {"op": "avg"},
            {"submit_us": [0, 500, 100.5]}]})");
  EXPECT_EQ(out["ok"], true);
  EXPECT_EQ(out["hosts"].size(), 2u);
  const auto& ops = out["ranks"][1]["ops"];
  EXPECT_EQ(ops[0]["op_seq"], 4294967295u);
  EXPECT_EQ(ops[0]["values"][0].dump().size(), 8u + 2);
  EXPECT_EQ(ops[1]["op_seq"], 0u);
  EXPECT_EQ(ops[1]["values"][0].dump().size(), 4u + 2);
  EXPECT_EQ(ops[2]["status"], "complete");
  EXPECT_EQ(ops[3]["submit"], "unsupported");
  EXPECT_EQ(ops[4]["op_seq"], 2u);
}

TEST(ScenarioJsonTest, TheSameFileGivesTheSameTrace) {
  const std::string text = R"({
    "world": 5, "count": 3000, "mode": "exact", "ops": 4, "seed": 77,
    "random": {"loss": 0.05, "burst_start": 0.01, "duplicate": 0.05,
               "reorder": 0.1, "corrupt": 0.02, "old_epoch": 0.02,
               "stale": 0.02, "forged": 0.05, "invented": 0.05,
               "tail_permille": 100, "end_us": 100000},
    "partitions": [{"from_host": 0, "to_host": 1, "begin_us": 900,
                    "end_us": 2000}],
    "stalls": [{"host": 2, "begin_us": 700, "end_us": 1500}],
    "background": [{"host": 3, "end_us": 5000}],
    "rate_changes": [{"host": 1, "at_us": 800, "rate_bps": 1000000000}],
    "group": {"adaptive_bounds": false, "least_bound_us": 500}})";
  const auto out = OutcomeOf(text);
  EXPECT_EQ(out["ok"], true) << out["violations"];
  EXPECT_EQ(out, OutcomeOf(text));
  EXPECT_GT(out["injected"]["loss"], 0);
}

TEST(ScenarioJsonTest, AWindowWithoutAnEndIsOpen) {
  const auto scenario = ScenarioFromJson(R"({
    "world": 2, "stalls": [{"host": 1, "begin_us": 700}]})");
  ASSERT_TRUE(scenario.ok()) << scenario.status().ToString();
  ASSERT_EQ(scenario->stalls.size(), 1u);
  const Window& window = scenario->stalls[0].window;
  EXPECT_EQ(window.begin, Timestamp() + Duration::Micros(700));
  EXPECT_EQ(window.end, Timestamp::Never());
}

TEST(ScenarioJsonTest, TimesAreRoundedToTheNearestNanosecond) {
  const auto scenario = ScenarioFromJson(R"({
    "world": 3, "ops": [{"soft_limit_us": -1.5,
                         "submit_us": [0.0014, 0.0016, -0.0016]}]})");
  ASSERT_TRUE(scenario.ok()) << scenario.status().ToString();
  const auto& op = scenario->groups[0].ops[0];
  EXPECT_EQ(op.descriptor.soft_limit, Duration::Nanos(-1500));
  const std::vector<Duration> submits = {Duration::Nanos(1), Duration::Nanos(2),
                                         Duration::Nanos(-2)};
  EXPECT_EQ(op.submit_after, submits);
}

TEST(ScenarioJsonTest, ErrorsNameTheKey) {
  EXPECT_EQ(Error("{"), "not JSON");
  EXPECT_EQ(Error("[]"), "scenario is not an object");
  EXPECT_EQ(Error("{}"), "scenario.world is needed");
  EXPECT_EQ(Error(R"({"world": 2000})"),
            "scenario.world is not a whole number from 1 to 1024");
  EXPECT_EQ(Error(R"({"world": 2, "cuont": 5})"),
            "scenario.cuont is not a key that is known here");
  EXPECT_EQ(Error(R"({"world": 2, "dtype": "float31"})"),
            "scenario.dtype has no value \"float31\"");
  EXPECT_EQ(Error(R"({"world": 2, "ops": [{"mode": 1}]})"),
            "scenario.ops[0].mode is not a string");
  EXPECT_EQ(Error(R"({"world": 2, "faults": [{"stage": 3}]})"),
            "scenario.faults[0].stage is not 1 or 2");
  EXPECT_EQ(Error(R"({"world": 2, "hosts": [0]})"),
            "scenario.hosts is no number, and no list of a host for each rank");
  EXPECT_EQ(Error(R"({"world": 2, "inputs": [[1]]})"),
            "scenario.inputs is no kind, and no list for each rank");
}

}  // namespace
}  // namespace optireduce::sim
