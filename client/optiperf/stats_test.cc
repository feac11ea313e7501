#include "client/optiperf/stats.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/optiperf/output.h"

namespace optireduce::optiperf {
namespace {

TEST(StatsTest, PercentilesAreNearestRank) {
  std::vector<double> values;
  EXPECT_EQ(Percentile(&values, 99), 0);
  for (int i = 1000; i >= 1; --i) values.push_back(i);
  EXPECT_EQ(Percentile(&values, 0), 1);
  EXPECT_EQ(Percentile(&values, 50), 500);
  EXPECT_EQ(Percentile(&values, 99), 990);
  EXPECT_EQ(Percentile(&values, 99.9), 999);
  EXPECT_EQ(Percentile(&values, 100), 1000);
}

TEST(StatsTest, ARanksFigures) {
  Collector collector;
  or_report report{};
  report.missing_fraction = 0.5;
  report.repaired = 6;
  report.cause = OR_CAUSE_DEADLINE;
  report.decision_late_ns = 3000;
  report.wall_late_ns = 9000;
  collector.AddOperation(10, report);
  report = {};
  report.decision_late_ns = 1000;
  collector.AddOperation(30, report);
  collector.AddCheck(2, 1, 4);
  const uint8_t output[] = {1, 2, 3};
  collector.AddOutput(output);
  collector.AddExpired();
  collector.AddExpired();
  const RankFigures figures = collector.Finish(20);
  EXPECT_EQ(figures.time_us, 20);
  EXPECT_EQ(figures.p50_us, 10);
  EXPECT_EQ(figures.p999_us, 30);
  EXPECT_EQ(figures.missing, 2.5 / 4);
  EXPECT_EQ(figures.repaired, 6.0 / 4);
  EXPECT_EQ(figures.deadline, 0.25);
  EXPECT_EQ(figures.expired, 2);
  EXPECT_EQ(figures.decision_late_max_us, 3);
  EXPECT_EQ(figures.wall_late_p99_us, 9);
  EXPECT_EQ(figures.wall_late_max_us, 9);
  EXPECT_EQ(figures.wrong, 2);
  EXPECT_NE(figures.hash_low, 0);

  Collector other;
  const uint8_t different[] = {1, 2, 4};
  other.AddOutput(different);
  EXPECT_NE(other.Finish(20).hash_low, figures.hash_low);
}

TEST(StatsTest, BusFactors) {
  EXPECT_EQ(BusFactor(OR_ALL_REDUCE, 4), 1.5);
  EXPECT_EQ(BusFactor(OR_REDUCE_SCATTER, 4), 0.75);
  EXPECT_EQ(BusFactor(OR_ALL_GATHER, 2), 0.5);
  EXPECT_EQ(BusFactor(OR_BROADCAST, 4), 1);
}

Row CombinedRow(Average average) {
  RankFigures ranks[3];
  for (int i = 0; i < 3; ++i) {
    ranks[i].time_us = 100 + 10 * i;
    ranks[i].p99_us = 200 + i;
    ranks[i].wrong = i;
    ranks[i].missing = 0.1 * i;
    ranks[i].decision_late_max_us = i;
    ranks[i].wall_late_p99_us = 5 - i;
    ranks[i].wall_late_max_us = 9 - i;
    ranks[i].error = 1;
    ranks[i].norm = 4;
    ranks[i].hash_low = 7;
  }
  Row row;
  row.bytes = 1'000'000;
  row.count = 250'000;
  row.dtype = gradcodec::Dtype::kFloat32;
  row.op = gradcodec::ReduceOp::kAvg;
  row.world = 3;
  row.checked = true;
  Combine(ranks, average, OR_ALL_REDUCE, &row);
  EXPECT_TRUE(row.identical);
  ranks[2].hash_high = 1;
  Row differs = row;
  Combine(ranks, average, OR_ALL_REDUCE, &differs);
  EXPECT_FALSE(differs.identical);
  return row;
}

TEST(StatsTest, TimesAreAveragedAsAsked) {
  EXPECT_EQ(CombinedRow(Average::kRank0).time_us, 100);
  EXPECT_EQ(CombinedRow(Average::kMean).time_us, 110);
  EXPECT_EQ(CombinedRow(Average::kMin).time_us, 100);
  EXPECT_EQ(CombinedRow(Average::kMax).time_us, 120);
}

TEST(StatsTest, LossesAndMistakesOfAllRanksCount) {
  const Row row = CombinedRow(Average::kRank0);
  EXPECT_EQ(row.algbw, 10);
  EXPECT_DOUBLE_EQ(row.busbw, 10 * 4.0 / 3);
  EXPECT_EQ(row.wrong, 3u);
  EXPECT_DOUBLE_EQ(row.missing, 0.1);
  EXPECT_EQ(row.decision_late_max_us, 2);
  EXPECT_EQ(row.wall_late_p99_us, 5);
  EXPECT_EQ(row.relative_error, 0.5);
}

TEST(OutputTest, TheJsonHasTheseKeysAndNoOthers) {
  const auto document =
      nlohmann::json::parse(FormatJson({CombinedRow(Average::kMean)}));
  ASSERT_EQ(document.size(), 1u);
  const auto& result = document.at("results").at(0);
  std::vector<std::string> keys;
  for (const auto& item : result.items()) keys.push_back(item.key());
  std::vector<std::string> expected = {"size",
                                       "count",
                                       "type",
                                       "redop",
                                       "world",
                                       "mode",
                                       "wrong",
                                       "identical",
                                       "p50_us",
                                       "p99_us",
                                       "p999_us",
                                       "algbw_gbytes_per_s",
                                       "busbw_gbytes_per_s",
                                       "missing_fraction",
                                       "repaired_packets",
                                       "decision_late_p100_us",
                                       "wall_late_p99_us"};
  std::sort(keys.begin(), keys.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(keys, expected);
  EXPECT_EQ(result.at("type"), "float32");
  EXPECT_EQ(result.at("redop"), "avg");
  EXPECT_EQ(result.at("mode"), "exact");
  EXPECT_EQ(result.at("identical"), true);
  EXPECT_EQ(result.at("wrong"), 3);
}

TEST(OutputTest, ARowBeginsAsInAllReducePerf) {
  const std::string row = FormatRow(CombinedRow(Average::kMean));
  EXPECT_EQ(row.substr(0, 92),
            "     1000000        250000     float     avg      -1    110.0  "
            "  9.09   12.12      3   10.00")
      << row;
}

TEST(OutputTest, TheFooterSumsUp) {
  const std::string footer = FormatFooter({CombinedRow(Average::kMean)});
  EXPECT_NE(footer.find("Out of bounds values : 3 FAILED"), std::string::npos);
  EXPECT_NE(footer.find("9.0 us by the clock, 2.0 us while"), std::string::npos)
      << footer;
}

TEST(OutputTest, NoSumOverNothing) {
  EXPECT_NE(FormatFooter({}).find("Out of bounds values : 0 OK"),
            std::string::npos);
}

}  // namespace
}  // namespace optireduce::optiperf
