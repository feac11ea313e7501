#include "dataplane/core/bound_controller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "dataplane/base/rng.h"

namespace optireduce::core {
namespace {

constexpr uint64_t kBytes = 1 << 20;
constexpr uint64_t kDue = 1000;

GroupConfig Settings(size_t world = 4) {
  GroupConfig config;
  config.stage1_bound = Duration::Millis(600);
  config.result_bound = Duration::Millis(1000);
  config.early_wait = Duration::Millis(100);
  config.members.resize(world);
  return config;
}

StageSample Whole(Duration took) { return {took, false, kDue, kDue}; }
StageSample Cut(Duration at, uint64_t came) { return {at, true, kDue, came}; }

// All ranks of a group, all alike: stage 1 takes `took` and stage 2 a tenth
// more, if they may.
class Cluster {
 public:
  explicit Cluster(const GroupConfig& config) {
    for (size_t i = 0; i < config.members.size(); ++i) {
      GroupConfig own = config;
      own.self = Rank(static_cast<uint16_t>(i));
      ranks_.emplace_back(own);
    }
  }

  // Whether anything was cut off.
  bool RunOp(Duration took, uint64_t bytes = kBytes) {
    bool cut = false;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      for (size_t j = 0; j < ranks_.size(); ++j) {
        if (i == j) continue;
        ranks_[i].OnAdvertised(bytes, Rank(static_cast<uint16_t>(j)),
                               ranks_[j].Advertised(bytes));
      }
    }
    for (BoundController& rank : ranks_) {
      const Bounds bounds = rank.BoundsOf(bytes);
      cut |= RunStage(&rank, Stage::kOne, bytes, took, bounds.stage1);
      cut |=
          RunStage(&rank, Stage::kTwo, bytes, took + took / 10, bounds.result);
    }
    return cut;
  }
  void Run(int ops, Duration took, uint64_t bytes = kBytes) {
    for (int i = 0; i < ops; ++i) RunOp(took, bytes);
  }

  Bounds bounds(uint64_t bytes = kBytes) const {
    return ranks_[0].BoundsOf(bytes);
  }
  BoundController& rank(size_t index) { return ranks_[index]; }

 private:
  static bool RunStage(BoundController* rank, Stage stage, uint64_t bytes,
                       Duration took, Duration bound) {
    if (took <= bound) {
      rank->OnStage(stage, bytes, Whole(took));
      return false;
    }
    const auto came =
        static_cast<uint64_t>(kDue * bound.seconds() / took.seconds());
    rank->OnStage(stage, bytes, Cut(bound, came));
    return true;
  }

