// The oracles find what they are there to find.

#include <cstring>
#include <string>
#include <vector>

#include "dataplane/sim/buffers.h"
#include "dataplane/sim/group_run.h"
#include "dataplane/sim/host_clock.h"
#include "dataplane/sim/inputs.h"
#include "dataplane/sim/ledger.h"
#include "dataplane/sim/record_check.h"
#include "dataplane/sim/repair_check.h"
#include "dataplane/sim/report_check.h"
#include "dataplane/sim/result_check.h"
#include "dataplane/sim/testing.h"
#include "gtest/gtest.h"
#include "proto/wire.h"

namespace optireduce::sim {
namespace {

using core::Mode;
using core::OpStatus;
using testing::R;

Timestamp At(int64_t millis) { return Timestamp() + Duration::Millis(millis); }

// ---- buffers

class BuffersTest : public ::testing::TestWithParam<bool> {
 protected:
  const std::vector<uint8_t> input_ = {1, 2, 3, 4, 5, 6, 7, 8};
  OpBuffers buffers_{input_, 8, GetParam(), 3};
};

TEST_P(BuffersTest, TheOutputMayChange) {
  std::memset(buffers_.view().output, 9, 8);
  EXPECT_EQ(buffers_.CheckGuards(), "");
}

TEST_P(BuffersTest, NothingAroundItMay) {
  uint8_t* const output = buffers_.view().output;
  for (const ptrdiff_t at : {-1, -64, 8, 71}) {
    const uint8_t before = output[at];
    output[at] ^= 1;
    EXPECT_NE(buffers_.CheckGuards(), "") << at;
    output[at] = before;
  }
  EXPECT_EQ(buffers_.CheckGuards(), "");
}

TEST_P(BuffersTest, AfterTheReportNothingMayAtAll) {
  buffers_.Overwrite();
  EXPECT_EQ(buffers_.CheckOverwritten(), "");
  buffers_.view().output[5] = 0;
  EXPECT_NE(buffers_.CheckOverwritten(), "");
}

INSTANTIATE_TEST_SUITE_P(InPlaceOrNot, BuffersTest, ::testing::Bool());

TEST(BuffersTest, OutOfPlaceTheInputStays) {
  const std::vector<uint8_t> input = {1, 2, 3};
  OpBuffers buffers(input, 3, false, 0);
  const_cast<uint8_t*>(buffers.view().input)[1] = 9;
  EXPECT_EQ(buffers.CheckGuards(), "written to the input");
}

TEST(BuffersTest, NoBytesNoPointer) {
  OpBuffers buffers({}, 0, true, 0);
  EXPECT_EQ(buffers.view().input, nullptr);
  EXPECT_EQ(buffers.view().output, nullptr);
}

// ---- an op of three ranks that all submitted at 1 ms

class OpTest : public ::testing::Test {
 protected:
  OpTest() {
    scenario_ = testing::Ranks(3);
    OpSpec op = testing::AllReduce(3000, Mode::kBounded);
    testing::Add(&scenario_, op);
    scenario_.groups[0].ops.resize(64, op);  // see SubmitOthers
    group_ =
        std::make_unique<GroupRun>(scenario_.groups[0], 0, 1, &violations_);
    for (size_t rank = 0; rank < 3; ++rank) {
      group_->OnSubmitted(0, R(rank), core::OpSeq(0), At(1));
    }
    run_ = group_->Find(0);
    for (const core::ChunkInfo& info : run_->ledger.chunks()) {
      for (size_t rank = 0; rank < 3; ++rank) Data(R(rank), info);
      for (size_t rank = 0; rank < 3; ++rank) Result(R(rank), info, 3);
    }
    output_ = PartialResult(descriptor(), run_->inputs, All(), 0, 3000);
    report_.world = 3;
    report_.elements = 3000;
    report_.contributions = 9000;
    report_.min_contributors = 3;
    report_.submitted = report_.quorum = At(1);
    report_.closed = At(2);
    report_.stage1_bound = Duration::Millis(20);
    report_.result_bound = Duration::Millis(30);
  }

