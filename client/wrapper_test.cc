#include <gtest/gtest.h>

#include <type_traits>

#include "client/optireduce.hpp"
#include "client/testing/fixture.h"

namespace optireduce {
namespace {

using client::FakeDaemonThread;
using client::TemporaryDirectory;

static_assert(!std::is_copy_constructible_v<Session>);
static_assert(!std::is_copy_constructible_v<Group>);
static_assert(!std::is_copy_constructible_v<Buffer<float>>);
static_assert(std::is_nothrow_move_constructible_v<Session>);

or_connect_options OptionsFor(const std::string& path) {
  or_connect_options options;
  or_connect_options_init(&options, sizeof(options));
  options.socket_path = path.c_str();
  options.segment_bytes = 1 << 16;
  options.limit_ns = OR_SECONDS(5);
  return options;
}

TEST(WrapperTest, FromConnectToReport) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("s");
  const FakeDaemonThread daemon(path);
  const or_connect_options options = OptionsFor(path);
  Session session;
  ASSERT_EQ(session.Connect(&options), OR_OK) << last_error();
  Buffer<int32_t> buffer = session.Allocate<int32_t>(100);
  ASSERT_TRUE(buffer);
  for (int32_t& value : buffer) value = 6;
  Group group;
  ASSERT_EQ(group.CreateInDirectory(session, Group::Settings(0, 1, "w"),
                                    directory.path().c_str()),
            OR_OK)
      << last_error();
  or_op op = 0;
  ASSERT_EQ(group.Submit(
                AllReduce(buffer.data(), buffer.size(), OR_MAX, OR_EXACT), &op),
            OR_OK)
      << last_error();
  or_report report;
  ASSERT_EQ(session.Wait(op, OR_SECONDS(5), &report), OR_OK) << last_error();
  EXPECT_EQ(report.elements, 100u);
  EXPECT_EQ(buffer[99], 6);
  or_event event;
  EXPECT_EQ(group.NextEvent(&event), OR_PENDING);
  EXPECT_EQ(group.Leave(OR_SECONDS(5)), OR_OK);
  EXPECT_EQ(group.Leave(OR_SECONDS(5)), OR_OK);
}

// A group of one, and a buffer for its steps.
class WrapperStepTest : public testing::Test {
 protected:
  void SetUp() override {
    const or_connect_options options = OptionsFor(path_);
    ASSERT_EQ(session_.Connect(&options), OR_OK) << last_error();
    buffer_ = session_.Allocate<float>(100);
    ASSERT_EQ(group_.CreateInDirectory(session_, Group::Settings(0, 1, "w"),
                                       directory_.path().c_str()),
              OR_OK)
        << last_error();
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_.File("s");
  const FakeDaemonThread daemon_{path_};
  Session session_;
  Buffer<float> buffer_;
  Group group_;
};

TEST_F(WrapperStepTest, AStepIsClosed) {
  or_operation operation = AllReduce(buffer_.data(), buffer_.size());
  operation.bucket = 1;
  operation.step = 2;
  or_op op = 0;
  ASSERT_EQ(group_.Submit(operation, &op), OR_OK) << last_error();
  EXPECT_EQ(session_.Wait(op, OR_SECONDS(5), nullptr), OR_OK);
  uint64_t closed = 0;
  EXPECT_EQ(group_.CloseStep(2, OR_STEP_USED, OR_SECONDS(5), &closed), OR_OK);
  EXPECT_EQ(closed, 1u);
  EXPECT_EQ(group_.CloseStep(2, OR_STEP_SKIPPED, OR_SECONDS(5)), OR_OK);
}

TEST_F(WrapperStepTest, AStepIsJudged) {
  or_operation operation = AllReduce(buffer_.data(), buffer_.size());
  operation.step = 2;
  or_op op = 0;
  ASSERT_EQ(group_.Submit(operation, &op), OR_OK) << last_error();
  EXPECT_EQ(session_.Wait(op, OR_SECONDS(5), nullptr), OR_OK);
  or_sketch sketch{};
  EXPECT_EQ(or_sketch_add(&sketch, OR_FLOAT32, buffer_.data(), buffer_.size()),
            OR_OK);
  ASSERT_EQ(group_.SubmitVerdict(2, &sketch, &op), OR_OK) << last_error();
  or_verdict verdict;
  EXPECT_EQ(group_.WaitVerdict(op, OR_SECONDS(5), &verdict), OR_OK);
  EXPECT_EQ(verdict.step, 2u);
  EXPECT_EQ(verdict.bad_steps, 0u);
  EXPECT_EQ(verdict.divergence, 0);
}

TEST(WrapperTest, BuffersGiveTheirMemoryBack) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("s");
  const FakeDaemonThread daemon(path);
  const or_connect_options options = OptionsFor(path);
  Session session;
  ASSERT_EQ(session.Connect(&options), OR_OK) << last_error();
  for (int i = 0; i < 3; ++i) {
    Buffer<uint8_t> whole = session.Allocate<uint8_t>(1 << 16);
    EXPECT_TRUE(whole);
    EXPECT_FALSE(session.Allocate<uint8_t>(1));
    Buffer<uint8_t> moved = std::move(whole);
    EXPECT_TRUE(moved);
  }
  EXPECT_FALSE(session.Allocate<uint64_t>(SIZE_MAX / 4));
}

TEST(WrapperTest, NothingIsConnectedAtFirst) {
  Session session;
  Group group;
  or_op op = 0;
  EXPECT_EQ(group.Submit(or_operation{}, &op), OR_ERR_ARGUMENT);
  EXPECT_EQ(session.Wait(1, 0, nullptr), OR_ERR_ARGUMENT);
  EXPECT_FALSE(session.Allocate<float>(1));
}

}  // namespace
}  // namespace optireduce
