// Verdicts on steps by the C ABI, against a daemon that answers as it is told.
// Rank 1, which is made up, has the same record as rank 0 but for what a step's
// number tells.

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/optireduce.h"
#include "client/testing/fake_daemon.h"
#include "client/testing/fixture.h"
#include "proto/shm_abi.h"

namespace optireduce::client {
namespace {

constexpr int64_t kAmple = OR_SECONDS(30);
constexpr uint64_t kStep = 5;
constexpr uint64_t kPartial = kFakeStatus + OPTIREDUCE_SHM_PARTIAL;

class StepVerdictTest : public ::testing::Test {
 protected:
  // Of one operation.
  static void Reduce(TestClient& client, uint64_t step = kStep,
                     uint64_t bucket = 0,
                     or_collective collective = OR_ALL_REDUCE) {
    or_operation operation = client.Operation(bucket);
    operation.step = step;
    operation.collective = collective;
    or_op op = 0;
    ASSERT_EQ(or_submit(client.session, client.group, &operation, &op), OR_OK)
        << or_last_error();
    or_wait(client.session, op, kAmple, nullptr);
    or_step_close(client.session, client.group, step, OR_STEP_USED, kAmple,
                  nullptr);
  }
  static int Submit(TestClient& client, uint64_t step, or_op* op,
                    const or_sketch* sketch = nullptr) {
    return or_verdict_submit(client.session, client.group, step, sketch, op);
  }
  static int Read(TestClient& client, or_op op, or_verdict* verdict,
                  int64_t limit = kAmple) {
    verdict->struct_size = sizeof(*verdict);
    return or_verdict_wait(client.session, op, limit, verdict);
  }
  static or_verdict Judge(TestClient& client, uint64_t step = kStep,
                          const or_sketch* sketch = nullptr) {
    or_op op = 0;
    EXPECT_EQ(Submit(client, step, &op, sketch), OR_OK) << or_last_error();
    or_verdict verdict{};
    EXPECT_EQ(Read(client, op, &verdict), OR_OK) << or_last_error();
    return verdict;
  }
  static bool ErrorHas(const std::string& text) {
    return std::string(or_last_error()).find(text) != std::string::npos;
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_.File("s");
};

TEST_F(StepVerdictTest, AGoodStep) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  Reduce(client);
  const or_verdict verdict = Judge(client);
  EXPECT_EQ(verdict.struct_size, sizeof(verdict));
  EXPECT_EQ(verdict.step, kStep);
  EXPECT_EQ(verdict.world, 2u);
  EXPECT_EQ(verdict.bad_steps, 0u);
  EXPECT_EQ(verdict.least_present, 1);
  EXPECT_EQ(verdict.min_fraction, 0);
  EXPECT_EQ(verdict.halt_after, 20u);
  EXPECT_LT(verdict.divergence, 0);
}

TEST_F(StepVerdictTest, WhatWasPresentIsInIt) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_, OR_SECONDS(30), 0.7);
  Reduce(client);
  Reduce(client, kStep, kPartial);  // 20 of 32 contributions, 4 elements absent
  or_verdict verdict = Judge(client);
  EXPECT_EQ(verdict.least_present, 0.625);
  EXPECT_EQ(verdict.least_present_rank, 0u);
  EXPECT_EQ(verdict.below_floor, 1u);
  EXPECT_EQ(verdict.bad_steps, 1u);
  EXPECT_EQ(verdict.absent, 8u);
  EXPECT_EQ(verdict.lacking[0], 3u);
  EXPECT_EQ(verdict.lacking_count, 2u);
  // Another rank's.
  Reduce(client, kFakeAbsentStep);
  verdict = Judge(client, kFakeAbsentStep);
  EXPECT_EQ(verdict.least_present, 0);
  EXPECT_EQ(verdict.least_present_rank, 1u);
  EXPECT_EQ(verdict.below_floor, 1u);
  EXPECT_EQ(verdict.absent, 10u);
  EXPECT_EQ(verdict.lacking[0], 2u);
  // An error has brought nothing.
  Reduce(client, kStep + 1, kFakeStatus + OPTIREDUCE_SHM_EXPIRED);
  EXPECT_EQ(Judge(client, kStep + 1).least_present, 0);
}

