#include "dataplane/nic/fake_port.h"

#include <gtest/gtest.h>

#include <array>

#include "dataplane/nic/port_test_util.h"

namespace optireduce::nic {
namespace {

constexpr Ipv4Address kIpA{0x0a000001};
constexpr Ipv4Address kIpB{0x0a000002};
constexpr UdpEndpoint kToB = {kIpB, 5000};
constexpr Timestamp kNow = Timestamp::FromNanos(5000);

class FakePortTest : public testing::Test {
 protected:
  FakeWire wire_;
  FakePort a_{&wire_, {.ip = kIpA}};
  FakePort b_{&wire_, {.ip = kIpB, .stamps_arrivals = true}};
};

TEST_F(FakePortTest, Delivers) {
  ASSERT_TRUE(SendOne(a_, kToB, 7, kNow));
  std::array<RxDatagram, 4> datagrams;
  const RxResult result = b_.Receive(datagrams, kNow);
  ASSERT_EQ(result.datagrams, 1);
  EXPECT_FALSE(result.more);
  EXPECT_EQ(datagrams[0].source.ip, kIpA);
  EXPECT_EQ(datagrams[0].destination_port, 5000);
  EXPECT_EQ(datagrams[0].payload.size(), 7);
  EXPECT_EQ(datagrams[0].arrival, kNow);
  EXPECT_EQ(b_.held(), 1);
  b_.Release(std::span(datagrams).first(1));
  EXPECT_EQ(b_.held(), 0);
  EXPECT_EQ(a_.lent(), 0);
}

TEST_F(FakePortTest, FilterLoses) {
  wire_.set_filter([](const FakeWire::Datagram& datagram) {
    return datagram.payload.size() != 2;
  });
  SendOne(a_, kToB, 1, kNow);
  SendOne(a_, kToB, 2, kNow);
  EXPECT_EQ(ReceiveAll(b_, kNow).size(), 1);
}

TEST_F(FakePortTest, RefusedFramesWaitAndTheBacklogIsBounded) {
  a_.set_refuses_transmit(true);
  size_t sent = 0;
  while (SendOne(a_, kToB, 1, kNow)) ++sent;
  EXPECT_EQ(sent, 128);
  EXPECT_TRUE(ReceiveAll(b_, kNow).empty());
  a_.Tick(kNow);
  EXPECT_LT(a_.NextTick(), Timestamp::Never());
  a_.set_refuses_transmit(false);
  a_.Tick(kNow);
  EXPECT_EQ(ReceiveAll(b_, kNow).size(), 128);
  EXPECT_EQ(a_.NextTick(), Timestamp::Never());
}

TEST_F(FakePortTest, AwayPortTakesAndGivesNothing) {
  b_.set_away(true);
  EXPECT_FALSE(b_.link_up());
  SendOne(a_, kToB, 1, kNow);
  SendOne(b_, {kIpA, 5000}, 1, kNow);
  b_.set_away(false);
  EXPECT_TRUE(ReceiveAll(b_, kNow).empty());
  EXPECT_TRUE(ReceiveAll(a_, kNow).empty());
  SendOne(a_, kToB, 1, kNow);
  EXPECT_EQ(ReceiveAll(b_, kNow).size(), 1);
}

TEST_F(FakePortTest, SilentHostIsNamedAndCounted) {
  a_.SetSilent(kIpB);
  SendOne(a_, kToB, 1, kNow);
  EXPECT_EQ(CounterOf(a_, "tx_unresolved"), 1);
  EXPECT_EQ(a_.SilentNextHops(), std::vector{kIpB});
}

TEST_F(FakePortTest, LentBuffersAreBounded) {
  FakePort small(&wire_, {.ip = Ipv4Address(0x0a000003), .buffers = 3});
  std::array<TxDatagram, 8> lent;
  EXPECT_EQ(small.Lend(lent), 3);
  EXPECT_EQ(small.Lend(lent), 0);
  small.GiveBack(std::span(lent).first(3));
  EXPECT_EQ(small.lent(), 0);
}

}  // namespace
}  // namespace optireduce::nic
