#include "control/optictl/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace optireduce::control {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::vector<std::string>& arguments) {
  const auto options = ParseOptions(arguments, "/default");
  EXPECT_FALSE(options.ok());
  return std::string(options.status().message());
}

TEST(OptionsTest, CommandsBecomeRequests) {
  for (const auto& [name, body] :
       std::vector<std::pair<std::string, Request::BodyCase>>{
           {"status", Request::kStatus},
           {"groups", Request::kGroups},
           {"peers", Request::kPeers},
           {"ops", Request::kOps},
           {"stats", Request::kStats},
           {"config", Request::kConfig}}) {
    const auto options = ParseOptions({name}, "/default");
    ASSERT_TRUE(options.ok());
    EXPECT_EQ(options->request.body_case(), body);
    EXPECT_EQ(options->socket, "/default");
    EXPECT_FALSE(options->json);
  }
}

TEST(OptionsTest, FlagsStandAnywhere) {
  const auto options =
      ParseOptions({"--socket", "/s", "ops", "--json", "--limit=5"}, "/d");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->socket, "/s");
  EXPECT_TRUE(options->json);
  EXPECT_EQ(options->request.ops().limit(), 5u);
  EXPECT_FALSE(options->request.ops().has_group());
  EXPECT_FALSE(options->request.ops().has_op());
}

TEST(OptionsTest, OneOpOfOneGroup) {
  const auto options = ParseOptions({"ops", "--group=3", "--op", "0"}, "/d");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->request.ops().group(), 3u);
  EXPECT_TRUE(options->request.ops().has_op());
  EXPECT_EQ(options->request.ops().op(), 0u);
  EXPECT_EQ(options->request.ops().limit(), 0u);
  const auto largest = ParseOptions({"ops", "--op=4294967295"}, "/d");
  ASSERT_TRUE(largest.ok()) << largest.status();
  EXPECT_EQ(largest->request.ops().op(), UINT32_MAX);
}

TEST(OptionsTest, WhatIsUnknownIsAnErrorWithASuggestion) {
  EXPECT_THAT(ErrorOf({"stauts"}), HasSubstr("did you mean \"status\"?"));
  EXPECT_THAT(ErrorOf({"status", "--jsn"}), HasSubstr("\"--json\"?"));
  EXPECT_THAT(ErrorOf({"status", "-j"}), HasSubstr("one command too many"));
  EXPECT_THAT(ErrorOf({}), HasSubstr("no command"));
  EXPECT_THAT(ErrorOf({"--json"}), HasSubstr("no command"));
  EXPECT_THAT(ErrorOf({"status", "--json=yes"}), HasSubstr("takes no value"));
  EXPECT_THAT(ErrorOf({"status", "--socket"}), HasSubstr("needs a value"));
  EXPECT_THAT(ErrorOf({"status", "--socket="}), HasSubstr("needs a value"));
  EXPECT_THAT(ErrorOf({"status", "--limit=5"}), HasSubstr("goes with ops"));
  EXPECT_THAT(ErrorOf({"peers", "--op=5"}), HasSubstr("--op goes with ops"));
  EXPECT_THAT(ErrorOf({"groups", "--group=5"}), HasSubstr("goes with ops"));
  for (const char* bad : {"-1", "many", "5x", "99999999999"}) {
    for (const std::string flag : {"--limit", "--group", "--op"}) {
      EXPECT_THAT(ErrorOf({"ops", flag + "=" + bad}),
                  HasSubstr(flag + ": \"" + bad));
    }
  }
  EXPECT_THAT(ErrorOf({"ops", "--limit=0"}), HasSubstr("a number from 1"));
}

TEST(OptionsTest, HelpForAllAndForEach) {
  const std::string all = HelpText("");
  for (const char* name :
       {"status", "groups", "peers", "ops", "stats", "config"}) {
    EXPECT_THAT(all, HasSubstr(name));
    EXPECT_THAT(HelpText(name), HasSubstr("optictl " + std::string(name)));
    EXPECT_TRUE(ParseOptions({name, "--help"}, "")->help);
  }
  EXPECT_TRUE(ParseOptions({"--help"}, "")->help);
  EXPECT_TRUE(ParseOptions({"--version"}, "")->version);
}

}  // namespace
}  // namespace optireduce::control
