#include "dataplane/nic/arp_table.h"

#include <gtest/gtest.h>

namespace optireduce::nic {
namespace {

constexpr MacAddress kOurMac{{2, 0, 0, 0, 0, 1}};
constexpr MacAddress kPeerMac{{2, 0, 0, 0, 0, 2}};
constexpr MacAddress kOtherMac{{2, 0, 0, 0, 0, 3}};
constexpr Ipv4Address kOurIp{0x0a000001};
constexpr Ipv4Address kPeerIp{0x0a000002};
constexpr Ipv4Address kGateway{0x0a0000fe};
constexpr Ipv4Address kFarIp{0x0b000001};

class ArpTableTest : public testing::Test {
 protected:
  ArpTableTest() : ArpTableTest(std::nullopt) {}
  explicit ArpTableTest(std::optional<Ipv4Address> gateway)
      : table_({kOurMac, kOurIp, 24, gateway}, {}) {}

  Route Lookup(Ipv4Address ip) { return table_.Lookup(ip, now_, &mac_); }

  // All requests that are due; each must be for one of ours to resolve.
  std::vector<Ipv4Address> Requests() {
    std::vector<Ipv4Address> targets;
    while (const auto message = table_.PollRequest(now_)) {
      EXPECT_EQ(message->destination, kBroadcastMac);
      EXPECT_EQ(message->packet.operation, ArpOperation::kRequest);
      EXPECT_EQ(message->packet.sender_ip, kOurIp);
      EXPECT_EQ(message->packet.sender_mac, kOurMac);
      targets.push_back(message->packet.target_ip);
    }
    EXPECT_GT(table_.NextWakeup(), now_);
    return targets;
  }

  std::optional<ArpMessage> Receive(ArpOperation operation,
                                    Ipv4Address sender_ip,
                                    const MacAddress& sender_mac,
                                    Ipv4Address target_ip = kOurIp) {
    return table_.OnPacket({operation, sender_mac, sender_ip, {}, target_ip},
                           now_);
  }

  ArpTable table_;
  Timestamp now_ = Timestamp::FromNanos(1'000'000'000'000);
  MacAddress mac_;
};

class ArpTableWithGatewayTest : public ArpTableTest {
 protected:
  ArpTableWithGatewayTest() : ArpTableTest(kGateway) {}
};

TEST_F(ArpTableTest, AnswersRequestsForOurAddressOnly) {
  const auto answer = Receive(ArpOperation::kRequest, kPeerIp, kPeerMac);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->destination, kPeerMac);
  EXPECT_EQ(answer->packet.operation, ArpOperation::kReply);
  EXPECT_EQ(answer->packet.sender_mac, kOurMac);
  EXPECT_EQ(answer->packet.sender_ip, kOurIp);
  EXPECT_EQ(answer->packet.target_mac, kPeerMac);
  EXPECT_EQ(answer->packet.target_ip, kPeerIp);

  for (const Ipv4Address other : {kFarIp, kGateway}) {
    EXPECT_FALSE(
        Receive(ArpOperation::kRequest, kPeerIp, kPeerMac, other).has_value());
  }
  EXPECT_FALSE(Receive(ArpOperation::kReply, kPeerIp, kPeerMac).has_value());
}

TEST_F(ArpTableTest, ProbeWithoutSenderAddressIsAnsweredAndNotLearnt) {
  // RFC 5227: a host that checks whether the address is free.
  EXPECT_TRUE(
      Receive(ArpOperation::kRequest, Ipv4Address(0), kPeerMac).has_value());
  EXPECT_EQ(table_.NextWakeup(), Timestamp::Never());
}

TEST_F(ArpTableTest, ResolvesOnDemand) {
  EXPECT_TRUE(Requests().empty());
  EXPECT_EQ(Lookup(kPeerIp), Route::kUnresolved);
  EXPECT_EQ(Requests(), std::vector{kPeerIp});
  EXPECT_TRUE(Requests().empty());

  Receive(ArpOperation::kReply, kPeerIp, kPeerMac);
  EXPECT_EQ(Lookup(kPeerIp), Route::kResolved);
  EXPECT_EQ(mac_, kPeerMac);
}

TEST_F(ArpTableTest, AsksForSeveralHostsInOnePass) {
  EXPECT_EQ(Lookup(kPeerIp), Route::kUnresolved);
  EXPECT_EQ(Lookup(kGateway), Route::kUnresolved);
  EXPECT_EQ(Requests().size(), 2);
}

TEST_F(ArpTableTest, SilentHostIsRetriedWithGrowingPausesAndNamed) {
  Lookup(kPeerIp);
  std::vector<Duration> pauses;
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(Requests(), std::vector{kPeerIp});
    if (i < 4) {
      EXPECT_TRUE(table_.Silent().empty()) << i;
    } else {
      EXPECT_EQ(table_.Silent(), std::vector{kPeerIp}) << i;
    }
    pauses.push_back(table_.NextWakeup() - now_);
    now_ = table_.NextWakeup();
  }
  EXPECT_EQ(pauses.front(), Duration::Millis(50));
  EXPECT_EQ(pauses[1], Duration::Millis(100));
  EXPECT_EQ(pauses.back(), Duration::Seconds(1));

  Receive(ArpOperation::kReply, kPeerIp, kPeerMac);
  EXPECT_TRUE(table_.Silent().empty());
}

