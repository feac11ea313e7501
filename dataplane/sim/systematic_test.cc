#include "dataplane/sim/systematic.h"

#include "gtest/gtest.h"

namespace optireduce::sim {
namespace {

TEST(SystematicTest, EverySinglePacketLostDoubledOrLate) {
  const SystematicSummary summary =
      RunSystematic(std::nullopt, std::nullopt, std::nullopt, nullptr, stdout);
  EXPECT_EQ(summary.failing, 0u);
  EXPECT_EQ(summary.cases, 24u);
  EXPECT_GT(summary.runs, 10'000u);
}

TEST(SystematicTest, OneRunCanBePicked) {
  const SystematicSummary summary =
      RunSystematic("all_reduce_exact_3_exit", 7, "drop", nullptr, stdout);
  EXPECT_EQ(summary.runs, 1u);
}

}  // namespace
}  // namespace optireduce::sim
