#include "control/self_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace optireduce::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr nic::Ipv4Address kOwn(0x0A000001);
constexpr nic::Ipv4Address kGateway(0x0A0000FE);

// Counts what a port counts, and does what the test says.
class TestPort : public nic::PacketPort {
 public:
  TestPort() { info_.ip = kOwn; }

  const nic::PortInfo& info() const override { return info_; }
  nic::RxResult Receive(std::span<nic::RxDatagram>, Timestamp) override {
    return {};
  }
  void Release(std::span<const nic::RxDatagram>) override {}
  size_t Lend(std::span<nic::TxDatagram> out) override { return out.size(); }
  void Send(std::span<const nic::TxDatagram> datagrams, Timestamp) override {
    for (const nic::TxDatagram& datagram : datagrams) {
      const bool resolved = resolved_ips.count(datagram.destination.ip) != 0;
      if (!resolved) ++counters["tx_unresolved"];
    }
  }
  void GiveBack(std::span<const nic::TxDatagram>) override {}
  // Announces itself once.
  void Tick(Timestamp) override {
    if (up && !refuses) counters["tx_frames"] = 1;
    if (up && fails) counters["device_tx_errors"] = 1;
  }
  Timestamp NextTick() const override { return Timestamp::Never(); }
  int wait_fd() const override { return -1; }
  bool link_up() const override { return up; }
  std::vector<nic::Ipv4Address> SilentNextHops() const override { return {}; }
  void AppendCounters(std::vector<nic::NamedCounter>* out) const override {
    for (const auto& [name, value] : counters) out->push_back({name, value});
  }

  bool up = true;
  bool refuses = false;
  bool fails = false;
  std::set<nic::Ipv4Address> resolved_ips;
  std::map<std::string, uint64_t> counters;

 private:
  nic::PortInfo info_;
};

class SelfTestTest : public ::testing::Test {
 protected:
  absl::Status Run() {
    SelfTestHooks hooks;
    hooks.now = [this] { return now_; };
    hooks.wait = [this](Duration at_most) {
      now_ = now_ + at_most;
      if (after_wait_) after_wait_();
    };
    hooks.progress = [this](const std::string& text) {
      progress_.push_back(text);
    };
    hooks.interrupted = [this] { return interrupted_; };
    return TestDataPort(&port_, options_, hooks);
  }
  Duration Elapsed() const { return now_ - Timestamp(); }

  TestPort port_;
  SelfTestOptions options_;
  Timestamp now_;
  std::function<void()> after_wait_;
  bool interrupted_ = false;
  std::vector<std::string> progress_;
};

TEST_F(SelfTestTest, AGoodPortPassesSoon) {
  EXPECT_TRUE(Run().ok());
  EXPECT_GE(Elapsed(), options_.conflict_wait);
  EXPECT_LT(Elapsed(), Duration::Millis(400));
  EXPECT_GT(port_.counters["tx_frames"], 0u);
}

TEST_F(SelfTestTest, WaitsForTheLink) {
  port_.up = false;
  after_wait_ = [this] { port_.up = Elapsed() > Duration::Seconds(3); };
  EXPECT_TRUE(Run().ok());
  EXPECT_GT(Elapsed(), Duration::Seconds(3));
  EXPECT_THAT(progress_, ElementsAre("waiting: the link is down"));
}

TEST_F(SelfTestTest, ButNotForEver) {
  port_.up = false;
  const absl::Status status = Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(std::string(status.message()), "the link is down");
  EXPECT_GE(Elapsed(), options_.limit);
  EXPECT_LT(Elapsed(), options_.limit + Duration::Seconds(1));
}

TEST_F(SelfTestTest, AStopSignalEndsTheWait) {
  port_.up = false;
  after_wait_ = [this] { interrupted_ = true; };
  EXPECT_EQ(Run().code(), absl::StatusCode::kCancelled);
}

TEST_F(SelfTestTest, ADeviceThatTakesNothing) {
  port_.refuses = true;
  EXPECT_THAT(std::string(Run().message()), HasSubstr("takes no frame"));
}

TEST_F(SelfTestTest, ADeviceThatFailsToSend) {
  port_.fails = true;
  EXPECT_THAT(std::string(Run().message()), HasSubstr("fails to send"));
}

TEST_F(SelfTestTest, AnAddressThatAnotherHostHas) {
  after_wait_ = [this] { port_.counters["arp_conflicts"] = 1; };
  EXPECT_EQ(std::string(Run().message()),
            "another host has the address 10.0.0.1");
}

TEST_F(SelfTestTest, TheGatewayMustAnswer) {
  options_.gateway = kGateway;
  const absl::Status status = Run();
  EXPECT_EQ(std::string(status.message()),
            "the gateway 10.0.0.254 answers no ARP request");
  const Timestamp start = now_;
  after_wait_ = [this, start] {
    if (now_ - start > Duration::Seconds(2)) {
      port_.resolved_ips.insert(kGateway);
    }
  };
  EXPECT_TRUE(Run().ok());
  EXPECT_GT(now_ - start, Duration::Seconds(2));
}

}  // namespace
}  // namespace optireduce::control
