// Steps by the C ABI, against a daemon that answers as it is told.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "client/optireduce.h"
#include "client/testing/fake_daemon.h"
#include "client/testing/fixture.h"
#include "proto/shm_abi.h"

namespace optireduce::client {
namespace {

constexpr int64_t kAmple = OR_SECONDS(30);
constexpr uint64_t kBucket = 1;
constexpr uint64_t kStep = 5;

class StepTest : public ::testing::Test {
 protected:
  // Submits from input to output and waits; whether the step is open then.
  static bool Run(TestClient& client, uint64_t bucket = kBucket,
                  uint64_t step = kStep) {
    or_operation operation = client.Operation(bucket);
    operation.step = step;
    or_op op = 0;
    EXPECT_EQ(or_submit(client.session, client.group, &operation, &op), OR_OK)
        << or_last_error();
    or_report report{};
    report.struct_size = sizeof(report);
    or_wait(client.session, op, kAmple, &report);
    return report.step_open != 0;
  }
  static int Submit(TestClient& client, float* input, float* output) {
    or_operation operation = client.Operation();
    operation.input = input;
    operation.output = output;
    or_op op = 0;
    const int status = or_submit(client.session, client.group, &operation, &op);
    if (status == OR_OK) or_wait(client.session, op, kAmple, nullptr);
    return status;
  }
  static int Close(TestClient& client, uint64_t step = kStep,
                   uint64_t* closed = nullptr) {
    return or_step_close(client.session, client.group, step, OR_STEP_USED,
                         kAmple, closed);
  }
  static bool ErrorHas(const std::string& text) {
    return std::string(or_last_error()).find(text) != std::string::npos;
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_.File("s");
};

TEST_F(StepTest, ACloseCountsTheOperationsOfItsStep) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  uint64_t closed = 99;
  EXPECT_EQ(Close(client, kStep, &closed), OR_OK) << or_last_error();
  EXPECT_EQ(closed, 0u);
  EXPECT_TRUE(Run(client));
  EXPECT_EQ(Close(client, kStep + 1, &closed), OR_OK);
  EXPECT_EQ(closed, 0u);
  EXPECT_EQ(Close(client, kStep, &closed), OR_OK);
  EXPECT_EQ(closed, 1u);
  EXPECT_EQ(or_step_close(client.session, client.group, kStep, OR_STEP_SKIPPED,
                          kAmple, nullptr),
            OR_OK);
}

TEST_F(StepTest, TheOutputIsTheDaemonsUntilTheClose) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  ASSERT_TRUE(Run(client));
  for (const auto& [input, output] :
       {std::pair{client.input, client.output},
        std::pair{client.output, client.input},
        std::pair{client.output, client.output}}) {
    EXPECT_EQ(Submit(client, input, output), OR_ERR_BUSY);
    EXPECT_TRUE(ErrorHas("step 5, which is open")) << or_last_error();
    EXPECT_TRUE(ErrorHas("or_step_close")) << or_last_error();
  }
  char text[64];
  snprintf(text, sizeof(text), "[%p, %p)", static_cast<void*>(client.output),
           static_cast<void*>(client.output + TestClient::kCount));
  EXPECT_TRUE(ErrorHas(text)) << or_last_error();
  EXPECT_EQ(or_free(client.session, client.output), OR_ERR_BUSY);
  EXPECT_TRUE(ErrorHas("step 5")) << or_last_error();
  // The input is not.
  EXPECT_EQ(Submit(client, client.input, client.input), OR_OK);

  EXPECT_EQ(Close(client), OR_OK);
  EXPECT_EQ(Submit(client, client.input, client.output), OR_OK);
  EXPECT_EQ(or_free(client.session, client.output), OR_OK);
}

TEST_F(StepTest, AnErrorLeavesNothingOpen) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  EXPECT_FALSE(Run(client, kFakeStatus + OPTIREDUCE_SHM_HARD_LIMIT));
  EXPECT_TRUE(Run(client, kFakeStatus + OPTIREDUCE_SHM_PARTIAL));
  EXPECT_EQ(Close(client), OR_OK);
  EXPECT_FALSE(Run(client, kBucket, 0));
  EXPECT_FALSE(Run(client, 0, kStep));
}

