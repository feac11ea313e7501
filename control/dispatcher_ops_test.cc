// What optictl is told of single ops.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "control/dispatcher_testing.h"
#include "dataplane/core/op_record.h"

namespace optireduce::control {
namespace {

using core::EndCause;
using core::OpRecord;
using core::OpSeq;
using core::OpState;
using core::OpStatus;
using core::Rank;
using ::testing::ElementsAre;

constexpr Timestamp kOpened = Timestamp::FromNanos(5'000'000'000);

Timestamp At(int64_t micros) { return kOpened + Duration::Micros(micros); }

// Submitted 2 ms after this host heard of it. Stage 1 closed at its bound, one
// packet of rank 1 came 5 ms later, stage 2 closed with all in.
OpRecord EndedRecord() {
  OpRecord record;
  record.seq = OpSeq(17);
  record.state = OpState::kClosed;
  record.has_descriptor = true;
  record.descriptor.count = 40'000;
  record.descriptor.bucket = 4;
  record.descriptor.step = 9;
  record.report.status = OpStatus::kPartial;
  record.report.cause = EndCause::kAllIn;
  record.report.world = 2;
  record.report.elements = 40'000;
  record.report.contributions = 79'000;
  record.report.missing.Add(Rank(1));
  record.report.submitted = At(2'000);
  record.report.quorum = At(2'300);
  record.report.result_bound = Duration::Millis(100);
  record.report.deadline = At(102'300);
  record.report.closed = At(62'500);
  record.history.opened = kOpened;
  record.history.openers.Add(Rank(0), At(2'000));
  record.history.openers.Add(Rank(1), At(2'300));
  record.history.owed.debt = 356;
  core::StageRecord& one = record.history.stages[0];
  one.OnPacket(At(2'100));
  one.OnRepaired();
  one.OnClosed(EndCause::kDeadline, 112, 111, At(62'300));
  one.OnLacking(Rank(1), true, 1);
  one.OnLate(Rank(1), At(67'300));
  core::StageRecord& two = record.history.stages[1];
  two.OnPacket(At(62'400));
  two.OnClosed(EndCause::kAllIn, 112, 112, At(62'500));
  return record;
}

class DispatcherOpsTest : public DispatcherTest {
 protected:
  DispatcherOpsTest() : client_(LiveClient()), group_(ReadyGroup(client_)) {}

  // The answer to the question, if the engine has these records.
  OpsReply AskOps(const OpsRequest& ops, const std::vector<OpRecord>& records) {
    Request request;
    request.set_id(1);
    *request.mutable_ops() = ops;
    client_.Send(request);
    EXPECT_TRUE(RunUntil([&] { return !engine_.commands.empty(); }));
    const auto take = engine_.Take<engine::TakeSnapshot>();
    EXPECT_TRUE(take.with_ops);
    engine::Snapshot snapshot;
    engine::GroupSnapshot& row = snapshot.groups.emplace_back();
    row.group = group_.id;
    row.ops = records;
    AnswerSnapshot(take.request, std::move(snapshot));
    return Answer(client_, 1).ops();
  }
  OpsReply::Op TheOp(const OpRecord& record) {
    const OpsReply reply = AskOps({}, {record});
    EXPECT_EQ(reply.ops_size(), 1);
    return reply.ops().empty() ? OpsReply::Op() : reply.ops(0);
  }

  TestClient client_;
  Forming group_;
};

TEST_F(DispatcherOpsTest, TellHowTheyWent) {
  const OpsReply::Op op = TheOp(EndedRecord());
  EXPECT_EQ(op.session(), client_.session);
  EXPECT_EQ(op.group(), group_.handle);
  EXPECT_EQ(op.op_seq(), 17u);
  EXPECT_EQ(op.bucket(), 4u);
  EXPECT_EQ(op.step(), 9u);
  EXPECT_EQ(op.status(), "partial");
  EXPECT_EQ(op.cause(), "all_in");
  EXPECT_EQ(op.world(), 2u);
  EXPECT_EQ(op.elements(), 40'000u);
  EXPECT_NEAR(op.missing_fraction(), 1.0 / 80, 1e-9);
  EXPECT_EQ(op.duration_us(), 60'500u);
  EXPECT_THAT(op.missing(), ElementsAre(1u));
  EXPECT_EQ(op.collective(), "all_reduce");
  EXPECT_EQ(op.mode(), "bounded");
  EXPECT_EQ(op.submitted_us(), 2'000u);
  EXPECT_EQ(op.quorum_us(), 2'300u);
  EXPECT_EQ(op.closed_us(), 62'500u);
  EXPECT_EQ(op.saved_us(), 4'800u);
  ASSERT_EQ(op.last_openings_size(), 2);
  EXPECT_EQ(op.openings(), 2u);
  EXPECT_EQ(op.last_openings(0).rank(), 1u);
  EXPECT_EQ(op.last_openings(0).at_us(), 2'300u);
  EXPECT_EQ(op.owed().debt(), 356u);
}

TEST_F(DispatcherOpsTest, TellOfBothStages) {
  const OpsReply::Op op = TheOp(EndedRecord());
  const OpsReply::Stage& one = op.stage1();
  EXPECT_EQ(one.opened_us(), 2'100u);
  EXPECT_EQ(one.closed_us(), 62'300u);
  EXPECT_EQ(one.cause(), "bound");
  EXPECT_EQ(one.due(), 112u);
  EXPECT_EQ(one.came(), 111u);
  EXPECT_EQ(one.repaired(), 1u);
  EXPECT_EQ(one.late(), 1u);
  EXPECT_EQ(one.full_us(), 67'300u);
  EXPECT_EQ(one.lacking_ranks(), 1u);
  ASSERT_EQ(one.lacking_size(), 1);
  EXPECT_EQ(one.lacking(0).rank(), 1u);
  EXPECT_TRUE(one.lacking(0).begun());
  EXPECT_EQ(one.lacking(0).packets(), 1u);
  EXPECT_EQ(one.lacking(0).late(), 1u);
  EXPECT_EQ(one.lacking(0).last_late_us(), 67'300u);
  EXPECT_EQ(op.stage2().cause(), "all_in");
  EXPECT_EQ(op.stage2().full_us(), 62'400u);
  EXPECT_EQ(op.stage2().lacking_size(), 0);
}

TEST_F(DispatcherOpsTest, WhatNeverCameLeavesTheSavedTimeUnknown) {
  OpRecord record = EndedRecord();
  record.history.stages[1] = {};
  record.history.stages[1].OnClosed(EndCause::kEarly, 112, 110, At(62'500));
  OpsReply::Op op = TheOp(record);
  EXPECT_FALSE(op.has_saved_us());
  EXPECT_FALSE(op.stage2().has_full_us());
  EXPECT_FALSE(op.stage2().has_opened_us());
  EXPECT_EQ(op.stage2().cause(), "early");
  // Nobody waits for an op that failed.
  record = EndedRecord();
  record.report.status = OpStatus::kHardLimit;
  record.report.cause = EndCause::kError;
  op = TheOp(record);
  EXPECT_EQ(op.status(), "hard_limit");
  EXPECT_FALSE(op.has_saved_us());
}

TEST_F(DispatcherOpsTest, NameTheDeadline) {
  OpRecord record = EndedRecord();
  record.report.cause = EndCause::kDeadline;
  record.history.stages[1].OnClosed(EndCause::kDeadline, 112, 100, At(102'300));
  EXPECT_EQ(TheOp(record).stage2().cause(), "bound");
  record.report.deadline = At(102'299);
  EXPECT_EQ(TheOp(record).stage2().cause(), "soft_limit");
  EXPECT_EQ(TheOp(record).stage1().cause(), "bound") << "it knows no other";
  record.report.submitted = At(150'000);
  EXPECT_EQ(TheOp(record).stage2().cause(), "late_submit");
  // Without a quorum there is no bound.
  record.report.submitted = At(2'000);
  record.report.quorum = Timestamp::Never();
  EXPECT_EQ(TheOp(record).stage2().cause(), "soft_limit");
}

TEST_F(DispatcherOpsTest, TellOfWhatHasNotEnded) {
  OpRecord record = EndedRecord();
  record.state = OpState::kActive;
  record.history.stages = {};
  OpsReply::Op op = TheOp(record);
  EXPECT_EQ(op.status(), "in_flight");
  EXPECT_TRUE(op.has_submitted_us());
  EXPECT_FALSE(op.has_closed_us());
  EXPECT_TRUE(op.has_stage1());
  EXPECT_FALSE(op.stage1().has_closed_us());
  record.state = OpState::kLate;
  record.has_descriptor = false;
  record.descriptor = {};
  record.report = {};
  op = TheOp(record);
  EXPECT_EQ(op.status(), "not_submitted");
  EXPECT_EQ(op.world(), 2u) << "the group's";
  EXPECT_EQ(op.collective(), "");
  EXPECT_FALSE(op.has_submitted_us());
  EXPECT_FALSE(op.has_owed());
}

TEST_F(DispatcherOpsTest, AreOrderedAndChosen) {
  std::vector<OpRecord> records(4, EndedRecord());
  for (uint32_t i = 0; i < 4; ++i) {
    records[i].seq = OpSeq(i);
    records[i].report.closed = At(60'000 + int64_t{i});
  }
  records[1].state = OpState::kActive;
  const auto numbers = [&](const OpsRequest& request) {
    std::vector<uint32_t> seen;
    const OpsReply reply = AskOps(request, records);
    for (const auto& op : reply.ops()) seen.push_back(op.op_seq());
    return seen;
  };
  OpsRequest request;
  EXPECT_THAT(numbers(request), ElementsAre(1, 3, 2, 0));
  request.set_limit(2);
  EXPECT_THAT(numbers(request), ElementsAre(1, 3));
  request.set_op(0);
  EXPECT_THAT(numbers(request), ElementsAre(0));
  request.set_group(group_.handle);
  EXPECT_THAT(numbers(request), ElementsAre(0));
  request.set_group(group_.handle + 1);
  EXPECT_THAT(numbers(request), ElementsAre());
}

}  // namespace
}  // namespace optireduce::control
