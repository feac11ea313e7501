#include "client/step_table.h"

#include <gtest/gtest.h>

namespace optireduce::client {
namespace {

constexpr Range kOutput{100, 50};
constexpr Range kInside{120, 1};

OptireduceShmCompletion Answer(uint64_t number, uint8_t status = 0) {
  OptireduceShmCompletion completion{};
  completion.cookie = number;
  completion.kind = OPTIREDUCE_SHM_STEP_CLOSE;
  completion.status = status;
  completion.closed_ops = 4;
  return completion;
}

TEST(StepTableTest, ACloseFreesTheOutputsOfItsGroupAndStep) {
  StepTable table;
  table.HoldOutput(1, {.group = 1, .step = 5, .range = kOutput});
  table.HoldOutput(2, {.group = 1, .step = 6, .range = {200, 50}});
  table.HoldOutput(3, {.group = 2, .step = 5, .range = {300, 50}});
  const OpenOutput* found = table.FindOutput(kInside);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->step, 5u);
  EXPECT_EQ(table.FindOutput({150, 50}), nullptr);

  const uint64_t number = table.Add(1, 5);
  EXPECT_TRUE(table.IsOpen(1));
  EXPECT_TRUE(table.Complete(Answer(number)));
  EXPECT_EQ(table.Find(number)->status, OR_OK);
  EXPECT_EQ(table.Find(number)->completion.closed_ops, 4u);
  EXPECT_FALSE(table.IsOpen(1));
  EXPECT_EQ(table.FindOutput(kInside), nullptr);
  EXPECT_TRUE(table.IsOpen(2));
  EXPECT_TRUE(table.IsOpen(3));
}

TEST(StepTableTest, ARefusedCloseFreesNothing) {
  StepTable table;
  table.HoldOutput(1, {.group = 1, .step = 5, .range = kOutput});
  const uint64_t number = table.Add(1, 5);
  OptireduceShmCompletion answer = Answer(number, OPTIREDUCE_SHM_REFUSED);
  answer.refusal = OPTIREDUCE_SHM_REFUSAL_LEFT;
  EXPECT_TRUE(table.Complete(answer));
  EXPECT_EQ(table.Find(number)->status, OR_ERR_CLOSED);
  EXPECT_TRUE(table.IsOpen(1));
}

TEST(StepTableTest, AnAbandonedCloseStillCountsAndLeavesNothing) {
  StepTable table;
  table.HoldOutput(1, {.group = 1, .step = 5, .range = kOutput});
  const uint64_t number = table.Add(1, 5);
  table.Abandon(number);
  EXPECT_TRUE(table.IsOpen(1));
  EXPECT_FALSE(table.Complete(Answer(number)));
  EXPECT_FALSE(table.IsOpen(1));
  EXPECT_EQ(table.Find(number), nullptr);
  EXPECT_FALSE(table.Complete(Answer(number))) << "answered before";
}

TEST(StepTableTest, AGroupsEndEndsItsStepsAndCloses) {
  StepTable table;
  table.HoldOutput(1, {.group = 1, .step = 5, .range = kOutput});
  table.HoldOutput(2, {.group = 2, .step = 5, .range = {200, 50}});
  const uint64_t waited_for = table.Add(1, 5);
  const uint64_t abandoned = table.Add(1, 5);
  const uint64_t other = table.Add(2, 5);
  table.Abandon(abandoned);
  table.EndGroup(1, OR_ERR_CANCELLED);
  EXPECT_FALSE(table.IsOpen(1));
  EXPECT_TRUE(table.IsOpen(2));
  EXPECT_EQ(table.Find(waited_for)->status, OR_ERR_CANCELLED);
  EXPECT_EQ(table.Find(abandoned), nullptr);
  EXPECT_EQ(table.Find(other)->status, OR_PENDING);
  EXPECT_FALSE(table.Complete(Answer(waited_for))) << "given up before";
  EXPECT_EQ(table.Find(waited_for)->status, OR_ERR_CANCELLED);

  table.EndAll(OR_ERR_DAEMON_LOST);
  EXPECT_FALSE(table.IsOpen(2));
  EXPECT_EQ(table.Find(other)->status, OR_ERR_DAEMON_LOST);
  EXPECT_EQ(table.Find(waited_for)->status, OR_ERR_CANCELLED);
}

}  // namespace
}  // namespace optireduce::client
