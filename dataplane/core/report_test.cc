#include "dataplane/core/report.h"

#include <gtest/gtest.h>

namespace optireduce::core {
namespace {

TEST(OpReportTest, LossOfEachStageApart) {
  OpReport report;
  report.world = 4;
  report.elements = 1000;
  report.absent = 100;
  report.contributions = 900 * 4 - 360;
  EXPECT_DOUBLE_EQ(report.Stage1Loss(), 0.1);
  EXPECT_DOUBLE_EQ(report.Stage2Loss(), 0.1);
  EXPECT_DOUBLE_EQ(report.MissingFraction(), 1 - 0.9 * 0.9);
}

TEST(OpReportTest, NothingIsDividedByZero) {
  OpReport report;
  report.world = 4;
  EXPECT_EQ(report.MissingFraction(), 0);
  report.elements = report.absent = 7;
  EXPECT_EQ(report.Stage1Loss(), 0);
  EXPECT_EQ(report.MissingFraction(), 1);
}

TEST(RankSetTest, HoldsTheLargestWorld) {
  RankSet set;
  set.Add(Rank(0));
  set.Add(Rank(1023));
  EXPECT_TRUE(set.Contains(Rank(1023)));
  EXPECT_FALSE(set.Contains(Rank(1022)));
  EXPECT_EQ(set.Count(), 2u);
}

}  // namespace
}  // namespace optireduce::core
