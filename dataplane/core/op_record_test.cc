#include "dataplane/core/op_record.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace optireduce::core {
namespace {

Timestamp At(int64_t millis) {
  return Timestamp::FromNanos(millis * 1'000'000);
}

TEST(StageRecordTest, NamesThoseThatLackMost) {
  StageRecord stage;
  const std::array<uint32_t, 12> packets = {5, 1, 9, 2, 9, 7, 3, 1, 8, 4, 6, 1};
  for (uint16_t rank = 0; rank < packets.size(); ++rank) {
    stage.OnLacking(Rank(rank), rank % 2 == 0, packets[rank]);
  }
  EXPECT_EQ(stage.lacking_ranks(), 12u);
  std::vector<uint32_t> most;
  for (const StageRecord::Lack& lack : stage.lacking()) {
    EXPECT_EQ(lack.packets, packets[lack.rank.index()]);
    EXPECT_EQ(lack.begun, lack.rank.index() % 2 == 0);
    most.push_back(lack.packets);
  }
  EXPECT_EQ(most, (std::vector<uint32_t>{9, 9, 8, 7, 6, 5, 4, 3}));
  EXPECT_EQ(stage.lacking()[0].rank, Rank(2)) << "of equal ones the first";
}

TEST(StageRecordTest, IsFullWithTheLastLatePacket) {
  StageRecord stage;
  EXPECT_EQ(stage.opened(), Timestamp::Never());
  EXPECT_EQ(stage.full(), Timestamp::Never()) << "it is open";
  stage.OnPacket(At(2));
  stage.OnPacket(At(1));
  stage.OnClosed(EndCause::kDeadline, 5, 3, At(10));
  stage.OnLacking(Rank(4), true, 2);
  EXPECT_EQ(stage.opened(), At(2));
  EXPECT_EQ(stage.full(), Timestamp::Never());
  stage.OnLate(Rank(4), At(20));
  EXPECT_EQ(stage.full(), Timestamp::Never());
  stage.OnLate(Rank(4), At(18));
  EXPECT_EQ(stage.full(), At(20));
  EXPECT_EQ(stage.lacking()[0].late, 2u);
  EXPECT_EQ(stage.lacking()[0].last_late, At(20));
}

TEST(StageRecordTest, SomeOfWhatLacksMayHaveComeTooLateAlready) {
  StageRecord stage;
  stage.OnLate(Rank(4), At(9));
  stage.OnClosed(EndCause::kDeadline, 2, 0, At(10));
  stage.OnLacking(Rank(4), true, 2, 1);
  EXPECT_EQ(stage.lacking()[0].late, 1u);
  EXPECT_EQ(stage.lacking()[0].last_late, At(9));
  stage.OnLate(Rank(4), At(12));
  EXPECT_EQ(stage.lacking()[0].late, 2u);
  EXPECT_EQ(stage.full(), At(12));
}

TEST(StageRecordTest, OfAWholeStageTheLastPacketCounts) {
  StageRecord stage;
  stage.OnPacket(At(3));
  stage.OnClosed(EndCause::kAllIn, 1, 1, At(4));
  EXPECT_EQ(stage.full(), At(3));
  EXPECT_TRUE(stage.lacking().empty());
}

TEST(OpenersTest, KeepsTheLast) {
  Openers openers;
  EXPECT_EQ(openers.kept(), 0u);
  openers.Add(Rank(3), At(1));
  EXPECT_EQ(openers.kept(), 1u);
  EXPECT_EQ(openers.Last(0).rank, Rank(3));
  for (uint16_t rank = 10; rank < 30; ++rank) openers.Add(Rank(rank), At(rank));
  EXPECT_EQ(openers.count(), 21u);
  ASSERT_EQ(openers.kept(), 8u);
  for (uint16_t back = 0; back < 8; ++back) {
    EXPECT_EQ(openers.Last(back).rank, Rank(29 - back));
    EXPECT_EQ(openers.Last(back).at, At(29 - back));
  }
}

TEST(OpRecordTest, FullArrivalIsThatOfBothStages) {
  OpRecord record;
  record.state = OpState::kClosed;
  StageRecord& one = record.history.stages[0];
  StageRecord& two = record.history.stages[1];
  one.OnPacket(At(5));
  one.OnClosed(EndCause::kAllIn, 1, 1, At(5));
  EXPECT_EQ(record.FullArrival(), At(5)) << "the op has no other stage";
  two.OnPacket(At(6));
  two.OnClosed(EndCause::kEarly, 2, 1, At(8));
  EXPECT_EQ(record.FullArrival(), Timestamp::Never());
  two.OnLate(Rank(1), At(9));
  EXPECT_EQ(record.FullArrival(), At(9));
  record.state = OpState::kLate;
  EXPECT_EQ(record.FullArrival(), Timestamp::Never()) << "nobody waits for it";
}

}  // namespace
}  // namespace optireduce::core