TEST_F(StepVerdictTest, WithoutAFloorNothingIsBelowIt) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  Reduce(client, kFakeAbsentStep);
  const or_verdict verdict = Judge(client, kFakeAbsentStep);
  EXPECT_EQ(verdict.least_present, 0);
  EXPECT_EQ(verdict.below_floor, 0u);
  EXPECT_EQ(verdict.bad_steps, 0u);
}

TEST_F(StepVerdictTest, InputsThatAreNotFiniteAreNamed) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  for (const float value : {std::nanf(""), -HUGE_VALF}) {
    for (const or_collective collective : {OR_ALL_REDUCE, OR_REDUCE_SCATTER}) {
      Reduce(client);
      client.input[TestClient::kCount - 1] = value;
      Reduce(client, kStep, 0, collective);
      client.input[TestClient::kCount - 1] = 0;
      const or_verdict verdict = Judge(client);
      EXPECT_EQ(verdict.non_finite[0], 3u);
      EXPECT_EQ(verdict.non_finite_count, 2u);
      EXPECT_GT(verdict.bad_steps, 0u);
      EXPECT_EQ(verdict.below_floor, 0u);
    }
  }
  Reduce(client);
  EXPECT_EQ(Judge(client).non_finite_count, 0u);
  Reduce(client, kFakeNonFiniteStep);
  EXPECT_EQ(Judge(client, kFakeNonFiniteStep).non_finite[0], 2u);
}

// What is not in the input is nobody's fault.
TEST_F(StepVerdictTest, OnlyTheInputIsLookedAt) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  client.output[3] = std::nanf("");
  client.input[8] = std::nanf("");
  or_operation operation = client.Operation();
  operation.step = kStep;
  operation.count = 8;
  or_op op = 0;
  ASSERT_EQ(or_submit(client.session, client.group, &operation, &op), OR_OK);
  EXPECT_EQ(or_wait(client.session, op, kAmple, nullptr), OR_OK);
  EXPECT_EQ(Judge(client).non_finite_count, 0u);
}

TEST_F(StepVerdictTest, ARunOfBadStepsAdvisesAHalt) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_, OR_SECONDS(30), 0, 3);
  for (uint32_t bad = 1; bad <= 4; ++bad) {
    Reduce(client, kFakeNonFiniteStep);
    const or_verdict verdict = Judge(client, kFakeNonFiniteStep);
    EXPECT_EQ(verdict.bad_steps, bad);
    EXPECT_EQ(verdict.halt_advised, bad >= 3 ? 1u : 0u);
    EXPECT_EQ(verdict.halt_after, 3u);
  }
  Reduce(client);
  EXPECT_EQ(Judge(client).bad_steps, 0u);
  Reduce(client, kFakeNonFiniteStep);
  EXPECT_EQ(Judge(client, kFakeNonFiniteStep).bad_steps, 1u);
}

TEST_F(StepVerdictTest, SettingsAreChecked) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  or_group_settings settings;
  or_group_settings_init(&settings, sizeof(settings));
  settings.world = 1;
  or_group group = 0;
  or_member member{};
  for (const double wrong : {-0.1, 1.1, std::nan("")}) {
    settings.min_fraction = wrong;
    EXPECT_EQ(
        or_group_prepare(client.session, &settings, kAmple, &group, &member),
        OR_ERR_ARGUMENT);
    EXPECT_TRUE(ErrorHas("min_fraction")) << or_last_error();
  }
  settings.min_fraction = 1;
  EXPECT_EQ(
      or_group_prepare(client.session, &settings, kAmple, &group, &member),
      OR_OK);
  // A program that was built before there were verdicts.
  settings.min_fraction = 7;
  settings.struct_size = offsetof(or_group_settings, min_fraction);
  EXPECT_EQ(
      or_group_prepare(client.session, &settings, kAmple, &group, &member),
      OR_OK)
      << or_last_error();
}

