// The engine on its thread, control and clients on another: rings, wake-ups and
// the end. All ranks live on one host, so that the port is never used.

#include <gtest/gtest.h>
#include <poll.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "dataplane/engine/clock.h"
#include "dataplane/engine/engine.h"
#include "dataplane/engine/mailbox.h"
#include "dataplane/engine/thread_session.h"
#include "dataplane/nic/fake_port.h"

namespace optireduce::engine {
namespace {

class EngineThreadTest : public testing::Test {
 protected:
  void TearDown() override {
    engine_.Stop();
    thread_.join();
  }

  void Form() {
    core::GroupConfig config;
    config.payload_bytes = 496;
    config.memory_budget = 1 << 20;
    config.tag = 0x1234;
    for (uint16_t r = 0; r < 2; ++r) {
      config.members.push_back({core::NetAddress::FromIpv4(0x0a000001),
                                static_cast<uint16_t>(5000 + r)});
    }
    for (uint16_t r = 0; r < 2; ++r) {
      config.self = core::Rank(r);
      ASSERT_TRUE(engine_.Post(AttachSession{SessionId(r), &clients_[r]}));
      ASSERT_TRUE(engine_.Post(AddGroup{r, config, SessionId(r), 1}));
    }
    for (int r = 0; r < 2; ++r) {
      const auto notice = WaitForNotice<GroupChanged>(engine_);
      ASSERT_NE(notice, nullptr);
      ASSERT_EQ(std::get<GroupChanged>(*notice).event.kind,
                core::EventKind::kGroupReady);
    }
  }

  nic::FakeWire wire_;
  nic::FakePort port_{&wire_, {.ip = nic::Ipv4Address(0x0a000001)}};
  MonotonicClock clock_;
  Engine engine_{{}, &port_, &clock_};
  ThreadSession clients_[2];
  std::thread thread_{[this] { engine_.Run(); }};
};

TEST_F(EngineThreadTest, OpsGoThroughWhileControlAsks) {
  Form();
  constexpr size_t kCount = 1000;
  std::vector<float> values[2];
  for (uint64_t op = 0; op < 200; ++op) {
    for (size_t r = 0; r < 2; ++r) {
      values[r].assign(kCount, static_cast<float>(r + 1));
      auto* bytes = reinterpret_cast<uint8_t*>(values[r].data());
      clients_[r].Submit(
          {clients_[r].group(),
           OpRequest{{.mode = core::Mode::kExact, .count = kCount},
                     {bytes, bytes}},
           op});
    }
    if (op % 10 == 0) {
      ASSERT_TRUE(engine_.Post(TakeSnapshot{op}));
    }
    for (size_t r = 0; r < 2; ++r) {
      ASSERT_EQ(clients_[r].Wait(), static_cast<int64_t>(op));
      for (const float value : values[r]) ASSERT_EQ(value, 3);
    }
  }
  for (uint64_t i = 0; i < 20; ++i) {
    const auto notice = WaitForNotice<std::unique_ptr<Snapshot>>(engine_);
    ASSERT_NE(notice, nullptr);
    EXPECT_EQ(std::get<std::unique_ptr<Snapshot>>(*notice)->request, 10 * i);
  }
}

TEST_F(EngineThreadTest, DetachedSessionIsLetGo) {
  Form();
  std::vector<float> values(1000, 1.0F);
  auto* bytes = reinterpret_cast<uint8_t*>(values.data());
  const Submission submission = {
      clients_[0].group(),
      OpRequest{{.mode = core::Mode::kExact, .count = values.size()},
                {bytes, bytes}},
      0};
  clients_[0].Submit(submission);  // the other rank never does
  ASSERT_TRUE(engine_.Post(
      DetachSession{SessionId(0), wire::LeaveReason::kClientDied}));
  ASSERT_NE(WaitForNotice<SessionDetached>(engine_), nullptr);
  // The engine uses them no more: ThreadSanitizer would see it.
  values.assign(1000, 2.0F);
  clients_[0].Submit(submission);
}

TEST_F(EngineThreadTest, SleepingEngineWakesForCommands) {
  uint64_t before = 0;
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(engine_.Post(TakeSnapshot{i}));
    ASSERT_NE(WaitForNotice<std::unique_ptr<Snapshot>>(engine_), nullptr);
    EXPECT_GT(engine_.heartbeat(), before);
    before = engine_.heartbeat();
  }
}

TEST(MailboxTest, KeepsWhatDoesNotFitAndFreesWhatIsLeft) {
  auto counted = std::make_shared<int>(0);
  {
    Mailbox<std::shared_ptr<int>> mailbox(2);
    for (int i = 0; i < 2; ++i) {
      auto message = std::make_unique<std::shared_ptr<int>>(counted);
      EXPECT_TRUE(mailbox.Post(message));
      EXPECT_EQ(message, nullptr);
    }
    auto message = std::make_unique<std::shared_ptr<int>>(counted);
    EXPECT_FALSE(mailbox.Post(message));
    EXPECT_NE(message, nullptr);
    EXPECT_NE(mailbox.Take(), nullptr);
    EXPECT_TRUE(mailbox.Post(message));
    EXPECT_EQ(counted.use_count(), 3);
  }
  EXPECT_EQ(counted.use_count(), 1);
}

TEST(MailboxTest, DescriptorTellsOfMessages) {
  Mailbox<int> mailbox(4);
  const auto readable = [&] {
    pollfd waiting = {mailbox.fd(), POLLIN, 0};
    return poll(&waiting, 1, 0) == 1;
  };
  EXPECT_FALSE(readable());
  auto message = std::make_unique<int>(1);
  EXPECT_TRUE(mailbox.Post(message));
  EXPECT_TRUE(readable());
  mailbox.Quiet();
  EXPECT_FALSE(readable());
  EXPECT_EQ(*mailbox.Take(), 1);
  EXPECT_EQ(mailbox.Take(), nullptr);
}

}  // namespace
}  // namespace optireduce::engine
