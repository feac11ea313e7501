// The DPDK port without any NIC: two ports of this process, joined by rings.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_ring.h>
#include <sched.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/nic/dpdk_port.h"
#include "dataplane/nic/eal.h"
#include "dataplane/nic/port_test_util.h"

namespace optireduce::nic {
namespace {

constexpr Ipv4Address kIpA{0x0a000001};
constexpr Ipv4Address kIpB{0x0a000002};
constexpr uint16_t kPort = 5000;

// Two ethdevs; what one sends the other receives. `depth` frames fit a cable.
class Cable {
 public:
  Cable(const std::string& name, unsigned depth) {
    const auto ring = [&](const char* end) {
      return rte_ring_create((name + end).c_str(), depth, SOCKET_ID_ANY,
                             RING_F_SP_ENQ | RING_F_SC_DEQ);
    };
    a_to_b = ring("_ab");
    b_to_a = ring("_ba");
    a = static_cast<uint16_t>(
        rte_eth_from_rings((name + "_a").c_str(), &b_to_a, 1, &a_to_b, 1, 0));
    b = static_cast<uint16_t>(
        rte_eth_from_rings((name + "_b").c_str(), &a_to_b, 1, &b_to_a, 1, 0));
  }
  ~Cable() {
    rte_ring_free(a_to_b);
    rte_ring_free(b_to_a);
  }

  uint16_t a = 0;
  uint16_t b = 0;
  rte_ring* a_to_b = nullptr;
  rte_ring* b_to_a = nullptr;
};

std::unique_ptr<DpdkPort> OpenPort(uint16_t id, Ipv4Address ip,
                                   uint16_t mtu = 1500) {
  DpdkPortConfig config;
  config.port_id = id;
  config.ip = ip;
  config.mtu = mtu;
  config.first_port = kPort;
  config.num_ports = 4;
  auto port = DpdkPort::Open(config);
  EXPECT_TRUE(port.ok()) << port.status();
  return *std::move(port);
}

// A cable with a port at each end that know each other's addresses.
class DpdkRingTest : public testing::Test {
 protected:
  void Connect(unsigned depth = 1024, uint16_t mtu = 1500) {
    static int number = 0;
    cable_ = std::make_unique<Cable>("cable" + std::to_string(number++), depth);
    a_ = OpenPort(cable_->a, kIpA, mtu);
    b_ = OpenPort(cable_->b, kIpB, mtu);
  }
  void Resolve() {
    EXPECT_TRUE(SendOne(*a_, {kIpB, kPort}, 0, now_));
    EXPECT_TRUE(SendOne(*b_, {kIpA, kPort}, 0, now_));
    for (int i = 0; i < 3; ++i) {
      for (DpdkPort* port : {a_.get(), b_.get()}) {
        port->Tick(now_);
        EXPECT_TRUE(ReceiveAll(*port, now_).empty());
        port->Tick(now_);
      }
    }
    EXPECT_EQ(CounterOf(*a_, "tx_unresolved"), 1);
  }
  void TearDown() override {
    ReceiveAll(*a_, now_);
    ReceiveAll(*b_, now_);
    const absl::Status a = a_->Close();
    EXPECT_TRUE(a.ok()) << a;
    const absl::Status b = b_->Close();
    EXPECT_TRUE(b.ok()) << b;
  }