  std::vector<BoundController> ranks_;
};

TEST(BoundController, FixedBoundsStayAsConfigured) {
  GroupConfig config = Settings();
  config.adaptive_bounds = false;
  Cluster cluster(config);
  cluster.Run(100, Duration::Millis(10));
  const Bounds bounds = cluster.bounds();
  EXPECT_EQ(bounds.stage1, config.stage1_bound);
  EXPECT_EQ(bounds.result, config.result_bound);
  EXPECT_EQ(bounds.send, config.stage1_bound);
  EXPECT_EQ(bounds.early_wait, config.early_wait);
  EXPECT_EQ(bounds.grace, config.stage1_bound);
  EXPECT_EQ(cluster.rank(0).Advertised(kBytes), 0);
}

// 1,250,000 bytes take 100 ms at 100 Mb/s.
TEST(BoundController, CeilingsGrowWithTheBytes) {
  GroupConfig config = Settings();
  config.slowest_rate_bps = 100'000'000;
  const Bounds none = Ceilings(config).Of(0);
  EXPECT_EQ(none.stage1, config.stage1_bound);
  EXPECT_EQ(none.result, config.result_bound);
  const Bounds bounds = Ceilings(config).Of(1'250'000);
  EXPECT_EQ(bounds.stage1, config.stage1_bound + Duration::Millis(200));
  EXPECT_EQ(bounds.send, bounds.stage1);
  EXPECT_EQ(bounds.result, config.result_bound + Duration::Millis(400));
  EXPECT_EQ(bounds.early_wait, config.early_wait);
  EXPECT_EQ(BoundController(config).BoundsOf(1'250'000).result, bounds.result);
}

// Or a bounded op would end as an error.
TEST(BoundController, CeilingsLeaveHalfOfTheHardLimit) {
  GroupConfig config = Settings();
  config.slowest_rate_bps = 1;
  const Bounds bounds =
      Ceilings(config).Of(std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(bounds.result, config.hard_limit / 2);
  EXPECT_LE(bounds.stage1, bounds.result);
  config.hard_limit = config.result_bound;
  EXPECT_EQ(Ceilings(config).Of(1'250'000).result, config.result_bound);
}

TEST(BoundController, FixedBoundsAreAlikeForAllSizes) {
  GroupConfig config = Settings();
  config.slowest_rate_bps = 100'000'000;
  config.adaptive_bounds = false;
  EXPECT_EQ(BoundController(config).BoundsOf(1 << 30).result,
            config.result_bound);
}

TEST(BoundController, OpsThatTakeLongerThanTheConfiguredBoundsAreLearned) {
  GroupConfig config = Settings();
  config.stage1_bound = Duration::Millis(6);
  config.result_bound = Duration::Millis(10);
  config.slowest_rate_bps = 100'000'000;
  Cluster cluster(config);
  cluster.Run(40, Duration::Millis(80));  // 84 ms per MiB at that rate
  EXPECT_FALSE(cluster.RunOp(Duration::Millis(80)));
  EXPECT_LE(cluster.bounds().result, Duration::Millis(88 * 2));
}

TEST(BoundController, OwnPausesWidenTheBoundsAndFade) {
  BoundController one(Settings());
  const auto run = [&one](int ops) {
    for (int i = 0; i < ops; ++i) {
      one.OnStage(Stage::kOne, kBytes, Whole(Duration::Millis(10)));
      one.OnStage(Stage::kTwo, kBytes, Whole(Duration::Millis(11)));
    }
    return one.BoundsOf(kBytes);
  };
  const Bounds before = run(40);
  const uint16_t advertised = one.Advertised(kBytes);
  one.OnPause(BoundController::kLeastPause - Duration::Nanos(1));
  EXPECT_EQ(one.BoundsOf(kBytes).stage1, before.stage1);
  one.OnPause(Duration::Millis(16));
  one.OnPause(Duration::Millis(3));  // the longest counts
  const Bounds paused = one.BoundsOf(kBytes);
  EXPECT_EQ(paused.stage1, before.stage1 + Duration::Millis(16));
  EXPECT_EQ(one.Advertised(kBytes), advertised + 250);  // of 64 us
  EXPECT_GT(run(100).stage1, before.stage1 + Duration::Millis(8));
  EXPECT_LT(run(1000).stage1, before.stage1 + Duration::Millis(1));
  const Duration faded = one.BoundsOf(kBytes).stage1;
  one.OnPause(BoundController::kMostPause + Duration::Nanos(1));
  EXPECT_EQ(one.BoundsOf(kBytes).stage1, faded);
  one.OnPause(BoundController::kMostPause);
  EXPECT_EQ(one.BoundsOf(kBytes).stage1,
            Duration::Millis(10) + BoundController::kMostPause * 5 / 4);
}

// Nobody gives up on owners that are known to pause.
TEST(BoundController, AllWaitForTheLongerIfAllPause) {
  Cluster cluster(Settings());
  cluster.Run(40, Duration::Millis(10));
  const Bounds before = cluster.bounds();
  for (size_t i = 1; i < 4; ++i) cluster.rank(i).OnPause(Duration::Millis(16));
  cluster.RunOp(Duration::Millis(10));
  cluster.RunOp(Duration::Millis(10));
  EXPECT_GT(cluster.bounds().result, before.result + Duration::Millis(15));
}

TEST(BoundController, UntilThereAreEnoughSamplesTheConfiguredBoundsHold) {
  const GroupConfig config = Settings();
  Cluster cluster(config);
  cluster.Run(BoundController::kWarmUp - 1, Duration::Millis(10));
  EXPECT_EQ(cluster.bounds().stage1, config.stage1_bound);
  EXPECT_EQ(cluster.bounds().result, config.result_bound);
  EXPECT_EQ(cluster.bounds().early_wait, config.early_wait);
  EXPECT_EQ(cluster.bounds().grace, config.stage1_bound);
  cluster.Run(2, Duration::Millis(10));
  EXPECT_LT(cluster.bounds().stage1, Duration::Millis(20));
  EXPECT_LT(cluster.bounds().result, Duration::Millis(22));
  EXPECT_LT(cluster.bounds().early_wait, Duration::Millis(2));
}

// Another formation starts anew.
TEST(BoundController, ANewOneKnowsNothing) {
  Cluster cluster(Settings());
  cluster.Run(100, Duration::Millis(10));
  cluster = Cluster(Settings());
  EXPECT_EQ(cluster.bounds().result, Settings().result_bound);
}

TEST(BoundController, SettlesBetweenOneAndFourTimesWhatOpsTake) {
  for (const Duration before :
       {Duration::Millis(1), Duration::Millis(300), Duration::Millis(20)}) {
    Cluster cluster(Settings());
    cluster.Run(40, before);
    const Duration took = Duration::Millis(20);
    cluster.Run(200, took);
    EXPECT_FALSE(cluster.RunOp(took));
    const Bounds bounds = cluster.bounds();
    for (const Duration bound : {bounds.stage1, bounds.result, bounds.send}) {
      EXPECT_GE(bound, took);
      EXPECT_LE(bound, took * 4);
    }
    EXPECT_LE(bounds.stage1, bounds.send);
    EXPECT_LE(bounds.send + took / 2, bounds.result);
  }
}

TEST(BoundController, AfterAFourfoldDropOfRateNothingIsCutWithin20Ops) {
  for (const int64_t factor : {2, 4, 10}) {
    Cluster cluster(Settings());
    cluster.Run(100, Duration::Millis(20));
    const Duration slow = Duration::Millis(20) * factor;
    EXPECT_TRUE(cluster.RunOp(slow));
    int last_cut = 0;
    for (int op = 1; op < 100; ++op) {
      if (cluster.RunOp(slow)) last_cut = op;
    }
    EXPECT_LT(last_cut, 20) << factor << " times slower";
  }
}

TEST(BoundController, AfterAFourfoldRiseOfRateBoundsFollowWithin50Ops) {
  Cluster cluster(Settings());
  cluster.Run(100, Duration::Millis(80));
  const Duration fast = Duration::Millis(20);
  cluster.Run(50, fast);
  EXPECT_LE(cluster.bounds().stage1, fast * 2);
  EXPECT_LE(cluster.bounds().result, (fast + fast / 10) * 2);
}

TEST(BoundController, ABoundThatCutsAlmostNothingStillGrows) {
  BoundController one(Settings());
  for (size_t i = 0; i < BoundController::kSamples; ++i) {
    one.OnStage(Stage::kOne, kBytes, Whole(Duration::Millis(10)));
  }
  for (int i = 0; i < 4; ++i) {
    const Duration bound = one.BoundsOf(kBytes).stage1;
    one.OnStage(Stage::kOne, kBytes, Cut(bound, kDue - 1));
    one.OnStage(Stage::kOne, kBytes, Cut(bound, kDue - 1));
    EXPECT_GT(one.BoundsOf(kBytes).stage1, bound);
  }
}

TEST(BoundController, ACutStageIsScaledUpByWhatWasMissing) {
  BoundController one(Settings());
  for (size_t i = 0; i < BoundController::kSamples; ++i) {
    one.OnStage(Stage::kOne, kBytes, Cut(Duration::Millis(10), kDue * 2 / 5));
  }
  EXPECT_EQ(one.BoundsOf(kBytes).stage1, Duration::Millis(25) * 7 / 5);
}

TEST(BoundController, ACutStageIsScaledByOneAndAHalfToFour) {
  const auto bound_after = [](uint64_t came) {
    BoundController one(Settings());
    for (size_t i = 0; i < BoundController::kWarmUp; ++i) {
      one.OnStage(Stage::kOne, kBytes, Cut(Duration::Millis(10), came));
    }
    return one.BoundsOf(kBytes).stage1;
  };
  EXPECT_EQ(bound_after(kDue - 1), Duration::Millis(15) * 7 / 5);
  EXPECT_EQ(bound_after(1), Duration::Millis(40) * 7 / 5);
  EXPECT_EQ(bound_after(0), Duration::Millis(40) * 7 / 5);
}

TEST(BoundController, OneOutlierMovesNothing) {
  Cluster cluster(Settings());
  cluster.Run(100, Duration::Millis(20));
  const Bounds before = cluster.bounds();
  cluster.RunOp(Duration::Millis(900));
  cluster.Run(3, Duration::Millis(20));
  EXPECT_EQ(cluster.bounds().stage1, before.stage1);
  EXPECT_EQ(cluster.bounds().result, before.result);
}

TEST(BoundController, TotalLossDoesNotDriveBoundsDownNorBeyondTheirCeiling) {
  Cluster cluster(Settings());
  cluster.Run(100, Duration::Millis(20));
  Bounds before = cluster.bounds();
  for (int op = 0; op < 100; ++op) {
    cluster.RunOp(Duration::Infinite());
    const Bounds bounds = cluster.bounds();
    EXPECT_GE(bounds.stage1, before.stage1);
    EXPECT_GE(bounds.result, before.result);
    before = bounds;
  }
  EXPECT_EQ(before.stage1, Settings().stage1_bound);
  EXPECT_EQ(before.result, Settings().result_bound);
  // And is forgotten.
  cluster.Run(50, Duration::Millis(20));
  EXPECT_LE(cluster.bounds().stage1, Duration::Millis(40));
}

TEST(BoundController, SmallOpsHaveTheLeastBound) {
  Cluster cluster(Settings());
  cluster.Run(100, Duration::Micros(50));
  const Duration least = Settings().least_bound;
  EXPECT_EQ(cluster.bounds().stage1, least);
  EXPECT_EQ(cluster.bounds().result, least + least / 2);
  EXPECT_EQ(cluster.bounds().early_wait, BoundController::kLeastEarlyWait);

  GroupConfig tight = Settings();
  tight.stage1_bound = Duration::Micros(300);
  tight.result_bound = Duration::Micros(400);
  tight.early_wait = Duration::Micros(30);
  Cluster small(tight);
  small.Run(100, Duration::Micros(50));
  EXPECT_EQ(small.bounds().stage1, tight.stage1_bound);
  EXPECT_EQ(small.bounds().result, tight.result_bound);
  EXPECT_EQ(small.bounds().early_wait, tight.early_wait);
}

TEST(BoundController, AReceiverWaitsForASlowOwnerAndWhatItStillSends) {
  Cluster cluster(Settings());
  cluster.Run(100, Duration::Millis(20));
  BoundController& one = cluster.rank(0);
  const auto slow = static_cast<uint16_t>(one.Advertised(kBytes) * 3 / 2);
  one.OnAdvertised(kBytes, Rank(2), slow);
  one.OnStage(Stage::kOne, kBytes, Whole(Duration::Millis(20)));
  const Bounds bounds = one.BoundsOf(kBytes);
  const Duration owners = BoundController::kTick * slow * 7 / 5;
  EXPECT_EQ(bounds.send, owners);
  EXPECT_EQ(bounds.result, owners + Duration::Millis(22) / 2);
}

TEST(BoundController, OneLyingPeerIsHardlyBelieved) {
  Cluster cluster(Settings(8));
  cluster.Run(100, Duration::Millis(20));
  BoundController& one = cluster.rank(0);
  const Bounds honest = one.BoundsOf(kBytes);
  for (const uint16_t lie :
       {uint16_t{1}, uint16_t{40'000}, uint16_t{65'535}, uint16_t{0}}) {
    one.OnAdvertised(kBytes, Rank(3), lie);
    one.OnStage(Stage::kOne, kBytes, Whole(Duration::Millis(20)));
    const Bounds bounds = one.BoundsOf(kBytes);
    EXPECT_EQ(bounds.stage1, honest.stage1) << lie;
    EXPECT_GE(bounds.result, honest.result) << lie;
    EXPECT_LE(bounds.send, honest.send * 2) << lie;
    EXPECT_EQ(bounds.early_wait, honest.early_wait) << lie;
  }
}

TEST(BoundController, TheEarlyWaitIsAShareOfTheSmoothedMedian) {
  Cluster cluster(Settings());
  BoundController& one = cluster.rank(0);
  const auto advertise = [&one](uint16_t a, uint16_t b, uint16_t c) {
    one.OnAdvertised(kBytes, Rank(1), a);
    one.OnAdvertised(kBytes, Rank(2), b);
    one.OnAdvertised(kBytes, Rank(3), c);
  };
  // 9, 1, 5 and 3 ms, of which 1 is the own: the upper median is 5.
  const auto ticks = [](int64_t millis) {
    return static_cast<uint16_t>(Duration::Millis(millis).nanos() / 64'000);
  };
  for (size_t i = 0; i < BoundController::kWarmUp; ++i) {
    one.OnStage(Stage::kOne, kBytes, Whole(Duration::Millis(1)));
  }
  advertise(ticks(9), ticks(5), ticks(3));
  one.OnStage(Stage::kOne, kBytes, Whole(Duration::Millis(1)));
  const Duration first = BoundController::kTick * ticks(5) / 10;
  EXPECT_EQ(one.BoundsOf(kBytes).early_wait, first);
  // A quarter of the way to 13 ms.
  advertise(ticks(13), ticks(13), ticks(13));
  one.OnStage(Stage::kOne, kBytes, Whole(Duration::Millis(1)));
  const Duration goal = BoundController::kTick * ticks(13) / 10;
  const Duration second = one.BoundsOf(kBytes).early_wait;
  EXPECT_NEAR(second.micros(), (first + (goal - first) / 4).micros(), 1);
}

TEST(BoundController, TheGraceOfLateRanksIsHalfOfTheMedian) {
  Cluster cluster(Settings());
  cluster.Run(100, Duration::Millis(20));
  EXPECT_NEAR(cluster.bounds().grace.micros(), 10'000, 100);
  // An op of one packet has the least bound for it.
  cluster.Run(100, Duration::Micros(50), 100);
  EXPECT_EQ(cluster.bounds(100).grace, Settings().least_bound);
}

TEST(BoundController, TheGraceHasRoomForPauses) {
  Cluster cluster(Settings());
  cluster.Run(100, Duration::Millis(20));
  const Duration before = cluster.bounds().grace;
  cluster.rank(0).OnPause(Duration::Millis(8));
  EXPECT_EQ(cluster.bounds().grace, before + Duration::Millis(8));
}

TEST(BoundController, TheShareHoldsWhatIsLeftOutInItsBand) {
  Cluster cluster(Settings());
  cluster.Run(80, Duration::Millis(20));
  BoundController& one = cluster.rank(0);
  const Duration floor = one.BoundsOf(kBytes).early_wait;
  const auto op = [&one](uint64_t too_early) {
    StageSample sample = Whole(Duration::Millis(20));
    sample.on_their_way = too_early / 2;
    for (uint64_t i = 0; i < too_early / 2; ++i) one.OnTooEarly(kBytes);
    one.OnStage(Stage::kOne, kBytes, sample);
    one.OnStage(Stage::kTwo, kBytes,
                {Duration::Millis(22), false, kDue * 4, kDue * 4});
    return one.BoundsOf(kBytes).early_wait;
  };
  EXPECT_LT(floor, Duration::Micros(210));  // the least, or 1 % of tC
  // Two of 10'000 are in the band.
  Duration wait;
  for (int i = 0; i < 200; ++i) wait = op(i % 10 == 0 ? 2 : 0);
  EXPECT_EQ(wait, floor);
  // 10 of 1000 in each op are too many, until half of tC is waited.
  for (int i = 0; i < 40; ++i) wait = op(10);
  EXPECT_NEAR(wait.micros(), 10'000, 100);
  // It comes down again, but not while the average is in the band.
  EXPECT_EQ(op(0), wait);
  for (int i = 0; i < 300; ++i) op(0);
  EXPECT_EQ(op(0), floor);
  // One bad op among many good ones is in the band.
  EXPECT_EQ(op(8), floor);
}

TEST(BoundController, SizesAreApart) {
  EXPECT_EQ(BoundController::ClassOf(0), 0u);
  EXPECT_EQ(BoundController::ClassOf(4095), 0u);
  EXPECT_EQ(BoundController::ClassOf(4096), 1u);
  EXPECT_EQ(BoundController::ClassOf(8191), 1u);
  EXPECT_EQ(BoundController::ClassOf(8192), 2u);
  EXPECT_EQ(BoundController::ClassOf(std::numeric_limits<uint64_t>::max()),
            BoundController::kClasses - 1);
  Cluster cluster(Settings());
  cluster.Run(50, Duration::Millis(200), 64 << 20);
  cluster.Run(50, Duration::Millis(10), kBytes);
  EXPECT_GE(cluster.bounds(64 << 20).stage1, Duration::Millis(200));
  EXPECT_LE(cluster.bounds(kBytes).stage1, Duration::Millis(20));
  EXPECT_EQ(cluster.bounds(2 * kBytes).stage1, Settings().stage1_bound);
}

// Whatever samples and peers say, bounds are in order and as configured.
TEST(BoundController, AnyInputGivesBoundsThatAreAllowed) {
  constexpr uint64_t kSeed = 20'260;
  Rng rng(kSeed);
  GroupConfig config = Settings(5);
  config.stage1_bound = Duration::Seconds(3600);
  config.result_bound = Duration::Seconds(3600);
  config.early_wait = Duration::Seconds(3600);
  for (int run = 0; run < 20; ++run) {
    BoundController one(config);
    for (int i = 0; i < 500; ++i) {
      const auto any = [&rng] {
        return rng.Chance(0.5) ? rng.Next() : rng.Below(3);
      };
      StageSample sample;
      sample.took = Duration::Nanos(static_cast<int64_t>(any()));
      sample.cut = rng.Chance(0.5);
      sample.due = any();
      sample.came = any();
      sample.on_their_way = any();
      const uint64_t bytes = any();
      one.OnAdvertised(bytes, Rank(static_cast<uint16_t>(1 + rng.Below(4))),
                       static_cast<uint16_t>(any()));
      if (rng.Chance(0.5)) one.OnTooEarly(bytes);
      one.OnStage(static_cast<Stage>(rng.Below(2)), bytes, sample);
      const Bounds bounds = one.BoundsOf(bytes);
      ASSERT_GE(bounds.stage1, config.least_bound) << "seed " << kSeed;
      ASSERT_LE(bounds.stage1, bounds.send) << "seed " << kSeed;
      ASSERT_LE(bounds.send, bounds.result) << "seed " << kSeed;
      ASSERT_LE(bounds.result, config.result_bound) << "seed " << kSeed;
      ASSERT_GE(bounds.early_wait, BoundController::kLeastEarlyWait);
      ASSERT_LE(bounds.early_wait, config.early_wait) << "seed " << kSeed;
      ASSERT_GE(bounds.grace, config.least_bound) << "seed " << kSeed;
      ASSERT_LE(bounds.grace, bounds.stage1) << "seed " << kSeed;
    }
  }
}

}  // namespace
}  // namespace optireduce::core
