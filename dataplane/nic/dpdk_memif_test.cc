// The DPDK port between two processes over shared memory (net_memif).

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dataplane/nic/dpdk_port.h"
#include "dataplane/nic/eal.h"
#include "dataplane/nic/port_spec.h"
#include "dataplane/nic/port_test_util.h"

namespace optireduce::nic {
namespace {

constexpr UdpEndpoint kServer = {Ipv4Address(0x0a090001), 5000};
constexpr UdpEndpoint kClient = {Ipv4Address(0x0a090002), 5000};
constexpr size_t kDatagrams = 1000;

std::string socket_path;
pid_t echo_process = -1;

Timestamp Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return Timestamp::FromNanos(now.tv_sec * 1'000'000'000 + now.tv_nsec);
}

absl::StatusOr<std::unique_ptr<DpdkPort>> OpenPort(Eal& eal, bool server) {
  const auto spec = ParsePortSpec("memif:" + socket_path +
                                  ",role=" + (server ? "server" : "client"));
  if (!spec.ok()) return spec.status();
  const auto plan = PlanDevice(*spec, nullptr, 0, false);
  if (!plan.ok()) return plan.status();
  const auto id = eal.AddDevice(*plan);
  if (!id.ok()) return id.status();
  DpdkPortConfig config;
  config.port_id = *id;
  config.restart_to_reconnect = plan->restart_to_reconnect;
  config.ip = server ? kServer.ip : kClient.ip;
  config.first_port = 5000;
  config.num_ports = 1;
  return DpdkPort::Open(config);
}

// The client: sends each datagram back, until the server's process ends.
int Echo() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto eal = Eal::Start({.pages = PageMode::kSmall});
  if (!eal.ok()) return 1;
  auto port = OpenPort(**eal, false);
  if (!port.ok()) return 1;
  while (true) {
    for (const auto& payload : ReceiveAll(**port, Now())) {
      SendOne(**port, kServer, payload.size(), Now());
    }
    (*port)->Tick(Now());
    usleep(50);
  }
}

TEST(MemifTest, TwoProcessesExchangeDatagrams) {
  auto eal = Eal::Start({.pages = PageMode::kSmall});
  ASSERT_TRUE(eal.ok()) << eal.status();
  auto port = OpenPort(**eal, true);
  ASSERT_TRUE(port.ok()) << port.status();

  // One at a time, sent again if nothing comes back: the first ones find no
  // peer, or no hardware address.
  const Timestamp end = Now() + Duration::Seconds(30);
  size_t exchanged = 0;
  while (exchanged < kDatagrams && Now() < end) {
    const size_t bytes = exchanged * 7 % 1473;
    SendOne(**port, kClient, bytes, Now());
    const Timestamp again = Now() + Duration::Millis(20);
    bool answered = false;
    while (!answered && Now() < again) {
      (*port)->Tick(Now());
      for (const auto& payload : ReceiveAll(**port, Now())) {
        if (payload.size() != bytes) continue;
        answered = true;
        for (size_t i = 0; i < bytes; ++i) {
          ASSERT_EQ(payload[i], static_cast<uint8_t>(i));
        }
      }
      usleep(20);
    }
    if (answered) ++exchanged;
  }
  EXPECT_EQ(exchanged, kDatagrams);
  while (!(*port)->link_up() && Now() < end) {
    (*port)->Tick(Now());
    usleep(1000);
  }
  EXPECT_TRUE((*port)->link_up());

  // The peer dies: we notice, and nothing else happens.
  kill(echo_process, SIGKILL);
  waitpid(echo_process, nullptr, 0);
  while ((*port)->link_up() && Now() < end) {
    SendOne(**port, kClient, 100, Now());
    (*port)->Tick(Now());
    ReceiveAll(**port, Now());
    usleep(1000);
  }
  EXPECT_FALSE((*port)->link_up());

  // The driver and its interrupt thread let go without a complaint.
  testing::internal::CaptureStderr();
  const absl::Status closed = (*port)->Close();
  port->reset();
  eal->reset();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_TRUE(closed.ok()) << closed;
}

}  // namespace
}  // namespace optireduce::nic

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // Short: a socket's path has room for 107 characters.
  char directory[] = "/tmp/memif-XXXXXX";
  if (mkdtemp(directory) == nullptr) return 1;
  optireduce::nic::socket_path = std::string(directory) + "/s";
  optireduce::nic::echo_process = fork();
  if (optireduce::nic::echo_process == 0) _exit(optireduce::nic::Echo());
  const int result = RUN_ALL_TESTS();
  kill(optireduce::nic::echo_process, SIGKILL);
  unlink(optireduce::nic::socket_path.c_str());
  rmdir(directory);
  return result;
}
