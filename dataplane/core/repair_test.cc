#include "dataplane/core/repair.h"

#include <limits>

#include "gtest/gtest.h"

namespace optireduce::core {
namespace {

constexpr Duration Us(int64_t micros) { return Duration::Micros(micros); }
constexpr Timestamp At(int64_t micros) { return Timestamp() + Us(micros); }
constexpr RepairTiming kTiming{Us(50), Us(400)};

// ---- timing

TEST(RepairTimingTest, AQuarterOfTheLeastRoundTrip) {
  RoundTrip trip;
  for (int i = 0; i < 50; ++i) trip.OnSample(Us(4000));
  EXPECT_EQ(RepairTiming::Of(trip, Us(7)).window, Us(1000));
  EXPECT_GE(RepairTiming::Of(trip, Us(7)).timeout, Us(4000));
  EXPECT_LT(RepairTiming::Of(trip, Us(7)).timeout, Us(4010));
}

TEST(RepairTimingTest, NeverShorterThanHostsPause) {
  RoundTrip trip;
  EXPECT_EQ(RepairTiming::Of(trip, Us(7000)).timeout, Us(7000));
  EXPECT_EQ(RepairTiming::Of(trip, Us(7)).timeout, Us(200));
  for (int i = 0; i < 50; ++i) trip.OnSample(Us(20));
  EXPECT_EQ(RepairTiming::Of(trip, Us(7000)).window, Us(50));
  EXPECT_EQ(RepairTiming::Of(trip, Us(7000)).timeout, Us(200));
}

// ---- streams

class RepairStreamTest : public ::testing::Test {
 protected:
  RepairStreamTest() { stream_.Begin(At(0), 7); }

  Timestamp Due() const { return stream_.DueAt(kTiming, stream_.heard_at()); }
  void Packet(uint32_t position, int64_t at) {
    stream_.OnArrival(At(at));
    stream_.OnPosition(position, At(at));
  }
  void Question(int64_t at) {
    stream_.OnAsked(At(at) + stream_.Pause(kTiming));
  }