  // Newer ops, by all ranks.
  void SubmitOthers(size_t count, const OpSpec& op, Timestamp at) {
    for (; count > 0; --count) {
      const size_t place = others_++;
      scenario_.groups[0].ops[place] = op;
      for (size_t rank = 0; rank < 3; ++rank) {
        group_->OnSubmitted(place, R(rank),
                            core::OpSeq(static_cast<uint32_t>(place)), at);
      }
    }
  }

  const core::OpDescriptor& descriptor() const {
    return scenario_.groups[0].ops[0].descriptor;
  }
  static std::vector<core::Rank> All() { return {R(0), R(1), R(2)}; }

  static Packet Make(wire::PacketType type, core::Rank from, core::Rank to,
                     const core::ChunkInfo& info, std::vector<uint8_t>* bytes) {
    bytes->assign(wire::kHeaderBytes + info.bytes + wire::kCrcBytes, 0);
    Packet packet;
    packet.source_rank = from;
    packet.destination_rank = to;
    packet.header.type = type;
    packet.header.source = from.value();
    packet.header.chunk = info.chunk;
    packet.header.length = static_cast<uint16_t>(info.bytes);
    packet.buffer = bytes->data();
    packet.length = static_cast<uint32_t>(bytes->size());
    return packet;
  }

  void Data(core::Rank from, const core::ChunkInfo& info) {
    if (from == info.owner) return;
    std::vector<uint8_t> bytes;
    group_->OnAccepted(
        Make(wire::PacketType::kData, from, info.owner, info, &bytes), At(1));
  }
  void Result(core::Rank to, const core::ChunkInfo& info, uint16_t c) {
    if (to == info.owner) return;
    std::vector<uint8_t> bytes;
    Packet packet =
        Make(wire::PacketType::kResult, info.owner, to, info, &bytes);
    packet.header.contributors = c;
    group_->OnSent(packet, At(2));
    group_->OnAccepted(packet, At(2));
  }

  std::string Values(core::Rank rank = R(0)) {
    return CheckResult(descriptor(), scenario_.groups[0].config, rank, output_,
                       report_, run_);
  }
  ReportContext Context() {
    return {
        scenario_.groups[0].config, descriptor(), clock_, At(1), At(2), false};
  }
  std::string Times() { return CheckTimes(Context(), report_, *group_, *run_); }
  std::string Status() {
    return CheckStatus(Context(), report_, *group_, *run_);
  }

