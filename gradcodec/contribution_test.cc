#include "gradcodec/contribution.h"

#include "gtest/gtest.h"

namespace optireduce::gradcodec {
namespace {

TEST(ContributionTallyTest, CompleteOperation) {
  ContributionTally tally;
  tally.Add(350, 4);
  tally.Add(50, 4);
  EXPECT_EQ(tally.elements(), 400u);
  EXPECT_EQ(tally.absent(), 0u);
  EXPECT_EQ(tally.k_min(), 4u);
  EXPECT_EQ(tally.k_mean(), 4.0);
  EXPECT_EQ(tally.stage1_loss(4), 0.0);
  EXPECT_EQ(tally.stage2_loss(), 0.0);
  EXPECT_EQ(tally.share_present(4), 1.0);
  EXPECT_TRUE(tally.complete(4));
}

TEST(ContributionTallyTest, AbsentElementsCountOnlyInStage2) {
  ContributionTally tally;
  tally.Add(100, 0);
  tally.Add(300, 4);
  EXPECT_EQ(tally.absent(), 100u);
  EXPECT_EQ(tally.k_min(), 4u);
  EXPECT_EQ(tally.k_mean(), 4.0);
  EXPECT_EQ(tally.stage1_loss(4), 0.0);
  EXPECT_EQ(tally.stage2_loss(), 0.25);
  EXPECT_EQ(tally.share_present(4), 0.75);
  EXPECT_FALSE(tally.complete(4));
}

TEST(ContributionTallyTest, LostContributionsCountInStage1) {
  ContributionTally tally;
  tally.Add(100, 2);
  tally.Add(200, 4);
  tally.Add(100, 3);
  tally.Add(100, 0);
  EXPECT_EQ(tally.k_min(), 2u);
  EXPECT_DOUBLE_EQ(tally.k_mean(), 3.25);
  EXPECT_DOUBLE_EQ(tally.stage1_loss(4), 1 - 3.25 / 4);
  EXPECT_DOUBLE_EQ(tally.stage2_loss(), 0.2);
  EXPECT_DOUBLE_EQ(tally.share_present(4), 3.25 / 4 * 0.8);
  EXPECT_FALSE(tally.complete(4));
}

TEST(ContributionTallyTest, NothingIsDividedByZero) {
  ContributionTally empty;
  empty.Add(0, 4);
  EXPECT_EQ(empty.k_min(), 0u);
  EXPECT_EQ(empty.k_mean(), 0.0);
  EXPECT_EQ(empty.stage1_loss(4), 0.0);
  EXPECT_EQ(empty.stage2_loss(), 0.0);
  EXPECT_TRUE(empty.complete(4));

  ContributionTally absent;
  absent.Add(10, 0);
  EXPECT_EQ(absent.k_mean(), 0.0);
  EXPECT_EQ(absent.stage1_loss(4), 0.0);
  EXPECT_EQ(absent.stage2_loss(), 1.0);
  EXPECT_FALSE(absent.complete(4));
}

TEST(ContributionTallyTest, OneLostContributionOfTheLargestOperationShows) {
  ContributionTally tally;
  tally.Add(4294967294u, 1024);
  tally.Add(1, 1023);
  EXPECT_FALSE(tally.complete(1024));
  EXPECT_EQ(tally.k_min(), 1023u);
  EXPECT_GT(tally.stage1_loss(1024), 0.0);
}

}  // namespace
}  // namespace optireduce::gradcodec
