// The tables behind the control socket, with real sockets and real memory but
// an engine that does what the test says.

#ifndef OPTIREDUCE_CONTROL_DISPATCHER_TESTING_H_
#define OPTIREDUCE_CONTROL_DISPATCHER_TESTING_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "control/dispatcher.h"
#include "control/testing/client.h"

namespace optireduce::control {

// How many files are in a folder.
size_t EntriesOf(const std::string& folder);

// Keeps commands until the test has looked at them.
class FakeEngine : public EngineLink {
 public:
  void Post(engine::Command command) override {
    commands.push_back(std::move(command));
  }
  // The next command, which must be of this type.
  template <class T>
  T Take() {
    if (commands.empty() || !std::holds_alternative<T>(commands.front())) {
      ADD_FAILURE() << "no such command: "
                    << (commands.empty() ? -1 : commands.front().index());
      return T();
    }
    T command = std::get<T>(std::move(commands.front()));
    commands.pop_front();
    return command;
  }

  std::deque<engine::Command> commands;
};

// A client with its end of a session.
class TestClient : public testing::Client {
 public:
  using testing::Client::Client;

  uint64_t session = 0;
  uint64_t segment_bytes = 0;
  std::vector<UniqueFd> descriptors;
  std::shared_ptr<OptireduceShmHeader> header;  // mapped

  void Map();
};

class DispatcherTest : public ::testing::Test {
 protected:
  DispatcherTest();
  ~DispatcherTest() override;
  // Anew, with this in the configuration file.
  void Start(const std::string& config_text);

  // Until `done` or 20 s.
  template <class Done>
  bool RunUntil(const Done& done) {
    const Timestamp end = Now() + Duration::Seconds(20);
    while (!done()) {
      if (Now() > end) return false;
      loop_->RunOnce(Duration::Millis(20));
    }
    return true;
  }
  void Run() { testing::RunUntilIdle(*loop_); }

  TestClient Connect() { return TestClient(folder_ + "/s"); }
  // Sends, and waits for the answer.
  Reply Ask(TestClient& client, Request request);
  Reply Answer(TestClient& client, uint64_t id);
  Reply SayHello(TestClient& client, uint64_t data_bytes = 1 << 20);
  // With its segment mapped and known to the engine.
  TestClient LiveClient();

  Request PrepareRequest(uint32_t rank, uint32_t world);
  // A group of this rank and one made-up peer; forming, known to the engine.
  struct Forming {
    uint32_t handle = 0;
    uint64_t request = 0;
    core::GroupId id;
    core::GroupConfig config;
  };
  std::vector<std::string> MembersWithPeer(const std::string& own);
  Forming StartForming(TestClient& client);
  Forming ReadyGroup(TestClient& client);

  // What the engine says.
  void Notify(TestClient& client, const Forming& group, core::EventKind kind,
              uint16_t peer = 0);
  void RemoveGroup(TestClient& client, const Forming& group);
  void AnswerSnapshot(uint64_t request, engine::Snapshot snapshot = {});

  std::string folder_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<Worker> worker_;
  FakeEngine engine_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Dispatcher> dispatcher_;
  uint64_t next_request_ = 100;
};

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_DISPATCHER_TESTING_H_
