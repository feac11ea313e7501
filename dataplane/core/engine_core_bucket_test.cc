// Ops with residuals and debts, in whole groups.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dataplane/core/engine_core.h"
#include "dataplane/core/group_testing.h"
#include "dataplane/core/testing.h"

namespace optireduce::core {
namespace {

OpDescriptor Bucketed(uint64_t count, uint64_t bucket, uint64_t step) {
  OpDescriptor op = AllReduce(count, Mode::kBounded, gradcodec::ReduceOp::kAvg);
  op.bucket = bucket;
  op.step = step;
  return op;
}

size_t Close(TestNet* net, size_t rank, uint64_t step, StepOutcome outcome) {
  return net->core(rank).CloseStep(net->group(rank), step, outcome, net->now());
}

TEST(BucketTest, AStepClosesEachOfItsOpsOnce) {
  TestNet net(2, FastSettings());
  FormOrDie(&net, 2);
  Buffers one(2, 400);
  Buffers two(2, 400);
  Buffers other(2, 400);
  Buffers none(2, 400);
  for (size_t r = 0; r < 2; ++r) {
    net.Submit(r, Bucketed(400, 1, 7), one.View(r));
    net.Submit(r, Bucketed(400, 2, 7), two.View(r));
    net.Submit(r, Bucketed(400, 3, 8), other.View(r));
    net.Submit(r, Bucketed(400, 4, 0), none.View(r));
  }
  EXPECT_EQ(Close(&net, 0, 9, StepOutcome::kUsed), 0u);
  EXPECT_EQ(Close(&net, 0, 0, StepOutcome::kUsed), 0u);
  EXPECT_EQ(Close(&net, 0, 7, StepOutcome::kUsed), 2u);
  EXPECT_EQ(Close(&net, 0, 7, StepOutcome::kSkipped), 0u);
  EXPECT_EQ(Close(&net, 0, 8, StepOutcome::kSkipped), 1u);
  EXPECT_EQ(Close(&net, 1, 7, StepOutcome::kSkipped), 2u);
}

TEST(BucketTest, LossScalesArePositiveFiniteAndNormal) {
  TestNet net(2, FastSettings());
  FormOrDie(&net, 2);
  Buffers buffers(2, 400);
  OpDescriptor op = Bucketed(400, 1, 0);
  for (float scale :
       {0.0f, -1.0f, std::numeric_limits<float>::infinity(), std::nanf(""),
        std::numeric_limits<float>::denorm_min()}) {
    op.loss_scale = scale;
    EXPECT_EQ(net.Submit(0, op, buffers.View(0)), SubmitResult::kBadScale)
        << scale;
  }
  // The ranks' scales need not be alike.
  for (size_t r = 0; r < 2; ++r) {
    op.loss_scale = r == 0 ? 1024.0f : 0.5f;
    EXPECT_EQ(net.Submit(r, op, buffers.View(r)), SubmitResult::kAccepted);
  }
  net.Run(Duration::Millis(3));
  EXPECT_EQ(net.report(0, OpSeq(0))->status, OpStatus::kComplete);
}

}  // namespace
}  // namespace optireduce::core
