#include "control/formation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "control/frame_socket.h"
#include "dataplane/base/rng.h"
#include "proto/wire.h"

namespace optireduce::control {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Member MakeMember(uint32_t rank, uint32_t world) {
  Member m;
  m.set_magic(kMemberMagic);
  m.set_wire_min(1);
  m.set_wire_max(1);
  m.set_rank(rank);
  m.set_world(world);
  m.set_name("job");
  m.set_address(std::string("\x0a\x00", 2) + static_cast<char>(rank >> 8) +
                static_cast<char>(rank + 1));
  m.set_port(47000);
  m.set_nonce(std::string(kNonceBytes, static_cast<char>(rank)));
  m.set_mtu(1500);
  m.set_result_bound_us(100'000);
  m.set_stage1_bound_us(60'000);
  m.set_early_wait_us(5'000);
  m.set_hard_limit_us(30'000'000);
  m.set_window(16);
  m.set_quorum_permille(750);
  m.set_memory_budget_bytes(256 << 20);
  m.set_owed_budget_bytes(64 << 20);
  m.set_fill(FILL_ZERO);
  return m;
}

class FormationTest : public ::testing::Test {
 protected:
  FormationTest() {
    for (uint32_t r = 0; r < 4; ++r) members_.push_back(MakeMember(r, 4));
  }
  std::vector<std::string> Blobs() const {
    std::vector<std::string> blobs;
    for (const Member& m : members_) blobs.push_back(m.SerializeAsString());
    return blobs;
  }
  // What all ranks are told; the same to each.
  Error Refused() {
    Error first;
    for (size_t rank = 0; rank < 4; ++rank) {
      const Member own = MakeMember(static_cast<uint32_t>(rank), 4);
      Error error;
      EXPECT_EQ(CheckMembers(own, Blobs(), &error), std::nullopt);
      EXPECT_EQ(error.code(), ERROR_MEMBERS);
      if (rank == 0) {
        first = error;
      } else {
        EXPECT_EQ(error.message(), first.message());
      }
    }
    return first;
  }

  std::vector<Member> members_;
};

TEST_F(FormationTest, GoodMembersMakeAGroup) {
  members_[2].set_mtu(1400);
  Error error;
  const auto formation = CheckMembers(members_[1], Blobs(), &error);
  ASSERT_TRUE(formation) << error.message();
  EXPECT_EQ(formation->payload_bytes, wire::PayloadForMtu(1400));
  ASSERT_EQ(formation->members.size(), 4u);
  EXPECT_EQ(formation->members[3].address,
            core::NetAddress::FromIpv4(0x0A000004));
  EXPECT_EQ(formation->members[3].port, 47000);
  // All ranks come to the same.
  const auto other = CheckMembers(members_[3], Blobs(), &error);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->tag, formation->tag);
}

TEST_F(FormationTest, TheTagIsNewWheneverAnyRankPreparesAnew) {
  std::set<uint32_t> tags;
  Error error;
  for (int i = 0; i < 100; ++i) {
    members_[i % 4].set_nonce(
        std::string(kNonceBytes, static_cast<char>(100 + i)));
    tags.insert(CheckMembers(members_[0], Blobs(), &error)->tag);
  }
  EXPECT_EQ(tags.size(), 100u);
}

// M02.
TEST_F(FormationTest, TheSameRankTwice) {
  members_[2].set_rank(1);
  Error error;
  EXPECT_FALSE(CheckMembers(members_[0], Blobs(), &error));
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("rank 1 is there twice"),
                    HasSubstr("places 1 (10.0.0.2:47000) and 2 (10.0.0.3:")));
  EXPECT_THAT(error.disagree(), ElementsAre(1, 2));
}

TEST_F(FormationTest, TheSameEndpointTwice) {
  members_[3].set_address(members_[1].address());
  const Error error = Refused();
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("ranks 1 and 3"), HasSubstr("10.0.0.2:47000")));
  // One host may have several ranks, on ports of their own.
  members_[3].set_port(47001);
  Error none;
  members_[3].set_nonce(MakeMember(3, 4).nonce());
  EXPECT_TRUE(CheckMembers(members_[0], Blobs(), &none));
}

