// Scarce memory: who gets it first.

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "dataplane/core/engine_core.h"
#include "dataplane/core/group_testing.h"
#include "dataplane/core/plan.h"
#include "dataplane/core/testing.h"

namespace optireduce::core {
namespace {

// The first op number from which on rank 0 owns the only chunk of two ops.
OpSeq OwnedTwice(const OpDescriptor& op, const GroupConfig& config) {
  const auto owned = [&](OpSeq seq) {
    return ChunkPlan(op, 3, config.payload_bytes, TestNet::kTag, seq)
               .ChunksOf(Rank(0)) == 1;
  };
  OpSeq seq(0);
  while (!owned(seq) || !owned(seq.Next())) seq = seq.Next();
  return seq;
}

// Three ranks run `ops` under every budget that is not refused; rank 0 comes
// late, when the others have opened more than its memory may hold. Every op
// must find room in the end. Counts how often contributions were given up.
void RunUnderEveryBudget(GroupConfig settings,
                         const std::vector<OpDescriptor>& ops,
                         size_t* given_up) {
  size_t runs = 0;
  for (size_t budget = 256; budget < 32768; budget += 64) {
    settings.memory_budget = budget;
    TestNet net(3, settings);
    FormOrDie(&net, 3);
    Buffers buffers(3 * ops.size(), 372);
    std::array<size_t, 3> next{};
    bool too_large = false;
    for (int round = 0; round < 100 && !too_large; ++round) {
      for (size_t r = 0; r < 3; ++r) {
        if (next[r] == ops.size() || (r == 0 && round < 20)) continue;
        const SubmitResult result =
            net.Submit(r, ops[next[r]], buffers.View(3 * next[r] + r));
        too_large |= result == SubmitResult::kTooLarge;
        next[r] += result == SubmitResult::kAccepted;
      }
      net.Run(Duration::Millis(1));
    }
    if (too_large) continue;
    ++runs;
    for (size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(next[r], ops.size()) << "rank " << r << ", budget " << budget;
      ASSERT_NE(net.report(r, settings.first_op), nullptr);
      EXPECT_NE(net.report(r, settings.first_op)->status, OpStatus::kHardLimit);
      for (const Event& event : net.events(r)) {
        if (event.kind != EventKind::kContributionsLost) continue;
        ++*given_up;
        EXPECT_EQ(event.report.op_seq, settings.first_op.Next());
      }
    }
    net.Run(Duration::Millis(100));
    for (size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(net.core(r).Status(net.group(r)).memory_used, 0u);
    }
  }
  EXPECT_GT(runs, 20u);
}

TEST(MemoryTest, GoesByOpOrder) {
  GroupConfig settings = FastSettings();
  settings.quorum_permille = 1000;  // the clocks wait for rank 0
  const OpDescriptor exact = AllReduce(1, Mode::kExact);
  settings.first_op = OwnedTwice(exact, settings);
  size_t given_up = 0;
  RunUnderEveryBudget(settings, {exact, AllReduce(1, Mode::kBounded)},
                      &given_up);
  EXPECT_GT(given_up, 0u);
}

// Results that came before the submit must leave room for the submit.
TEST(MemoryTest, IsTakenAtOnce) {
  OpDescriptor op = AllReduce(372, Mode::kBounded);
  op.codec = Codec::kHadamard;
  size_t given_up = 0;
  RunUnderEveryBudget(FastSettings(), {op, op}, &given_up);
}

}  // namespace
}  // namespace optireduce::core
