// Groups that are cut in two, lose a member, or share their hosts with another
// job.

#include <vector>

#include "dataplane/sim/scenario.h"
#include "dataplane/sim/simulation.h"
#include "dataplane/sim/testing.h"
#include "gtest/gtest.h"

namespace optireduce::sim {
namespace {

using core::Mode;
using core::OpStatus;
using testing::Add;
using testing::AllReduce;
using testing::Missing;
using testing::OpOf;
using testing::R;
using testing::Ranks;
using testing::RunWell;
using testing::Took;

Timestamp At(int64_t millis) { return Timestamp() + Duration::Millis(millis); }

// No half goes on as if it were the whole.
TEST(MembershipCases, HalvesThatCannotHearEachOtherStop) {
  for (const Mode mode : {Mode::kBounded, Mode::kExact}) {
    Scenario scenario = Ranks(4);
    scenario.groups[0].config.suspect_after = Duration::Millis(300);
    scenario.groups[0].config.dead_after = Duration::Seconds(1);
    for (const uint16_t from : {0, 1, 2, 3}) {
      for (const uint16_t to : {0, 1, 2, 3}) {
        if (from / 2 == to / 2) continue;
        PartitionSpec& partition = scenario.partitions.emplace_back();
        partition.window = Window{At(50), At(20'000)};
        partition.from_host = from;
        partition.to_host = to;
      }
    }
    Add(&scenario, AllReduce(4000, mode));
    for (int64_t op = 1; op < 3; ++op) {
      OpSpec later = AllReduce(4000, mode);
      later.submit_after.assign(4, Duration::Millis(op * 1'000 - 900));
      Add(&scenario, later);
    }
    const Outcome outcome = RunWell(scenario);
    for (size_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(OpOf(outcome, rank).report.status, OpStatus::kComplete);
      const OpOutcome& cut = OpOf(outcome, rank, 1);
      EXPECT_EQ(cut.report.status, OpStatus::kPeerLost) << rank;
      // Of the other half, as far as it is known to be lost by then.
      const std::vector<uint16_t> missing = Missing(cut, 4);
      EXPECT_FALSE(missing.empty());
      for (const uint16_t lost : missing) EXPECT_NE(lost / 2, rank / 2);
      EXPECT_LT(Took(cut), Duration::Millis(1'500)) << "not the hard limit";
      EXPECT_TRUE(outcome.groups[0][rank].peer_lost);
      // The next one is refused, or ends as this one.
      const OpOutcome& next = OpOf(outcome, rank, 2);
      if (next.reported()) {
        EXPECT_EQ(next.report.status, OpStatus::kPeerLost);
      } else {
        EXPECT_EQ(next.submit, core::SubmitResult::kPeerLost);
      }
    }
  }
}

// The op under way ends by its bound without the dead rank; that it is lost is
// known long before the hard limit.
TEST(MembershipCases, SurvivorsOfADeathEndTheirOpAndAreTold) {
  Scenario scenario = Ranks(4);
  scenario.groups[0].config.suspect_after = Duration::Millis(300);
  scenario.groups[0].config.dead_after = Duration::Seconds(1);
  OpSpec op = AllReduce(1'000'000, Mode::kBounded);
  op.submit_after.assign(4, Duration::Millis(20));
  Add(&scenario, op);
  Death& death = scenario.deaths.emplace_back();
  death.rank = R(2);
  death.after = Duration::Millis(22);
  death.daemon = true;
  const Outcome outcome = RunWell(scenario);
  for (const size_t rank : {0, 1, 3}) {
    const OpOutcome& result = OpOf(outcome, rank);
    EXPECT_EQ(result.report.status, OpStatus::kPartial);
    EXPECT_EQ(Missing(result, 4), std::vector<uint16_t>{2});
    EXPECT_LE(Took(result), Duration::Millis(31));
    EXPECT_TRUE(outcome.groups[0][rank].peer_lost);
  }
  EXPECT_LT(outcome.end, At(5'000));
}

// Two jobs on the same hosts; a fifth of the packets of one is lost. The other
// has its values, its time and its bounds as beside a job without loss.
TEST(MembershipCases, OneJobsLossIsNotAnothers) {
  const auto run = [](bool lossy) {
    Scenario scenario = Ranks(4);
    GroupSpec second = scenario.groups[0];
    second.config.tag = 0xBEEF;
    for (int64_t op = 0; op < 20; ++op) {
      OpSpec spec = AllReduce(40'000, Mode::kBounded);
      spec.submit_after.assign(4, Duration::Millis(op * 40));
      scenario.groups[0].ops.push_back(spec);
      second.ops.push_back(spec);
    }
    scenario.groups[0].config.adaptive_bounds = true;
    scenario.groups.push_back(second);
    if (lossy) {
      for (uint32_t chunk = 0; chunk < 120; chunk += 5) {
        ScriptedFault& fault = scenario.script.emplace_back();
        fault.group = 1;
        fault.stage = 1;
        fault.chunk = chunk;
        fault.repairs = true;
      }
    }
    return RunWell(scenario);
  };
  const Outcome quiet = run(false);
  const Outcome lossy = run(true);
  for (size_t rank = 0; rank < 4; ++rank) {
    for (size_t op = 0; op < 20; ++op) {
      EXPECT_EQ(lossy.groups[1][rank].ops[op].report.status,
                OpStatus::kPartial);
      const OpOutcome& beside = OpOf(lossy, rank, op);
      const OpOutcome& before = OpOf(quiet, rank, op);
      EXPECT_EQ(beside.report.status, OpStatus::kComplete);
      EXPECT_EQ(beside.output, before.output);
      // It may take less, as the other sends less.
      EXPECT_LE(Took(beside).nanos(), Took(before).nanos() * 11 / 10);
      EXPECT_LE(beside.report.result_bound.nanos(),
                before.report.result_bound.nanos() * 11 / 10);
    }
  }
}

}  // namespace
}  // namespace optireduce::sim