TEST_F(StepVerdictTest, ASketchTellsHowFarReplicasAreApart) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  const std::vector<float> parameters(100, 1.5F);
  or_sketch sketch{};
  ASSERT_EQ(or_sketch_add(&sketch, OR_FLOAT32, parameters.data(), 50), OR_OK);
  EXPECT_EQ(sketch.elements, 64u);
  ASSERT_EQ(or_sketch_add(&sketch, OR_FLOAT32, parameters.data() + 50, 50),
            OR_OK);
  EXPECT_EQ(sketch.elements, 128u);
  Reduce(client);
  EXPECT_EQ(Judge(client, kStep, &sketch).divergence, 0);
  // The second tensor is not taken for more of the first.
  or_sketch twice{};
  or_sketch_add(&twice, OR_FLOAT32, parameters.data(), 50);
  const or_sketch once = twice;
  or_sketch_add(&twice, OR_FLOAT32, parameters.data(), 50);
  EXPECT_NE(twice.sums[0], 2 * once.sums[0]);

  EXPECT_EQ(or_sketch_add(nullptr, OR_FLOAT32, parameters.data(), 1),
            OR_ERR_ARGUMENT);
  EXPECT_EQ(or_sketch_add(&sketch, OR_FLOAT32, nullptr, 1), OR_ERR_ARGUMENT);
  EXPECT_EQ(or_sketch_add(&sketch, OR_FLOAT32, nullptr, 0), OR_OK);
  for (const int dtype : {0, int{OR_INT32}, 13, -1, 257}) {
    EXPECT_EQ(or_sketch_add(&sketch, dtype, parameters.data(), 1),
              OR_ERR_ARGUMENT);
    EXPECT_TRUE(ErrorHas("no floating one")) << or_last_error();
  }
  EXPECT_EQ(sketch.elements, 128u);
}

TEST_F(StepVerdictTest, ItIsOfAStepThatIsOver) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  or_op verdict = 0;
  EXPECT_EQ(Submit(client, kStep, &verdict), OR_ERR_ARGUMENT);
  EXPECT_TRUE(ErrorHas("of step 5 has ended")) << or_last_error();
  Reduce(client);
  or_operation operation = client.Operation(kFakeHold);
  operation.step = kStep;
  or_op op = 0;
  ASSERT_EQ(or_submit(client.session, client.group, &operation, &op), OR_OK);
  EXPECT_EQ(Submit(client, kStep, &verdict), OR_ERR_BUSY);
  EXPECT_TRUE(ErrorHas("of step 5 is in flight")) << or_last_error();
}

TEST_F(StepVerdictTest, ThereIsOneAtATimeAndOnceForAStep) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  Reduce(client);
  Reduce(client, kStep + 1);
  or_op first = 0;
  or_op second = 0;
  ASSERT_EQ(Submit(client, kStep, &first), OR_OK);
  EXPECT_EQ(Submit(client, kStep + 1, &second), OR_ERR_BUSY);
  EXPECT_TRUE(ErrorHas("verdict on step 5")) << or_last_error();
  or_verdict verdict{};
  EXPECT_EQ(Read(client, first, &verdict), OR_OK);
  EXPECT_EQ(Read(client, first, &verdict), OR_ERR_ARGUMENT);
  EXPECT_EQ(Submit(client, kStep, &first), OR_ERR_ARGUMENT) << "a second time";
  EXPECT_EQ(Submit(client, kStep + 1, &second), OR_OK);
  EXPECT_EQ(Read(client, second, &verdict), OR_OK);
}

TEST_F(StepVerdictTest, OperationsAndVerdictsAreAskedForApart) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  Reduce(client);
  or_op op = 0;
  ASSERT_EQ(Submit(client, kStep, &op), OR_OK);
  EXPECT_EQ(or_wait(client.session, op, kAmple, nullptr), OR_ERR_ARGUMENT);
  EXPECT_TRUE(ErrorHas("or_verdict_wait")) << or_last_error();
  EXPECT_EQ(or_poll(client.session, op, nullptr), OR_ERR_ARGUMENT);
  or_verdict verdict{};
  const or_op other = client.Submit(kFakeHold);
  EXPECT_EQ(Read(client, other, &verdict), OR_ERR_ARGUMENT);
  verdict.struct_size = 8;
  EXPECT_EQ(or_verdict_wait(client.session, op, kAmple, &verdict),
            OR_ERR_ARGUMENT);
  EXPECT_EQ(Read(client, op, &verdict), OR_OK);
}