// The report says what is so when it is asked for.
TEST_F(StepTest, AnOperationThatIsAskedForAfterTheCloseIsNotOpen) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  or_operation operation = client.Operation(kBucket);
  operation.step = kStep;
  or_op op = 0;
  ASSERT_EQ(or_submit(client.session, client.group, &operation, &op), OR_OK);
  EXPECT_EQ(Close(client), OR_OK);
  or_report report{};
  report.struct_size = sizeof(report);
  EXPECT_EQ(or_wait(client.session, op, kAmple, &report), OR_OK);
  EXPECT_EQ(report.step_open, 0u);
}

TEST_F(StepTest, LeavingAndDisconnectingEndSteps) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  ASSERT_TRUE(Run(client));
  EXPECT_EQ(or_group_leave(client.session, client.group, kAmple), OR_OK);
  EXPECT_EQ(or_free(client.session, client.output), OR_OK);
  EXPECT_EQ(Close(client), OR_ERR_CLOSED);

  TestClient other(path_);
  ASSERT_TRUE(Run(other));
  EXPECT_EQ(or_disconnect(other.session), OR_OK);
  EXPECT_EQ(or_free(other.session, other.output), OR_OK);
  EXPECT_EQ(Close(other), OR_ERR_CLOSED);
}

TEST_F(StepTest, ALimitIsKeptAndTheCloseStillDone) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  EXPECT_EQ(or_step_close(client.session, client.group, kFakeHoldStep,
                          OR_STEP_USED, OR_MILLISECONDS(20), nullptr),
            OR_ERR_TIMEOUT);
  EXPECT_TRUE(ErrorHas("step 2001")) << or_last_error();
  ASSERT_TRUE(Run(client, kBucket, kFakeLaterStep));
  EXPECT_EQ(or_step_close(client.session, client.group, kFakeLaterStep,
                          OR_STEP_USED, 0, nullptr),
            OR_ERR_TIMEOUT);
  EXPECT_EQ(or_free(client.session, client.output), OR_ERR_BUSY);
  EXPECT_EQ(Close(client, kFakeLaterStep), OR_OK);
  EXPECT_EQ(or_free(client.session, client.output), OR_OK);
}

TEST_F(StepTest, RefusalsSayWhy) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  EXPECT_EQ(Close(client, kFakeStepRefusal + OPTIREDUCE_SHM_REFUSAL_LEFT),
            OR_ERR_CLOSED);
  EXPECT_TRUE(ErrorHas("step 2210 was not closed: this rank has left"))
      << or_last_error();
  EXPECT_EQ(Close(client, 0), OR_ERR_ARGUMENT);
  EXPECT_TRUE(ErrorHas("step 0")) << or_last_error();
  EXPECT_EQ(
      or_step_close(client.session, client.group, kStep, 3, kAmple, nullptr),
      OR_ERR_ARGUMENT);
  EXPECT_TRUE(ErrorHas("outcome 3")) << or_last_error();
  EXPECT_EQ(or_step_close(client.session, client.group + 1, kStep, OR_STEP_USED,
                          kAmple, nullptr),
            OR_ERR_CLOSED);
  EXPECT_EQ(or_step_close(nullptr, client.group, kStep, OR_STEP_USED, kAmple,
                          nullptr),
            OR_ERR_ARGUMENT);
  ASSERT_FALSE(Run(client, kFakeRefusal + OPTIREDUCE_SHM_REFUSAL_STEPS_OPEN));
  EXPECT_TRUE(ErrorHas("1024 operations are open")) << or_last_error();
}

TEST_F(StepTest, TheLossScaleTravels) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  or_operation operation = client.Operation(kFakeScale);
  for (const auto& [given, got] : {std::pair{0.0F, 1.0F}, {1024.0F, 1024.0F}}) {
    operation.loss_scale = given;
    or_op op = 0;
    ASSERT_EQ(or_submit(client.session, client.group, &operation, &op), OR_OK)
        << or_last_error();
    EXPECT_EQ(or_wait(client.session, op, kAmple, nullptr), OR_OK);
    EXPECT_EQ(client.output[0], got);
  }
  or_operation_init(&operation, sizeof(operation));
  EXPECT_EQ(operation.loss_scale, 1);
}

}  // namespace
}  // namespace optireduce::client
