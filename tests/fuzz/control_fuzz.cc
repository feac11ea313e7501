// Frames on the control socket, from two clients and with an engine that
// answers in any order: each request about groups is answered once, no client
// touches the other's groups, and when both are gone nothing is left in use.
//
// Input: steps. A byte: 0-3 what the engine does next; else a client's frame
// follows, behind a byte with its length.

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "control/config_loader.h"
#include "control/engine_link.h"
#include "control/group_table.h"
#include "control/outbox.h"
#include "proto/control.pb.h"
#include "tests/fuzz/fuzz.h"

namespace optireduce::control {
namespace {

class CountingOutbox : public Outbox {
 public:
  void Send(uint64_t connection, const ServerFrame& frame,
            std::vector<int>) override {
    FUZZ_CHECK(connection == 1 || connection == 2);
    if (frame.has_reply()) {
      ++replies[frame.reply().id()];
      // A member blob goes to the other ranks.
      if (frame.reply().has_prepare_group()) {
        FUZZ_CHECK(frame.reply().prepare_group().member().size() <=
                   kMaxMemberBytes);
        members.push_back(frame.reply().prepare_group().member());
      }
    }
  }
  void Drop(uint64_t, ErrorCode, const std::string&) override {}

  std::map<uint64_t, int> replies;
  std::vector<std::string> members;
};

class ListEngine : public EngineLink {
 public:
  void Post(engine::Command command) override {
    commands.push_back(std::move(command));
  }

  std::vector<engine::Command> commands;
};

const config::DaemonConfig& TestConfig() {
  static const config::DaemonConfig* const config = [] {
    ConfigSources sources;
    sources.flags = {{"port", "af_packet:eth0"},
                     {"address", "10.0.0.1/24"},
                     {"udp_port_count", "4"},
                     {"max_groups_per_session", "3"}};
    const auto loaded = LoadConfig(sources);
    FUZZ_CHECK(loaded.ok());
    return new config::DaemonConfig(loaded->values());
  }();
  return *config;
}

class Run {
 public:
  Run(const uint8_t* data, size_t size)
      : input_(reinterpret_cast<const char*>(data), size),
        table_({.config = TestConfig(),
                .ip = nic::Ipv4Address(0x0A000001),
                .mtu = 1500},
               &engine_, &outbox_) {}

  void Go() {
    while (at_ < input_.size()) {
      const uint8_t step = Byte();
      if (step < 4) {
        EngineStep(step);
      } else {
        ClientFrame(1 + step % 2);
      }
    }
    // Both clients die, and the engine does what is left to do.
    for (const uint32_t session : {1u, 2u}) {
      table_.OnSessionEnding(engine::SessionId(session));
    }
    for (int round = 0; round < 100 && table_.num_groups() != 0; ++round) {
      RunCommands(0);
      for (const core::GroupId id : std::exchange(known_, {})) {
        table_.OnGroupRemoved({engine::SessionId(0), id});
      }
    }
    FUZZ_CHECK(table_.num_groups() == 0);
    FUZZ_CHECK(table_.ports_in_use() == 0);
    FUZZ_CHECK(table_.memory_in_use() == 0);
    for (const auto& [id, count] : outbox_.replies) FUZZ_CHECK(count == 1);
    FUZZ_CHECK(outbox_.replies.size() <= next_request_);
  }

 private:
  uint8_t Byte() {
    return at_ < input_.size() ? static_cast<uint8_t>(input_[at_++]) : 0;
  }

  void ClientFrame(uint32_t client) {
    const size_t length = Byte();
    const std::string bytes =
        input_.substr(std::min(at_, input_.size()), length);
    at_ += bytes.size();
    Request request;
    if (!request.ParseFromString(bytes)) return;
    // Numbers of our own, so that answers can be counted.
    const Asker asker = {client, next_request_++};
    const engine::SessionId session(client);
    if (request.has_prepare_group()) {
      table_.Prepare(session, asker, request.prepare_group());
    } else if (request.has_form_group()) {
      FormGroup form = request.form_group();
      // An empty blob stands for one that a daemon has made.
      for (int i = 0; i < form.members_size() && !outbox_.members.empty();
           ++i) {
        if (form.members(i).empty()) {
          form.set_members(
              i,
              outbox_.members[static_cast<size_t>(i) % outbox_.members.size()]);
        }
      }
      table_.Form(session, asker, form);
    } else if (request.has_leave_group()) {
      const auto before = GroupsOf(3 - client);
      table_.Leave(session, asker, request.leave_group());
      FUZZ_CHECK(GroupsOf(3 - client) == before);
    }
  }

  // Handles and states of a client's groups.
  std::map<uint32_t, GroupTable::State> GroupsOf(uint32_t client) const {
    std::map<uint32_t, GroupTable::State> groups;
    for (const auto& [handle, group] : table_.groups()) {
      if (group.session == engine::SessionId(client)) {
        groups[handle] = group.state;
      }
    }
    return groups;
  }

  void EngineStep(uint8_t step) {
    if (step == 0) {
      RunCommands(Byte());
      return;
    }
    if (known_.empty()) return;
    const size_t which = Byte() % known_.size();
    if (step == 3) {
      table_.OnGroupRemoved({engine::SessionId(0), known_[which]});
      known_.erase(known_.begin() + static_cast<ptrdiff_t>(which));
      return;
    }
    engine::GroupChanged changed;
    changed.event.group = known_[which];
    changed.event.kind = static_cast<core::EventKind>(Byte() % 7);
    changed.event.silent.Add(core::Rank(Byte()));
    table_.OnGroupChanged(changed);
  }

  // Every command once; groups are refused if `refuse` is odd.
  void RunCommands(uint8_t refuse) {
    for (engine::Command& command : std::exchange(engine_.commands, {})) {
      if (auto* add = std::get_if<engine::AddGroup>(&command)) {
        FUZZ_CHECK(add->config.payload_bytes != 0);
        FUZZ_CHECK(add->config.self.index() < add->config.members.size());
        if (refuse % 2 == 1) {
          table_.OnGroupAdded({add->request, add->session,
                               absl::InvalidArgumentError("refused")});
          continue;
        }
        const core::GroupId id(next_id_++);
        known_.push_back(id);
        table_.OnGroupAdded({add->request, add->session, id});
      } else if (auto* take = std::get_if<engine::TakeSnapshot>(&command)) {
        engine::Snapshot snapshot;
        snapshot.request = take->request;
        engine_.OnSnapshot(snapshot);
      }
    }
  }

  const std::string input_;
  size_t at_ = 0;
  ListEngine engine_;
  CountingOutbox outbox_;
  GroupTable table_;
  std::vector<core::GroupId> known_;
  uint32_t next_id_ = 1;
  uint64_t next_request_ = 1;
};

}  // namespace
}  // namespace optireduce::control

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  optireduce::control::Run(data, size).Go();
  return 0;
}
