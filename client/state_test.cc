// Saved state by the C ABI, against a daemon that saves what it has loaded.

#include <gtest/gtest.h>
#include <string.h>

#include <string>

#include "client/optireduce.h"
#include "client/testing/fake_daemon.h"
#include "client/testing/fixture.h"

namespace optireduce::client {
namespace {

constexpr int64_t kAmple = OR_SECONDS(30);

class StateTest : public ::testing::Test {
 protected:
  static int Wait(TestClient& client, or_op op, uint64_t* bytes = nullptr) {
    or_report report{};
    report.struct_size = sizeof(report);
    const int status = or_wait(client.session, op, kAmple, &report);
    if (bytes != nullptr) *bytes = report.elements;
    return status;
  }
  static int Load(TestClient& client, const std::string& state) {
    memcpy(client.input, state.data(), state.size());
    or_op op = 0;
    const int status = or_state_load(client.session, client.group, client.input,
                                     state.size(), &op);
    return status != OR_OK ? status : Wait(client, op);
  }
  static int Save(TestClient& client, uint64_t capacity, uint64_t* bytes) {
    or_op op = 0;
    const int status = or_state_save(client.session, client.group,
                                     client.output, capacity, &op);
    return status != OR_OK ? status : Wait(client, op, bytes);
  }
  static bool ErrorHas(const std::string& text) {
    return std::string(or_last_error()).find(text) != std::string::npos;
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_.File("s");
};

TEST_F(StateTest, WhatWasLoadedIsSaved) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  uint64_t bytes = 99;
  EXPECT_EQ(Save(client, 64, &bytes), OR_OK) << or_last_error();
  EXPECT_EQ(bytes, 0u);
  const std::string state = "seventeen letters";
  EXPECT_EQ(Load(client, state), OR_OK) << or_last_error();
  EXPECT_EQ(Save(client, 17, &bytes), OR_OK) << or_last_error();
  EXPECT_EQ(bytes, 17u);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(client.output), 17),
            state);
  EXPECT_EQ(Save(client, 16, &bytes), OR_ERR_NO_MEMORY);
  EXPECT_EQ(bytes, 17u);
  EXPECT_TRUE(ErrorHas("takes 17 bytes")) << or_last_error();
  EXPECT_TRUE(ErrorHas("saving its state")) << or_last_error();
}

TEST_F(StateTest, RefusalsSayWhy) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  EXPECT_EQ(Load(client, "damaged"), OR_ERR_ARGUMENT);
  EXPECT_TRUE(ErrorHas("loading its state")) << or_last_error();
  EXPECT_TRUE(ErrorHas("damaged")) << or_last_error();
  or_operation operation = client.Operation(1);
  operation.step = 2;
  operation.output = client.input;
  or_op op = 0;
  ASSERT_EQ(or_submit(client.session, client.group, &operation, &op), OR_OK);
  EXPECT_EQ(Wait(client, op), OR_OK);
  EXPECT_EQ(Save(client, 64, nullptr), OR_ERR_BUSY);
  EXPECT_TRUE(ErrorHas("close their steps")) << or_last_error();
  // The buffer of an open step.
  EXPECT_EQ(Load(client, "x"), OR_ERR_BUSY);
  EXPECT_TRUE(ErrorHas("step 2, which is open")) << or_last_error();
}

TEST_F(StateTest, ItsMemoryIsSharedAndInFlight) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  char elsewhere[8] = {};
  or_op op = 0;
  EXPECT_EQ(or_state_save(client.session, client.group, elsewhere, 8, &op),
            OR_ERR_ARGUMENT);
  EXPECT_TRUE(ErrorHas("or_allocate")) << or_last_error();
  EXPECT_EQ(or_state_load(client.session, client.group, client.input,
                          uint64_t{1} << 32, &op),
            OR_ERR_ARGUMENT);
  EXPECT_EQ(or_state_save(client.session, 99, client.output, 8, &op),
            OR_ERR_CLOSED);
  EXPECT_EQ(
      or_state_save(client.session, client.group, client.output, 8, nullptr),
      OR_ERR_ARGUMENT);
  ASSERT_EQ(or_state_save(client.session, client.group, client.output, 8, &op),
            OR_OK);
  EXPECT_EQ(Wait(client, op), OR_OK);
  client.Submit(kFakeHold);
  EXPECT_EQ(Save(client, 8, nullptr), OR_ERR_BUSY);
}

}  // namespace
}  // namespace optireduce::client
