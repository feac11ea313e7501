#include "client/rendezvous.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "client/error.h"

namespace optireduce::client {
namespace {

constexpr int64_t kAmple = OR_SECONDS(30);
constexpr int64_t kShort = OR_MILLISECONDS(60);

or_member MemberOf(uint32_t rank, uint32_t attempt) {
  or_member member{};
  member.size = 40 + rank;
  memset(member.data, static_cast<int>(rank + 16 * attempt), member.size);
  return member;
}

bool IsMemberOf(const or_member& member, uint32_t rank, uint32_t attempt) {
  const or_member expected = MemberOf(rank, attempt);
  return memcmp(&member, &expected, sizeof(member)) == 0;
}

class RendezvousTest : public ::testing::Test {
 protected:
  RendezvousTest() {
    char path[] = "/tmp/rendezvousXXXXXX";
    directory_ = mkdtemp(path);
  }
  ~RendezvousTest() override { std::filesystem::remove_all(directory_); }

  size_t FilesLeft() const {
    const std::filesystem::directory_iterator files(directory_);
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }

  struct Outcome {
    or_status status = OR_OK;
    std::string error;
    std::vector<or_member> members;
    std::unique_ptr<Rendezvous> rendezvous;
  };
  std::future<Outcome> Start(uint32_t rank, uint32_t world, uint32_t attempt,
                             int64_t limit_ns, const char* name = "a/b") {
    return std::async(std::launch::async, [=, this] {
      Outcome outcome;
      outcome.members.resize(world);
      outcome.rendezvous =
          std::make_unique<Rendezvous>(directory_.c_str(), name, rank, world);
      outcome.status = outcome.rendezvous->Meet(MemberOf(rank, attempt),
                                                outcome.members.data(),
                                                Deadline::In(limit_ns));
      if (outcome.status != OR_OK) outcome.error = LastError();
      return outcome;
    });
  }

  // What a run that was killed leaves.
  void LeaveStaleFiles(uint32_t world, uint32_t attempt) {
    std::vector<std::future<Outcome>> runs;
    for (uint32_t rank = 0; rank < world; ++rank) {
      runs.push_back(Start(rank, world, attempt, kAmple));
    }
    for (auto& run : runs) ASSERT_EQ(run.get().status, OR_OK);
    ASSERT_EQ(FilesLeft(), world);
  }

  std::string directory_;
};

TEST_F(RendezvousTest, EveryRankGetsEveryMemberAndNothingIsLeft) {
  for (uint32_t world : {1u, 2u, 3u, 8u}) {
    SCOPED_TRACE(world);
    std::vector<std::future<Outcome>> runs;
    for (uint32_t rank = 0; rank < world; ++rank) {
      runs.push_back(Start(rank, world, 1, kAmple));
    }
    std::vector<Outcome> outcomes;
    for (auto& run : runs) outcomes.push_back(run.get());
    for (const auto& outcome : outcomes) {
      ASSERT_EQ(outcome.status, OR_OK) << outcome.error;
      for (uint32_t rank = 0; rank < world; ++rank) {
        EXPECT_TRUE(IsMemberOf(outcome.members[rank], rank, 1));
      }
    }
    for (const auto& outcome : outcomes) outcome.rendezvous->CleanUp();
    EXPECT_EQ(FilesLeft(), 0u);
  }
}

TEST_F(RendezvousTest, TheDirectoryIsCreated) {
  std::filesystem::remove_all(directory_);
  EXPECT_EQ(Start(0, 1, 1, kAmple).get().status, OR_OK);
}

// The earlier run left complete, mutually consistent files. Ranks of the new
// run arrive one by one; none may take an old file for a live rank.
TEST_F(RendezvousTest, FilesOfAKilledRunAreNotTakenForLiveRanks) {
  LeaveStaleFiles(3, 1);
  auto first = Start(0, 3, 2, kAmple);
  // A rank that answers in time is not named. How long that takes, nobody
  // knows on a busy machine.
  Outcome timed_out;
  for (int64_t limit = kShort; limit < kAmple / 2; limit *= 4) {
    timed_out = Start(1, 3, 2, limit).get();
    ASSERT_EQ(timed_out.status, OR_ERR_FORMATION);
    if (timed_out.error.find("rank 2 left only an old file") !=
        std::string::npos) {
      break;
    }
    ASSERT_NE(timed_out.error.find("rank 0, 2 left only an old file"),
              std::string::npos)
        << timed_out.error;
  }
  EXPECT_EQ(timed_out.error.find("rank 0"), std::string::npos)
      << timed_out.error;
  auto third = Start(2, 3, 2, kAmple);
  auto second = Start(1, 3, 3, kAmple);  // it restarts while the others wait
  const Outcome outcomes[] = {first.get(), second.get(), third.get()};
  for (const Outcome& outcome : outcomes) {
    ASSERT_EQ(outcome.status, OR_OK) << outcome.error;
    EXPECT_TRUE(IsMemberOf(outcome.members[0], 0, 2));
    EXPECT_TRUE(IsMemberOf(outcome.members[1], 1, 3));
    EXPECT_TRUE(IsMemberOf(outcome.members[2], 2, 2));
  }
}

TEST_F(RendezvousTest, DamagedFilesAreAsGoodAsNone) {
  for (size_t size : {0, 1, 295, 296, 297, 5000}) {
    const Rendezvous other(directory_.c_str(), "a/b", 1, 2);
    std::ofstream(other.PathOf(1), std::ios::binary)
        << std::string(size, '\x7f');
    const Outcome outcome = Start(0, 2, 1, kShort).get();
    EXPECT_EQ(outcome.status, OR_ERR_FORMATION);
    EXPECT_NE(outcome.error.find("no word from rank 1"), std::string::npos)
        << outcome.error;
  }
}

TEST_F(RendezvousTest, NamesEveryRankThatIsMissing) {
  const Outcome outcome = Start(1, 4, 1, kShort).get();
  EXPECT_EQ(outcome.status, OR_ERR_FORMATION);
  EXPECT_NE(outcome.error.find("rank 0, 2, 3 "), std::string::npos)
      << outcome.error;
  EXPECT_NE(outcome.error.find(directory_), std::string::npos);
}

TEST_F(RendezvousTest, NamesItselfOnlyIfNobodyElseIsBehind) {
  const Outcome alone = Start(0, 1, 1, 0).get();
  EXPECT_EQ(alone.status, OR_ERR_FORMATION);
  EXPECT_NE(alone.error.find("rank 0 left only"), std::string::npos)
      << alone.error;
  LeaveStaleFiles(3, 1);
  const Outcome with_others = Start(0, 3, 2, 0).get();
  EXPECT_EQ(with_others.status, OR_ERR_FORMATION);
  EXPECT_NE(with_others.error.find("rank 1, 2 left only"), std::string::npos)
      << with_others.error;
}

TEST_F(RendezvousTest, OneRankClaimedTwiceFailsForBoth) {
  for (uint32_t other_world : {2u, 3u}) {
    SCOPED_TRACE(other_world);
    auto first = Start(0, 2, 1, kAmple);
    auto second = Start(0, other_world, 2, kAmple);
    const Outcome outcomes[] = {first.get(), second.get()};
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.status, OR_ERR_FORMATION);
      EXPECT_NE(outcome.error.find("two processes claim rank 0"),
                std::string::npos)
          << outcome.error;
    }
  }
}

