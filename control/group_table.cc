#include "control/group_table.h"

#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/group_settings.h"
#include "control/printable.h"
#include "glog/logging.h"
#include "proto/wire.h"

namespace optireduce::control {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Empty if the kernel has none, which it always has.
std::string RandomNonce() {
  std::string nonce(kNonceBytes, '\0');
  const ssize_t got = getrandom(nonce.data(), nonce.size(), 0);
  return got == static_cast<ssize_t>(nonce.size()) ? nonce : "";
}

// All that its daemon may take for a group. Each part is within the limit of
// all groups, so the sum fits.
uint64_t MemoryOf(const GroupSettings& settings) {
  return settings.memory_budget_bytes() + settings.owed_budget_bytes();
}

std::string AddressBytes(nic::Ipv4Address ip) {
  std::string bytes(4, '\0');
  for (size_t i = 0; i < 4; ++i) {
    bytes[i] = static_cast<char>(ip.value() >> (24 - 8 * i));
  }
  return bytes;
}

template <class Add>
std::string ListRanks(const core::RankSet& ranks, size_t world,
                      const Add& add) {
  std::string text;
  for (size_t r = 0; r < world; ++r) {
    if (!ranks.Contains(core::Rank(static_cast<uint16_t>(r)))) continue;
    add(static_cast<uint32_t>(r));
    absl::StrAppend(&text, text.empty() ? "" : ", ", r);
  }
  return text;
}

Error DescribeFailure(const core::Event& event, size_t world) {
  Error error;
  error.set_code(ERROR_FORMATION);
  std::string message = "the group was not formed";
  const std::string silent = ListRanks(
      event.silent, world, [&error](uint32_t r) { error.add_silent(r); });
  const std::string narrow = ListRanks(
      event.narrow, world, [&error](uint32_t r) { error.add_narrow(r); });
  const std::string disagree = ListRanks(
      event.disagree, world, [&error](uint32_t r) { error.add_disagree(r); });
  if (!silent.empty()) {
    absl::StrAppend(&message, "; not heard within the limit: rank ", silent);
  }
  if (!narrow.empty()) {
    absl::StrAppend(&message,
                    "; heard, but full-size packets do not pass (the path's "
                    "MTU is below the port's): rank ",
                    narrow);
  }
  if (!disagree.empty()) {
    absl::StrAppend(&message, "; runs with other settings: rank ", disagree);
  }
  error.set_message(message);
  return error;
}

}  // namespace

std::string Name(GroupTable::State state) {
  switch (state) {
    case GroupTable::State::kPrepared:
      return "prepared";
    case GroupTable::State::kForming:
      return "forming";
    case GroupTable::State::kReady:
      return "ready";
    case GroupTable::State::kFailed:
      return "failed";
    case GroupTable::State::kLeaving:
      return "leaving";
  }
  return "unknown";
}

GroupTable::GroupTable(const GroupTableOptions& options, EngineLink* engine,
                       Outbox* outbox)
    : options_(options),
      engine_(engine),
      outbox_(outbox),
      ports_(static_cast<uint16_t>(options.config.udp_port_first()),
             options.config.udp_port_count()) {}

GroupTable::Group* GroupTable::Find(engine::SessionId session,
                                    uint32_t handle) {
  const auto it = groups_.find(handle);
  return it != groups_.end() && it->second.session == session ? &it->second
                                                              : nullptr;
}

GroupTable::Group* GroupTable::Find(core::GroupId id) {
  const auto it = handles_.find(id);
  return it == handles_.end() ? nullptr : &groups_.at(it->second);
}

size_t GroupTable::CountOf(engine::SessionId session) const {
  return static_cast<size_t>(std::count_if(
      groups_.begin(), groups_.end(),
      [session](const auto& g) { return g.second.session == session; }));
}

// ---- preparing --------------------------------------------------------------

