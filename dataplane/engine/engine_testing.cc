#include "dataplane/engine/engine_testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace optireduce::engine {

// ---- a client ---------------------------------------------------------------

void FakeSession::AddGroup(core::GroupId group, uint16_t /*world*/,
                           uint32_t handle) {
  groups_[handle] = group;
}

void FakeSession::RemoveGroup(core::GroupId group) {
  std::erase_if(groups_, [&](const auto& g) { return g.second == group; });
}

PullResult FakeSession::Pull(Submission* submission) {
  if (broken_) {
    ++pulls_when_broken_;
    return PullResult::kBroken;
  }
  if (queue_.empty() || in_flight_ == max_in_flight_) return PullResult::kEmpty;
  *submission = queue_.front();
  queue_.pop_front();
  ++in_flight_;
  return PullResult::kPulled;
}

void FakeSession::Complete(const Completion& completion) {
  ASSERT_GT(in_flight_, 0) << "more completions than submissions";
  --in_flight_;
  completions_.push_back(completion);
}

// ---- the lab ----------------------------------------------------------------

namespace {

constexpr uint32_t kFirstIp = 0x0a000001;
constexpr uint16_t kFirstPort = 5000;
constexpr uint32_t kHandle = 77;

}  // namespace

Lab::Lab(size_t hosts, size_t ranks_per_host, const core::GroupConfig& settings,
         const nic::FakePort::Options& port)
    : settings_(settings) {
  settings_.tag = 0x12345678;
  for (size_t i = 0; i < hosts; ++i) {
    nic::FakePort::Options options = port;
    options.ip = nic::Ipv4Address(kFirstIp + static_cast<uint32_t>(i));
    hosts_.push_back(std::make_unique<FakeHost>(&wire_, options, &clock_));
    for (size_t j = 0; j < ranks_per_host; ++j) {
      settings_.members.push_back(
          {core::NetAddress::FromIpv4(options.ip.value()),
           static_cast<uint16_t>(kFirstPort + j)});
      FakeRank rank;
      rank.host = hosts_.back().get();
      rank.session = SessionId(static_cast<uint32_t>(100 + ranks_.size()));
      rank.client = std::make_unique<FakeSession>();
      ranks_.push_back(std::move(rank));
    }
  }
}

Lab::~Lab() {
  for (const auto& host : hosts_) {
    EXPECT_EQ(host->port.held(), 0) << "received datagrams kept";
  }
}

core::GroupConfig Lab::ConfigOf(size_t rank) const {
  core::GroupConfig config = settings_;
  config.self = core::Rank(static_cast<uint16_t>(rank));
  return config;
}

void Lab::Form() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    FakeRank& rank = ranks_[i];
    EXPECT_TRUE(
        rank.host->engine.Post(AttachSession{rank.session, rank.client.get()}));
    EXPECT_TRUE(rank.host->engine.Post(
        AddGroup{i, ConfigOf(i), rank.session, kHandle}));
  }
  Run(Duration::Millis(200));
  for (FakeRank& rank : ranks_) {
    const auto group = rank.client->groups().find(kHandle);
    ASSERT_NE(group, rank.client->groups().end());
    rank.group = group->second;
  }
  for (const auto& host : hosts_) {
    size_t ready = 0;
    for (const Notice& notice : host->notices) {
      const auto* changed = std::get_if<GroupChanged>(&notice);
      if (changed != nullptr &&
          changed->event.kind == core::EventKind::kGroupReady) {
        ++ready;
      }
    }
    ASSERT_EQ(ready, ranks_.size() / hosts_.size());
  }
}

void Lab::Poll() {
  bool busy = true;
  for (int round = 0; busy; ++round) {
    ASSERT_LT(round, 100'000) << "the engines never come to rest";
    busy = false;
    next_ = Timestamp::Never();
    for (const auto& host : hosts_) {
      if (host->stalled) continue;
      const Engine::PollResult result = host->engine.Poll();
      ++host->polls;
      busy |= result.again || result.active;
      next_ = std::min(next_, result.next);
      while (auto notice = host->engine.TakeNotice()) {
        host->notices.push_back(std::move(*notice));
      }
    }
  }
}

void Lab::Run(Duration span) {
  const Timestamp end = clock_.Now() + span;
  while (true) {
    Poll();
    if (next_ > end || testing::Test::HasFatalFailure()) break;
    // A time that has passed means now; one nanosecond is as good.
    clock_.AdvanceTo(std::max(next_, clock_.Now() + Duration::Nanos(1)));
  }
  clock_.AdvanceTo(end);
  Poll();
}

void Lab::Submit(size_t rank, const core::OpDescriptor& op,
                 core::BufferView buffers, uint64_t cookie) {
  ranks_[rank].client->Submit(
      {ranks_[rank].group, OpRequest{op, buffers}, cookie});
}

void Lab::CloseStep(size_t rank, const StepClose& close, uint64_t cookie) {
  ranks_[rank].client->Submit({ranks_[rank].group, close, cookie});
}

const Completion* Lab::CompletionOf(size_t rank, uint64_t cookie) const {
  for (const Completion& completion : ranks_[rank].client->completions()) {
    if (completion.cookie == cookie) return &completion;
  }
  return nullptr;
}

core::GroupConfig Settings() {
  core::GroupConfig config;
  config.payload_bytes = 496;
  config.stage1_bound = Duration::Millis(6);
  config.result_bound = Duration::Millis(10);
  config.adaptive_bounds = false;
  config.early_wait = Duration::Millis(1);
  config.hard_limit = Duration::Millis(500);
  config.memory_budget = 1 << 20;
  return config;
}

core::OpDescriptor Sum(uint64_t count, core::Mode mode) {
  core::OpDescriptor op;
  op.count = count;
  op.mode = mode;
  return op;
}

Buffers::Buffers(size_t world, size_t count) : values(world) {
  for (size_t r = 0; r < world; ++r) {
    values[r].assign(count, static_cast<float>(r + 1));
  }
}

core::BufferView Buffers::View(size_t rank) {
  auto* bytes = reinterpret_cast<uint8_t*>(values[rank].data());
  return {bytes, bytes};
}

uint64_t SnapshotCounter(Lab& lab, FakeHost& host, const std::string& name) {
  static uint64_t request = 0;
  EXPECT_TRUE(host.engine.Post(TakeSnapshot{++request}));
  lab.Run(Duration());
  for (const Notice& notice : host.notices) {
    const auto* snapshot = std::get_if<std::unique_ptr<Snapshot>>(&notice);
    if (snapshot == nullptr || (*snapshot)->request != request) continue;
    for (const nic::NamedCounter& counter : (*snapshot)->counters) {
      if (counter.name == name) return counter.value;
    }
  }
  ADD_FAILURE() << "no counter " << name;
  return 0;
}

}  // namespace optireduce::engine
