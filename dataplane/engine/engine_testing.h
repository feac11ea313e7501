// Engines on fake ports, with clients whose rings are plain queues and a clock
// that moves only when the test says so.

#ifndef OPTIREDUCE_DATAPLANE_ENGINE_ENGINE_TESTING_H_
#define OPTIREDUCE_DATAPLANE_ENGINE_ENGINE_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "dataplane/engine/clock.h"
#include "dataplane/engine/engine.h"
#include "dataplane/engine/session_port.h"
#include "dataplane/nic/fake_port.h"

namespace optireduce::engine {

class FakeClock final : public Clock {
 public:
  Timestamp Now() const override { return now_; }
  Duration ThreadCpu() const override { return now_ - Timestamp(); }
  void AdvanceTo(Timestamp now) { now_ = now; }

 private:
  Timestamp now_ = Timestamp::FromNanos(1'000'000'000'000);
};

// A client that obeys the rules, unless told otherwise.
class FakeSession final : public SessionPort {
 public:
  explicit FakeSession(size_t max_in_flight = 256)
      : max_in_flight_(max_in_flight) {}

  // ---- the client ----
  void Submit(const Submission& submission) { queue_.push_back(submission); }
  void Break() { broken_ = true; }
  const std::vector<Completion>& completions() const { return completions_; }
  // Handle -> group, as the engine has told.
  const std::map<uint32_t, core::GroupId>& groups() const { return groups_; }
  // Groups that the engine has left.
  const std::vector<core::GroupId>& left() const { return left_; }
  size_t pulls_when_broken() const { return pulls_when_broken_; }

  // ---- the engine ----
  void AddGroup(core::GroupId group, uint16_t world, uint32_t handle) override;
  void LeaveGroup(core::GroupId group) override { left_.push_back(group); }
  void RemoveGroup(core::GroupId group) override;
  PullResult Pull(Submission* submission) override;
  size_t max_in_flight() const override { return max_in_flight_; }
  void Complete(const Completion& completion) override;
  void Flush() override {}
  bool PrepareToSleep() override { return queue_.empty(); }
  void WokeUp() override {}
  int wakeup_fd() const override { return -1; }

 private:
  const size_t max_in_flight_;
  size_t in_flight_ = 0;
  bool broken_ = false;
  size_t pulls_when_broken_ = 0;
  std::deque<Submission> queue_;
  std::vector<Completion> completions_;
  std::vector<core::GroupId> left_;
  std::map<uint32_t, core::GroupId> groups_;
};

// A host with its port and engine.
struct FakeHost {
  FakeHost(nic::FakeWire* wire, const nic::FakePort::Options& options,
           const Clock* clock)
      : port(wire, options), engine({}, &port, clock) {}

  nic::FakePort port;
  Engine engine;
  bool stalled = false;  // its engine gets no CPU
  size_t polls = 0;
  std::vector<Notice> notices;
};

// A rank: a client on a host, member of the one group.
struct FakeRank {
  FakeHost* host = nullptr;
  SessionId session;
  std::unique_ptr<FakeSession> client;
  core::GroupId group;
};

// `ranks_per_host` ranks on each of `hosts` hosts, all in one group.
class Lab {
 public:
  Lab(size_t hosts, size_t ranks_per_host, const core::GroupConfig& settings,
      const nic::FakePort::Options& port = {});
  ~Lab();

  FakeHost& host(size_t i) { return *hosts_[i]; }
  FakeRank& rank(size_t i) { return ranks_[i]; }
  size_t world() const { return ranks_.size(); }
  FakeClock& clock() { return clock_; }
  nic::FakeWire& wire() { return wire_; }
  const core::GroupConfig& settings() const { return settings_; }
  // The configuration of one rank.
  core::GroupConfig ConfigOf(size_t rank) const;

  // Attaches the sessions and forms the group.
  void Form();
  // Lets the time pass, polling whoever has something to do.
  void Run(Duration span);
  void Submit(size_t rank, const core::OpDescriptor& op,
              core::BufferView buffers, uint64_t cookie);
  void CloseStep(size_t rank, const StepClose& close, uint64_t cookie);
  // The completion with the cookie, or null.
  const Completion* CompletionOf(size_t rank, uint64_t cookie) const;

 private:
  void Poll();  // all hosts, until none has anything to do now

  FakeClock clock_;
  nic::FakeWire wire_;
  core::GroupConfig settings_;
  std::vector<std::unique_ptr<FakeHost>> hosts_;
  std::vector<FakeRank> ranks_;
  Timestamp next_;
};

// Of the group: short limits, small packets.
core::GroupConfig Settings();
// An all-reduce of floats.
core::OpDescriptor Sum(uint64_t count, core::Mode mode);

// Each rank's floats: rank + 1, everywhere.
struct Buffers {
  Buffers(size_t world, size_t count);
  core::BufferView View(size_t rank);  // in place

  std::vector<std::vector<float>> values;
};

// The first notice of a kind, or null; and how many there are.
template <class T>
const T* FindNotice(const FakeHost& host) {
  for (const Notice& notice : host.notices) {
    if (const T* found = std::get_if<T>(&notice)) return found;
  }
  return nullptr;
}
template <class T>
size_t CountNotices(const FakeHost& host) {
  size_t count = 0;
  for (const Notice& notice : host.notices) {
    if (std::holds_alternative<T>(notice)) ++count;
  }
  return count;
}

// A new snapshot's counter.
uint64_t SnapshotCounter(Lab& lab, FakeHost& host, const std::string& name);

}  // namespace optireduce::engine

#endif  // OPTIREDUCE_DATAPLANE_ENGINE_ENGINE_TESTING_H_
