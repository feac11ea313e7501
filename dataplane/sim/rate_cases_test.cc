// Rates that adapt, over many ops on simulated time.

#include <algorithm>
#include <vector>

#include "dataplane/sim/scenario.h"
#include "dataplane/sim/simulation.h"
#include "dataplane/sim/testing.h"
#include "gtest/gtest.h"

namespace optireduce::sim {
namespace {

using core::Mode;
using testing::Add;
using testing::AllReduce;
using testing::Injected;
using testing::OpOf;
using testing::Ranks;
using testing::RunWell;
using testing::Took;

constexpr uint64_t kSlow = 250'000'000;
constexpr uint64_t kFast = 1'000'000'000;
// Takes 6.5 ms on fast links: 512 KiB.
constexpr uint64_t kCount = 128 << 10;

// Ops of one size, each as soon as the one before it is over.
Scenario Series(size_t world, size_t ops, uint64_t rate_bps) {
  Scenario scenario = Ranks(world);
  core::GroupConfig& config = scenario.groups[0].config;
  config = core::GroupConfig();
  config.tag = 0xC0FFEE;
  config.congestion_control = true;
  scenario.groups[0].max_in_flight = 1;
  scenario.groups[0].keep_buffers = false;
  for (HostSpec& host : scenario.hosts) {
    host.link.rate_bps = host.pacer_bps = rate_bps;
  }
  for (size_t i = 0; i < ops; ++i) {
    Add(&scenario, AllReduce(kCount, Mode::kBounded));
  }
  return scenario;
}

void ChangeRates(Scenario* scenario, Duration after, uint64_t rate_bps) {
  for (uint16_t host = 0; host < scenario->hosts.size(); ++host) {
    scenario->rate_changes.push_back({host, after, rate_bps});
  }
}

struct Totals {
  Duration mean;
  double missing = 0;
};

// Of ops [first, end) at all ranks of a group.
Totals Sum(const Outcome& outcome, size_t first, size_t end, size_t group = 0) {
  Totals totals;
  int64_t reports = 0;
  for (const RankOutcome& rank : outcome.groups[group]) {
    for (size_t op = first; op < end; ++op, ++reports) {
      totals.mean = totals.mean + Took(rank.ops[op]);
      totals.missing += rank.ops[op].report.MissingFraction();
    }
  }
  totals.mean = totals.mean / reports;
  totals.missing /= static_cast<double>(reports);
  return totals;
}

size_t FirstAfter(const Outcome& outcome, Duration after) {
  size_t op = 0;
  while (OpOf(outcome, 0, op).submitted_at < Timestamp() + after) ++op;
  return op;
}

TEST(RateCases, AloneAGroupHasTheWholeLine) {
  constexpr size_t kOps = 20;
  Scenario scenario = Series(4, kOps, kFast);
  const Totals controlled = Sum(RunWell(scenario), 2, kOps);
  scenario.groups[0].config.congestion_control = false;
  const Totals free = Sum(RunWell(scenario), 2, kOps);
  EXPECT_LT(controlled.mean.seconds() / free.mean.seconds(), 1.03);
  EXPECT_LT(controlled.missing, 0.001);
}

TEST(RateCases, AfterAFourfoldDropOfRateNothingIsLostAfter20Ops) {
  constexpr size_t kOps = 60;
  Scenario scenario = Series(4, kOps, kFast);
  const Duration change = Duration::Millis(150);
  ChangeRates(&scenario, change, kSlow);
  const Outcome outcome = RunWell(scenario);
  const size_t first = FirstAfter(outcome, change);
  ASSERT_GT(first, 15u);
  ASSERT_LT(first + 30, kOps);
  const Totals after = Sum(outcome, first + 20, kOps);
  const Totals settled = Sum(RunWell(Series(4, 16, kSlow)), 4, 16);
  EXPECT_LT(after.missing, 0.001);
  // A ceiling of four times what the link takes costs something: rates swing.
  EXPECT_LT(after.mean.seconds() / settled.mean.seconds(), 1.4);
}

TEST(RateCases, AfterAFourfoldRiseOfRateOpsAreAsFastAsTheyCanBeWithin50) {
  constexpr size_t kOps = 75;
  Scenario scenario = Series(4, kOps, kFast);
  for (HostSpec& host : scenario.hosts) host.link.rate_bps = kSlow;
  const Duration change = Duration::Millis(350);
  ChangeRates(&scenario, change, kFast);
  const Outcome outcome = RunWell(scenario);
  const size_t first = FirstAfter(outcome, change);
  ASSERT_GT(first, 5u);
  ASSERT_LT(first + 55, kOps);
  const Totals after = Sum(outcome, first + 50, kOps);
  const Totals settled = Sum(RunWell(Series(4, 16, kFast)), 4, 16);
  EXPECT_LT(after.missing, 0.001);
  EXPECT_LT(after.mean.seconds() / settled.mean.seconds(), 1.1);
}

// A second group of as many on host 0 and on hosts of its own: two jobs on one
// link.
void AddRival(Scenario* scenario) {
  GroupSpec rival = scenario->groups[0];
  rival.config.tag = 0xBEEF;
  const auto first = static_cast<uint16_t>(scenario->hosts.size());
  for (size_t rank = 1; rank < rival.hosts.size(); ++rank) {
    rival.hosts[rank] = static_cast<uint16_t>(first + rank - 1);
    scenario->hosts.push_back(scenario->hosts[0]);
  }
  scenario->groups.push_back(rival);
}

// Ops that ended in a time.
double Speed(const Outcome& outcome, size_t group, Timestamp from,
             Timestamp until) {
  return static_cast<double>(std::ranges::count_if(
      outcome.groups[group][0].ops, [&](const OpOutcome& op) {
        return op.reported_at > from && op.reported_at <= until;
      }));
}

TEST(RateCases, TwoJobsShareALinkEvenly) {
  constexpr size_t kOps = 60;
  Scenario scenario = Series(4, kOps, kFast);
  scenario.groups[0].max_in_flight = 2;
  AddRival(&scenario);
  const Outcome outcome = RunWell(scenario);
  const Timestamp until = std::min(outcome.groups[0][0].ops.back().reported_at,
                                   outcome.groups[1][0].ops.back().reported_at);
  const Timestamp from = Timestamp() + Duration::Millis(100);
  const double first = Speed(outcome, 0, from, until);
  const double second = Speed(outcome, 1, from, until);
  EXPECT_LT(std::max(first, second) / std::min(first, second), 1.1);
  EXPECT_LT(Sum(outcome, 10, kOps / 2, 0).missing, 0.001);
  EXPECT_LT(Sum(outcome, 10, kOps / 2, 1).missing, 0.001);
}

}  // namespace
}  // namespace optireduce::sim
