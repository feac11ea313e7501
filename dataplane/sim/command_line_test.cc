#include "dataplane/sim/command_line.h"

#include "gtest/gtest.h"

namespace optireduce::sim {
namespace {

TEST(CommandLineTest, FlagsInEveryFormAndPlace) {
  CommandLine line({"one", "--seed", "7", "two", "--count=0x10", "--trace"},
                   {"seed", "count", "other"}, {"trace"});
  EXPECT_EQ(line.error(), "");
  EXPECT_EQ(line.words(), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(line.Number("seed", 1), 7u);
  EXPECT_EQ(line.Number("count", 1), 16u);
  EXPECT_EQ(line.Number("other", 5), 5u);
  EXPECT_TRUE(line.Has("trace"));
  EXPECT_FALSE(line.Has("other"));
}

TEST(CommandLineTest, ErrorsNameTheFlag) {
  EXPECT_EQ(CommandLine({"--sed", "7"}, {"seed"}, {}).error(),
            "unknown flag --sed");
  EXPECT_EQ(CommandLine({"--seed"}, {"seed"}, {}).error(),
            "--seed needs a value");
  EXPECT_EQ(CommandLine({"--trace=1"}, {}, {"trace"}).error(),
            "--trace takes no value");
  CommandLine line({"--seed", "many"}, {"seed"}, {});
  line.Number("seed", 1);
  EXPECT_EQ(line.error(), "--seed is not a whole number: many");
}

TEST(CommandLineTest, NumbersAreWholeAndFit) {
  EXPECT_EQ(ParseNumber("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(ParseNumber("0xff"), 255u);
  for (const char* text :
       {"", "0x", "-1", "1.5", "18446744073709551616", "1 "}) {
    EXPECT_EQ(ParseNumber(text), std::nullopt) << text;
  }
}

TEST(CommandLineTest, ReadsRealNumbers) {
  EXPECT_EQ(ParseReal("0.25"), 0.25);
  EXPECT_EQ(ParseReal("-2.5e1"), -25);
  for (const char* text : {"", "x", "1x", "1,5", " 1"}) {
    EXPECT_FALSE(ParseReal(text)) << text;
  }
}

}  // namespace
}  // namespace optireduce::sim
