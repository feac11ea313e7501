// GroupTable: the groups of this daemon's sessions, from their preparation to
// the moment when no peer needs anything of them any more.

#ifndef OPTIREDUCE_CONTROL_GROUP_TABLE_H_
#define OPTIREDUCE_CONTROL_GROUP_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/engine_link.h"
#include "control/formation.h"
#include "control/outbox.h"
#include "control/port_pool.h"
#include "dataplane/engine/messages.h"
#include "dataplane/nic/address.h"
#include "proto/config.pb.h"
#include "proto/control.pb.h"

namespace optireduce::control {

struct GroupTableOptions {
  config::DaemonConfig config;
  nic::Ipv4Address ip;  // of the data port
  uint32_t mtu = 1500;
};

// One thread.
class GroupTable {
 public:
  enum class State {
    kPrepared,  // waits for the other members
    kForming,
    kReady,
    kFailed,   // being taken down
    kLeaving,  // left; peers may still need something
  };
  struct Group {
    uint32_t handle = 0;  // the client's name for it
    engine::SessionId session;
    State state = State::kPrepared;
    Member own;
    GroupSettings settings;
    std::optional<core::GroupId> id;  // once the engine has it
    uint32_t tag = 0;
    uint32_t payload_bytes = 0;
    std::optional<Asker> former;  // of a FormGroup not answered yet
    std::vector<Asker> leavers;   // of LeaveGroup, the same
    uint64_t connection = 0;      // for events; 0 once the session has ended
  };

  // `engine` and `outbox` outlive it.
  GroupTable(const GroupTableOptions& options, EngineLink* engine,
             Outbox* outbox);

  // Requests of a live session.
  void Prepare(engine::SessionId session, const Asker& asker,
               const PrepareGroup& request);
  void Form(engine::SessionId session, const Asker& asker,
            const FormGroup& request);
  void Leave(engine::SessionId session, const Asker& asker,
             const LeaveGroup& request);
  // The session is about to be detached from the engine, which leaves the
  // groups that it knows by itself.
  void OnSessionEnding(engine::SessionId session);

  void OnGroupAdded(const engine::GroupAdded& notice);
  void OnGroupChanged(const engine::GroupChanged& notice);
  void OnGroupRemoved(const engine::GroupRemoved& notice);

  const std::map<uint32_t, Group>& groups() const { return groups_; }
  size_t num_groups() const { return groups_.size(); }
  size_t ports_in_use() const { return ports_.in_use(); }
  uint64_t memory_in_use() const { return memory_in_use_; }

 private:
  Group* Find(engine::SessionId session, uint32_t handle);
  Group* Find(core::GroupId id);
  size_t CountOf(engine::SessionId session) const;
  // Empty, or why not.
  std::string CheckPrepare(const PrepareGroup& request) const;
  void StartForming(Group* group, const Formation& formation);
  // Has the engine leave it; leavers are answered when that has happened.
  void StartLeaving(Group* group);
  void AnswerLeavers(uint32_t handle);
  void FailFormer(Group* group, Error error);
  void Erase(uint32_t handle);

  const GroupTableOptions options_;
  EngineLink* const engine_;
  Outbox* const outbox_;
  PortPool ports_;
  std::map<uint32_t, Group> groups_;  // by handle
  std::map<core::GroupId, uint32_t> handles_;
  uint32_t next_handle_ = 1;
  uint64_t memory_in_use_ = 0;
};

std::string Name(GroupTable::State state);

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_GROUP_TABLE_H_
