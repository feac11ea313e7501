#include "control/admin.h"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "dataplane/nic/address_text.h"

namespace optireduce::control {
namespace {

// A reply must fit a frame, whatever there is to tell.
constexpr size_t kMaxRows = 1000;
constexpr size_t kRoom = 150'000;

uint64_t MillisSince(Timestamp then, Timestamp now) {
  return static_cast<uint64_t>(std::max<int64_t>((now - then).nanos(), 0) /
                               1'000'000);
}

std::string ToText(const core::Endpoint& endpoint) {
  return absl::StrCat(nic::ToText(nic::Ipv4Address(endpoint.address.ToIpv4())),
                      ":", endpoint.port);
}

core::Forgiven Sum(const core::ForgivenCounts& counts) {
  core::Forgiven sum;
  for (const core::Forgiven& forgiven : counts) {
    sum.contributions += forgiven.contributions;
    sum.results += forgiven.results;
  }
  return sum;
}

std::map<core::GroupId, const engine::GroupSnapshot*> ById(
    const engine::Snapshot& snapshot) {
  std::map<core::GroupId, const engine::GroupSnapshot*> result;
  for (const engine::GroupSnapshot& group : snapshot.groups) {
    result[group.group] = &group;
  }
  return result;
}

void AddCounter(StatsReply* reply, const std::string& name, uint64_t value) {
  StatsReply::Counter& counter = *reply->add_counters();
  counter.set_name(name);
  counter.set_value(value);
}

// What a group has given up, by reason, where there is something.
void AddForgiven(StatsReply* reply, uint32_t handle,
                 const core::ForgivenCounts& counts) {
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == core::Forgiven{}) continue;
    const std::string name = absl::StrCat(
        "group_", handle, "_forgiven_",
        std::string(core::Name(static_cast<core::ForgivenFor>(i))));
    AddCounter(reply, name + "_contributions", counts[i].contributions);
    AddCounter(reply, name + "_results", counts[i].results);
  }
}

void SetVerdicts(const engine::VerdictCounts& verdicts,
                 GroupsReply::Group* row) {
  row->set_steps_judged(verdicts.steps);
  row->set_steps_bad(verdicts.bad);
  row->set_bad_in_a_row(verdicts.last.bad_steps);
  row->set_least_present(verdicts.last.present_ppm / 1e6);
  row->set_divergence(verdicts.last.divergence_ppb / 1e9);
}

// Of a group whose ranks judge their steps.
void AddVerdicts(StatsReply* reply, uint32_t handle,
                 const engine::VerdictCounts& verdicts) {
  if (verdicts.steps == 0) return;
  const std::string prefix = absl::StrCat("group_", handle, "_steps_");
  AddCounter(reply, prefix + "judged", verdicts.steps);
  AddCounter(reply, prefix + "bad", verdicts.bad);
  AddCounter(reply, prefix + "below_floor", verdicts.below_floor);
  AddCounter(reply, prefix + "non_finite", verdicts.non_finite);
  AddCounter(reply, prefix + "halt_advised", verdicts.halt_advised);
  AddCounter(reply, prefix + "bad_in_a_row", verdicts.last.bad_steps);
  AddCounter(reply, prefix + "present_ppm", verdicts.last.present_ppm);
  AddCounter(reply, prefix + "divergence_ppb", verdicts.last.divergence_ppb);
}

void AddLateness(StatsReply* reply, const std::string& name,
                 const Histogram& histogram) {
  AddCounter(reply, absl::StrCat(name, "_count"), histogram.Count());
  AddCounter(reply, absl::StrCat(name, "_p50_ns"), histogram.Percentile(50));
  AddCounter(reply, absl::StrCat(name, "_p99_ns"), histogram.Percentile(99));
  AddCounter(reply, absl::StrCat(name, "_max_ns"), histogram.Max());
}

}  // namespace

StatusReply MakeStatus(const DaemonFacts& facts, const std::string& state,
                       const SessionTable& sessions, const GroupTable& groups,
                       const engine::Snapshot& snapshot, Timestamp now) {
  StatusReply reply;
  reply.set_version(facts.version);
  reply.set_pid(static_cast<uint64_t>(getpid()));
  reply.set_uptime_ms(MillisSince(facts.started, now));
  reply.set_state(snapshot.port_up ? state : "port_down");
  reply.set_address(nic::ToText(facts.info.ip));
  reply.set_port(facts.port);
  reply.set_driver(facts.info.driver);
  reply.set_mtu(facts.info.mtu);
  reply.set_rate_bps(facts.rate_bps);
  reply.set_sessions(static_cast<uint32_t>(sessions.sessions().size()));
  reply.set_groups(static_cast<uint32_t>(groups.num_groups()));
  for (const std::string& note : facts.notes) reply.add_notes(note);
  for (const nic::Ipv4Address ip : snapshot.silent_next_hops) {
    reply.add_notes(
        absl::StrCat("next hop ", nic::ToText(ip), " answers no ARP request"));
  }
  return reply;
}

