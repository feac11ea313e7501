#include "dataplane/engine/op_ledger.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "dataplane/core/ledger.h"

namespace optireduce::engine {
namespace {

// The op as the core shall see it after the client's submission has waited.
core::OpDescriptor WithLimitsLeft(const core::OpDescriptor& op,
                                  Duration group_hard_limit, Duration waited) {
  // Zero would mean "the group's".
  const auto left = [&](Duration limit) {
    return std::max(limit - waited, Duration::Nanos(1));
  };
  core::OpDescriptor result = op;
  if (waited <= Duration()) return result;
  if (op.soft_limit > Duration()) result.soft_limit = left(op.soft_limit);
  result.hard_limit =
      left(op.hard_limit > Duration() ? op.hard_limit : group_hard_limit);
  return result;
}

StateResult ToStateResult(core::ImportResult result) {
  switch (result) {
    case core::ImportResult::kImported:
      return StateResult::kDone;
    case core::ImportResult::kDamaged:
      return StateResult::kDamaged;
    case core::ImportResult::kVersion:
      return StateResult::kVersion;
    case core::ImportResult::kOtherGroup:
      return StateResult::kOtherGroup;
    case core::ImportResult::kNoMemory:
      return StateResult::kNoMemory;
    case core::ImportResult::kNotQuiet:
      return StateResult::kNotQuiet;
  }
  return StateResult::kDamaged;
}

bool IsRetried(core::SubmitResult result) {
  return result == core::SubmitResult::kWindowFull ||
         result == core::SubmitResult::kMemoryFull;
}

}  // namespace

// ---- sessions and groups ----------------------------------------------------

bool OpLedger::AttachSession(SessionId session, SessionPort* port) {
  return sessions_.emplace(session, Session{port, false}).second;
}

void OpLedger::DetachSession(SessionId session) {
  for (auto& [id, group] : groups_) {
    if (group.owner != session) continue;
    group.port = nullptr;
    group.in_flight.clear();
    group.waiting.clear();
  }
  sessions_.erase(session);
}

bool OpLedger::HasSession(SessionId session) const {
  return sessions_.contains(session);
}

void OpLedger::AddGroup(core::GroupId group, const core::GroupConfig& config,
                        SessionId session, uint32_t handle) {
  Group& record = groups_[group];
  record.owner = session;
  record.port = sessions_.at(session).port;
  record.hard_limit = config.hard_limit;
  record.in_flight.reserve(config.window);
  record.port->AddGroup(group, static_cast<uint16_t>(config.members.size()),
                        handle);
}

void OpLedger::LeaveGroup(core::GroupId group) {
  const auto found = groups_.find(group);
  if (found == groups_.end() || found->second.port == nullptr) return;
  found->second.port->LeaveGroup(group);
}

void OpLedger::RemoveGroup(core::GroupId group) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return;
  Group& record = found->second;
  if (record.port != nullptr) {
    for (const InFlightOp& op : record.in_flight) {
      Completion completion;
      completion.cookie = op.cookie;
      completion.group = group;
      completion.report.op_seq = op.op_seq;
      completion.report.status = core::OpStatus::kCancelled;
      completion.report.cause = core::EndCause::kError;
      record.port->Complete(completion);
    }
    for (const WaitingSubmission& waiting : record.waiting) {
      Refuse(record.port, waiting.submission, core::SubmitResult::kLeft);
    }
    record.port->RemoveGroup(group);
  }
  groups_.erase(found);
}

std::vector<core::GroupId> OpLedger::GroupsOf(SessionId session) const {
  std::vector<core::GroupId> result;
  for (const auto& [id, group] : groups_) {
    if (group.owner == session) result.push_back(id);
  }
  return result;
}

SessionId OpLedger::OwnerOf(core::GroupId group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? SessionId() : found->second.owner;
}

// ---- submissions ------------------------------------------------------------

OpLedger::PullResult OpLedger::Pull(size_t budget, Timestamp now) {
  PullResult result;
  for (auto& [id, session] : sessions_) {
    if (session.broken) continue;
    size_t pulled = 0;
    Submission submission;
    engine::PullResult pull = engine::PullResult::kEmpty;
    while (pulled < budget && (pull = session.port->Pull(&submission)) ==
                                  engine::PullResult::kPulled) {
      ++pulled;
      Accept(submission, now);
    }
    if (pull == engine::PullResult::kBroken) {
      session.broken = true;
      broken_.push_back(id);
    }
    result.pulled += pulled;
    result.more |= pulled == budget;
  }
  return result;
}

void OpLedger::Accept(const Submission& submission, Timestamp now) {
  // The session port knows its groups: this one is here.
  Group& group = groups_.at(submission.group);
  if (!group.waiting.empty() ||
      !Offer(submission.group, group, submission, Duration(), now)) {
    group.waiting.push_back({submission, now});
  }
}

