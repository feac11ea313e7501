// Closes of steps, from a client's ring to the core and back.

#include <gtest/gtest.h>

#include <memory>
#include <variant>
#include <vector>

#include "dataplane/engine/engine_testing.h"

namespace optireduce::engine {
namespace {

constexpr StepClose kUsed = {7, core::StepOutcome::kUsed};

core::OpDescriptor StepSum(uint64_t bucket) {
  core::OpDescriptor op = Sum(100, core::Mode::kBounded);
  op.bucket = bucket;
  op.step = kUsed.step;
  return op;
}

TEST(EngineStepTest, AStepIsClosedOnceForAllItsOps) {
  Lab lab(2, 1, Settings());
  lab.Form();
  std::vector<Buffers> buffers(2, Buffers(2, 100));
  for (size_t r = 0; r < 2; ++r) {
    for (uint64_t i = 0; i < 2; ++i) {
      lab.Submit(r, StepSum(i + 1), buffers[i].View(r), i);
    }
  }
  lab.CloseStep(0, {8, core::StepOutcome::kUsed}, 10);
  lab.CloseStep(0, kUsed, 11);
  lab.CloseStep(0, kUsed, 12);
  lab.Run(Duration::Millis(50));
  ASSERT_NE(lab.CompletionOf(0, 1), nullptr);
  for (const auto& [cookie, closed] :
       {std::pair<uint64_t, size_t>{10, 0}, {11, 2}, {12, 0}}) {
    const Completion* done = lab.CompletionOf(0, cookie);
    ASSERT_NE(done, nullptr);
    EXPECT_EQ(done->submit, core::SubmitResult::kAccepted);
    EXPECT_EQ(done->group, lab.rank(0).group);
    EXPECT_EQ(done->closed_ops, closed) << cookie;
  }
  EXPECT_EQ(CountNotices<GroupChanged>(lab.host(0)), 1) << "that it is ready";
}

TEST(EngineStepTest, ACloseWaitsBehindTheOpsThatItIsFor) {
  core::GroupConfig settings = Settings();
  settings.window = 1;
  Lab lab(2, 1, settings);
  lab.Form();
  std::vector<Buffers> buffers(2, Buffers(2, 100));
  for (uint64_t i = 0; i < 2; ++i) {
    lab.Submit(0, StepSum(i + 1), buffers[i].View(0), i);
  }
  lab.CloseStep(0, kUsed, 10);
  lab.Run(Duration::Millis(50));
  EXPECT_EQ(lab.CompletionOf(0, 10), nullptr);
  for (uint64_t i = 0; i < 2; ++i) {
    lab.Submit(1, StepSum(i + 1), buffers[i].View(1), i);
  }
  lab.Run(Duration::Millis(50));
  const Completion* done = lab.CompletionOf(0, 10);
  ASSERT_NE(done, nullptr);
  EXPECT_EQ(done->closed_ops, 2);
}

TEST(EngineStepTest, ASessionHearsThatItsGroupIsLeft) {
  Lab lab(2, 1, Settings());
  lab.Form();
  EXPECT_TRUE(lab.rank(0).client->left().empty());
  ASSERT_TRUE(lab.host(0).engine.Post(
      LeaveGroup{lab.rank(0).group, wire::LeaveReason::kLeft}));
  lab.Run(Duration());
  EXPECT_EQ(lab.rank(0).client->left(),
            std::vector<core::GroupId>{lab.rank(0).group});
}

TEST(EngineStepTest, ACloseThatWaitsEndsWithItsGroup) {
  core::GroupConfig settings = Settings();
  settings.window = 1;
  Lab lab(2, 1, settings);
  lab.Form();
  std::vector<Buffers> buffers(2, Buffers(2, 100));
  for (uint64_t i = 0; i < 2; ++i) {
    lab.Submit(0, StepSum(i + 1), buffers[i].View(0), i);
  }
  lab.CloseStep(0, kUsed, 10);
  lab.Run(Duration::Millis(1));
  ASSERT_TRUE(lab.host(0).engine.Post(RemoveGroup{lab.rank(0).group}));
  lab.Run(Duration());
  const Completion* done = lab.CompletionOf(0, 10);
  ASSERT_NE(done, nullptr);
  EXPECT_EQ(done->submit, core::SubmitResult::kLeft);
}

// Two ranks on one host: each group has its own verdicts.
TEST(EngineVerdictTest, TheyAreCountedByGroup) {
  Lab lab(1, 2, Settings());
  lab.Form();
  FakeRank& rank = lab.rank(0);
  rank.client->Submit(
      {rank.group, StepVerdict{.step = 7, .below_floor = true}, 10});
  rank.client->Submit(
      {rank.group, StepVerdict{.step = 8, .non_finite = true}, 11});
  rank.client->Submit(
      {rank.group, StepVerdict{.step = 9, .present_ppm = 5}, 12});
  ASSERT_TRUE(lab.host(0).engine.Post(TakeSnapshot{1}));
  lab.Run(Duration());
  ASSERT_TRUE(lab.host(0).engine.Post(TakeSnapshot{2}));
  lab.Run(Duration());
  EXPECT_NE(lab.CompletionOf(0, 12), nullptr);
  const Snapshot* last = nullptr;
  for (const Notice& notice : lab.host(0).notices) {
    const auto* snapshot = std::get_if<std::unique_ptr<Snapshot>>(&notice);
    if (snapshot != nullptr) last = snapshot->get();
  }
  ASSERT_NE(last, nullptr);
  ASSERT_EQ(last->groups.size(), 2);
  for (const GroupSnapshot& group : last->groups) {
    const bool judged = group.group == rank.group;
    EXPECT_EQ(group.verdicts.steps, judged ? 3 : 0);
    EXPECT_EQ(group.verdicts.bad, judged ? 2 : 0);
    EXPECT_EQ(group.verdicts.below_floor, judged ? 1 : 0);
    EXPECT_EQ(group.verdicts.non_finite, judged ? 1 : 0);
    EXPECT_EQ(group.verdicts.halt_advised, 0);
    EXPECT_EQ(group.verdicts.last.step, judged ? 9 : 0);
    EXPECT_EQ(group.verdicts.last.present_ppm, judged ? 5 : 0);
  }
}

}  // namespace
}  // namespace optireduce::engine
