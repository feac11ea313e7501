#include "dataplane/sim/baseline/command.h"

#include <string>
#include <vector>

#include "dataplane/sim/baseline/background.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace optireduce::sim::baseline {
namespace {

std::string ErrorOf(const std::vector<std::string>& arguments) {
  const auto command = ParseCommand(arguments);
  return command.ok() ? "" : std::string(command.status().message());
}

TEST(BaselineCommand, ReadsEverything) {
  const auto command =
      ParseCommand({"--algorithm", "ring,ours", "--hosts=4", "--bytes=4096",
                    "--rate=0.2", "--mtu=9000", "--ops=7", "--seed=3",
                    "--background", "2:100-200:5000-15000", "--json"});
  ASSERT_TRUE(command.ok()) << command.status().ToString();
  EXPECT_EQ(command->algorithms, (std::vector<std::string>{"ring", "ours"}));
  EXPECT_EQ(command->spec.hosts, 4u);
  EXPECT_EQ(command->spec.bytes, 4096u);
  EXPECT_EQ(command->spec.rate_bps, 200'000'000u);
  EXPECT_EQ(command->spec.mtu, 9000u);
  EXPECT_EQ(command->spec.ops, 7u);
  EXPECT_EQ(command->spec.seed, 3u);
  EXPECT_TRUE(command->json);
  const BackgroundSpec& background = command->spec.background;
  EXPECT_EQ(background.flows, 2u);
  EXPECT_EQ(background.shortest_pause, Duration::Micros(100));
  EXPECT_EQ(background.longest_pause, Duration::Micros(200));
  EXPECT_EQ(background.shortest_burst, Duration::Millis(5));
  EXPECT_EQ(background.longest_burst, Duration::Millis(15));
  EXPECT_DOUBLE_EQ(background.OfferedLoad(), 20.0 / 20.3);
}

TEST(BaselineCommand, HasTheDefaultsOfTheExperiments) {
  const auto command = ParseCommand({"--algorithm", "nccl_like"});
  ASSERT_TRUE(command.ok());
  EXPECT_EQ(command->spec.hosts, 8u);
  EXPECT_EQ(command->spec.bytes, 25u << 20);
  EXPECT_EQ(command->spec.rate_bps, 10'000'000'000u);
  EXPECT_EQ(command->spec.background.flows, 0u);
}

TEST(BaselineCommand, KnowsThePresets) {
  for (const char* name : {"tail15", "tail30"}) {
    const auto command =
        ParseCommand({"--algorithm=ring", "--background", name});
    ASSERT_TRUE(command.ok()) << name;
    EXPECT_EQ(command->spec.background.name, name);
  }
  // As docs/EXPERIMENTS.md publishes them.
  const auto tail15 = FindBackground("tail15");
  ASSERT_TRUE(tail15);
  EXPECT_EQ(tail15->flows, 1u);
  EXPECT_NEAR(tail15->OfferedLoad(), 0.167, 0.001);
  const auto tail30 = FindBackground("tail30");
  ASSERT_TRUE(tail30);
  EXPECT_EQ(tail30->flows, 5u);
  EXPECT_NEAR(tail30->OfferedLoad(), 0.143, 0.001);
}

TEST(BaselineCommand, NamesWhatIsWrong) {
  EXPECT_EQ(ErrorOf({}), "--algorithm is needed");
  EXPECT_EQ(ErrorOf({"--algorithm=star"}), "unknown algorithm star");
  EXPECT_EQ(ErrorOf({"--algorithm=ring", "word"}), "baseline takes flags only");
  EXPECT_EQ(ErrorOf({"--algorithm=ring", "--hosts=1"}), "--hosts: 2 to 1024");
  EXPECT_EQ(ErrorOf({"--algorithm=ring", "--bytes=5"}),
            "--bytes: a multiple of 4 up to 4 GiB");
  EXPECT_EQ(ErrorOf({"--algorithm=ring", "--rate=0"}),
            "--rate: 0.001 to 400 Gb/s");
  EXPECT_EQ(ErrorOf({"--algorithm=ring", "--mtu=100"}), "--mtu: 576 to 9000");
  EXPECT_EQ(ErrorOf({"--algorithm=ring", "--ops=0"}), "--ops: 1 to 10^6");
  for (const char* background :
       {"storm", "0:1-2:1-2", "1:2-1:1-2", "1:1-2", "1:0-2:1-2", "1:1-2:x-2"}) {
    EXPECT_EQ(ErrorOf({"--algorithm=ring", "--background", background}),
              "unknown background")
        << background;
  }
}

TEST(BaselineCommand, PrintsARowForEachAlgorithm) {
  const auto command =
      ParseCommand({"--algorithm=ring,tree,nccl_like,ours", "--hosts=4",
                    "--bytes=400000", "--ops=3", "--json"});
  ASSERT_TRUE(command.ok());
  const auto text = RunCommand(*command);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  const auto json = nlohmann::json::parse(*text);
  ASSERT_EQ(json["rows"].size(), 4u);
  EXPECT_EQ(json["hosts"], 4);
  const auto& rows = json["rows"];
  EXPECT_EQ(rows[0]["algorithm"], "ring");
  EXPECT_EQ(rows[3]["algorithm"], "ours");
  EXPECT_GT(rows[0]["mean_us"].get<double>(), 400);
  EXPECT_EQ(rows[2]["algorithm"], "nccl_like");
  EXPECT_EQ(rows[2]["mean_us"].get<double>(),
            std::min(rows[0]["mean_us"].get<double>(),
                     rows[1]["mean_us"].get<double>()));

  Command table = *command;
  table.json = false;
  const auto lines = RunCommand(table);
  ASSERT_TRUE(lines.ok());
  EXPECT_NE(lines->find("p99/p50"), std::string::npos);
  EXPECT_NE(lines->find("\nours"), std::string::npos);
}

}  // namespace
}  // namespace optireduce::sim::baseline
