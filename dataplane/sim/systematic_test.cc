#include "dataplane/sim/systematic.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace optireduce::sim {
namespace {

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const SystematicCase& one : SystematicCases()) names.push_back(one.name);
  return names;
}

// One test for each case, as all of them take minutes under a sanitizer.
class SystematicTest : public testing::TestWithParam<std::string> {};

TEST_P(SystematicTest, EverySinglePacketLostDoubledOrLate) {
  const SystematicSummary summary =
      RunSystematic(GetParam(), std::nullopt, std::nullopt, nullptr, stdout);
  EXPECT_EQ(summary.failing, 0u);
  EXPECT_EQ(summary.cases, 1u);
  EXPECT_GT(summary.runs, 100u);
}

INSTANTIATE_TEST_SUITE_P(Cases, SystematicTest, testing::ValuesIn(Names()),
                         [](const auto& info) { return info.param; });

TEST(SystematicCasesTest, AreAllThere) { EXPECT_EQ(Names().size(), 28u); }

TEST(SystematicCasesTest, OneRunCanBePicked) {
  const SystematicSummary summary =
      RunSystematic("all_reduce_exact_3_exit", 7, "drop", nullptr, stdout);
  EXPECT_EQ(summary.runs, 1u);
}

}  // namespace
}  // namespace optireduce::sim
