#include "client/verdict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace optireduce::client {
namespace {

// The ranks of a set, in order.
std::vector<uint32_t> RanksOf(const uint64_t (&bits)[OR_MAX_WORLD / 64]) {
  std::vector<uint32_t> ranks;
  for (uint32_t r = 0; r < OR_MAX_WORLD; ++r) {
    if ((bits[r / 64] >> (r % 64) & 1) != 0) ranks.push_back(r);
  }
  return ranks;
}

std::vector<StepRecord> GoodStep(size_t world = 4) {
  StepRecord record;
  record.step = 7;
  return std::vector<StepRecord>(world, record);
}

using Ranks = std::vector<uint32_t>;

TEST(VerdictTest, AGoodStep) {
  const or_verdict verdict = Judge(GoodStep());
  EXPECT_EQ(verdict.struct_size, sizeof(or_verdict));
  EXPECT_EQ(verdict.step, 7u);
  EXPECT_EQ(verdict.world, 4u);
  EXPECT_EQ(verdict.bad_steps, 0u);
  EXPECT_EQ(verdict.below_floor, 0u);
  EXPECT_EQ(verdict.halt_advised, 0u);
  EXPECT_EQ(verdict.halt_after, kDefaultHaltAfter);
  EXPECT_EQ(verdict.least_present, 1);
  EXPECT_EQ(verdict.absent, 0u);
  EXPECT_EQ(RanksOf(verdict.lacking), Ranks());
  EXPECT_EQ(RanksOf(verdict.non_finite), Ranks());
  EXPECT_LT(verdict.divergence, 0);
}

TEST(VerdictTest, TheRankWithTheLeastDecides) {
  std::vector<StepRecord> records = GoodStep();
  for (StepRecord& record : records) record.min_fraction = 0.75;
  records[1].account.present = 0.75;
  or_verdict verdict = Judge(records);
  EXPECT_EQ(verdict.below_floor, 0u) << "the floor itself is not below it";
  EXPECT_EQ(verdict.least_present_rank, 1u);
  records[2].account.present = 0.5;
  records[3].account.present = 0.5;
  verdict = Judge(records);
  EXPECT_EQ(verdict.below_floor, 1u);
  EXPECT_EQ(verdict.bad_steps, 1u);
  EXPECT_EQ(verdict.least_present, 0.5);
  EXPECT_EQ(verdict.least_present_rank, 2u);
  for (StepRecord& record : records) record.min_fraction = 0;
  verdict = Judge(records);
  EXPECT_EQ(verdict.below_floor, 0u);
  EXPECT_EQ(verdict.bad_steps, 0u);
  EXPECT_EQ(verdict.least_present, 0.5);
}

TEST(VerdictTest, SetsOfRanks) {
  std::vector<StepRecord> records = GoodStep(OR_MAX_WORLD);
  for (const size_t r : {size_t{0}, size_t{63}, size_t{64}, size_t{1023}}) {
    records[r].account.non_finite = true;
  }
  records[65].account.absent = 5;
  records[1000].account.absent = 6;
  const or_verdict verdict = Judge(records);
  EXPECT_EQ(RanksOf(verdict.non_finite), Ranks({0, 63, 64, 1023}));
  EXPECT_EQ(verdict.non_finite_count, 4u);
  EXPECT_EQ(verdict.bad_steps, 1u);
  EXPECT_EQ(verdict.below_floor, 0u);
  EXPECT_EQ(RanksOf(verdict.lacking), Ranks({65, 1000}));
  EXPECT_EQ(verdict.lacking_count, 2u);
  EXPECT_EQ(verdict.absent, 11u);
}

// Whoever lacks results alone has no bad step.
TEST(VerdictTest, LackingIsNotBad) {
  std::vector<StepRecord> records = GoodStep();
  records[2].account.absent = 5;
  EXPECT_EQ(Judge(records).bad_steps, 0u);
}

TEST(VerdictTest, ARunOfBadStepsAdvisesAHalt) {
  std::vector<StepRecord> records = GoodStep();
  for (StepRecord& record : records) record.halt_after = 3;
  records[0].account.non_finite = true;
  for (uint32_t before = 0; before < 5; ++before) {
    for (StepRecord& record : records) record.bad_steps = before;
    const or_verdict verdict = Judge(records);
    EXPECT_EQ(verdict.bad_steps, before + 1);
    EXPECT_EQ(verdict.halt_advised, before + 1 >= 3 ? 1u : 0u) << before;
  }
  records[0].account.non_finite = false;
  const or_verdict verdict = Judge(records);
  EXPECT_EQ(verdict.bad_steps, 0u);
  EXPECT_EQ(verdict.halt_advised, 0u);
}

// Ranks that are set up differently, or of which one has missed a verdict,
// still come to one.
TEST(VerdictTest, WhereRanksDifferTheStrictestCounts) {
  std::vector<StepRecord> records = GoodStep();
  records[1].min_fraction = 0.9;
  records[2].min_fraction = 0.5;
  records[3].account.present = 0.8;
  records[0].halt_after = 6;
  records[3].halt_after = 5;
  records[1].bad_steps = 4;
  records[2].bad_steps = 2;
  const or_verdict verdict = Judge(records);
  EXPECT_EQ(verdict.min_fraction, 0.9);
  EXPECT_EQ(verdict.below_floor, 1u);
  EXPECT_EQ(verdict.halt_after, 5u);
  EXPECT_EQ(verdict.bad_steps, 5u);
  EXPECT_EQ(verdict.halt_advised, 1u);
}

// ---- divergence

std::vector<StepRecord> WithSketches(float value, size_t world = 4) {
  std::vector<StepRecord> records = GoodStep(world);
  for (StepRecord& record : records) {
    record.sketch.emplace();
    record.sketch->fill(value);
  }
  return records;
}

TEST(VerdictTest, EqualReplicasHaveNotDiverged) {
  for (const float value : {0.0f, 1.0f, 0.1f, 1e-30f, 3e38f}) {
    for (const size_t world : {1u, 2u, 3u, 7u, 1000u}) {
      EXPECT_EQ(Judge(WithSketches(value, world)).divergence, 0)
          << value << " " << world;
    }
  }
}

TEST(VerdictTest, TheReplicaFarthestFromTheMeanIsNamed) {
  std::vector<StepRecord> records = WithSketches(1);
  (*records[2].sketch)[5] += 0.4f;
  (*records[1].sketch)[4] += 0.1f;
  const or_verdict verdict = Judge(records);
  EXPECT_EQ(verdict.divergent_rank, 2u);
  // 0.3 in the sum that differs and 0.025 in the other one, of a mean whose
  // length is 4.
  EXPECT_NEAR(verdict.divergence, std::hypot(0.3, 0.025) / 4, 0.002);
  EXPECT_EQ(verdict.bad_steps, 0u) << "it is told, and judges nothing";
}

TEST(VerdictTest, DivergenceNeedsAllSketches) {
  std::vector<StepRecord> records = WithSketches(1);
  records[3].sketch.reset();
  EXPECT_LT(Judge(records).divergence, 0);
}

TEST(VerdictTest, ParametersThatAreNotFiniteAreAnywhere) {
  for (const float value : {std::numeric_limits<float>::quiet_NaN(),
                            -std::numeric_limits<float>::infinity()}) {
    std::vector<StepRecord> records = WithSketches(1);
    (*records[3].sketch)[15] = value;
    const or_verdict verdict = Judge(records);
    EXPECT_EQ(verdict.divergence, std::numeric_limits<double>::infinity());
    EXPECT_EQ(verdict.divergent_rank, 3u);
  }
}

// ---- records

using Bytes = std::array<uint8_t, kRecordBytes>;

StepRecord FullRecord() {
  StepRecord record;
  record.step = 0x0102030405060708;
  record.account = {
      .present = 0.625, .absent = 0x1112131415161718, .non_finite = true};
  record.bad_steps = 0x21222324;
  record.halt_after = 0x31323334;
  record.min_fraction = 0.75;
  record.sketch.emplace();
  for (size_t i = 0; i < OR_SKETCH_SUMS; ++i) {
    (*record.sketch)[i] = static_cast<float>(i) - 7.5f;
  }
  return record;
}

TEST(StepRecordTest, TravelsThereAndBack) {
  const StepRecord record = FullRecord();
  Bytes bytes;
  bytes.fill(0xaa);
  EncodeRecord(record, bytes);
  const auto got = DecodeRecord(bytes);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->step, record.step);
  EXPECT_EQ(got->account.present, 0.625);
  EXPECT_EQ(got->account.absent, record.account.absent);
  EXPECT_TRUE(got->account.non_finite);
  EXPECT_EQ(got->bad_steps, record.bad_steps);
  EXPECT_EQ(got->halt_after, record.halt_after);
  EXPECT_EQ(got->min_fraction, 0.75);
  EXPECT_EQ(got->sketch, record.sketch);