TEST_F(FormationTest, Loopback) {
  members_[2].set_address(std::string("\x7f\x00\x00\x01", 4));
  const Error error = Refused();
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("rank 2"), HasSubstr("127.0.0.1")));
  EXPECT_THAT(error.disagree(), ElementsAre(2));
}

TEST_F(FormationTest, ARankBeyondTheWorld) {
  members_[3].set_rank(4);
  Error error;
  EXPECT_FALSE(CheckMembers(members_[0], Blobs(), &error));
  EXPECT_THAT(error.message(), HasSubstr("rank 4 in a world of 4"));
}

TEST_F(FormationTest, AnotherWorld) {
  members_[3].set_world(8);
  Error error;
  EXPECT_FALSE(CheckMembers(members_[0], Blobs(), &error));
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("rank 3"), HasSubstr("8"), HasSubstr("4")));
}

TEST_F(FormationTest, RanksInTheWrongPlace) {
  std::swap(members_[1], members_[2]);
  Error error;
  EXPECT_FALSE(CheckMembers(members_[0], Blobs(), &error));
  EXPECT_THAT(error.message(), HasSubstr("rank 2 stands in place 1"));
}

TEST_F(FormationTest, TooFewOrTooMany) {
  members_.pop_back();
  EXPECT_THAT(Refused().message(), HasSubstr("3 members given for a world of"));
  members_.clear();
  EXPECT_THAT(Refused().message(), HasSubstr("0 members"));
}

// M03.
TEST_F(FormationTest, DifferingSettingsAreListedWithBothValues) {
  members_[2].set_window(32);
  members_[2].set_fill(FILL_OWN);
  members_[2].set_hard_limit_us(1'000'000);
  const Error error = Refused();
  EXPECT_THAT(
      error.message(),
      AllOf(HasSubstr("window is 16 at rank 0 and 32 at rank 2"),
            HasSubstr("fill is zero at rank 0 and own at rank 2"),
            HasSubstr(
                "hard_limit_us is 30000000 at rank 0 and 1000000 at rank 2")));
  EXPECT_THAT(error.disagree(), ElementsAre(2));
}

TEST_F(FormationTest, EverySharedSettingCounts) {
  const std::vector<std::function<void(Member*)>> changes = {
      [](Member* m) { m->set_result_bound_us(1); },
      [](Member* m) { m->set_stage1_bound_us(1); },
      [](Member* m) { m->set_early_wait_us(1); },
      [](Member* m) { m->set_adaptive_bounds(true); },
      [](Member* m) { m->set_slowest_rate_bps(1); },
      [](Member* m) { m->set_hard_limit_us(1); },
      [](Member* m) { m->set_window(1); },
      [](Member* m) { m->set_quorum_permille(1); },
      [](Member* m) { m->set_memory_budget_bytes(1); },
      [](Member* m) { m->set_owed_budget_bytes(1); },
      [](Member* m) { m->set_fill(FILL_OWN); },
  };
  for (const auto& change : changes) {
    members_[3] = MakeMember(3, 4);
    change(&members_[3]);
    EXPECT_THAT(Refused().message(), HasSubstr("settings differ"));
  }
}

TEST_F(FormationTest, AnotherName) {
  members_[3].set_name("other");
  EXPECT_THAT(Refused().message(),
              HasSubstr("rank 3 calls the group \"other\", rank 0 \"job\""));
}

// K07, between hosts.
TEST_F(FormationTest, VersionsThatDoNotMeet) {
  members_[1].set_wire_min(2);
  members_[1].set_wire_max(3);
  const Error error = Refused();
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("rank 1 speaks wire version 2"),
                    HasSubstr("rank 0 version 1 at most"),
                    HasSubstr("upgrade the daemon of rank 0")));
}

TEST_F(FormationTest, ABlobOfAnEarlierPreparation) {
  Member own = members_[1];
  own.set_nonce(std::string(kNonceBytes, 'n'));
  Error error;
  EXPECT_FALSE(CheckMembers(own, Blobs(), &error));
  EXPECT_THAT(error.message(), HasSubstr("an earlier preparation"));
}

