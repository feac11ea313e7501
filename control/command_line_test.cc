#include "control/command_line.h"

#include <glog/logging.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace optireduce::control {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

absl::StatusOr<CommandLine> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "optireduced");
  return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data());
}

std::string ErrorOf(std::vector<const char*> arguments) {
  const auto parsed = Parse(std::move(arguments));
  EXPECT_FALSE(parsed.ok());
  return std::string(parsed.status().message());
}

TEST(CommandLineTest, KeysOfTheConfigurationAreFlags) {
  const auto parsed = Parse({"--config=a.conf", "--mtu=1500", "--socket", "/s",
                             "-rate_bps=5", "--gateway="});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->config_file, "a.conf");
  EXPECT_FALSE(parsed->check || parsed->help || parsed->version);
  EXPECT_THAT(parsed->keys,
              ElementsAre(Pair("mtu", "1500"), Pair("socket", "/s"),
                          Pair("rate_bps", "5"), Pair("gateway", "")));
}

TEST(CommandLineTest, Switches) {
  EXPECT_TRUE(Parse({"--check"})->check);
  EXPECT_TRUE(Parse({"--check=true"})->check);
  EXPECT_FALSE(Parse({"--check=false"})->check);
  EXPECT_TRUE(Parse({"-help"})->help);
  EXPECT_TRUE(Parse({"--version"})->version);
  EXPECT_THAT(ErrorOf({"--check=maybe"}), HasSubstr("true or false"));
  EXPECT_THAT(ErrorOf({"--check="}), HasSubstr("true or false"));
}

// G01.
TEST(CommandLineTest, UnknownFlagsAreErrorsWithASuggestion) {
  EXPECT_THAT(ErrorOf({"--hugepge=on"}),
              AllOf(HasSubstr("\"--hugepge\""),
                    HasSubstr("did you mean \"--hugepages\"?")));
  EXPECT_THAT(ErrorOf({"--confg=x"}), HasSubstr("\"--config\"?"));
  EXPECT_THAT(ErrorOf({"--chekc"}), HasSubstr("\"--check\"?"));
  EXPECT_THAT(ErrorOf({"--undefok=mtu"}), HasSubstr("\"--undefok\""));
}

TEST(CommandLineTest, WhatIsNoFlagIsRefused) {
  EXPECT_THAT(ErrorOf({"start"}), HasSubstr("\"start\" is no flag"));
  EXPECT_THAT(ErrorOf({"-"}), HasSubstr("is no flag"));
  EXPECT_THAT(ErrorOf({""}), HasSubstr("is no flag"));
  EXPECT_THAT(ErrorOf({"--mtu"}), HasSubstr("--mtu needs a value"));
}

TEST(CommandLineTest, TheLoggingLibrarysFlagsAreSet) {
  FLAGS_v = 0;
  EXPECT_TRUE(Parse({"--v=2"}).ok());
  EXPECT_EQ(FLAGS_v, 2);
  FLAGS_v = 0;
  EXPECT_THAT(ErrorOf({"--v=high"}), HasSubstr("--v: \"high\""));
}

TEST(ReadSourcesTest, FileEnvironmentAndFlags) {
  const std::string file = ::testing::TempDir() + "/sources.conf";
  std::ofstream(file) << "mtu: 1500\n";
  CommandLine command_line;
  command_line.config_file = file;
  command_line.keys = {{"mtu", "1400"}};
  const char* environment[] = {"A=b", "OPTIREDUCE_MTU=1300", nullptr};
  const auto sources = ReadSources(command_line, environment);
  ASSERT_TRUE(sources.ok());
  EXPECT_EQ(sources->file_name, file);
  EXPECT_EQ(sources->file_text, "mtu: 1500\n");
  EXPECT_THAT(sources->environment, ElementsAre("A=b", "OPTIREDUCE_MTU=1300"));
  EXPECT_EQ(sources->flags.size(), 1u);
  std::ofstream(file).close();  // an empty file is one
  EXPECT_EQ(ReadSources(command_line, environment)->file_text, "");
  std::filesystem::remove(file);
  const auto missing = ReadSources(command_line, environment);
  EXPECT_THAT(std::string(missing.status().message()),
              AllOf(HasSubstr(file), HasSubstr("No such file")));
  command_line.config_file = ::testing::TempDir();
  EXPECT_THAT(
      std::string(ReadSources(command_line, environment).status().message()),
      HasSubstr("Is a directory"));
}

TEST(HelpTextTest, NamesEveryKey) {
  const std::string text = HelpText();
  for (const std::string& key : ConfigKeys()) {
    EXPECT_THAT(text, HasSubstr("\n  " + key + "\n"));
  }
}

}  // namespace
}  // namespace optireduce::control