  RepairStream stream_;
};

TEST_F(RepairStreamTest, BeginsOnce) {
  EXPECT_FALSE(RepairStream().begun());
  EXPECT_TRUE(stream_.begun());
  EXPECT_EQ(stream_.offset(), 7u);
  EXPECT_EQ(stream_.arrived(), 0u);
}

TEST_F(RepairStreamTest, WithoutGapOnlySilenceIsAReason) {
  EXPECT_EQ(Due(), At(400));
  Packet(0, 10);
  Packet(1, 20);
  EXPECT_EQ(stream_.reach(), 2u);
  EXPECT_EQ(Due(), At(420));
  EXPECT_FALSE(RepairStream::IsSilent(kTiming, At(20), At(419)));
  EXPECT_TRUE(RepairStream::IsSilent(kTiming, At(20), At(420)));
}

TEST_F(RepairStreamTest, AGapIsAReasonAWindowAfterItShows) {
  EXPECT_FALSE(stream_.OnPosition(0, At(10)));
  EXPECT_TRUE(stream_.OnPosition(2, At(20)));
  EXPECT_FALSE(stream_.OnPosition(5, At(30)));  // known already
  EXPECT_EQ(Due(), At(70));
  EXPECT_EQ(stream_.reach(), 6u);
  EXPECT_EQ(stream_.overdue_end(), 3u);
  stream_.OnListed(false, At(70));  // what came after 3 gets its own window
  EXPECT_EQ(Due(), At(120));
  EXPECT_EQ(stream_.overdue_end(), 6u);
  stream_.OnListed(false, At(120));
  EXPECT_EQ(Due(), At(400));
  EXPECT_TRUE(stream_.OnPosition(9, At(130)));
  EXPECT_EQ(Due(), At(180));
}

TEST_F(RepairStreamTest, WhatWasAskedForStaysAReason) {
  stream_.OnPosition(2, At(20));
  stream_.OnListed(true, At(70));
  Question(70);
  EXPECT_EQ(Due(), At(470));
  stream_.OnListed(false, At(470));
  EXPECT_EQ(stream_.DueAt(kTiming, At(300)), At(700));
}

TEST_F(RepairStreamTest, WhatWasOvertakenIsNoGap) {
  stream_.OnPosition(3, At(20));
  stream_.OnListed(false, At(70));
  EXPECT_FALSE(stream_.OnPosition(1, At(30)));
  EXPECT_EQ(stream_.reach(), 4u);
  EXPECT_EQ(Due(), At(400));
}

TEST_F(RepairStreamTest, TheNewestOfTheLastPacketsCounts) {
  stream_.OnSent(23, At(10));
  EXPECT_EQ(Due(), At(60));
  stream_.OnSent(23, At(30));
  EXPECT_EQ(Due(), At(80));
  EXPECT_EQ(stream_.overdue_end(), 23u);
  stream_.OnSent(5, At(40));
  EXPECT_EQ(stream_.reach(), 23u);
}

TEST_F(RepairStreamTest, QuestionsAreATimeoutApartAndBackOff) {
  stream_.OnPosition(1, At(0));
  Question(100);
  EXPECT_EQ(Due(), At(500));
  Question(500);
  EXPECT_EQ(Due(), At(900));
  Question(900);
  EXPECT_EQ(Due(), At(1700));
  Question(1700);
  EXPECT_EQ(Due(), At(3300));
  Question(3300);
  EXPECT_EQ(Due(), At(6500));
  Question(6500);  // no longer than that
  EXPECT_EQ(Due(), At(9700));
}

TEST_F(RepairStreamTest, AnAnswerGivesNewHope) {
  for (int64_t at : {100, 500, 900}) {
    EXPECT_TRUE(stream_.IsHopeful(3, At(at)));
    Question(at);
  }
  EXPECT_TRUE(stream_.IsHopeful(3, At(1699)));
  EXPECT_FALSE(stream_.IsHopeful(3, At(1700)));
  EXPECT_TRUE(stream_.IsHopeful(4, At(1700)));
  Question(1700);
  EXPECT_FALSE(stream_.IsHopeful(3, At(1750)));
  stream_.OnArrival(At(1800));
  EXPECT_TRUE(stream_.IsHopeful(3, At(1800)));
  EXPECT_EQ(stream_.Pause(kTiming), Us(400));
  EXPECT_EQ(stream_.arrived(), 1u);
}

// ---- budget

TEST(RepairBudgetTest, AQuarterOfWhatWasSentAndAFloor) {
  constexpr uint64_t kPacket = 1000;
  RepairBudget budget;
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(budget.Spend(kPacket, kPacket));
  EXPECT_FALSE(budget.Spend(1, kPacket));
  budget.OnFirst(64'000);  // no more than the floor
  EXPECT_FALSE(budget.Spend(1, kPacket));
  budget.OnFirst(4'000);
  EXPECT_TRUE(budget.Spend(kPacket, kPacket));
  EXPECT_FALSE(budget.Spend(1, kPacket));
}

// ---- what can come in time

TEST(ChunksInTimeTest, AsManyAsAtThePaceSoFar) {
  constexpr uint32_t kAny = std::numeric_limits<uint32_t>::max();
  EXPECT_EQ(ChunksInTime(100, Us(1000), Us(500)), 50u);
  EXPECT_EQ(ChunksInTime(100, Us(1000), Us(5000)), 500u);
  EXPECT_EQ(ChunksInTime(1, Us(1000), Us(10)), 1u);
  EXPECT_EQ(ChunksInTime(0, Us(1000), Us(10)), kAny);
  EXPECT_EQ(ChunksInTime(100, Us(0), Us(10)), kAny);
  EXPECT_EQ(ChunksInTime(kAny, Duration::Nanos(1), Duration::Seconds(1000)),
            kAny);
}

// ---- questions

TEST(AddLackingTest, NeighboursShareARange) {
  wire::NackBody nack;
  for (uint32_t local : {0, 1, 2, 5, 7, 8}) {
    EXPECT_TRUE(AddLacking(local, &nack));
  }
  ASSERT_EQ(nack.num_ranges, 3);
  EXPECT_EQ(nack.ranges[0], (wire::ChunkRange{0, 3}));
  EXPECT_EQ(nack.ranges[1], (wire::ChunkRange{5, 1}));
  EXPECT_EQ(nack.ranges[2], (wire::ChunkRange{7, 2}));
}

TEST(AddLackingTest, AFullQuestionStillTakesNeighbours) {
  wire::NackBody nack;
  const auto ranges = static_cast<uint32_t>(wire::NackBody::kMaxRanges);
  for (uint32_t i = 0; i < ranges; ++i) EXPECT_TRUE(AddLacking(i * 2, &nack));
  EXPECT_TRUE(AddLacking(ranges * 2 - 1, &nack));
  EXPECT_FALSE(AddLacking(ranges * 2 + 1, &nack));
  EXPECT_EQ(nack.num_ranges, ranges);
}

}  // namespace
}  // namespace optireduce::core
