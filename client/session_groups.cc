// The calls about groups.

#include <string.h>

#include <memory>
#include <string>
#include <utility>

#include "client/error.h"
#include "client/session.h"

namespace optireduce::client {
namespace {

constexpr size_t kMaxNameBytes = 48;  // proto/control.proto

uint64_t MicrosRoundedUp(int64_t nanos) {
  return static_cast<uint64_t>(nanos) / 1000 + (nanos % 1000 != 0 ? 1 : 0);
}

or_status CheckSettings(const or_group_settings& settings) {
  if (settings.world < 1 || settings.world > OR_MAX_WORLD) {
    return Fail(OR_ERR_ARGUMENT, "world %u is not in 1..%d", settings.world,
                OR_MAX_WORLD);
  }
  if (settings.rank >= settings.world) {
    return Fail(OR_ERR_ARGUMENT, "rank %u is not below world %u", settings.rank,
                settings.world);
  }
  if (settings.name != nullptr && strlen(settings.name) > kMaxNameBytes) {
    return Fail(OR_ERR_ARGUMENT, "group name \"%s\" is over %zu bytes",
                settings.name, kMaxNameBytes);
  }
  if (settings.fill < OR_FILL_DEFAULT || settings.fill > OR_FILL_OWN) {
    return Fail(OR_ERR_ARGUMENT, "fill %d is no or_fill", settings.fill);
  }
  const std::pair<const char*, int64_t> spans[] = {
      {"soft_limit_ns", settings.soft_limit_ns},
      {"stage1_limit_ns", settings.stage1_limit_ns},
      {"early_wait_ns", settings.early_wait_ns},
      {"hard_limit_ns", settings.hard_limit_ns},
      {"heartbeat_ns", settings.heartbeat_ns},
      {"suspect_after_ns", settings.suspect_after_ns},
      {"dead_after_ns", settings.dead_after_ns},
      {"formation_limit_ns", settings.formation_limit_ns},
  };
  if (!(settings.min_fraction >= 0 && settings.min_fraction <= 1)) {
    return Fail(OR_ERR_ARGUMENT, "min_fraction %g is not in 0..1",
                settings.min_fraction);
  }
  for (const auto& [name, span] : spans) {
    if (span < 0) {
      return Fail(OR_ERR_ARGUMENT, "%s is negative: %lld", name,
                  static_cast<long long>(span));
    }
  }
  return OR_OK;
}

// Only what the caller has set; the rest is the daemon's to say.
void Translate(const or_group_settings& from, control::GroupSettings* to) {
  if (from.soft_limit_ns != 0) {
    to->set_result_bound_us(MicrosRoundedUp(from.soft_limit_ns));
  }
  if (from.stage1_limit_ns != 0) {
    to->set_stage1_bound_us(MicrosRoundedUp(from.stage1_limit_ns));
  }
  if (from.early_wait_ns != 0) {
    to->set_early_wait_us(MicrosRoundedUp(from.early_wait_ns));
  }
  if (from.hard_limit_ns != 0) {
    to->set_hard_limit_us(MicrosRoundedUp(from.hard_limit_ns));
  }
  if (from.window != 0) to->set_window(from.window);
  if (from.quorum_permille != 0) to->set_quorum_permille(from.quorum_permille);
  if (from.memory_budget_bytes != 0) {
    to->set_memory_budget_bytes(from.memory_budget_bytes);
  }
  if (from.owed_budget_bytes != 0) {
    to->set_owed_budget_bytes(from.owed_budget_bytes);
  }
  if (from.fill != OR_FILL_DEFAULT) {
    to->set_fill(static_cast<control::FillPolicy>(from.fill));
  }
  if (from.mtu != 0) to->set_mtu(from.mtu);
  if (from.heartbeat_ns != 0) {
    to->set_heartbeat_us(MicrosRoundedUp(from.heartbeat_ns));
  }
  if (from.suspect_after_ns != 0) {
    to->set_suspect_after_us(MicrosRoundedUp(from.suspect_after_ns));
  }
  if (from.dead_after_ns != 0) {
    to->set_dead_after_us(MicrosRoundedUp(from.dead_after_ns));
  }
  if (from.formation_limit_ns != 0) {
    // A little less than its half of the time, so that the daemon's answer,
    // which names ranks, comes before the caller's limit.
    to->set_formation_limit_us(
        MicrosRoundedUp(from.formation_limit_ns / 2 * 9 / 10));
  }
}

}  // namespace

Session::Group* Session::FindGroup(or_group group) {
  const auto found = groups_.find(group);
  return found == groups_.end() ? nullptr : &found->second;
}

or_status Session::PrepareGroup(const or_group_settings& settings,
                                const Deadline& deadline, or_group* group,
                                or_member* member) {
  const or_status checked = CheckSettings(settings);
  if (checked != OR_OK) return checked;
  control::Request request;
  control::PrepareGroup& prepare = *request.mutable_prepare_group();
  prepare.set_rank(settings.rank);
  prepare.set_world(settings.world);
  if (settings.name != nullptr) prepare.set_name(settings.name);
  Translate(settings, prepare.mutable_settings());

  Lock lock(mutex_);
  control::Reply reply;
  const or_status status = Call(lock, std::move(request), deadline, &reply);
  if (status != OR_OK) return status;
  const control::PrepareGroupReply& prepared = reply.prepare_group();
  if (prepared.member().size() > OR_MEMBER_BYTES) {
    ForgetDaemonGroup(prepared.group());
    return Fail(OR_ERR_VERSION, "the daemon's member blob has %zu bytes",
                prepared.member().size());
  }
  Group joined;
  joined.daemon_id = prepared.group();
  joined.speaker = std::make_shared<const Speaker>(
      Speaker{settings.rank, settings.world,
              settings.name != nullptr ? settings.name : ""});
  joined.hard_limit = Duration::Micros(
      static_cast<int64_t>(prepared.settings().hard_limit_us()));
  joined.last_answer = MonotonicNow();
  joined.min_fraction = settings.min_fraction;
  if (settings.halt_after != 0) joined.halt_after = settings.halt_after;
  *group = next_group_++;
  groups_.emplace(*group, std::move(joined));
  *member = or_member{};
  member->size = static_cast<uint32_t>(prepared.member().size());
  memcpy(member->data, prepared.member().data(), member->size);
  return OR_OK;
}

or_status Session::FormGroup(or_group group, const or_member* members,
                             const Deadline& deadline) {
  Lock lock(mutex_);
  Group* found = FindGroup(group);
  if (found == nullptr || found->state != Group::kPrepared) {
    return Fail(OR_ERR_ARGUMENT, "group %llu is not waiting to be formed",
                static_cast<unsigned long long>(group));
  }
  const uint32_t daemon_id = found->daemon_id;
  control::Request request;
  control::FormGroup& form = *request.mutable_form_group();
  form.set_group(daemon_id);
  for (uint32_t rank = 0; rank < found->speaker->world; ++rank) {
    if (members[rank].size > OR_MEMBER_BYTES) {
      return Fail(OR_ERR_ARGUMENT, "members[%u].size is %u", rank,
                  members[rank].size);
    }
    form.add_members(members[rank].data, members[rank].size);
  }
  control::Reply reply;
  const or_status status = Call(lock, std::move(request), deadline, &reply);
  found = FindGroup(group);  // it may have been left while we waited
  if (status != OR_OK) {
    ForgetDaemonGroup(daemon_id);
    groups_.erase(group);
    return status;
  }
  if (found == nullptr || found->state == Group::kLeft) {
    return Fail(OR_ERR_CLOSED, "the group was left while it formed");
  }
  found->state = Group::kFormed;
  return OR_OK;
}

void Session::AbandonGroup(or_group group) {
  const Lock lock(mutex_);
  const Group* const found = FindGroup(group);
  if (found == nullptr) return;
  ForgetDaemonGroup(found->daemon_id);
  groups_.erase(group);
}

or_status Session::LeaveGroup(or_group group, const Deadline& deadline) {
  Lock lock(mutex_);
  Group* found = FindGroup(group);
  if (found == nullptr || found->state == Group::kLeft) {
    if (group != 0 && group < next_group_) return OR_OK;
    return Fail(OR_ERR_ARGUMENT, "no group %llu in this session",
                static_cast<unsigned long long>(group));
  }
  found->state = Group::kLeft;
  found->events.clear();
  control::Request request;
  request.mutable_leave_group()->set_group(found->daemon_id);
  control::Reply reply;
  const or_status status = Call(lock, std::move(request), deadline, &reply);
  if (status == OR_ERR_TIMEOUT) return status;
  // Nothing of the group's is touched any more.
  TakeCompletions();
  ops_.EndGroup(group, OR_ERR_CANCELLED);
  steps_.EndGroup(group, OR_ERR_CANCELLED);
  groups_.erase(group);
  changed_.notify_all();
  return status;
}

or_status Session::NextEvent(or_group group, or_event* event) {
  const Lock lock(mutex_);
  TakeFrames();
  Group* const found = FindGroup(group);
  if (found == nullptr) {
    return over_ != OR_OK ? FailAsOver()
                          : Fail(OR_ERR_CLOSED, "group %llu was left",
                                 static_cast<unsigned long long>(group));
  }
  if (found->events.empty()) return over_ != OR_OK ? FailAsOver() : OR_PENDING;
  *event = found->events.front();
  found->events.pop_front();
  return OR_OK;
}

}  // namespace optireduce::client
