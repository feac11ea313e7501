// Ways in which earlier rules for residuals and debts counted something twice,
// lost it or waited for ever, in whole groups; ledger_flaws_test has those that
// one account shows.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "dataplane/core/bucket_testing.h"
#include "dataplane/core/engine_core.h"

namespace optireduce::core {
namespace {

using wire::PacketType;

constexpr uint64_t kShard = kCount / kWorld;

const Forgiven& Of(const GroupStatus& status, ForgivenFor reason) {
  return status.forgiven[static_cast<size_t>(reason)];
}

// Once added to the owner's own residual as well.
TEST(BucketFlawsTest, DataAfterTheFreezeCountsOnce) {
  BucketNet ranks;
  ranks.net().set_delay([](const wire::Header& header, Rank from, Rank to) {
    const bool late =
        header.type == PacketType::kData && from == Rank(1) && to == Rank(0);
    return late ? Duration::Millis(7) : Duration();
  });
  ranks.Submit(Bucketed(kCount, 1, 0));
  ranks.net().Run(Duration::Millis(50));
  for (size_t r = 0; r < kWorld; ++r) {
    EXPECT_EQ(ranks.net().report(r, OpSeq(0))->min_contributors, kWorld - 1);
    ranks.Use(r, 0);
  }
  EXPECT_TRUE(ranks.IsConserved(1));
}

// Once made a residual, although the owner had summed it before it died.
TEST(BucketFlawsTest, WhatADeadOwnerMayHaveSummedIsHeld) {
  GroupConfig settings = FastSettings();
  settings.heartbeat = Duration::Millis(5);
  settings.suspect_after = Duration::Millis(15);
  settings.dead_after = Duration::Millis(60);
  BucketNet ranks(settings);
  ranks.Lose(PacketType::kResult, 0, 1, true);
  ranks.Submit(Bucketed(kCount, 1, 0));
  ranks.net().Run(Duration::Millis(2));
  ranks.net().set_filter([](const wire::Header&, Rank from, Rank to) {
    return from != Rank(0) && to != Rank(0);
  });
  ranks.net().Run(Duration::Millis(200));
  ASSERT_EQ(ranks.CountEvents(1, EventKind::kPeerLost), 1u);
  std::vector<float> residual(kCount);
  std::vector<float> debt(kCount);
  ASSERT_TRUE(ranks.net().core(1).ReadBucket(ranks.net().group(1), 1,
                                             residual.data(), debt.data()));
  EXPECT_EQ(residual, std::vector<float>(kCount));
  EXPECT_FALSE(ranks.Status(1).ledger_quiet);
  ranks.net().core(1).Leave(ranks.net().group(1), wire::LeaveReason::kLeft,
                            ranks.net().now());
  EXPECT_EQ(Of(ranks.Status(1), ForgivenFor::kReset).contributions, kShard);
  EXPECT_EQ(Of(ranks.Status(1), ForgivenFor::kReset).results, kShard);
}

// A rank that is gone never books what was imputed for it.
TEST(BucketFlawsTest, NothingIsImputedForARankThatLeft) {
  BucketNet ranks;
  ranks.Submit(Bucketed(kCount, 1, 0), true, 3);
  ranks.net().core(3).Leave(ranks.net().group(3), wire::LeaveReason::kLeft,
                            ranks.net().now());
  size_t results = 0;
  size_t imputed = 0;
  ranks.net().set_filter([&](const wire::Header& header, Rank, Rank) {
    if (header.type == PacketType::kResult) ++results;
    if ((header.flags & wire::kFlagImputed) != 0) ++imputed;
    return true;
  });
  ranks.net().Run(Duration::Millis(50));
  EXPECT_GT(results, 0u);
  EXPECT_EQ(imputed, 0u);
}

// Without a negative answer it asked for ever.
TEST(BucketFlawsTest, AnOwnerThatHasNothingAnyMoreSaysSo) {
  BucketNet ranks;
  ranks.Lose(PacketType::kResult, 3, 1, true);
  ranks.Submit(Bucketed(kCount, 1, 0));
  ranks.net().Run(Duration::Millis(50));
  ASSERT_GT(ranks.Status(1).ops_kept, 0u);
  wire::Header header;
  header.type = PacketType::kGone;
  header.tag = TestNet::kTag;
  header.source = 3;
  header.op_seq = 0;
  std::array<uint8_t, 64> packet{};
  wire::EncodeHeader(header, packet.data());
  const size_t length = wire::Seal(packet.data(), wire::kHeaderBytes);
  EXPECT_EQ(ranks.net().core(1).OnPacket({NetAddress::FromIpv4(0x0A000004),
                                          5001,
                                          false,
                                          {packet.data(), length}},
                                         ranks.net().now(), ranks.net().now()),
            Verdict::kAccepted);
  EXPECT_EQ(Of(ranks.Status(1), ForgivenFor::kNoHolder).results, kShard);
  EXPECT_EQ(Of(ranks.Status(1), ForgivenFor::kOwnerGone).contributions, kShard);
  ranks.net().Run(Duration::Millis(50));
  for (size_t r = 0; r < kWorld; ++r) EXPECT_EQ(ranks.Status(r).ops_kept, 0u);
}

// And it does say so: its own results are gone, as newer ops needed the room.
TEST(BucketFlawsTest, QuestionsAfterAnEvictionComeToAnEnd) {
  GroupConfig settings = FastSettings();
  settings.window = 2;
  BucketNet ranks(settings);
  ranks.Lose(PacketType::kResult, 3, 1, true);
  for (int op = 0; op < 8; ++op) {
    ranks.Submit(Bucketed(kCount, 1, 0));
    ranks.net().Run(Duration::Millis(80));
  }
  EXPECT_GE(Of(ranks.Status(1), ForgivenFor::kEvicted).results, kShard);
  ranks.LoseNothing();
  ranks.net().Run(Duration::Millis(400));
  for (size_t r = 0; r < kWorld; ++r) EXPECT_EQ(ranks.Status(r).ops_kept, 0u);
}

}  // namespace
}  // namespace optireduce::core
