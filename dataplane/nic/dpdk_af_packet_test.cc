// The DPDK port over two kernel interfaces, veth0 and veth1, joined by a cable;
// by net_af_packet or, if the first argument says so, by net_af_xdp.
// The kernel has the address 10.7.0.1/24 on veth0 and a default route over it.
// dpdk_af_packet_test.sh makes them, in a network namespace of its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/nic/dpdk_port.h"
#include "dataplane/nic/eal.h"
#include "dataplane/nic/kernel_interface.h"
#include "dataplane/nic/port_spec.h"
#include "dataplane/nic/port_test_util.h"

namespace optireduce::nic {
namespace {

constexpr uint16_t kPort = 5000;
constexpr Ipv4Address kIp[2] = {Ipv4Address(0x0a080001),
                                Ipv4Address(0x0a080002)};
constexpr UdpEndpoint kTo[2] = {{kIp[0], kPort}, {kIp[1], kPort}};

Timestamp Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return Timestamp::FromNanos(now.tv_sec * 1'000'000'000 + now.tv_nsec);
}

void Shell(const std::string& command) {
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

// Both ports, opened once: EAL cannot be restarted.
std::unique_ptr<DpdkPort> ports[2];

absl::Status OpenPort(Eal& eal, const std::string& kind, int i) {
  const std::string name = "veth" + std::to_string(i);
  const auto spec = ParsePortSpec(kind + ":" + name);
  if (!spec.ok()) return spec.status();
  const auto interface = ReadKernelInterface(name);
  if (!interface.ok()) return interface.status();
  const auto plan = PlanDevice(*spec, &*interface, i, true);
  if (!plan.ok()) return plan.status();
  const auto id = eal.AddDevice(*plan);
  if (!id.ok()) return id.status();
  DpdkPortConfig config;
  config.port_id = *id;
  config.interface = *interface;
  config.ip = kIp[i];
  config.mtu = interface->mtu;
  config.first_port = kPort;
  config.num_ports = 1;
  auto port = DpdkPort::Open(config);
  if (!port.ok()) return port.status();
  ports[i] = *std::move(port);
  return absl::OkStatus();
}

class AfPacketTest : public testing::Test {
 protected:
  // Whether `port` has received something, at the latest after the time.
  static bool Wait(const PacketPort& port, int milliseconds) {
    pollfd waiting = {port.wait_fd(), POLLIN, 0};
    return poll(&waiting, 1, milliseconds) == 1;
  }

  // Serves both ports until one of them has received `count` datagrams.
  static std::vector<std::vector<uint8_t>> Collect(int receiver, size_t count) {
    std::vector<std::vector<uint8_t>> all;
    const Timestamp end = Now() + Duration::Seconds(10);
    while (all.size() < count && Now() < end) {
      for (int i = 0; i < 2; ++i) {
        for (auto& payload : ReceiveAll(*ports[i], Now())) {
          if (i == receiver) all.push_back(std::move(payload));
        }
        ports[i]->Tick(Now());
      }
      if (all.size() < count) usleep(100);
    }
    return all;
  }

  // Makes both ports know each other's hardware addresses.
  static void Resolve() {
    for (int i = 0; i < 2; ++i) {
      const Timestamp end = Now() + Duration::Seconds(10);
      do {
        ASSERT_LT(Now(), end);
        SendOne(*ports[i], kTo[1 - i], 0, Now());
        ports[i]->Tick(Now());
        ports[1 - i]->Tick(Now());
        usleep(100);
        ReceiveAll(*ports[i], Now());
        ports[1 - i]->Tick(Now());
      } while (ReceiveAll(*ports[1 - i], Now()).empty());
    }
    Drain();
  }

  // Until both ports have been empty for a while.
  static void Drain() {
    for (int empty = 0; empty < 10;) {
      const bool got = !ReceiveAll(*ports[0], Now()).empty() ||
                       !ReceiveAll(*ports[1], Now()).empty();
      empty = got ? 0 : empty + 1;
      usleep(200);
    }
  }
};

TEST_F(AfPacketTest, ReadsTheInterface) {
  const auto interface = ReadKernelInterface("veth0");
  ASSERT_TRUE(interface.ok()) << interface.status();
  EXPECT_EQ(interface->ip, Ipv4Address(0x0a070001));
  EXPECT_EQ(interface->prefix_length, 24);
  EXPECT_EQ(interface->gateway, Ipv4Address(0x0a0700fe));
  EXPECT_TRUE(interface->has_default_route);
  EXPECT_EQ(ports[0]->info().mac, interface->mac);
  EXPECT_FALSE(ReadKernelInterface("veth1")->has_default_route);
}

TEST_F(AfPacketTest, SleepsUntilAFrameArrives) {
  Resolve();
  if (ports[1]->wait_fd() < 0) GTEST_SKIP() << "this driver is only polled";
  EXPECT_FALSE(Wait(*ports[1], 0));
  ASSERT_TRUE(SendOne(*ports[0], kTo[1], 1472, Now()));
  ASSERT_TRUE(Wait(*ports[1], 1000));
  const auto payloads = ReceiveAll(*ports[1], Now());
  ASSERT_EQ(payloads.size(), 1);
  EXPECT_EQ(payloads[0].size(), 1472);
  EXPECT_EQ(payloads[0][300], 300 % 256);
  EXPECT_FALSE(Wait(*ports[1], 0));
}

TEST_F(AfPacketTest, DeliversAllInOrder) {
  Resolve();
  constexpr size_t kCount = 2000;
  std::vector<std::vector<uint8_t>> received;
  size_t sent = 0;
  const Timestamp end = Now() + Duration::Seconds(20);
  while (received.size() < kCount && Now() < end) {
    while (sent < kCount && sent - received.size() < 500 &&
           SendOne(*ports[0], kTo[1], 1 + sent % 1472, Now())) {
      ++sent;
    }
    ports[0]->Tick(Now());
    for (auto& payload : ReceiveAll(*ports[1], Now())) {
      received.push_back(std::move(payload));
    }
  }
  ASSERT_EQ(received.size(), kCount);
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(received[i].size(), 1 + i % 1472);
  }
}

TEST_F(AfPacketTest, KernelSortsOutWhatIsNotForUs) {
  Resolve();
  const uint64_t before = CounterOf(*ports[0], "rx_frames");
  // The kernel of this namespace owns the first address; nobody the second. A
  // broadcast ARP from the kernel would come, so the neighbour is static.
  Shell("ip neigh replace 10.7.0.99 dev veth0 lladdr 02:00:00:00:00:63");
  Shell("bash -c 'echo hello > /dev/udp/10.7.0.99/9'");  // our own sending
  ASSERT_TRUE(SendOne(*ports[1], kTo[0], 5, Now()));
  EXPECT_EQ(Collect(0, 1).size(), 1);
  EXPECT_EQ(CounterOf(*ports[0], "rx_frames"), before + 1);
}

TEST_F(AfPacketTest, FullQueueNeverBlocks) {
  Resolve();
  Shell("tc qdisc add dev veth0 root tbf rate 2mbit burst 32kb limit 10mb");
  Duration longest;
  size_t sent = 0;
  const Timestamp end = Now() + Duration::Millis(500);
  while (Now() < end) {
    const Timestamp start = Now();
    if (SendOne(*ports[0], kTo[1], 1472, start)) ++sent;
    ports[0]->Tick(start);
    longest = std::max(longest, Now() - start);
    ReceiveAll(*ports[1], Now());
    usleep(50);
  }
  Shell("tc qdisc del dev veth0 root");
  // A driver with a full ring would wait for the bucket: 2 Mb/s are 6 ms for
  // each frame, and half a socket buffer some 250 ms.
  EXPECT_LT(longest, Duration::Millis(50)) << longest.micros() << " us";
  EXPECT_GT(sent, 100);
  Drain();
}

TEST_F(AfPacketTest, SurvivesThatTheInterfaceGoesAway) {
  Resolve();
  EXPECT_TRUE(ports[0]->link_up());
  Shell("ip link set veth0 down");
  const Timestamp down = Now() + Duration::Seconds(5);
  while (ports[0]->link_up() && Now() < down) {
    SendOne(*ports[0], kTo[1], 100, Now());
    ports[0]->Tick(Now());
    ReceiveAll(*ports[0], Now());
    usleep(1000);
  }
  EXPECT_FALSE(ports[0]->link_up());

  Shell("ip link set veth0 up");
  // By itself: what was queued leaves, then everything is as before.
  const Timestamp end = Now() + Duration::Seconds(10);
  size_t received = 0;
  while ((received == 0 || !ports[0]->link_up()) && Now() < end) {
    SendOne(*ports[0], kTo[1], 33, Now());
    ports[0]->Tick(Now());
    usleep(1000);
    for (const auto& payload : ReceiveAll(*ports[1], Now())) {
      if (payload.size() == 33) ++received;
    }
    ports[1]->Tick(Now());
    ReceiveAll(*ports[0], Now());
  }
  EXPECT_GT(received, 0);
  EXPECT_TRUE(ports[0]->link_up());
}

TEST_F(AfPacketTest, AllBuffersComeBack) {
  Drain();
  for (auto& port : ports) {
    const absl::Status status = port->Close();
    EXPECT_TRUE(status.ok()) << status;
  }
}

}  // namespace
}  // namespace optireduce::nic

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  auto eal = optireduce::nic::Eal::Start({});
  const std::string kind = argc > 1 ? argv[1] : "af_packet";
  if (!eal.ok()) {
    fprintf(stderr, "%s\n", eal.status().ToString().c_str());
    return 1;
  }
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = optireduce::nic::OpenPort(**eal, kind, i);
    if (!status.ok()) {
      fprintf(stderr, "%s\n", status.ToString().c_str());
      return 1;
    }
    // Only the other driver may leave out the test of sleeping.
    if (kind == "af_packet" && optireduce::nic::ports[i]->wait_fd() < 0) {
      fprintf(stderr, "net_af_packet offers nothing to sleep on\n");
      return 1;
    }
    for (const std::string& note : optireduce::nic::ports[i]->info().notes) {
      printf("%s\n", note.c_str());
    }
  }
  const int result = RUN_ALL_TESTS();
  for (auto& port : optireduce::nic::ports) port.reset();
  return result;
}