  Scenario scenario_;
  Violations violations_;
  std::unique_ptr<GroupRun> group_;
  OpRun* run_ = nullptr;
  size_t others_ = 1;
  std::vector<uint8_t> output_;
  core::OpReport report_;
  HostClock clock_{Duration(), {}};
};

TEST_F(OpTest, AGoodOpPasses) {
  EXPECT_TRUE(violations_.lines().empty());
  EXPECT_EQ(Values(), "");
  EXPECT_EQ(Times(), "");
  EXPECT_EQ(Status(), "");
}

TEST_F(OpTest, InputsStayUntilAllRanksHaveReported) {
  group_->OnReported(0);
  group_->OnReported(0);
  EXPECT_EQ(Values(), "");
  group_->OnReported(0);
  EXPECT_TRUE(run_->inputs.empty());
  EXPECT_TRUE(run_->full_result.empty());
}

TEST_F(OpTest, EveryWrongByteShows) {
  for (const size_t at : {size_t{0}, size_t{4000}, output_.size() - 1}) {
    for (size_t rank = 0; rank < 3; ++rank) {
      output_[at] ^= 1;
      EXPECT_NE(Values(R(rank)), "") << at;
      output_[at] ^= 1;
    }
  }
}

TEST_F(OpTest, ASumOverAnotherSetOfRanksShows) {
  const core::Rank two[] = {R(0), R(1)};
  output_ = PartialResult(descriptor(), run_->inputs, two, 0, 3000);
  EXPECT_NE(Values(), "");
}

TEST_F(OpTest, EveryWrongFigureShows) {
  const auto wrong = [this](auto change) {
    const core::OpReport before = report_;
    change();
    std::string found = Values();
    report_ = before;
    return found;
  };
  EXPECT_NE(wrong([this] { --report_.elements; }), "");
  EXPECT_NE(wrong([this] { ++report_.absent; }), "");
  EXPECT_NE(wrong([this] { --report_.contributions; }), "");
  EXPECT_NE(wrong([this] { --report_.min_contributors; }), "");
  EXPECT_NE(wrong([this] { report_.status = OpStatus::kPartial; }), "");
}

TEST_F(OpTest, WhatWasSummedTwiceOrSaidDifferentlyShows) {
  const core::ChunkInfo info = run_->ledger.chunks()[0];
  const core::Rank other = R((info.owner.index() + 1) % 3);
  Data(other, info);
  EXPECT_EQ(violations_.lines().size(), 1u);  // accepted twice
  Result(other, info, 2);
  EXPECT_EQ(violations_.lines().size(), 3u);  // another c; accepted twice
}

TEST_F(OpTest, AnotherPayloadThanBeforeShows) {
  const core::ChunkInfo info = run_->ledger.chunks()[0];
  const core::Rank other = R((info.owner.index() + 1) % 3);
  std::vector<uint8_t> bytes;
  Packet packet =
      Make(wire::PacketType::kResult, info.owner, other, info, &bytes);
  packet.header.contributors = 3;
  bytes[wire::kHeaderBytes] = 1;
  group_->OnSent(packet, At(2));
  EXPECT_EQ(violations_.lines().size(), 1u);
}

TEST_F(OpTest, OutlivingALimitByMoreThanATickShows) {
  const Timestamp bound = report_.quorum + Duration::Millis(30);
  ReportContext context = Context();
  context.reported_at = bound + kTick;
  report_.closed = bound + kTick;
  EXPECT_EQ(CheckTimes(context, report_, *group_, *run_), "");
  context.reported_at = bound + kTick + Duration::Nanos(1);
  EXPECT_NE(CheckTimes(context, report_, *group_, *run_), "");
}

TEST_F(OpTest, AStallExcusesAndNoMoreThanThat) {
  Window stall{At(20), At(50)};
  const HostClock stalled(Duration(), {stall});
  ReportContext context{
      scenario_.groups[0].config, descriptor(), stalled, At(1), At(50), false};
  report_.closed = At(50);
  EXPECT_EQ(CheckTimes(context, report_, *group_, *run_), "");
  context.reported_at = At(51);
  report_.closed = At(51);
  EXPECT_NE(CheckTimes(context, report_, *group_, *run_), "");
}

TEST_F(OpTest, BoundsThatTheGroupCannotHaveShow) {
  EXPECT_EQ(Times(), "");
  const core::OpReport good = report_;
  for (const int64_t nanos : {-1, 1}) {
    report_.stage1_bound = good.stage1_bound + Duration::Nanos(nanos);
    EXPECT_NE(Times(), "");
    report_ = good;
    report_.result_bound = good.result_bound + Duration::Nanos(nanos);
    EXPECT_NE(Times(), "");
    report_ = good;
  }
  // Adaptive ones are no longer, shorter only after ten others, and no shorter
  // than the least.
  core::GroupConfig& config = scenario_.groups[0].config;
  config.adaptive_bounds = true;
  EXPECT_EQ(Times(), "");
  report_.stage1_bound = Duration::Millis(5);
  report_.result_bound = Duration::Millis(8);
  SubmitOthers(9, testing::AllReduce(3000, Mode::kBounded), At(1));
  EXPECT_NE(Times(), "");
  SubmitOthers(1, testing::AllReduce(3000, Mode::kBounded), At(1));
  EXPECT_EQ(Times(), "");
  report_.stage1_bound = Duration::Millis(1);
  EXPECT_NE(Times(), "");
  report_.stage1_bound = Duration::Millis(9);
  EXPECT_NE(Times(), "");
  report_.stage1_bound = Duration::Millis(5);
  report_.result_bound = Duration::Millis(31);
  EXPECT_NE(Times(), "");
}

TEST_F(OpTest, BoundsLearnedFromOtherOpsThanThoseBeforeShow) {
  scenario_.groups[0].config.adaptive_bounds = true;
  report_.stage1_bound = Duration::Millis(5);
  report_.result_bound = Duration::Millis(8);
  SubmitOthers(10, testing::AllReduce(30000, Mode::kBounded), At(1));
  SubmitOthers(10, testing::AllReduce(3000, Mode::kExact), At(1));
  SubmitOthers(10, testing::AllReduce(3000, Mode::kBounded),
               At(1) + Duration::Nanos(1));
  EXPECT_NE(Times(), "");
  // The op's quorum may be late, and newer ops may be over by then.
  report_.quorum = At(1) + Duration::Nanos(1);
  EXPECT_EQ(Times(), "");
}

TEST_F(OpTest, EndingByADeadlineBeforeItShows) {
  report_.cause = core::EndCause::kDeadline;
  EXPECT_NE(Times(), "");
}

TEST_F(OpTest, AQuorumThatWasNotThereShows) {
  report_.quorum = report_.submitted = At(1) - Duration::Nanos(1);
  EXPECT_NE(Times(), "");
}

TEST_F(OpTest, ClocksThatDoNotStartShow) {
  report_.quorum = Timestamp::Never();
  report_.cause = core::EndCause::kAllIn;
  ReportContext context = Context();
  context.reported_at = report_.closed = At(1000);
  EXPECT_NE(CheckTimes(context, report_, *group_, *run_), "");
}

TEST_F(OpTest, ErrorsNeedAReason) {
  for (const OpStatus status :
       {OpStatus::kHardLimit, OpStatus::kPeerLost, OpStatus::kMismatch,
        OpStatus::kExpired, OpStatus::kCancelled}) {
    report_.status = status;
    EXPECT_NE(Status(), "") << static_cast<int>(status);
  }
}

// ---- repairs

class RepairCheckTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kDatagram =
      1000 + wire::kHeaderBytes + wire::kTrailerRoom;