std::string GroupTable::CheckPrepare(const PrepareGroup& request) const {
  if (request.world() < 1 || request.world() > wire::kMaxWorld) {
    return absl::StrCat("a world of ", request.world(),
                        " was asked for; from 1 to ", wire::kMaxWorld,
                        " ranks are possible");
  }
  if (request.rank() >= request.world()) {
    return absl::StrCat("rank ", request.rank(), " in a world of ",
                        request.world(), ": ranks are 0 to ",
                        request.world() - 1);
  }
  if (request.name().size() > kMaxGroupNameBytes ||
      !IsPrintable(request.name())) {
    return absl::StrCat("a group's name is at most ", kMaxGroupNameBytes,
                        " bytes of printable ASCII");
  }
  return "";
}

void GroupTable::Prepare(engine::SessionId session, const Asker& asker,
                         const PrepareGroup& request) {
  const std::string problem = CheckPrepare(request);
  if (!problem.empty()) {
    outbox_->Fail(asker, ERROR_INVALID_SETTING, problem);
    return;
  }
  const auto settings =
      ResolveSettings(options_.config, options_.mtu, request.settings());
  if (!settings.ok()) {
    outbox_->Fail(asker, ERROR_INVALID_SETTING,
                  std::string(settings.status().message()));
    return;
  }
  const size_t groups = CountOf(session);
  if (groups >= options_.config.max_groups_per_session()) {
    outbox_->Fail(asker, ERROR_QUOTA,
                  absl::StrCat("this session is in ", groups,
                               " groups (max_groups_per_session)"));
    return;
  }
  const uint64_t memory_limit = options_.config.max_total_group_mb() * kMiB;
  const uint64_t memory = MemoryOf(*settings);
  if (memory > memory_limit - memory_in_use_) {
    outbox_->Fail(
        asker, ERROR_QUOTA,
        absl::StrCat("groups have ", memory_in_use_, " of ", memory_limit,
                     " bytes (max_total_group_mb); this one needs ", memory));
    return;
  }
  const std::string nonce = RandomNonce();
  const std::optional<uint16_t> port =
      nonce.empty() ? std::nullopt : ports_.Take();
  if (!port) {
    outbox_->Fail(asker, ERROR_QUOTA,
                  absl::StrCat("all ", ports_.in_use(),
                               " data ports are in use (udp_port_count)"));
    return;
  }

  const uint32_t handle = next_handle_++;
  Group& group = groups_[handle];
  group.handle = handle;
  group.session = session;
  group.connection = asker.connection;
  group.settings = *settings;
  memory_in_use_ += memory;
  Member& own = group.own;
  own.set_magic(kMemberMagic);
  own.set_wire_min(wire::kVersion);
  own.set_wire_max(wire::kVersion);
  own.set_rank(request.rank());
  own.set_world(request.world());
  own.set_name(request.name());
  own.set_address(AddressBytes(options_.ip));
  own.set_port(*port);
  own.set_nonce(nonce);
  own.set_mtu(settings->mtu());
  own.set_result_bound_us(settings->result_bound_us());
  own.set_stage1_bound_us(settings->stage1_bound_us());
  own.set_early_wait_us(settings->early_wait_us());
  own.set_adaptive_bounds(settings->adaptive_bounds());
  own.set_slowest_rate_bps(settings->slowest_rate_bps());
  own.set_hard_limit_us(settings->hard_limit_us());
  own.set_window(settings->window());
  own.set_quorum_permille(settings->quorum_permille());
  own.set_memory_budget_bytes(settings->memory_budget_bytes());
  own.set_owed_budget_bytes(settings->owed_budget_bytes());
  own.set_fill(settings->fill());

  Reply reply;
  reply.mutable_prepare_group()->set_group(handle);
  reply.mutable_prepare_group()->set_member(own.SerializeAsString());
  *reply.mutable_prepare_group()->mutable_settings() = *settings;
  outbox_->Reply(asker, std::move(reply));
}