  Timestamp now_ = Timestamp::FromNanos(1'000'000'000);
  std::unique_ptr<Cable> cable_;
  std::unique_ptr<DpdkPort> a_;
  std::unique_ptr<DpdkPort> b_;
};

TEST_F(DpdkRingTest, ResolvesAndDeliversEverySize) {
  Connect();
  Resolve();
  for (const size_t bytes : {0, 1, 17, 18, 1471, 1472}) {
    ASSERT_TRUE(SendOne(*a_, {kIpB, kPort}, bytes, now_));
    const auto payloads = ReceiveAll(*b_, now_);
    ASSERT_EQ(payloads.size(), 1) << bytes;
    ASSERT_EQ(payloads[0].size(), bytes);
    for (size_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(payloads[0][i], static_cast<uint8_t>(i));
    }
  }
  EXPECT_EQ(CounterOf(*b_, "rx_udp"), 6);
  EXPECT_EQ(CounterOf(*b_, "rx_bad_udp_checksum"), 0);
}

TEST_F(DpdkRingTest, DatagramsCarryTheirAddresses) {
  Connect();
  Resolve();
  SendOne(*a_, {kIpB, kPort}, 3, now_);
  RxDatagram datagram;
  ASSERT_EQ(b_->Receive({&datagram, 1}, now_).datagrams, 1);
  EXPECT_EQ(datagram.source, (UdpEndpoint{kIpA, 50000}));
  EXPECT_EQ(datagram.destination_port, kPort);
  EXPECT_FALSE(datagram.congestion_experienced);
  EXPECT_FALSE(datagram.arrival.has_value());
  b_->Release({&datagram, 1});
}

TEST_F(DpdkRingTest, LentBuffersAreAlignedAndHoldExactlyTheMtu) {
  Connect(1024, 9000);
  std::array<TxDatagram, 8> lent;
  ASSERT_EQ(a_->Lend(lent), 8);
  for (const TxDatagram& d : lent) {
    EXPECT_EQ(d.buffer.size(), 8972);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(d.buffer.data()) % 64, 0);
  }
  a_->GiveBack(lent);
}

TEST_F(DpdkRingTest, PayloadBeyondTheMtuIsRefused) {
  Connect();
  Resolve();
  TxDatagram datagram;
  ASSERT_EQ(a_->Lend({&datagram, 1}), 1);
  datagram.length = 1473;
  datagram.destination = {kIpB, kPort};
  a_->Send({&datagram, 1}, now_);
  EXPECT_EQ(CounterOf(*a_, "tx_bad_length"), 1);
  EXPECT_TRUE(ReceiveAll(*b_, now_).empty());
}

TEST_F(DpdkRingTest, CorruptionIsFoundInSoftware) {
  Connect();
  Resolve();
  SendOne(*a_, {kIpB, kPort}, 100, now_);
  void* frame = nullptr;
  ASSERT_EQ(rte_ring_dequeue(cable_->a_to_b, &frame), 0);
  auto* mbuf = static_cast<rte_mbuf*>(frame);
  rte_pktmbuf_mtod(mbuf, uint8_t*)[42 + 50] ^= 1;
  ASSERT_EQ(rte_ring_enqueue(cable_->a_to_b, frame), 0);
  EXPECT_TRUE(ReceiveAll(*b_, now_).empty());
  EXPECT_EQ(CounterOf(*b_, "rx_bad_udp_checksum"), 1);
}

TEST_F(DpdkRingTest, ChecksumStatesOfTheDevice) {
  Connect();
  Resolve();
  // good: the device's word counts, even for a wrong sum; bad: dropped though
  // the sum is right.
  struct Case {
    uint64_t flags;
    bool corrupt;
    bool accepted;
  };
  for (const Case& c : {
           Case{RTE_MBUF_F_RX_L4_CKSUM_GOOD, true, true},
           Case{RTE_MBUF_F_RX_L4_CKSUM_NONE, true, true},
           Case{RTE_MBUF_F_RX_L4_CKSUM_BAD, false, false},
           Case{RTE_MBUF_F_RX_IP_CKSUM_BAD, false, false},
           Case{RTE_MBUF_F_RX_L4_CKSUM_UNKNOWN, true, false},
       }) {
    SendOne(*a_, {kIpB, kPort}, 100, now_);
    void* frame = nullptr;
    ASSERT_EQ(rte_ring_dequeue(cable_->a_to_b, &frame), 0);
    auto* mbuf = static_cast<rte_mbuf*>(frame);
    mbuf->ol_flags = c.flags;
    if (c.corrupt) rte_pktmbuf_mtod(mbuf, uint8_t*)[42] ^= 1;
    ASSERT_EQ(rte_ring_enqueue(cable_->a_to_b, frame), 0);
    EXPECT_EQ(ReceiveAll(*b_, now_).size(), c.accepted ? 1 : 0) << c.flags;
  }
}

TEST_F(DpdkRingTest, SegmentedFramesAreJoined) {
  Connect();
  Resolve();
  for (const uint16_t cut : {1, 13, 42, 43, 100}) {
    SendOne(*a_, {kIpB, kPort}, 200, now_);
    void* frame = nullptr;
    ASSERT_EQ(rte_ring_dequeue(cable_->a_to_b, &frame), 0);
    auto* head = static_cast<rte_mbuf*>(frame);
    rte_mbuf* tail = rte_pktmbuf_alloc(head->pool);
    ASSERT_NE(tail, nullptr);
    const auto rest = static_cast<uint16_t>(head->data_len - cut);
    std::memcpy(rte_pktmbuf_append(tail, rest),
                rte_pktmbuf_mtod_offset(head, uint8_t*, cut), rest);
    ASSERT_EQ(rte_pktmbuf_trim(head, rest), 0);
    ASSERT_EQ(rte_pktmbuf_chain(head, tail), 0);
    ASSERT_EQ(rte_ring_enqueue(cable_->a_to_b, frame), 0);

    const auto payloads = ReceiveAll(*b_, now_);
    ASSERT_EQ(payloads.size(), 1) << cut;
    ASSERT_EQ(payloads[0].size(), 200);
    for (size_t i = 0; i < 200; ++i) ASSERT_EQ(payloads[0][i], i);
  }
}

TEST_F(DpdkRingTest, FullDeviceQueueKeepsFramesInOrderWithoutSpinning) {
  Connect(16);  // 15 frames fit
  Resolve();
  int sent = 0;
  while (SendOne(*a_, {kIpB, kPort}, 10 + static_cast<size_t>(sent), now_)) {
    ++sent;
  }
  // What the device did not take waits in the port, up to its backlog.
  EXPECT_EQ(sent, 15 + 128);
  EXPECT_EQ(CounterOf(*a_, "tx_frames"), 3 + 15);  // three for ARP
  a_->Tick(now_);
  EXPECT_LE(a_->NextTick(), now_ + Duration::Millis(1));

  size_t received = 0;
  for (int i = 0; i < 100 && received < static_cast<size_t>(sent); ++i) {
    for (const auto& payload : ReceiveAll(*b_, now_)) {
      EXPECT_EQ(payload.size(), 10 + received);
      ++received;
    }
    a_->Tick(now_);
  }
  EXPECT_EQ(received, static_cast<size_t>(sent));
  EXPECT_TRUE(SendOne(*a_, {kIpB, kPort}, 1, now_));
}

TEST_F(DpdkRingTest, ExhaustedPoolIsCountedAndRecovers) {
  Connect(4096);
  Resolve();
  // Nobody takes the frames at the other end: they hold their buffers.
  size_t sent = 0;
  while (sent < 4000 && SendOne(*a_, {kIpB, kPort}, 1, now_)) ++sent;
  ASSERT_LT(sent, 4000);
  EXPECT_GT(CounterOf(*a_, "tx_no_buffer"), 0);
  EXPECT_EQ(ReceiveAll(*b_, now_).size(), sent);
  EXPECT_TRUE(SendOne(*a_, {kIpB, kPort}, 1, now_));
}

TEST_F(DpdkRingTest, SilentHostIsNamed) {
  Connect();
  const Ipv4Address nobody(0x0a000063);
  for (int i = 0; i < 30; ++i) {
    EXPECT_TRUE(SendOne(*a_, {nobody, kPort}, 1, now_));
    a_->Tick(now_);
    now_ = now_ + Duration::Millis(500);
    ReceiveAll(*b_, now_);
  }
  EXPECT_EQ(a_->SilentNextHops(), std::vector{nobody});
  EXPECT_EQ(CounterOf(*a_, "tx_unresolved"), 30);
  EXPECT_TRUE(SendOne(*a_, {Ipv4Address(0x0b000001), kPort}, 1, now_));
  EXPECT_EQ(CounterOf(*a_, "tx_no_route"), 1);
}

TEST_F(DpdkRingTest, ForeignPortsAreNotOurs) {
  Connect();
  Resolve();
  for (const uint16_t port : {4999, 5000, 5003, 5004}) {
    TxDatagram datagram;
    ASSERT_EQ(a_->Lend({&datagram, 1}), 1);
    datagram.destination = {kIpB, port};
    a_->Send({&datagram, 1}, now_);
  }
  EXPECT_EQ(ReceiveAll(*b_, now_).size(), 2);
  EXPECT_EQ(CounterOf(*b_, "rx_not_our_port"), 2);
}

// ---- the environment --------------------------------------------------------

cpu_set_t affinity_before;

TEST(EalTest, CallingThreadKeepsItsAffinity) {
  cpu_set_t now;
  ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof(now), &now), 0);
  EXPECT_TRUE(CPU_EQUAL(&now, &affinity_before));
}

TEST(EalTest, StartsOnce) {
  const auto second = Eal::Start({.pages = PageMode::kSmall});
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()),
              testing::HasSubstr("once"));
}

TEST(EalTest, ReadsHugepages) {
  const HugepageState state = ParseHugepages(
      "MemTotal:        8000000 kB\nHugePages_Total:     100\n"
      "HugePages_Free:       12\nHugepagesize:       2048 kB\n");
  EXPECT_EQ(state.free_pages, 12);
  EXPECT_EQ(state.page_bytes, 2 << 20);
  EXPECT_EQ(ParseHugepages("").page_bytes, 0);
}

}  // namespace
}  // namespace optireduce::nic

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  pthread_getaffinity_np(pthread_self(), sizeof(cpu_set_t),
                         &optireduce::nic::affinity_before);
  auto eal = optireduce::nic::Eal::Start({.memory_mb = 192});
  if (!eal.ok()) {
    fprintf(stderr, "%s\n", eal.status().ToString().c_str());
    return 1;
  }
  return RUN_ALL_TESTS();
}