TEST_F(FormationTest, EndpointsMustBeUsable) {
  const std::vector<std::function<void(Member*)>> changes = {
      [](Member* m) { m->set_port(0); },
      [](Member* m) { m->set_port(65536); },
      [](Member* m) { m->set_address(""); },
      [](Member* m) { m->set_address("12345"); },
      [](Member* m) { m->set_address(std::string("\xe0\0\0\1", 4)); },
      [](Member* m) { m->set_address(std::string(4, '\0')); },
      [](Member* m) { m->set_mtu(100); },
      [](Member* m) { m->set_mtu(100'000); },
      [](Member* m) { m->set_nonce("short"); },
  };
  for (const auto& change : changes) {
    members_[3] = MakeMember(3, 4);
    change(&members_[3]);
    Error error;
    EXPECT_FALSE(CheckMembers(members_[0], Blobs(), &error));
    EXPECT_THAT(error.message(), HasSubstr("rank 3 has no usable"));
  }
}

TEST_F(FormationTest, RubbishIsRefused) {
  constexpr uint64_t kSeed = 99;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  const std::vector<std::string> good = Blobs();
  for (int i = 0; i < 5000; ++i) {
    std::vector<std::string> blobs = good;
    std::string& blob = blobs[1 + rng.Below(3)];
    switch (rng.Below(3)) {
      case 0:
        blob.resize(rng.Below(blob.size()));
        break;
      case 1:
        blob[rng.Below(blob.size())] = static_cast<char>(rng.Next());
        break;
      default:
        blob.append(static_cast<size_t>(rng.Below(300)),
                    static_cast<char>(rng.Next()));
    }
    Error error;
    const auto formation = CheckMembers(members_[0], blobs, &error);
    if (formation) {
      ASSERT_EQ(formation->members.size(), 4u);
    } else {
      ASSERT_FALSE(error.message().empty());
    }
  }
  std::vector<std::string> blobs = good;
  blobs[2] = std::string(kMaxMemberBytes + 1, '\0');
  Error error;
  EXPECT_FALSE(CheckMembers(members_[0], blobs, &error));
  EXPECT_THAT(error.message(), HasSubstr("rank 2 is not what a daemon"));
}

// The largest group fits a frame, with every number at its longest.
TEST(FormationSizeTest, TheLargestGroupFitsAFrame) {
  Request request;
  FormGroup& form = *request.mutable_form_group();
  form.set_group(UINT32_MAX);
  request.set_id(UINT64_MAX);
  for (uint32_t r = 0; r < wire::kMaxWorld; ++r) {
    Member m = MakeMember(r, wire::kMaxWorld);
    m.set_wire_min(200);
    m.set_wire_max(200);
    m.set_name(std::string(kMaxGroupNameBytes, 'n'));
    m.set_port(65535);
    m.set_mtu(9216);
    m.set_result_bound_us(3'600'000'000);
    m.set_stage1_bound_us(3'600'000'000);
    m.set_early_wait_us(3'600'000'000);
    m.set_adaptive_bounds(true);
    m.set_slowest_rate_bps(1'000'000'000'000);
    m.set_hard_limit_us(3'600'000'000);
    m.set_window(256);
    m.set_quorum_permille(1000);
    m.set_memory_budget_bytes(uint64_t{1} << 40);
    m.set_owed_budget_bytes(uint64_t{1} << 40);
    m.set_fill(FILL_OWN);
    const std::string blob = m.SerializeAsString();
    ASSERT_LE(blob.size(), kMaxMemberBytes);
    form.add_members(blob);
  }
  EXPECT_LE(request.ByteSizeLong(), kMaxFrameBytes);
  // And so would blobs of the largest size allowed.
  EXPECT_LE(wire::kMaxWorld * (kMaxMemberBytes + 3) + 64, kMaxFrameBytes);
}

}  // namespace
}  // namespace optireduce::control