// ---- forming ----------------------------------------------------------------

void GroupTable::Form(engine::SessionId session, const Asker& asker,
                      const FormGroup& request) {
  Group* group = Find(session, request.group());
  if (group == nullptr || group->state == State::kLeaving) {
    outbox_->Fail(asker, ERROR_NOT_FOUND,
                  absl::StrCat("this session has no group ", request.group()));
    return;
  }
  if (group->state != State::kPrepared) {
    outbox_->Fail(
        asker, ERROR_BAD_REQUEST,
        absl::StrCat("group ", request.group(), " is ", Name(group->state),
                     " already; a new formation needs a new "
                     "preparation"));
    return;
  }
  const std::vector<std::string> blobs(request.members().begin(),
                                       request.members().end());
  Error error;
  const std::optional<Formation> formation =
      CheckMembers(group->own, blobs, &error);
  if (!formation) {
    // The preparation stays good for another try.
    outbox_->Fail(asker, std::move(error));
    return;
  }
  group->former = asker;
  StartForming(group, *formation);
}

void GroupTable::StartForming(Group* group, const Formation& formation) {
  group->state = State::kForming;
  group->tag = formation.tag;
  group->payload_bytes = formation.payload_bytes;
  engine::AddGroup command;
  command.request = group->handle;
  command.session = group->session;
  command.handle = group->handle;
  command.config = ToGroupConfig(group->settings);
  command.config.payload_bytes = formation.payload_bytes;
  command.config.tag = formation.tag;
  command.config.self = core::Rank(static_cast<uint16_t>(group->own.rank()));
  command.config.members = formation.members;
  engine_->Post(std::move(command));
}

void GroupTable::OnGroupAdded(const engine::GroupAdded& notice) {
  const auto it = groups_.find(static_cast<uint32_t>(notice.request));
  if (it == groups_.end()) return;
  Group& group = it->second;
  if (!notice.group.ok()) {
    Error error;
    error.set_code(ERROR_INVALID_SETTING);
    error.set_message(std::string(notice.group.status().message()));
    FailFormer(&group, std::move(error));
    AnswerLeavers(group.handle);
    Erase(group.handle);
    return;
  }
  group.id = *notice.group;
  handles_[*group.id] = group.handle;
  // Left before the engine had it. What an ending session leaves behind the
  // engine leaves by itself.
  if (group.state == State::kLeaving && group.connection != 0) {
    StartLeaving(&group);
  }
}

void GroupTable::OnGroupChanged(const engine::GroupChanged& notice) {
  const core::Event& event = notice.event;
  Group* group = Find(event.group);
  if (group == nullptr) return;
  GroupEventKind kind = GROUP_EVENT_UNKNOWN;
  switch (event.kind) {
    case core::EventKind::kGroupReady:
      if (group->state != State::kForming) return;
      group->state = State::kReady;
      if (group->former) {
        Reply reply;
        reply.mutable_form_group()->set_tag(group->tag);
        reply.mutable_form_group()->set_payload_bytes(group->payload_bytes);
        outbox_->Reply(*std::exchange(group->former, std::nullopt),
                       std::move(reply));
      }
      return;
    case core::EventKind::kGroupFailed:
      FailFormer(group, DescribeFailure(event, group->own.world()));
      if (group->state == State::kForming) group->state = State::kFailed;
      engine_->Post(engine::RemoveGroup{*group->id});
      return;
    case core::EventKind::kPeerSuspect:
      kind = GROUP_PEER_SUSPECT;
      break;
    case core::EventKind::kPeerHealthy:
      kind = GROUP_PEER_HEALTHY;
      break;
    case core::EventKind::kPeerLost:
      kind = GROUP_PEER_LOST;
      break;
    case core::EventKind::kContributionsLost:
      LOG_EVERY_N(WARNING, 100)
          << "group " << group->handle << ": what other ranks had sent for op "
          << event.report.op_seq.value()
          << " was given up, as an older op needed the memory; a larger"
             " memory budget prevents that";
      return;
    case core::EventKind::kOpDone:
    case core::EventKind::kBuffersFree:
    case core::EventKind::kGroupReleased:
      return;
  }
  if (group->connection == 0 || group->state == State::kLeaving) return;
  ServerFrame frame;
  frame.mutable_group_event()->set_group(group->handle);
  frame.mutable_group_event()->set_kind(kind);
  frame.mutable_group_event()->set_rank(event.peer.value());
  outbox_->Send(group->connection, frame, {});
}

