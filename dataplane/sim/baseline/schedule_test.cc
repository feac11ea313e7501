#include "dataplane/sim/baseline/schedule.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace optireduce::sim::baseline {
namespace {

struct Named {
  const char* name;
  Schedule (*make)(size_t, uint64_t);
};

const Named kAll[] = {{"ring", Ring},       {"bcube", BCube},
                      {"tree", DoubleTree}, {"ps", ParameterServer},
                      {"tar", Transpose},   {"tar2d", Transpose2D}};

std::vector<uint64_t> BytesTo(const Schedule& schedule) {
  std::vector<uint64_t> bytes(schedule.world, 0);
  for (const Transfer& t : schedule.transfers) bytes[t.to] += t.bytes;
  return bytes;
}

std::vector<uint64_t> BytesFrom(const Schedule& schedule) {
  std::vector<uint64_t> bytes(schedule.world, 0);
  for (const Transfer& t : schedule.transfers) bytes[t.from] += t.bytes;
  return bytes;
}

// For each transfer the ranks whose submit it needs.
std::vector<std::vector<bool>> Needs(const Schedule& schedule) {
  std::vector<std::vector<bool>> needs;
  for (const Transfer& transfer : schedule.transfers) {
    std::vector<bool> own(schedule.world, false);
    own[transfer.from] = true;
    for (const uint32_t before : transfer.after) {
      for (size_t i = 0; i < own.size(); ++i) {
        own[i] = own[i] || needs[before][i];
      }
    }
    needs.push_back(own);
  }
  return needs;
}

TEST(Schedule, TransfersWaitForEarlierOnesThatReachTheirSender) {
  for (const Named& algorithm : kAll) {
    for (size_t world = 2; world <= 17; ++world) {
      const Schedule schedule = algorithm.make(world, 10'000'000);
      ASSERT_EQ(schedule.world, world);
      for (size_t i = 0; i < schedule.transfers.size(); ++i) {
        const Transfer& transfer = schedule.transfers[i];
        ASSERT_NE(transfer.from, transfer.to) << algorithm.name;
        ASSERT_LT(transfer.from, world);
        ASSERT_LT(transfer.to, world);
        ASSERT_GT(transfer.bytes, 0u);
        for (const uint32_t before : transfer.after) {
          ASSERT_LT(before, i) << algorithm.name << " " << world;
          ASSERT_EQ(schedule.transfers[before].to, transfer.from);
        }
      }
    }
  }
}

TEST(Schedule, EveryResultNeedsEveryRank) {
  for (const Named& algorithm : kAll) {
    for (size_t world = 2; world <= 17; ++world) {
      const Schedule schedule = algorithm.make(world, 10'000'000);
      const auto needs = Needs(schedule);
      std::vector<std::vector<bool>> at(world, std::vector<bool>(world, false));
      for (size_t rank = 0; rank < world; ++rank) at[rank][rank] = true;
      for (size_t i = 0; i < needs.size(); ++i) {
        for (size_t rank = 0; rank < world; ++rank) {
          if (needs[i][rank]) at[schedule.transfers[i].to][rank] = true;
        }
      }
      for (size_t rank = 0; rank < world; ++rank) {
        EXPECT_EQ(std::count(at[rank].begin(), at[rank].end(), true),
                  static_cast<ptrdiff_t>(world))
            << algorithm.name << " at " << rank << " of " << world;
      }
    }
  }
}

// What is sent back is a sum over all, to each rank all that it has not summed
// itself. (In two dimensions ranks sum more of it themselves.)
TEST(Schedule, SumsComeBackInFull) {
  for (const Named& algorithm : std::span(kAll).first(5)) {
    for (size_t world = 2; world <= 17; ++world) {
      const uint64_t bytes = world * 4096;
      const Schedule schedule = algorithm.make(world, bytes);
      const auto needs = Needs(schedule);
      uint64_t sums = 0;
      for (size_t i = 0; i < needs.size(); ++i) {
        const bool whole = std::all_of(needs[i].begin(), needs[i].end(),
                                       [](bool need) { return need; });
        if (whole) sums += schedule.transfers[i].bytes;
      }
      EXPECT_GE(sums, (world - 1) * bytes) << algorithm.name << " " << world;
    }
  }
}

TEST(Schedule, RingAndTransposeMoveTheLeast) {
  constexpr uint64_t kBytes = 8'000;
  for (const auto make : {Ring, Transpose, BCube}) {
    const Schedule schedule = make(8, kBytes);
    for (const uint64_t to : BytesTo(schedule)) EXPECT_EQ(to, 14'000u);
    for (const uint64_t from : BytesFrom(schedule)) EXPECT_EQ(from, 14'000u);
  }
}

TEST(Schedule, PartsOfAnUnevenBufferAreAllThere) {
  for (const auto make : {Ring, Transpose, BCube}) {
    const Schedule schedule = make(8, 1003);
    const auto to = BytesTo(schedule);
    EXPECT_EQ(std::accumulate(to.begin(), to.end(), uint64_t{0}),
              2u * 7 * 1003);
  }
}

TEST(Schedule, EmptyPartsAreNotSent) {
  EXPECT_EQ(Transpose(8, 3).transfers.size(), 2u * 3 * 7);
}

TEST(Schedule, RingGoesRoundTwice) {
  const Schedule schedule = Ring(5, 5000);
  EXPECT_EQ(schedule.transfers.size(), 5u * 8 * 2);
  for (const Transfer& transfer : schedule.transfers) {
    EXPECT_EQ(transfer.to, (transfer.from + 1) % 5);
    EXPECT_EQ(transfer.bytes, 500u);
    EXPECT_LE(transfer.after.size(), 1u);
  }
}

TEST(Schedule, RingSegmentsAreOfAMebibyteAtMost) {
  const Schedule schedule = Ring(4, (12 << 20) + 4);
  EXPECT_EQ(schedule.transfers.size(), 4u * 6 * 4);
  for (const Transfer& transfer : schedule.transfers) {
    EXPECT_LE(transfer.bytes, kRingSegment);
  }
}

TEST(Schedule, BCubeTakesTwoStepsForEachDoubling) {
  // 24: three doublings and a digit of three.
  const Schedule schedule = BCube(24, 24'000);
  EXPECT_EQ(schedule.transfers.size(), 24u * 2 * (1 + 1 + 1 + 2));
  for (const uint64_t to : BytesTo(schedule)) EXPECT_EQ(to, 2u * 23'000);
}

TEST(Schedule, DoubleTreeSendsTwiceTheBufferAtMost) {
  for (size_t world = 2; world <= 33; ++world) {
    const Schedule schedule = DoubleTree(world, 1 << 20);
    const auto to = BytesTo(schedule);
    const auto from = BytesFrom(schedule);
    for (size_t rank = 0; rank < world; ++rank) {
      EXPECT_LE(to[rank], 2u << 20) << world;
      EXPECT_LE(from[rank], 2u << 20) << world;
    }
    EXPECT_EQ(std::accumulate(to.begin(), to.end(), uint64_t{0}),
              2 * (world - 1) * (uint64_t{1} << 20));
  }
}

// A logarithm of steps up and down, not a chain.
TEST(Schedule, DoubleTreeIsShallow) {
  const Schedule schedule = DoubleTree(64, 2000);
  std::vector<size_t> depth;
  for (const Transfer& transfer : schedule.transfers) {
    size_t deepest = 0;
    for (const uint32_t before : transfer.after) {
      deepest = std::max(deepest, depth[before]);
    }
    depth.push_back(deepest + 1);
  }
  EXPECT_LE(*std::max_element(depth.begin(), depth.end()), 14u);
}

TEST(Schedule, InnerRanksOfOneTreeAreLeavesOfTheOther) {
  constexpr size_t kWorld = 16;
  const Schedule schedule = DoubleTree(kWorld, 2000);
  std::vector<std::vector<bool>> inner(2, std::vector<bool>(kWorld, false));
  for (const Transfer& transfer : schedule.transfers) {
    // Up: whoever is sent to before it has the sum.
    if (transfer.after.empty()) inner[transfer.channel][transfer.to] = true;
  }
  for (size_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_FALSE(inner[0][rank] && inner[1][rank]) << rank;
  }
}

TEST(Schedule, ServerTakesAndGivesEverything) {
  const Schedule schedule = ParameterServer(8, 3 << 20);
  EXPECT_EQ(BytesTo(schedule)[0], 7u * (3 << 20));
  EXPECT_EQ(BytesFrom(schedule)[0], 7u * (3 << 20));
  EXPECT_EQ(BytesTo(schedule)[5], 3u << 20);
}

TEST(Schedule, TransposeInTwoDimensionsMovesWhatThePaperSays) {
  EXPECT_EQ(GroupsOfTranspose2D(8), 4u);
  EXPECT_EQ(GroupsOfTranspose2D(64), 8u);
  EXPECT_EQ(GroupsOfTranspose2D(7), 1u);
  // 2 L (1 - G/N) + L G (G - 1) / N.
  constexpr uint64_t kBytes = 64'000;
  const Schedule schedule = Transpose2D(64, kBytes);
  for (const uint64_t to : BytesTo(schedule)) {
    EXPECT_EQ(to, 2 * kBytes * 7 / 8 + kBytes * 8 * 7 / 64);
  }
}

}  // namespace
}  // namespace optireduce::sim::baseline
