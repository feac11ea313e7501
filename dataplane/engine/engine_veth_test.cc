// Two engines on their threads, over two kernel interfaces joined by a cable
// (dataplane/nic/dpdk_af_packet_test.sh makes them): real time, real frames.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dataplane/engine/clock.h"
#include "dataplane/engine/engine.h"
#include "dataplane/engine/thread_session.h"
#include "dataplane/nic/dpdk_port.h"
#include "dataplane/nic/eal.h"
#include "dataplane/nic/kernel_interface.h"
#include "dataplane/nic/port_spec.h"

namespace optireduce::engine {
namespace {

constexpr uint16_t kPort = 5000;
constexpr uint32_t kFirstIp = 0x0a080001;

std::unique_ptr<nic::DpdkPort> ports[2];

absl::Status OpenPort(nic::Eal& eal, int i) {
  const std::string name = "veth" + std::to_string(i);
  const auto spec = nic::ParsePortSpec("af_packet:" + name);
  if (!spec.ok()) return spec.status();
  const auto interface = nic::ReadKernelInterface(name);
  if (!interface.ok()) return interface.status();
  const auto plan = nic::PlanDevice(*spec, &*interface, i, true);
  if (!plan.ok()) return plan.status();
  const auto id = eal.AddDevice(*plan);
  if (!id.ok()) return id.status();
  nic::DpdkPortConfig config;
  config.port_id = *id;
  config.interface = *interface;
  config.ip = nic::Ipv4Address(kFirstIp + static_cast<uint32_t>(i));
  config.first_port = kPort;
  config.num_ports = 1;
  auto port = nic::DpdkPort::Open(config);
  if (!port.ok()) return port.status();
  ports[i] = *std::move(port);
  return absl::OkStatus();
}

class EngineVethTest : public testing::Test {
 protected:
  void SetUp() override {
    core::GroupConfig config;
    config.memory_budget = 64 << 20;
    config.tag = tag_++;
    for (uint32_t r = 0; r < 2; ++r) {
      config.members.push_back(
          {core::NetAddress::FromIpv4(kFirstIp + r), kPort});
    }
    for (uint16_t r = 0; r < 2; ++r) {
      config.self = core::Rank(r);
      ASSERT_TRUE(engine(r).Post(AttachSession{SessionId(1), &clients_[r]}));
      ASSERT_TRUE(engine(r).Post(AddGroup{1, config, SessionId(1), 1}));
    }
    for (int r = 0; r < 2; ++r) {
      const auto notice = WaitForNotice<GroupChanged>(engine(r));
      ASSERT_NE(notice, nullptr);
      ASSERT_EQ(std::get<GroupChanged>(*notice).event.kind,
                core::EventKind::kGroupReady);
    }
  }
  void TearDown() override {
    for (int r = 0; r < 2; ++r) engine(r).Stop();
    for (std::thread& thread : threads_) thread.join();
  }

  Engine& engine(int rank) { return engines_[rank]; }

  // One op at both ranks; false if one does not end.
  bool Sum(core::Mode mode, size_t count, uint64_t cookie) {
    for (size_t r = 0; r < 2; ++r) {
      values_[r].assign(count, static_cast<float>(r + 1));
      auto* bytes = reinterpret_cast<uint8_t*>(values_[r].data());
      clients_[r].Submit(
          {clients_[r].group(),
           OpRequest{{.mode = mode, .count = count}, {bytes, bytes}}, cookie});
    }
    bool ended = true;
    for (ThreadSession& client : clients_) {
      ended &= client.Wait() == static_cast<int64_t>(cookie);
    }
    return ended;
  }

  std::unique_ptr<Notice> TakeSnapshotOf(int rank) {
    EXPECT_TRUE(engine(rank).Post(TakeSnapshot{1}));
    return WaitForNotice<std::unique_ptr<Snapshot>>(engine(rank));
  }
  Duration CpuOf(int rank) {
    const auto notice = TakeSnapshotOf(rank);
    return notice == nullptr
               ? Duration::Infinite()
               : std::get<std::unique_ptr<Snapshot>>(*notice)->cpu;
  }

  static inline uint32_t tag_ = 77;
  MonotonicClock clock_;
  ThreadSession clients_[2];
  Engine engines_[2] = {{{}, ports[0].get(), &clock_},
                        {{}, ports[1].get(), &clock_}};
  std::thread threads_[2] = {std::thread([this] { engines_[0].Run(); }),
                             std::thread([this] { engines_[1].Run(); })};
  std::vector<float> values_[2];
};

TEST_F(EngineVethTest, ExactSumsOfManySizes) {
  uint64_t cookie = 0;
  for (const size_t count : {1, 2, 3, 1000, 100'000, 1'000'000}) {
    ASSERT_TRUE(Sum(core::Mode::kExact, count, ++cookie)) << count;
    for (const auto& values : values_) {
      ASSERT_EQ(std::count(values.begin(), values.end(), 3.0F), count);
    }
  }
}

TEST_F(EngineVethTest, EndsOnTimeWithLoss) {
  // A bucket far too small for the data, with hardly a queue before it.
  ASSERT_EQ(
      std::system(
          "tc qdisc add dev veth0 root tbf rate 10mbit burst 4kb limit 8kb"),
      0);
  for (uint64_t cookie = 1; cookie <= 20; ++cookie) {
    EXPECT_TRUE(Sum(core::Mode::kBounded, 20'000, cookie));
  }
  ASSERT_EQ(std::system("tc qdisc del dev veth0 root"), 0);
  // Rank 1 lacks what rank 0 could not send: its ops end by the clock.
  const auto notice = TakeSnapshotOf(1);
  ASSERT_NE(notice, nullptr);
  const Snapshot& snapshot = *std::get<std::unique_ptr<Snapshot>>(*notice);
  EXPECT_GT(snapshot.decision_late.Count(), 0);
  // The engine's own part of the lateness, whatever else the machine does.
  EXPECT_LT(snapshot.decision_late.Max(), 1'000'000);
}

TEST_F(EngineVethTest, IdleEngineRests) {
  ASSERT_TRUE(Sum(core::Mode::kExact, 1000, 1));
  const Duration before = CpuOf(0);
  sleep(2);
  const Duration spent = CpuOf(0) - before;
  EXPECT_LT(spent, Duration::Millis(100)) << spent.micros() << " us in 2 s";
}

}  // namespace
}  // namespace optireduce::engine

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  auto eal = optireduce::nic::Eal::Start({});
  if (!eal.ok()) {
    fprintf(stderr, "%s\n", eal.status().ToString().c_str());
    return 1;
  }
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = optireduce::engine::OpenPort(**eal, i);
    if (!status.ok()) {
      fprintf(stderr, "%s\n", status.ToString().c_str());
      return 1;
    }
  }
  const int result = RUN_ALL_TESTS();
  int missing = 0;
  for (auto& port : optireduce::engine::ports) {
    const absl::Status status = port->Close();
    port.reset();
    if (status.ok()) continue;
    fprintf(stderr, "%s\n", status.ToString().c_str());
    missing = 1;
  }
  return result + missing;
}