TEST_F(RendezvousTest, NamesDoNotMix) {
  const char* names[] = {"x", "x.0", "../x", "x%2e0"};
  std::vector<std::future<Outcome>> runs;
  for (uint32_t i = 0; i < 4; ++i) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      runs.push_back(Start(rank, 2, i, kAmple, names[i]));
    }
  }
  std::vector<Outcome> outcomes;
  for (auto& run : runs) outcomes.push_back(run.get());
  for (uint32_t i = 0; i < 8; ++i) {
    ASSERT_EQ(outcomes[i].status, OR_OK) << outcomes[i].error;
    EXPECT_TRUE(IsMemberOf(outcomes[i].members[0], 0, i / 2));
    EXPECT_TRUE(IsMemberOf(outcomes[i].members[1], 1, i / 2));
  }
}

TEST_F(RendezvousTest, AnUnusableDirectoryIsNamed) {
  directory_ += "/missing/parent";
  const Outcome outcome = Start(0, 1, 1, kShort).get();
  EXPECT_EQ(outcome.status, OR_ERR_SYSTEM);
  EXPECT_NE(outcome.error.find(directory_), std::string::npos);
}

// A rank that fails right after the meeting takes nothing from the others.
TEST_F(RendezvousTest, WhoHasMetNeedNotStay) {
  for (uint32_t round = 0; round < 20; ++round) {
    std::vector<std::future<Outcome>> runs;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      runs.push_back(Start(rank, 3, round, kAmple));
    }
    // Each outcome, and with it the rendezvous, ends before the next is asked.
    for (auto& run : runs) EXPECT_EQ(run.get().status, OR_OK);
  }
}

// The same name again and again, as a trainer that restarts its groups does:
// a slow rank of one round never meets a fast one's next round.
TEST_F(RendezvousTest, TheSameNameIsUsableAtOnce) {
  for (uint32_t round = 0; round < 30; ++round) {
    auto a = Start(0, 2, round, kAmple);
    auto b = Start(1, 2, round, kAmple);
    const Outcome outcomes[] = {a.get(), b.get()};
    for (const Outcome& outcome : outcomes) {
      ASSERT_EQ(outcome.status, OR_OK) << outcome.error;
      EXPECT_TRUE(IsMemberOf(outcome.members[0], 0, round));
      EXPECT_TRUE(IsMemberOf(outcome.members[1], 1, round));
      if (round % 2 == 0) outcome.rendezvous->CleanUp();
    }
  }
}

TEST_F(RendezvousTest, CleaningUpLeavesAnothersFileAlone) {
  const Outcome first = Start(0, 1, 1, kAmple).get();
  const Outcome second = Start(0, 1, 2, kAmple).get();
  first.rendezvous->CleanUp();
  EXPECT_EQ(FilesLeft(), 1u);
  second.rendezvous->CleanUp();
  EXPECT_EQ(FilesLeft(), 0u);
}

}  // namespace
}  // namespace optireduce::client
