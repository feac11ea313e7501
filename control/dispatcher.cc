#include "control/dispatcher.h"

#include <glog/logging.h>

#include <utility>
#include <variant>

namespace optireduce::control {
namespace {

// One function object of several, for std::visit.
template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace

Dispatcher::Dispatcher(const LoadedConfig& config, const DaemonFacts& facts,
                       EngineLink* engine, Outbox* outbox, Worker* worker)
    : config_(config),
      facts_(facts),
      engine_(engine),
      outbox_(outbox),
      sessions_({.config = config.values(),
                 .daemon_version = facts.version,
                 .limits = shm::MemoryLimits()},
                engine, outbox, worker),
      groups_({.config = config.values(),
               .ip = facts.info.ip,
               .mtu = facts.info.mtu},
              engine, outbox) {}

void Dispatcher::OnRequest(const Asker& asker, const PeerCredentials& peer,
                           const Request& request) {
  switch (request.body_case()) {
    case Request::kHello:
      sessions_.Hello(asker, peer, request.hello());
      return;
    case Request::kMapped:
      sessions_.Mapped(asker);
      return;
    case Request::kPrepareGroup:
    case Request::kFormGroup:
    case Request::kLeaveGroup:
      OnGroupRequest(asker, request);
      return;
    default:
      OnAdminRequest(asker, request);
      return;
  }
}

void Dispatcher::OnGroupRequest(const Asker& asker, const Request& request) {
  const auto session = sessions_.LiveSessionOf(asker.connection);
  if (!session) {
    outbox_->Fail(asker, ERROR_BAD_REQUEST,
                  "groups need a session: say Hello and Mapped first");
    return;
  }
  if (request.has_leave_group()) {
    groups_.Leave(*session, asker, request.leave_group());
  } else if (draining_) {
    outbox_->Fail(asker, ERROR_SHUTTING_DOWN, "the daemon is stopping");
  } else if (request.has_prepare_group()) {
    groups_.Prepare(*session, asker, request.prepare_group());
  } else {
    groups_.Form(*session, asker, request.form_group());
  }
}

template <class Fill>
void Dispatcher::AnswerWithSnapshot(const Asker& asker, Fill fill) {
  engine_->AskSnapshot([this, asker, fill](const engine::Snapshot& snapshot) {
    Reply reply;
    fill(snapshot, &reply);
    outbox_->Reply(asker, std::move(reply));
  });
}

void Dispatcher::AnswerOps(const Asker& asker, const OpsRequest& request) {
  engine_->AskSnapshotWithOps(
      [this, asker, request](const engine::Snapshot& snapshot) {
        Reply reply;
        *reply.mutable_ops() = MakeOps(sessions_, groups_, snapshot, request);
        outbox_->Reply(asker, std::move(reply));
      });
}

void Dispatcher::OnAdminRequest(const Asker& asker, const Request& request) {
  using engine::Snapshot;
  switch (request.body_case()) {
    case Request::kStatus:
      AnswerWithSnapshot(asker, [this](const Snapshot& snapshot, Reply* reply) {
        *reply->mutable_status() =
            MakeStatus(facts_, draining_ ? "draining" : "ready", sessions_,
                       groups_, snapshot, Now());
      });
      return;
    case Request::kGroups:
      AnswerWithSnapshot(asker, [this](const Snapshot& snapshot, Reply* reply) {
        *reply->mutable_groups() = MakeGroups(sessions_, groups_, snapshot);
      });
      return;
    case Request::kPeers:
      AnswerWithSnapshot(asker, [this](const Snapshot& snapshot, Reply* reply) {
        *reply->mutable_peers() = MakePeers(groups_, snapshot, Now());
      });
      return;
    case Request::kStats:
      AnswerWithSnapshot(asker, [this](const Snapshot& snapshot, Reply* reply) {
        *reply->mutable_stats() = MakeStats(sessions_, groups_, snapshot);
      });
      return;
    case Request::kOps:
      AnswerOps(asker, request.ops());
      return;
    case Request::kConfig: {
      Reply reply;
      *reply.mutable_config() = MakeConfig(config_);
      outbox_->Reply(asker, std::move(reply));
      return;
    }
    default:
      outbox_->Fail(asker, ERROR_BAD_REQUEST, "no such request");
      return;
  }
}

void Dispatcher::OnClosed(uint64_t connection, const std::string& reason) {
  const auto session = sessions_.OnClosed(connection);
  if (!session) return;
  LOG(INFO) << "session " << session->value() << " ends: " << reason;
  groups_.OnSessionEnding(*session);
  sessions_.Detach(*session, draining_ ? wire::LeaveReason::kShutdown
                                       : wire::LeaveReason::kClientDied);
}

void Dispatcher::OnNotice(const engine::Notice& notice) {
  std::visit(
      Overloaded{
          [this](const engine::GroupAdded& n) { groups_.OnGroupAdded(n); },
          [this](const engine::GroupChanged& n) { groups_.OnGroupChanged(n); },
          [this](const engine::GroupRemoved& n) { groups_.OnGroupRemoved(n); },
          [this](const engine::SessionDetached& n) {
            sessions_.OnSessionDetached(n);
          },
          [this](const engine::SessionBroken& n) {
            sessions_.OnSessionBroken(n);
          },
          [](const engine::PortChanged& n) {
            LOG(WARNING) << (n.up ? "the data port is up again"
                                  : "the data port is down");
          },
          [this](const std::unique_ptr<engine::Snapshot>& n) {
            engine_->OnSnapshot(*n);
          }},
      notice);
}

void Dispatcher::BeginDrain() {
  draining_ = true;
  sessions_.BeginShutdown();
  sessions_.StopTaking();
}

}  // namespace optireduce::control
