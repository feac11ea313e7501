#include "dataplane/sim/baseline/command.h"

#include <algorithm>
#include <fstream>
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

TEST(BaselineCommand, ReadsWhatOursAloneMayBeTold) {
  const auto command = ParseCommand(
      {"--algorithm=ours", "--loss=0.01", "--share-cap=0.5", "--period=2",
       "--late=10", "--jitter=0.5", "--quorum=500", "--samples=raw"});
  ASSERT_TRUE(command.ok()) << command.status().ToString();
  EXPECT_EQ(command->spec.loss, 0.01);
  EXPECT_EQ(command->spec.share_cap, 0.5);
  EXPECT_EQ(command->spec.period, 2);
  EXPECT_EQ(command->spec.late, 10);
  EXPECT_EQ(command->spec.jitter, 0.5);
  EXPECT_EQ(command->spec.quorum_permille, 500u);
  EXPECT_EQ(command->samples, "raw");
  for (const char* flag :
       {"--share-cap=0.5", "--period=2", "--incast=2", "--congestion-control",
        "--quorum=1000", "--rate-change=9:0.5", "--jobs=2"}) {
    EXPECT_EQ(
        ErrorOf({"--algorithm=ours,ring", flag}),
        "--share-cap, --congestion-control, --incast, --period, --quorum, "
        "--rate-change and --jobs go with ours alone");
  }
}

TEST(BaselineCommand, ReadsHowOursIsToSend) {
  const auto command =
      ParseCommand({"--algorithm=ours", "--congestion-control", "--incast=3",
                    "--rate-change=40.5:0.25", "--jobs=2"});
  ASSERT_TRUE(command.ok());
  EXPECT_TRUE(command->spec.congestion_control);
  EXPECT_EQ(command->spec.incast, 3u);
  EXPECT_EQ(command->spec.change_after, 40.5);
  EXPECT_EQ(command->spec.change_factor, 0.25);
  EXPECT_EQ(command->spec.jobs, 2u);
  EXPECT_EQ(ErrorOf({"--algorithm=ours", "--incast=1024"}),
            "--incast: 0 to 1023");
  EXPECT_EQ(ErrorOf({"--algorithm=ours", "--jobs=3"}), "--jobs: 1 or 2");
  for (const char* change : {"4", "4:0", "4:101", "0:2", "4:2:2", "x:2"}) {
    EXPECT_EQ(
        ErrorOf({"--algorithm=ours", std::string("--rate-change=") + change}),
        "--rate-change: AFTER:FACTOR, up to 10^6 and 0.01 to 100");
  }
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
  EXPECT_EQ(ErrorOf({"--algorithm=ring", "--rate=x"}),
            "--rate is not a number");
  EXPECT_EQ(ErrorOf({"--algorithm=ring", "--loss=1"}), "--loss: 0 to below 1");
  EXPECT_EQ(ErrorOf({"--algorithm=ours", "--share-cap=0"}),
            "--share-cap: 0.01 to 1");
  EXPECT_EQ(ErrorOf({"--algorithm=ours", "--period=-1"}),
            "--period, --late, --jitter: 0 to 1000 times the bytes' own time");
  for (const char* flag : {"--late=1", "--jitter=1"}) {
    EXPECT_EQ(ErrorOf({"--algorithm=ours", flag}),
              "--late and --jitter need --period");
  }
  EXPECT_EQ(ErrorOf({"--algorithm=ours", "--quorum=0"}),
            "--quorum: 1 to 1000 thousandths");
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

TEST(BaselineCommand, WritesALineOfSamplesForEachAlgorithm) {
  const std::string file = testing::TempDir() + "/samples";
  const auto command =
      ParseCommand({"--algorithm=ring,ours", "--hosts=4", "--bytes=400000",
                    "--ops=3", "--samples", file});
  ASSERT_TRUE(command.ok());
  ASSERT_TRUE(RunCommand(*command).ok());
  std::ifstream lines(file);
  std::string line;
  for (const char* name : {"ring", "ours"}) {
    ASSERT_TRUE(std::getline(lines, line));
    const auto json = nlohmann::json::parse(line);
    EXPECT_EQ(json["algorithm"], name);
    EXPECT_EQ(json["hosts"], 4);
    EXPECT_EQ(json["trace_hash"].get<std::string>().size(), 16u);
    ASSERT_EQ(json["took_ns"].size(), 3u);
    ASSERT_EQ(json["took_ns"][2].size(), 4u);
    EXPECT_GT(json["took_ns"][2][3].get<double>(),
              json["ideal_ns"].get<double>() * 0.9);
    const bool ours = json["algorithm"] == "ours";
    EXPECT_EQ(json["missing"].size(), ours ? 3u : 0u);
    EXPECT_EQ(json.contains("settings"), ours);
  }
  EXPECT_FALSE(std::getline(lines, line));
}

TEST(BaselineCommand, SaysThatSamplesCannotBeWritten) {
  const auto command =
      ParseCommand({"--algorithm=ring", "--hosts=2", "--bytes=400", "--ops=1",
                    "--samples=/nowhere/samples"});
  ASSERT_TRUE(command.ok());
  EXPECT_EQ(RunCommand(*command).status().message(),
            "cannot write /nowhere/samples");
}

}  // namespace
}  // namespace optireduce::sim::baseline
