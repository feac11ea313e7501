#include "dataplane/sim/baseline/mse_command.h"

#include <fstream>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace optireduce::sim::baseline {
namespace {

TEST(MseCommand, PrintsAndWritesWhatWasMeasured) {
  const std::string path = testing::TempDir() + "/mse";
  const auto text = RunMse({"--algorithm=ring", "--hosts=4", "--drop=0.1",
                            "--ops=200", "--seed=3", "--samples", path});
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(json["algorithm"], "ring");
  EXPECT_EQ(json["hosts"], 4);
  EXPECT_EQ(json["drop"], 0.1);
  EXPECT_EQ(json["ops"], 200);
  EXPECT_EQ(json["seed"], 3);
  EXPECT_EQ(json["squared_error"].size(), 100u);
  EXPECT_GT(json["dropped"].get<int>(), 300);
  EXPECT_NE(text->find(json["trace_hash"].get<std::string>()),
            std::string::npos);
}

TEST(MseCommand, NamesWhatIsWrong) {
  const auto error = [](const std::vector<std::string>& arguments) {
    return std::string(RunMse(arguments).status().message());
  };
  EXPECT_EQ(error({"word"}), "mse takes flags only");
  EXPECT_EQ(error({"--algorithm=tree"}), "--algorithm: ring, tar or ps");
  EXPECT_EQ(error({"--hosts=1"}), "--hosts: 2 to 1024");
  EXPECT_EQ(error({"--drop=2"}), "--drop: 0 to 1");
  EXPECT_EQ(error({"--ops=150"}), "--ops: a multiple of 100");
  EXPECT_EQ(error({"--ops=100", "--samples=/nowhere/x"}),
            "cannot write /nowhere/x");
}

}  // namespace
}  // namespace optireduce::sim::baseline