  std::string Sent(wire::PacketType type, uint8_t flags = 0) {
    Packet packet;
    packet.source_rank = R(1);
    packet.header.type = type;
    packet.header.flags = flags;
    packet.length = kDatagram;
    return check_.OnSent(packet, At(1));
  }
  std::string Asked(wire::NackKind kind, Timestamp at) {
    wire::NackBody nack;
    nack.kind = kind;
    uint8_t bytes[wire::kHeaderBytes + wire::kNackFixedBytes + wire::kCrcBytes];
    Packet packet;
    packet.source_rank = R(1);
    packet.header.type = wire::PacketType::kNack;
    packet.header.length = wire::kNackFixedBytes;
    wire::EncodeNack(nack, bytes + wire::kHeaderBytes);
    packet.buffer = bytes;
    packet.length = sizeof(bytes);
    return check_.OnSent(packet, at);
  }

  RepairCheck check_{3, 1000, false};
};

TEST_F(RepairCheckTest, MoreThanItsBudgetShows) {
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(Sent(wire::PacketType::kResult, wire::kFlagRepair), "");
  }
  EXPECT_NE(Sent(wire::PacketType::kData, wire::kFlagRepair), "");
  for (int i = 0; i < 4 * 18; ++i) {
    EXPECT_EQ(Sent(wire::PacketType::kData), "");
  }
  EXPECT_EQ(Sent(wire::PacketType::kData, wire::kFlagRepair), "");
  EXPECT_NE(Sent(wire::PacketType::kData, wire::kFlagRepair), "");
  EXPECT_EQ(check_.Sum().first_bytes, 72u * kDatagram);
  EXPECT_EQ(check_.Sum().repaired_bytes, 19u * kDatagram);
}

TEST_F(RepairCheckTest, QuestionsPastTheDeadlineShow) {
  EXPECT_EQ(Asked(wire::NackKind::kData, At(20)), "");
  EXPECT_EQ(Asked(wire::NackKind::kResult, At(30)), "");
  EXPECT_EQ(check_.Sum().questions, 2u);
  EXPECT_NE(check_.OnReported(R(1), At(19), At(30)), "");
  EXPECT_NE(check_.OnReported(R(1), At(20), At(29)), "");
  EXPECT_EQ(check_.OnReported(R(1), At(20), At(30)), "");
  EXPECT_EQ(Asked(wire::NackKind::kOpen, At(40)), "");
  EXPECT_NE(Asked(wire::NackKind::kData, At(20) + Duration::Nanos(1)), "");
  EXPECT_NE(Asked(wire::NackKind::kResult, At(30) + Duration::Nanos(1)), "");
}

// ---- records