void GroupTable::FailFormer(Group* group, Error error) {
  if (!group->former) return;
  outbox_->Fail(*std::exchange(group->former, std::nullopt), std::move(error));
}

// ---- leaving ----------------------------------------------------------------

void GroupTable::Leave(engine::SessionId session, const Asker& asker,
                       const LeaveGroup& request) {
  Group* group = Find(session, request.group());
  if (group == nullptr) {
    // Left before, and gone since; or never there.
    const bool was_there = request.group() != 0 &&
                           request.group() < next_handle_ &&
                           groups_.count(request.group()) == 0;
    if (was_there) {
      Reply reply;
      reply.mutable_leave_group();
      outbox_->Reply(asker, std::move(reply));
    } else {
      outbox_->Fail(
          asker, ERROR_NOT_FOUND,
          absl::StrCat("this session has no group ", request.group()));
    }
    return;
  }
  group->leavers.push_back(asker);
  switch (group->state) {
    case State::kPrepared:
      AnswerLeavers(group->handle);
      Erase(group->handle);
      return;
    case State::kFailed:  // takes no ops, touches no buffer
      AnswerLeavers(group->handle);
      return;
    case State::kForming: {
      Error error;
      error.set_code(ERROR_FORMATION);
      error.set_message("the group was left before it was formed");
      FailFormer(group, std::move(error));
      break;
    }
    case State::kReady:
    case State::kLeaving:
      break;
  }
  group->state = State::kLeaving;
  if (group->id) StartLeaving(group);
}

void GroupTable::StartLeaving(Group* group) {
  engine_->Post(engine::LeaveGroup{*group->id, wire::LeaveReason::kLeft});
  // Once this comes back the engine has left it, and touches no buffer.
  engine_->AskSnapshot([this, handle = group->handle](const engine::Snapshot&) {
    AnswerLeavers(handle);
  });
}

void GroupTable::AnswerLeavers(uint32_t handle) {
  const auto it = groups_.find(handle);
  if (it == groups_.end()) return;
  for (const Asker& asker : std::exchange(it->second.leavers, {})) {
    Reply reply;
    reply.mutable_leave_group();
    outbox_->Reply(asker, std::move(reply));
  }
}

void GroupTable::OnSessionEnding(engine::SessionId session) {
  std::vector<uint32_t> unknown_to_engine;
  for (auto& [handle, group] : groups_) {
    if (group.session != session) continue;
    group.connection = 0;
    group.former.reset();
    group.leavers.clear();
    if (group.state == State::kPrepared) {
      unknown_to_engine.push_back(handle);
    } else if (group.state != State::kFailed) {
      group.state = State::kLeaving;
    }
  }
  for (const uint32_t handle : unknown_to_engine) Erase(handle);
}

void GroupTable::OnGroupRemoved(const engine::GroupRemoved& notice) {
  Group* group = Find(notice.group);
  if (group == nullptr) return;
  AnswerLeavers(group->handle);
  Erase(group->handle);
}

void GroupTable::Erase(uint32_t handle) {
  const auto it = groups_.find(handle);
  const Group& group = it->second;
  ports_.Release(static_cast<uint16_t>(group.own.port()));
  memory_in_use_ -= MemoryOf(group.settings);
  if (group.id) handles_.erase(*group.id);
  groups_.erase(it);
}

}  // namespace optireduce::control
