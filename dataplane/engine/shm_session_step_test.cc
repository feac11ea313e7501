// Steps: what an op with an open step keeps, and how a close ends that.

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "dataplane/base/rng.h"
#include "dataplane/engine/shm_session_testing.h"

namespace optireduce::engine {
namespace {

constexpr uint64_t kStep = 7;

class ShmSessionStepTest : public ShmSessionTest {
 protected:
  // With a bucket and a step; from `input` to `output` in the data area.
  OptireduceShmSubmission StepOp(uint64_t input, uint64_t output,
                                 uint64_t step = kStep) const {
    OptireduceShmSubmission s = AllReduce(input, 25);
    s.output_offset = data_ + output;
    s.bucket = 3;
    s.step = step;
    return s;
  }
  static OptireduceShmSubmission Close(uint64_t step = kStep) {
    OptireduceShmSubmission s{};
    s.group = kHandle;
    s.kind = OPTIREDUCE_SHM_STEP_CLOSE;
    s.outcome = OPTIREDUCE_SHM_STEP_USED;
    s.step = step;
    return s;
  }
  static OptireduceShmSubmission Verdict() {
    OptireduceShmSubmission s{};
    s.group = kHandle;
    s.kind = OPTIREDUCE_SHM_VERDICT;
    s.step = kStep;
    s.verdict = OPTIREDUCE_SHM_BELOW_FLOOR | OPTIREDUCE_SHM_HALT_ADVISED;
    s.bad_steps = 11;
    s.present_ppm = 12;
    s.divergence_ppb = 13;
    return s;
  }
  bool IsFree(uint64_t offset) {
    Post(AllReduce(offset, 1));
    Submission submission;
    const bool free = session_->Pull(&submission) == PullResult::kPulled;
    if (free) {
      Finish(submission);
    } else {
      EXPECT_EQ(Read().refusal, OPTIREDUCE_SHM_REFUSAL_IN_FLIGHT);
    }
    return free;
  }
};

TEST_F(ShmSessionStepTest, ACloseTravelsThereAndBack) {
  OptireduceShmSubmission s = Close(UINT64_MAX);
  s.outcome = OPTIREDUCE_SHM_STEP_SKIPPED;
  const Submission got = Accepted(s);
  EXPECT_EQ(got.group, kGroup);
  const auto& close = std::get<StepClose>(got.request);
  EXPECT_EQ(close.step, UINT64_MAX);
  EXPECT_EQ(close.outcome, core::StepOutcome::kSkipped);
  EXPECT_EQ(std::get<StepClose>(Accepted(Close()).request).outcome,
            core::StepOutcome::kUsed);

  Completion completion;
  completion.cookie = got.cookie;
  completion.closed_ops = 12;
  session_->Complete(completion);
  const OptireduceShmCompletion entry = Read();
  EXPECT_EQ(entry.cookie, 1000u);
  EXPECT_EQ(entry.group, kHandle);
  EXPECT_EQ(entry.kind, OPTIREDUCE_SHM_STEP_CLOSE);
  EXPECT_EQ(entry.status, OPTIREDUCE_SHM_COMPLETE);
  EXPECT_EQ(entry.closed_ops, 12u);
}

TEST_F(ShmSessionStepTest, RefusesClosesThatAreNone) {
  for (const int outcome : {0, 3, 255}) {
    OptireduceShmSubmission s = Close();
    s.outcome = static_cast<uint8_t>(outcome);
    EXPECT_EQ(Refused(s).refusal, OPTIREDUCE_SHM_REFUSAL_OUTCOME);
  }
  const OptireduceShmCompletion entry = Refused(Close(0));
  EXPECT_EQ(entry.refusal, OPTIREDUCE_SHM_REFUSAL_STEP);
  EXPECT_EQ(entry.kind, OPTIREDUCE_SHM_STEP_CLOSE);
  OptireduceShmSubmission other = Close();
  other.group = kHandle + 1;
  EXPECT_EQ(Refused(other).refusal, OPTIREDUCE_SHM_REFUSAL_GROUP);
  // Every byte that a close does not use.
  for (size_t i = 14; i < sizeof(OptireduceShmSubmission); ++i) {
    if (i >= 16 && i < 24) continue;  // the step
    OptireduceShmSubmission s = Close();
    reinterpret_cast<uint8_t*>(&s)[i] = 1;
    EXPECT_EQ(Refused(s).refusal, OPTIREDUCE_SHM_REFUSAL_RESERVED) << i;
  }
}

TEST_F(ShmSessionStepTest, TheOutputIsHeldUntilTheCloseIsAnswered) {
  for (const core::OpStatus status :
       {core::OpStatus::kComplete, core::OpStatus::kPartial}) {
    core::OpReport report;
    report.status = status;
    const Submission op = Accepted(StepOp(0, 1000));
    EXPECT_EQ(Finish(op, report).step_open, 1);
    EXPECT_TRUE(IsFree(0));
    EXPECT_FALSE(IsFree(1000));
    const Submission close = Accepted(Close());
    EXPECT_FALSE(IsFree(1000));
    EXPECT_EQ(Finish(close).status, OPTIREDUCE_SHM_COMPLETE);
    EXPECT_TRUE(IsFree(1000));
  }
}

TEST_F(ShmSessionStepTest, InPlaceItIsTheInputToo) {
  const Submission op = Accepted(StepOp(0, 0));
  EXPECT_EQ(Finish(op).step_open, 1);
  EXPECT_FALSE(IsFree(96));
  Finish(Accepted(Close()));
  EXPECT_TRUE(IsFree(96));
}

TEST_F(ShmSessionStepTest, OtherOpsHoldNothing) {
  const auto is_held = [this](auto change) {
    OptireduceShmSubmission s = StepOp(0, 1000);
    change(s);
    const bool open = Finish(Accepted(s)).step_open != 0;
    EXPECT_EQ(open, !IsFree(1000));
    return open;
  };
  EXPECT_FALSE(is_held([](auto& s) { s.step = 0; }));
  EXPECT_FALSE(is_held([](auto& s) { s.bucket = 0; }));
  EXPECT_FALSE(is_held([](auto& s) { s.count = 0; }));
  EXPECT_FALSE(is_held(
      [](auto& s) { s.mode = static_cast<uint8_t>(core::Mode::kExact); }));
  EXPECT_FALSE(is_held([](auto& s) {
    s.dtype = static_cast<uint8_t>(gradcodec::Dtype::kInt32);
  }));
  EXPECT_FALSE(is_held(
      [](auto& s) { s.codec = static_cast<uint8_t>(core::Codec::kHadamard); }));
  EXPECT_FALSE(is_held([](auto& s) {
    s.collective = static_cast<uint8_t>(core::Collective::kBroadcast);
  }));
  EXPECT_TRUE(is_held(
      [](auto& s) { s.codec = static_cast<uint8_t>(core::Codec::kBfloat16); }));
  Finish(Accepted(Close()));
  EXPECT_TRUE(is_held([](auto&) {}));
}

TEST_F(ShmSessionStepTest, NothingIsPutInPlaceAfterAnError) {
  for (const core::OpStatus status :
       {core::OpStatus::kHardLimit, core::OpStatus::kPeerLost,
        core::OpStatus::kMismatch, core::OpStatus::kExpired,
        core::OpStatus::kCancelled}) {
    core::OpReport report;
    report.status = status;
    EXPECT_EQ(Finish(Accepted(StepOp(0, 1000)), report).step_open, 0);
    EXPECT_TRUE(IsFree(1000));
  }
  Complete(Accepted(StepOp(0, 1000)), core::SubmitResult::kTooLarge);
  Read();
  EXPECT_TRUE(IsFree(1000));
}

TEST_F(ShmSessionStepTest, ACloseIsForItsOwnGroupAndStep) {
  constexpr uint32_t kOther = kHandle + 1;
  session_->AddGroup(core::GroupId(78), kWorld, kOther);
  Finish(Accepted(StepOp(0, 1000)));
  Finish(Accepted(Close(kStep + 1)));
  OptireduceShmSubmission others = Close();
  others.group = kOther;
  Finish(Accepted(others));
  EXPECT_FALSE(IsFree(1000));
  session_->LeaveGroup(core::GroupId(78));
  session_->RemoveGroup(core::GroupId(78));
  EXPECT_FALSE(IsFree(1000));
  Finish(Accepted(Close()));
  EXPECT_TRUE(IsFree(1000));
}

TEST_F(ShmSessionStepTest, ACloseIsForTheOpsBeforeIt) {
  const Submission before = Accepted(StepOp(0, 1000));
  const Submission close = Accepted(Close());
  const Submission after = Accepted(StepOp(2000, 3000));
  Finish(close);
  EXPECT_EQ(Finish(before).step_open, 0);
  EXPECT_TRUE(IsFree(1000));
  EXPECT_EQ(Finish(after).step_open, 1);
  EXPECT_FALSE(IsFree(3000));
}

TEST_F(ShmSessionStepTest, LeavingTheGroupEndsItsSteps) {
  Finish(Accepted(StepOp(0, 1000)));
  const Submission running = Accepted(StepOp(2000, 3000));
  const Submission close = Accepted(Close());
  session_->LeaveGroup(kGroup);
  EXPECT_TRUE(IsFree(1000));
  EXPECT_FALSE(IsFree(3000));
  // It had ended before, and the engine says so only now.
  EXPECT_EQ(Finish(running).step_open, 0);
  EXPECT_TRUE(IsFree(3000));
  Complete(close, core::SubmitResult::kLeft);
  const OptireduceShmCompletion entry = Read();
  EXPECT_EQ(entry.refusal, OPTIREDUCE_SHM_REFUSAL_LEFT);
  EXPECT_EQ(entry.kind, OPTIREDUCE_SHM_STEP_CLOSE);
}

// A group that failed is removed without having been left.
TEST_F(ShmSessionStepTest, SoDoesItsRemoval) {
  constexpr uint32_t kOther = kHandle + 1;
  session_->AddGroup(core::GroupId(78), kWorld, kOther);
  OptireduceShmSubmission s = StepOp(0, 1000);
  s.group = kOther;
  Finish(Accepted(s));
  EXPECT_FALSE(IsFree(1000));
  session_->RemoveGroup(core::GroupId(78));
  EXPECT_TRUE(IsFree(1000));
}

TEST_F(ShmSessionStepTest, SoManyOpsMayBeOpenAndNoMore) {
  core::OpReport failed;
  failed.status = core::OpStatus::kHardLimit;
  // Failed and refused ones do not count.
  Finish(Accepted(StepOp(0, 1000)), failed);
  Complete(Accepted(StepOp(0, 1000)), core::SubmitResult::kTooLarge);
  Read();
  for (uint64_t round = 0; round < 2; ++round) {
    for (uint64_t i = 0; i < OPTIREDUCE_SHM_MAX_STEP_OPS; ++i) {
      OptireduceShmSubmission s = StepOp(0, 1000 + 4 * i);
      s.count = 1;
      Finish(Accepted(s));
    }
    EXPECT_EQ(Refused(StepOp(0, 500)).refusal,
              OPTIREDUCE_SHM_REFUSAL_STEPS_OPEN);
    EXPECT_TRUE(session_->idle());
    // Ops without a step, as many as the rings hold.
    std::vector<Submission> others;
    for (uint64_t i = 0; i < kSlots; ++i) {
      others.push_back(Accepted(AllReduce(100'000 + 4 * i, 1)));
    }
    for (const Submission& submission : others) Finish(submission);
    Finish(Accepted(Close()));
  }
}

TEST_F(ShmSessionStepTest, WhileTheDaemonStopsStepsAreStillClosed) {
  Finish(Accepted(StepOp(0, 1000)));
  session_->StopTaking();
  Finish(Accepted(Close()));
  EXPECT_EQ(Refused(StepOp(0, 1000)).refusal, OPTIREDUCE_SHM_REFUSAL_SHUTDOWN);
}

TEST_F(ShmSessionStepTest, AVerdictTravelsThereAndBack) {
  const Submission got = Accepted(Verdict());
  EXPECT_EQ(got.group, kGroup);
  const auto& verdict = std::get<StepVerdict>(got.request);
  EXPECT_EQ(verdict.step, kStep);
  EXPECT_TRUE(verdict.below_floor);
  EXPECT_FALSE(verdict.non_finite);
  EXPECT_TRUE(verdict.halt_advised);
  EXPECT_EQ(verdict.bad_steps, 11u);
  EXPECT_EQ(verdict.present_ppm, 12u);
  EXPECT_EQ(verdict.divergence_ppb, 13u);
  OptireduceShmSubmission other = Verdict();
  other.verdict = OPTIREDUCE_SHM_NON_FINITE;
  const Submission second = Accepted(other);
  EXPECT_FALSE(std::get<StepVerdict>(second.request).below_floor);
  EXPECT_TRUE(std::get<StepVerdict>(second.request).non_finite);

  Finish(second);
  const OptireduceShmCompletion entry = Finish(got);
  EXPECT_EQ(entry.cookie, 1000u);
  EXPECT_EQ(entry.kind, OPTIREDUCE_SHM_VERDICT);
  EXPECT_EQ(entry.status, OPTIREDUCE_SHM_COMPLETE);
}

TEST_F(ShmSessionStepTest, RefusesVerdictsThatAreNone) {
  OptireduceShmSubmission other = Verdict();
  other.step = 0;
  EXPECT_EQ(Refused(other).refusal, OPTIREDUCE_SHM_REFUSAL_STEP);
  other = Verdict();
  other.verdict = 8;
  EXPECT_EQ(Refused(other).refusal, OPTIREDUCE_SHM_REFUSAL_VERDICT);
  // Every byte that a verdict does not use.
  for (size_t i = 13; i < sizeof(OptireduceShmSubmission); ++i) {
    if ((i >= 16 && i < 24) || (i >= 72 && i < 88)) continue;
    OptireduceShmSubmission s = Verdict();
    reinterpret_cast<uint8_t*>(&s)[i] = 1;
    EXPECT_EQ(Refused(s).refusal, OPTIREDUCE_SHM_REFUSAL_RESERVED) << i;
  }
  // And an op does not use those of a verdict.
  for (size_t i = 72; i < 88; ++i) {
    OptireduceShmSubmission s = StepOp(0, 1000);
    reinterpret_cast<uint8_t*>(&s)[i] = 1;
    EXPECT_EQ(Refused(s).refusal, OPTIREDUCE_SHM_REFUSAL_RESERVED) << i;
  }
}

TEST_F(ShmSessionStepTest, TheTraceIsOfOps) {
  Finish(Accepted(StepOp(0, 1000)));
  Finish(Accepted(Close()));
  Finish(Accepted(Verdict()));
  Refused(Close(0));
  const auto trace = session_->trace().Read();
  ASSERT_EQ(trace.size(), 1u);
  EXPECT_EQ(trace[0].step_open, 1);
}

// Random ops and closes: what the engine gets overlaps neither what is in
// flight nor any output whose step is open.
TEST_F(ShmSessionStepTest, NothingOverlapsWhatIsOpen) {
  constexpr uint64_t kSeed = 4711;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  struct Held {
    Submission submission;
    uint64_t output = 0;
    uint64_t step = 0;
    bool ended = false;
  };
  std::vector<Held> held;
  const auto overlaps = [&](uint64_t offset) {
    return std::any_of(held.begin(), held.end(), [&](const Held& h) {
      return h.output < offset + 100 && offset < h.output + 100;
    });
  };
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    const uint64_t step = 1 + rng.Below(3);
    if (rng.Chance(0.1)) {
      Finish(Accepted(Close(step)));
      std::erase_if(held,
                    [&](const Held& h) { return h.ended && h.step == step; });
      // Those that have not ended yet hold nothing afterwards.
      for (Held& h : held) h.step = h.step == step ? 0 : h.step;
    } else if (!held.empty() && rng.Chance(0.5)) {
      const size_t i = rng.Below(held.size());
      if (held[i].ended) continue;
      const bool open = Finish(held[i].submission).step_open != 0;
      ASSERT_EQ(open, held[i].step != 0);
      held[i].ended = true;
      if (!open) held.erase(held.begin() + static_cast<ptrdiff_t>(i));
    } else {
      const uint64_t offset = rng.Below(2000);
      const OptireduceShmSubmission s = StepOp(offset, offset, step);
      if (overlaps(offset)) {
        ASSERT_EQ(Refused(s).refusal, OPTIREDUCE_SHM_REFUSAL_IN_FLIGHT);
        ++refused;
      } else {
        held.push_back({Accepted(s), offset, step});
      }
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace optireduce::engine