GroupsReply MakeGroups(const SessionTable& sessions, const GroupTable& groups,
                       const engine::Snapshot& snapshot) {
  const auto by_id = ById(snapshot);
  GroupsReply reply;
  for (const auto& [handle, group] : groups.groups()) {
    if (static_cast<size_t>(reply.groups_size()) == kMaxRows) break;
    GroupsReply::Group& row = *reply.add_groups();
    row.set_session(group.session.value());
    const auto session = sessions.sessions().find(group.session);
    if (session != sessions.sessions().end()) {
      row.set_client(session->second.client);
    }
    row.set_group(handle);
    row.set_name(group.own.name());
    row.set_state(Name(group.state));
    row.set_tag(group.tag);
    row.set_rank(group.own.rank());
    row.set_world(group.own.world());
    row.set_memory_budget(group.settings.memory_budget_bytes());
    row.set_payload_bytes(group.payload_bytes);
    const auto status = group.id ? by_id.find(*group.id) : by_id.end();
    if (status == by_id.end()) continue;
    const core::GroupStatus& known = status->second->status;
    row.set_next_op(known.next_op.value());
    row.set_ops_kept(known.ops_kept);
    row.set_memory_used(known.memory_used);
    row.set_owed_bytes(known.ledger_used);
    row.set_owed_budget(known.ledger_budget);
    const core::Forgiven forgiven = Sum(known.forgiven);
    row.set_forgiven_contributions(forgiven.contributions);
    row.set_forgiven_results(forgiven.results);
    SetVerdicts(status->second->verdicts, &row);
  }
  return reply;
}

PeersReply MakePeers(const GroupTable& groups, const engine::Snapshot& snapshot,
                     Timestamp now) {
  const auto by_id = ById(snapshot);
  PeersReply reply;
  for (const auto& [handle, group] : groups.groups()) {
    const auto found = group.id ? by_id.find(*group.id) : by_id.end();
    if (found == by_id.end()) continue;
    const std::vector<core::PeerStatus>& peers = found->second->status.peers;
    for (size_t rank = 0; rank < peers.size(); ++rank) {
      if (rank == group.own.rank()) continue;
      if (static_cast<size_t>(reply.peers_size()) == kMaxRows) return reply;
      const core::PeerStatus& peer = peers[rank];
      PeersReply::Peer& row = *reply.add_peers();
      row.set_session(group.session.value());
      row.set_group(handle);
      row.set_rank(static_cast<uint32_t>(rank));
      row.set_endpoint(ToText(peer.endpoint));
      row.set_state(peer.lost ? "lost" : peer.suspect ? "suspect" : "healthy");
      row.set_heard_ms_ago(MillisSince(peer.last_heard, now));
      row.set_packets_received(peer.packets_received);
      row.set_open_upto(peer.open_upto.value());
      row.set_done_upto(peer.done_upto.value());
    }
  }
  return reply;
}

StatsReply MakeStats(const SessionTable& sessions, const GroupTable& groups,
                     const engine::Snapshot& snapshot) {
  StatsReply reply;
  for (const nic::NamedCounter& counter : snapshot.counters) {
    AddCounter(&reply, counter.name, counter.value);
  }
  AddLateness(&reply, "engine_wall_late", snapshot.wall_late);
  AddLateness(&reply, "engine_decision_late", snapshot.decision_late);
  AddCounter(&reply, "engine_cpu_ns",
             static_cast<uint64_t>(snapshot.cpu.nanos()));
  AddCounter(&reply, "engine_run_delay_ns",
             static_cast<uint64_t>(snapshot.run_delay.nanos()));
  AddCounter(&reply, "control_sessions", sessions.sessions().size());
  AddCounter(&reply, "control_session_bytes", sessions.bytes_in_use());
  AddCounter(&reply, "control_groups", groups.num_groups());
  AddCounter(&reply, "control_group_bytes", groups.memory_in_use());
  AddCounter(&reply, "control_data_ports", groups.ports_in_use());
  const auto by_id = ById(snapshot);
  for (const auto& [handle, group] : groups.groups()) {
    const auto status = group.id ? by_id.find(*group.id) : by_id.end();
    if (status == by_id.end() || reply.ByteSizeLong() > kRoom) continue;
    AddForgiven(&reply, handle, status->second->status.forgiven);
    AddVerdicts(&reply, handle, status->second->verdicts);
  }
  for (const auto& [id, session] : sessions.sessions()) {
    if (session.port == nullptr) continue;
    const std::string prefix = absl::StrCat("session_", id.value(), "_");
    const engine::ShmSession::Counters& counters = session.port->counters();
    AddCounter(&reply, prefix + "submitted",
               counters.Get(engine::ShmSessionCounter::kSubmitted));
    AddCounter(&reply, prefix + "refused",
               counters.Get(engine::ShmSessionCounter::kRefused));
    AddCounter(&reply, prefix + "completed",
               counters.Get(engine::ShmSessionCounter::kCompleted));
  }
  return reply;
}

ConfigReply MakeConfig(const LoadedConfig& config) {
  ConfigReply reply;
  for (const EffectiveValue& value : config.Effective()) {
    ConfigReply::Entry& entry = *reply.add_entries();
    entry.set_key(value.key);
    entry.set_value(value.value);
    entry.set_origin(Name(value.origin));
    entry.set_where(value.where);
  }
  return reply;
}

}  // namespace optireduce::control