bool OpLedger::Offer(core::GroupId id, Group& group,
                     const Submission& submission, Duration waited,
                     Timestamp now) {
  if (std::holds_alternative<OpRequest>(submission.request)) {
    return OfferOp(id, group, submission, waited, now);
  }
  Completion completion;
  completion.cookie = submission.cookie;
  completion.group = id;
  if (const auto* close = std::get_if<StepClose>(&submission.request)) {
    completion.closed_ops =
        core_->CloseStep(id, close->step, close->outcome, now);
  } else if (const auto* save = std::get_if<StateSave>(&submission.request)) {
    Save(id, *save, &completion);
  } else if (const auto* load = std::get_if<StateLoad>(&submission.request)) {
    Load(id, *load, &completion);
  } else {
    group.verdicts.Note(std::get<StepVerdict>(submission.request));
  }
  group.port->Complete(completion);
  return true;
}

void OpLedger::Save(core::GroupId id, const StateSave& save,
                    Completion* completion) {
  completion->state_bytes = core_->StateBytes(id);
  if (completion->state_bytes > save.out.size()) {
    completion->state = StateResult::kNoRoom;
  } else if (!core_->ExportState(id, save.out.first(completion->state_bytes))) {
    completion->state = StateResult::kNotQuiet;
  }
}

void OpLedger::Load(core::GroupId id, const StateLoad& load,
                    Completion* completion) {
  if (load.state.size() > core_->MaxStateBytes(id)) {
    completion->state = StateResult::kNoMemory;
    return;
  }
  // The client could change it between the core's check and its use.
  const std::vector<uint8_t> copy(load.state.begin(), load.state.end());
  completion->state = ToStateResult(core_->ImportState(id, copy));
  completion->state_bytes = copy.size();
}

bool OpLedger::OfferOp(core::GroupId id, Group& group,
                       const Submission& submission, Duration waited,
                       Timestamp now) {
  const auto& request = std::get<OpRequest>(submission.request);
  core::OpSeq op_seq;
  const core::SubmitResult result =
      core_->Submit(id, WithLimitsLeft(request.op, group.hard_limit, waited),
                    request.buffers, now, &op_seq);
  if (IsRetried(result)) return false;
  if (result == core::SubmitResult::kAccepted) {
    group.in_flight.push_back({op_seq, submission.cookie});
  } else {
    Refuse(group.port, submission, result);
  }
  return true;
}

void OpLedger::Refuse(SessionPort* port, const Submission& submission,
                      core::SubmitResult why) {
  Completion completion;
  completion.cookie = submission.cookie;
  completion.group = submission.group;
  completion.submit = why;
  port->Complete(completion);
}

bool OpLedger::RetryWaiting(Timestamp now) {
  bool still_waiting = false;
  for (auto& [id, group] : groups_) {
    while (!group.waiting.empty()) {
      const WaitingSubmission& waiting = group.waiting.front();
      if (!Offer(id, group, waiting.submission, now - waiting.since, now)) {
        still_waiting = true;
        break;
      }
      group.waiting.pop_front();
    }
  }
  return still_waiting;
}

void OpLedger::OnOpDone(core::GroupId group, const core::OpReport& report,
                        Duration wall_late, Duration decision_late) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return;
  Group& record = found->second;
  const auto op = std::find_if(
      record.in_flight.begin(), record.in_flight.end(),
      [&](const InFlightOp& o) { return o.op_seq == report.op_seq; });
  if (op == record.in_flight.end()) return;  // the session is gone
  Completion completion;
  completion.cookie = op->cookie;
  completion.group = group;
  completion.report = report;
  completion.wall_late = wall_late;
  completion.decision_late = decision_late;
  record.in_flight.erase(op);
  record.port->Complete(completion);
}

// ---- around a poll ----------------------------------------------------------

void OpLedger::Flush() {
  for (auto& [id, session] : sessions_) session.port->Flush();
}

std::optional<SessionId> OpLedger::TakeBroken() {
  if (broken_.empty()) return std::nullopt;
  const SessionId session = broken_.back();
  broken_.pop_back();
  return session;
}

bool OpLedger::PrepareToSleep() {
  bool sleep = true;
  for (auto& [id, session] : sessions_) {
    if (!session.broken && !session.port->PrepareToSleep()) sleep = false;
  }
  return sleep;
}

void OpLedger::WokeUp() {
  for (auto& [id, session] : sessions_) {
    if (!session.broken) session.port->WokeUp();
  }
}

size_t OpLedger::InFlight(core::GroupId group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? 0 : found->second.in_flight.size();
}

size_t OpLedger::Waiting(core::GroupId group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? 0 : found->second.waiting.size();
}

VerdictCounts OpLedger::Verdicts(core::GroupId group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? VerdictCounts() : found->second.verdicts;
}

}  // namespace optireduce::engine