  EncodeRecord(StepRecord(), bytes);
  const auto plain = DecodeRecord(bytes);
  ASSERT_TRUE(plain.has_value());
  EXPECT_FALSE(plain->account.non_finite);
  EXPECT_FALSE(plain->sketch.has_value());
}

// Hosts of different releases must read each other, or see that they cannot.
TEST(StepRecordTest, GoldenBytes) {
  Bytes bytes;
  EncodeRecord(FullRecord(), bytes);
  const std::vector<uint8_t> head = {
      1,    3,    0,    0,    0x24, 0x23, 0x22, 0x21,  //
      8,    7,    6,    5,    4,    3,    2,    1,     //
      0,    0,    0,    0,    0,    0,    0xe4, 0x3f,  //
      0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,  //
      0,    0,    0,    0,    0,    0,    0xe8, 0x3f,  //
      0x34, 0x33, 0x32, 0x31};
  EXPECT_TRUE(std::equal(head.begin(), head.end(), bytes.begin()));
  for (size_t i = head.size(); i < 64; ++i) EXPECT_EQ(bytes[i], 0) << i;
  const std::vector<uint8_t> first_sum = {0, 0, 0xf0, 0xc0};  // -7.5
  EXPECT_TRUE(
      std::equal(first_sum.begin(), first_sum.end(), bytes.begin() + 64));
}

TEST(StepRecordTest, OthersAreNotRead) {
  Bytes bytes;
  EncodeRecord(FullRecord(), bytes);
  bytes[0] = 2;
  EXPECT_FALSE(DecodeRecord(bytes).has_value());
  bytes[0] = 1;
  bytes[1] |= 4;
  EXPECT_FALSE(DecodeRecord(bytes).has_value());
  EXPECT_FALSE(DecodeRecord(Bytes{}).has_value());
}

}  // namespace
}  // namespace optireduce::client