class RecordCheckTest : public ::testing::Test {
 protected:
  RecordCheckTest() {
    record_.state = core::OpState::kClosed;
    record_.descriptor.count = 1000;
    record_.descriptor.bucket = 1;
    record_.report.closed = At(20);
    record_.report.cause = core::EndCause::kDeadline;
    core::StageRecord& one = record_.history.stages[0];
    one.OnPacket(At(1));
    one.OnClosed(core::EndCause::kAllIn, 8, 8, At(10));
    Close(8, 5);
  }

  // Stage 2 anew.
  void Close(uint64_t due, uint64_t came) {
    two() = {};
    two().OnPacket(At(11));
    two().OnClosed(core::EndCause::kDeadline, due, came, At(20));
  }
  core::StageRecord& two() { return record_.history.stages[1]; }
  std::string Check() { return CheckRecord(record_); }

  core::OpRecord record_;
};

TEST_F(RecordCheckTest, WhatLacksIsThatOfRanks) {
  EXPECT_NE(Check(), "") << "3 packets of nobody";
  two().OnLacking(R(1), true, 2);
  EXPECT_NE(Check(), "");
  two().OnLacking(R(2), true, 1);
  EXPECT_EQ(Check(), "");
  two().OnLacking(R(3), true, 1);
  EXPECT_NE(Check(), "");
  record_.descriptor.mode = Mode::kExact;
  EXPECT_EQ(Check(), "") << "it came behind a gap";
}

TEST_F(RecordCheckTest, NoMoreComesThanIsDue) {
  two().OnLacking(R(1), true, 3);
  for (int i = 0; i < 3; ++i) two().OnLate(R(1), At(25));
  EXPECT_EQ(Check(), "");
  two().OnLate(R(2), At(25));
  EXPECT_NE(Check(), "");
  Close(8, 5);
  two().OnLacking(R(1), true, 1);
  two().OnLacking(R(2), true, 2);
  two().OnLate(R(1), At(25));
  two().OnLate(R(1), At(25));
  EXPECT_NE(Check(), "") << "more of a rank than it lacked";
}

TEST_F(RecordCheckTest, AllInMeansAll) {
  two().OnLacking(R(1), true, 3);
  two().OnClosed(core::EndCause::kAllIn, 8, 5, At(20));
  EXPECT_NE(Check(), "");
}

TEST_F(RecordCheckTest, NobodyOwesMoreThanThereIs) {
  two().OnLacking(R(1), true, 3);
  record_.history.owed.debt = 600;
  record_.history.owed.lacking = 400;
  EXPECT_EQ(Check(), "");
  record_.history.owed.in_place = 1;
  EXPECT_NE(Check(), "");
  record_.history.owed = {};
  record_.history.owed.residual = 1001;
  EXPECT_NE(Check(), "");
  record_.history.owed.residual = 1;
  record_.descriptor.bucket = 0;
  EXPECT_NE(Check(), "");
}

TEST_F(RecordCheckTest, ItIsOfTheOpThatWasReported) {
  core::OpReport report = record_.report;
  EXPECT_EQ(CheckRecordOf(record_, report), "");
  report.closed = At(21);
  EXPECT_NE(CheckRecordOf(record_, report), "");
  report = record_.report;
  report.status = OpStatus::kPartial;
  EXPECT_NE(CheckRecordOf(record_, report), "");
  report = record_.report;
  record_.report.cause = report.cause = core::EndCause::kEarly;
  EXPECT_NE(CheckRecordOf(record_, report), "");
  record_.report.cause = report.cause = core::EndCause::kDeadline;
  record_.state = core::OpState::kLate;
  EXPECT_NE(CheckRecordOf(record_, report), "");
  report.status = OpStatus::kExpired;
  EXPECT_EQ(CheckRecordOf(record_, report), "");
}

// ---- clocks

TEST(HostClockTest, ShiftsAndStalls) {
  const HostClock clock(Duration::Millis(100),
                        {Window{At(10), At(20)}, Window{At(20), At(30)}});
  EXPECT_EQ(clock.ToHost(At(1)), At(101));
  EXPECT_EQ(clock.ToSimulation(At(101)), At(1));
  EXPECT_EQ(clock.FirstPoll(At(9)), At(9));
  EXPECT_EQ(clock.FirstPoll(At(10)), At(30));
  EXPECT_EQ(clock.FirstPoll(At(30)), At(30));
}

}  // namespace
}  // namespace optireduce::sim
