// The answers to optictl's questions.

#ifndef OPTIREDUCE_CONTROL_ADMIN_H_
#define OPTIREDUCE_CONTROL_ADMIN_H_

#include <string>
#include <vector>

#include "control/config_loader.h"
#include "control/group_table.h"
#include "control/session_table.h"
#include "dataplane/base/time.h"
#include "dataplane/engine/messages.h"
#include "dataplane/nic/packet_port.h"
#include "proto/control.pb.h"

namespace optireduce::control {

// What is known about the daemon as such.
struct DaemonFacts {
  std::string version;
  Timestamp started;
  std::string port;  // as configured
  nic::PortInfo info;
  uint64_t rate_bps = 0;
  std::vector<std::string> notes;
};

// Pure functions of the tables and of the engine's snapshot.
StatusReply MakeStatus(const DaemonFacts& facts, const std::string& state,
                       const SessionTable& sessions, const GroupTable& groups,
                       const engine::Snapshot& snapshot, Timestamp now);
GroupsReply MakeGroups(const SessionTable& sessions, const GroupTable& groups,
                       const engine::Snapshot& snapshot);
PeersReply MakePeers(const GroupTable& groups, const engine::Snapshot& snapshot,
                     Timestamp now);
// As the request wants them. The snapshot is one with ops.
OpsReply MakeOps(const SessionTable& sessions, const GroupTable& groups,
                 const engine::Snapshot& snapshot, const OpsRequest& request);
StatsReply MakeStats(const SessionTable& sessions, const GroupTable& groups,
                     const engine::Snapshot& snapshot);
ConfigReply MakeConfig(const LoadedConfig& config);

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_ADMIN_H_