TEST_F(StepVerdictTest, ALimitIsKeptAndTheVerdictGoesOn) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  Reduce(client, kFakeHoldVerdict);
  or_op op = 0;
  ASSERT_EQ(Submit(client, kFakeHoldVerdict, &op), OR_OK);
  or_verdict verdict{};
  verdict.step = 99;
  EXPECT_EQ(Read(client, op, &verdict, 0), OR_ERR_TIMEOUT);
  EXPECT_EQ(Read(client, op, &verdict, OR_MILLISECONDS(20)), OR_ERR_TIMEOUT);
  EXPECT_TRUE(ErrorHas("the verdict on step 3004")) << or_last_error();
  EXPECT_EQ(verdict.step, 99u);
  EXPECT_EQ(or_group_leave(client.session, client.group, kAmple), OR_OK);
  EXPECT_EQ(Read(client, op, &verdict), OR_ERR_CANCELLED);
}

TEST_F(StepVerdictTest, ErrorsSayWhy) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  or_op op = 0;
  or_verdict verdict{};
  Reduce(client, kFakeFailVerdict);
  ASSERT_EQ(Submit(client, kFakeFailVerdict, &op), OR_OK);
  EXPECT_EQ(Read(client, op, &verdict), OR_ERR_HARD_LIMIT);
  EXPECT_TRUE(ErrorHas("the verdict on step 3005")) << or_last_error();
  EXPECT_TRUE(ErrorHas("missing: rank 1")) << or_last_error();
  Reduce(client, kFakeOtherVersionStep);
  ASSERT_EQ(Submit(client, kFakeOtherVersionStep, &op), OR_OK);
  EXPECT_EQ(Read(client, op, &verdict), OR_ERR_VERSION);
  EXPECT_TRUE(ErrorHas("rank 1 has another version")) << or_last_error();
  Reduce(client);
  EXPECT_EQ(Judge(client).bad_steps, 0u);
  or_group_leave(client.session, client.group, kAmple);
  EXPECT_EQ(Submit(client, kStep, &op), OR_ERR_CLOSED);
  EXPECT_EQ(or_verdict_submit(nullptr, client.group, kStep, nullptr, &op),
            OR_ERR_ARGUMENT);
  EXPECT_EQ(Submit(client, kStep, nullptr), OR_ERR_ARGUMENT);
}

// After a missed verdict the run goes on from what is known.
TEST_F(StepVerdictTest, AnErrorLeavesTheRun) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  Reduce(client, kFakeNonFiniteStep);
  EXPECT_EQ(Judge(client, kFakeNonFiniteStep).bad_steps, 1u);
  Reduce(client, kFakeFailVerdict);
  or_op op = 0;
  ASSERT_EQ(Submit(client, kFakeFailVerdict, &op), OR_OK);
  or_verdict verdict{};
  EXPECT_EQ(Read(client, op, &verdict), OR_ERR_HARD_LIMIT);
  Reduce(client, kFakeNonFiniteStep);
  EXPECT_EQ(Judge(client, kFakeNonFiniteStep).bad_steps, 2u);
}

TEST_F(StepVerdictTest, ADaemonThatDiesIsNoticedByWhoLooksAgainAndAgain) {
  FakeDaemonProcess daemon(path_);
  TestClient client(path_);
  Reduce(client, kFakeHoldVerdict);
  or_op op = 0;
  ASSERT_EQ(Submit(client, kFakeHoldVerdict, &op), OR_OK);
  daemon.Kill();
  or_verdict verdict{};
  EXPECT_EQ(Read(client, op, &verdict, 0), OR_ERR_DAEMON_LOST);
}

// Records take memory of the segment until the verdict is read, and no longer.
TEST_F(StepVerdictTest, MemoryComesBack) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  const auto fill = [&client](size_t bytes) {
    void* buffer = nullptr;
    while (or_allocate(client.session, bytes, &buffer) == OR_OK) {
    }
  };
  fill(1 << 16);
  for (int i = 0; i < 300; ++i) {  // more than what is left has room for
    Reduce(client);
    ASSERT_EQ(Judge(client).bad_steps, 0u);
  }
  fill(1 << 12);
  fill(64);
  Reduce(client);
  or_op op = 0;
  EXPECT_EQ(Submit(client, kStep, &op), OR_ERR_NO_MEMORY);
  EXPECT_TRUE(ErrorHas("segment_bytes")) << or_last_error();
}

}  // namespace
}  // namespace optireduce::client