TEST_F(ArpTableTest, ChangedHardwareAddressIsUsedWithinTheExpiry) {
  Lookup(kPeerIp);
  Requests();
  Receive(ArpOperation::kReply, kPeerIp, kPeerMac);
  const Timestamp learnt = now_;
  // The host moves; only what is asked is answered.
  while (mac_ != kOtherMac && now_ - learnt <= Duration::Seconds(60)) {
    now_ = now_ + Duration::Millis(500);
    ASSERT_EQ(Lookup(kPeerIp), Route::kResolved);
    if (!Requests().empty()) {
      Receive(ArpOperation::kReply, kPeerIp, kOtherMac);
      Lookup(kPeerIp);
    }
  }
  EXPECT_EQ(mac_, kOtherMac);
  EXPECT_LT(now_ - learnt, Duration::Seconds(60));
}

TEST_F(ArpTableTest, AnnouncedHardwareAddressIsUsedAtOnce) {
  Lookup(kPeerIp);
  Receive(ArpOperation::kReply, kPeerIp, kPeerMac);
  Receive(ArpOperation::kRequest, kPeerIp, kOtherMac, kPeerIp);
  EXPECT_EQ(Lookup(kPeerIp), Route::kResolved);
  EXPECT_EQ(mac_, kOtherMac);
}

TEST_F(ArpTableTest, ExpiredAddressIsNotUsedAndAskedForAgain) {
  Lookup(kPeerIp);
  Requests();
  Receive(ArpOperation::kReply, kPeerIp, kPeerMac);
  now_ = now_ + Duration::Seconds(60);
  EXPECT_EQ(Lookup(kPeerIp), Route::kUnresolved);
  EXPECT_EQ(Requests(), std::vector{kPeerIp});
}

TEST_F(ArpTableTest, StrangersAreNotEntered) {
  for (uint32_t i = 0; i < 1000; ++i) {
    Receive(ArpOperation::kReply, Ipv4Address(0x0a000010 + i), kPeerMac);
  }
  EXPECT_EQ(Lookup(Ipv4Address(0x0a000010)), Route::kUnresolved);
}

TEST_F(ArpTableTest, StaticEntryNeitherChangesNorExpires) {
  table_.AddStatic(kPeerIp, kPeerMac);
  Receive(ArpOperation::kReply, kPeerIp, kOtherMac);
  now_ = now_ + Duration::Seconds(100'000);
  EXPECT_TRUE(Requests().empty());
  EXPECT_EQ(Lookup(kPeerIp), Route::kResolved);
  EXPECT_EQ(mac_, kPeerMac);
}

TEST_F(ArpTableTest, UnusedHostIsForgottenAndNoLongerAskedFor) {
  Lookup(kPeerIp);
  for (int i = 0; i < 300; ++i) {
    Requests();
    now_ = now_ + Duration::Seconds(1);
  }
  EXPECT_EQ(table_.NextWakeup(), Timestamp::Never());
  EXPECT_TRUE(table_.Silent().empty());
}

TEST_F(ArpTableTest, TableIsBounded) {
  ArpTable table({kOurMac, kOurIp, 24, std::nullopt}, {.max_entries = 2});
  const auto lookup = [&](uint32_t ip) {
    return table.Lookup(Ipv4Address(ip), now_, &mac_);
  };
  EXPECT_EQ(lookup(0x0a000002), Route::kUnresolved);
  EXPECT_EQ(lookup(0x0a000003), Route::kUnresolved);
  EXPECT_EQ(lookup(0x0a000004), Route::kNoRoute);
}

TEST_F(ArpTableTest, OtherSubnetWithoutGatewayHasNoRoute) {
  EXPECT_EQ(Lookup(kFarIp), Route::kNoRoute);
  EXPECT_TRUE(Requests().empty());
}

TEST_F(ArpTableWithGatewayTest, OtherSubnetGoesByTheGateway) {
  EXPECT_EQ(Lookup(kFarIp), Route::kUnresolved);
  EXPECT_EQ(Requests(), std::vector{kGateway});
  Receive(ArpOperation::kReply, kGateway, kOtherMac);
  EXPECT_EQ(Lookup(kFarIp), Route::kResolved);
  EXPECT_EQ(mac_, kOtherMac);
  EXPECT_EQ(Lookup(kPeerIp), Route::kUnresolved);
}

TEST_F(ArpTableTest, AnotherHostWithOurAddressIsCounted) {
  EXPECT_FALSE(Receive(ArpOperation::kReply, kOurIp, kPeerMac).has_value());
  EXPECT_EQ(table_.conflicts(), 1);
  // Our own, seen again on a loop.
  EXPECT_FALSE(Receive(ArpOperation::kRequest, kOurIp, kOurMac).has_value());
  EXPECT_EQ(table_.conflicts(), 1);
}

TEST_F(ArpTableTest, TwoHostsWithOneAddressLearnOfEachOther) {
  ArpTable other({kOtherMac, kOurIp, 24, std::nullopt}, {});
  const auto answer = other.OnPacket(table_.Announcement().packet, now_);
  EXPECT_EQ(other.conflicts(), 1);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->destination, kOurMac);
  EXPECT_EQ(table_.OnPacket(answer->packet, now_), std::nullopt);
  EXPECT_EQ(table_.conflicts(), 1);
}

TEST(SubnetTest, Prefixes) {
  const auto contains = [](int prefix, uint32_t other) {
    return Subnet{kOurMac, Ipv4Address(0x0a000001), prefix, std::nullopt}
        .Contains(Ipv4Address(other));
  };
  EXPECT_TRUE(contains(24, 0x0a0000ff));
  EXPECT_FALSE(contains(24, 0x0a000100));
  EXPECT_TRUE(contains(0, 0xc0000201));
  EXPECT_TRUE(contains(32, 0x0a000001));
  EXPECT_FALSE(contains(32, 0x0a000002));
}

}  // namespace
}  // namespace optireduce::nic
