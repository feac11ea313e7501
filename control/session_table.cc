#include "control/session_table.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/printable.h"

namespace optireduce::control {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

Error MakeError(ErrorCode code, const std::string& message) {
  Error error;
  error.set_code(code);
  error.set_message(message);
  return error;
}

std::optional<Error> CheckVersion(const control::Hello& hello) {
  if (hello.min_version() <= kProtocolVersion &&
      hello.max_version() >= kProtocolVersion) {
    return std::nullopt;
  }
  const bool daemon_is_older = hello.min_version() > kProtocolVersion;
  return MakeError(
      ERROR_VERSION,
      absl::StrCat("the client speaks protocol version ", hello.min_version(),
                   " to ", hello.max_version(), ", the daemon ",
                   kProtocolVersion, ": upgrade the ",
                   daemon_is_older ? "daemon" : "client"));
}

std::string DescribeBroken(uint32_t reason) {
  switch (reason) {
    case OPTIREDUCE_SHM_REASON_BAD_SUBMISSION_TAIL:
      return "the submission ring's tail is not where it can be";
    case OPTIREDUCE_SHM_REASON_BAD_COMPLETION_HEAD:
      return "the completion ring's head is not where it can be";
    case OPTIREDUCE_SHM_REASON_TOO_MANY_OUTSTANDING:
      return "more submissions are outstanding than the rings have slots";
    default:
      return "the session's rings are damaged";
  }
}

}  // namespace

std::string Name(SessionTable::State state) {
  switch (state) {
    case SessionTable::State::kCreating:
      return "creating";
    case SessionTable::State::kMapping:
      return "mapping";
    case SessionTable::State::kSealing:
      return "sealing";
    case SessionTable::State::kLive:
      return "live";
    case SessionTable::State::kEnding:
      return "ending";
  }
  return "unknown";
}

shm::HugePages HugePagesOf(const config::DaemonConfig& config) {
  if (config.hugepages() == "on") return shm::HugePages::kOn;
  if (config.hugepages() == "off") return shm::HugePages::kOff;
  return shm::HugePages::kAuto;
}

SessionTable::SessionTable(const SessionTableOptions& options,
                           EngineLink* engine, Outbox* outbox, Worker* worker)
    : options_(options), engine_(engine), outbox_(outbox), worker_(worker) {}

SessionTable::Session* SessionTable::FindByConnection(uint64_t connection) {
  for (auto& [id, session] : sessions_) {
    if (session.connection == connection) return &session;
  }
  return nullptr;
}

const SessionTable::Session* SessionTable::FindByConnection(
    uint64_t connection) const {
  return const_cast<SessionTable*>(this)->FindByConnection(connection);
}

bool SessionTable::HasSession(uint64_t connection) const {
  return FindByConnection(connection) != nullptr;
}

std::optional<engine::SessionId> SessionTable::LiveSessionOf(
    uint64_t connection) const {
  const Session* session = FindByConnection(connection);
  if (session == nullptr || session->state != State::kLive) return std::nullopt;
  return session->id;
}

// ---- beginning --------------------------------------------------------------

std::optional<Error> SessionTable::CheckHello(
    const PeerCredentials& peer, const control::Hello& hello) const {
  if (std::optional<Error> error = CheckVersion(hello)) return error;
  if (shutting_down_) {
    return MakeError(ERROR_SHUTTING_DOWN, "the daemon is stopping");
  }
  if (hello.client().size() > kMaxClientNameBytes ||
      !IsPrintable(hello.client())) {
    return MakeError(
        ERROR_INVALID_SETTING,
        absl::StrCat("a client's name is at most ", kMaxClientNameBytes,
                     " bytes of printable ASCII"));
  }
  return CheckQuota(peer, hello.data_bytes());
}

std::optional<Error> SessionTable::CheckQuota(const PeerCredentials& peer,
                                              uint64_t bytes) const {
  const config::DaemonConfig& config = options_.config;
  if (sessions_.size() >= config.max_sessions()) {
    return MakeError(ERROR_QUOTA,
                     absl::StrCat("there are ", sessions_.size(),
                                  " sessions already (max_sessions)"));
  }
  const auto of_user = std::count_if(
      sessions_.begin(), sessions_.end(),
      [&peer](const auto& s) { return s.second.peer.uid == peer.uid; });
  if (static_cast<uint64_t>(of_user) >= config.max_sessions_per_user()) {
    return MakeError(ERROR_QUOTA,
                     absl::StrCat("user ", peer.uid, " has ", of_user,
                                  " sessions already (max_sessions_per_user)"));
  }
  if (bytes > config.max_segment_mb() * kMiB) {
    return MakeError(
        ERROR_QUOTA,
        absl::StrCat(bytes,
                     " bytes of shared memory were asked for; a session "
                     "gets ",
                     config.max_segment_mb(), " MiB at most (max_segment_mb)"));
  }
  const uint64_t total = config.max_total_segment_mb() * kMiB;
  if (bytes > total - std::min(total, bytes_in_use_)) {
    return MakeError(
        ERROR_QUOTA,
        absl::StrCat(bytes, " bytes of shared memory were asked for; ",
                     bytes_in_use_, " of ", config.max_total_segment_mb(),
                     " MiB are in use (max_total_segment_mb)"));
  }
  return std::nullopt;
}

void SessionTable::Hello(const Asker& asker, const PeerCredentials& peer,
                         const control::Hello& hello) {
  if (HasSession(asker.connection)) {
    outbox_->Fail(asker, ERROR_BAD_REQUEST,
                  "this connection has a session already");
    return;
  }
  if (std::optional<Error> error = CheckHello(peer, hello)) {
    outbox_->Fail(asker, *std::move(error));
    return;
  }
  const engine::SessionId id(next_id_++);
  Session& session = sessions_[id];
  session.id = id;
  session.connection = asker.connection;
  session.peer = peer;
  session.client = hello.client();
  session.asked_bytes = hello.data_bytes();
  bytes_in_use_ += session.asked_bytes;

  using Made = absl::StatusOr<std::unique_ptr<shm::Segment>>;
  const auto made = std::make_shared<Made>(absl::UnknownError("not made"));
  const shm::SegmentOptions options = {
      .session = id.value(),
      .data_bytes = std::max<uint64_t>(hello.data_bytes(), 1),
      .hugepages = HugePagesOf(options_.config)};
  worker_->Run(
      [made, options, limits = options_.limits] {
        *made = shm::Segment::Create(options, limits);
      },
      [this, asker, id, made] { OnCreated(asker, id, std::move(*made)); });
}

void SessionTable::OnCreated(
    const Asker& asker, engine::SessionId id,
    absl::StatusOr<std::unique_ptr<shm::Segment>> segment) {
  Session& session = sessions_.at(id);
  if (!segment.ok()) {
    outbox_->Fail(asker, ERROR_NO_MEMORY,
                  std::string(segment.status().message()));
    Erase(id);
    return;
  }
  session.segment = *std::move(segment);
  absl::StatusOr<shm::Bells> bells = shm::MakeBells();
  if (!bells.ok()) {
    outbox_->Fail(asker, ERROR_NO_MEMORY,
                  std::string(bells.status().message()));
    Erase(id);
    return;
  }
  session.bells = *std::move(bells);
  if (session.connection == 0) {  // closed meanwhile
    Erase(id);
    return;
  }
  session.state = State::kMapping;
  SendHelloReply(asker, session);
}

void SessionTable::SendHelloReply(const Asker& asker, const Session& session) {
  Reply reply;
  HelloReply& hello = *reply.mutable_hello();
  hello.set_version(kProtocolVersion);
  hello.set_session(session.id.value());
  hello.set_segment_bytes(session.segment->bytes());
  hello.set_shm_version(OPTIREDUCE_SHM_VERSION);
  hello.set_daemon_version(options_.daemon_version);
  hello.set_max_world(wire::kMaxWorld);
  hello.set_max_groups(options_.config.max_groups_per_session());
  outbox_->Reply(asker, std::move(reply),
                 {session.segment->fd(), session.bells.engine_event.get(),
                  session.bells.client_end.get()});
}

void SessionTable::Mapped(const Asker& asker) {
  Session* session = FindByConnection(asker.connection);
  if (session == nullptr || session->state != State::kMapping) {
    outbox_->Fail(asker, ERROR_BAD_REQUEST,
                  "there is no segment here that waits to be mapped");
    return;
  }
  session->state = State::kSealing;
  // The client has its own by now.
  session->bells.client_end.Reset();
  const auto status = std::make_shared<absl::Status>();
  worker_->Run(
      [status, segment = session->segment.get()] { *status = segment->Seal(); },
      [this, asker, id = session->id, status] {
        OnSealed(asker, id, *status);
      });
}

void SessionTable::OnSealed(const Asker& asker, engine::SessionId id,
                            const absl::Status& status) {
  Session& session = sessions_.at(id);
  if (session.connection == 0) {
    Erase(id);
    return;
  }
  if (!status.ok()) {
    // Ends the session through OnClosed.
    session.state = State::kMapping;
    outbox_->Drop(asker.connection, ERROR_BAD_REQUEST,
                  std::string(status.message()));
    return;
  }
  Attach(&session);
  Reply reply;
  reply.mutable_mapped();
  outbox_->Reply(asker, std::move(reply));
}

void SessionTable::Attach(Session* session) {
  session->port = std::make_unique<engine::ShmSession>(
      *session->segment, session->bells.engine_event.get(),
      session->bells.client_bell.get());
  session->state = State::kLive;
  if (shutting_down_) session->port->StopTaking();
  engine_->Post(engine::AttachSession{session->id, session->port.get()});
  LOG(INFO) << "session " << session->id.value() << " of \"" << session->client
            << "\" (user " << session->peer.uid << ", pid " << session->peer.pid
            << "): " << (session->segment->bytes() >> 20) << " MiB"
            << (session->segment->hugepages() ? " in hugepages" : "");
}

// ---- ending -----------------------------------------------------------------

std::optional<engine::SessionId> SessionTable::OnClosed(uint64_t connection) {
  Session* session = FindByConnection(connection);
  if (session == nullptr) return std::nullopt;
  session->connection = 0;
  switch (session->state) {
    case State::kCreating:
    case State::kSealing:
      return std::nullopt;  // the worker has it
    case State::kMapping:
      Erase(session->id);
      return std::nullopt;
    case State::kLive:
      return session->id;
    case State::kEnding:
      return std::nullopt;
  }
  return std::nullopt;
}

void SessionTable::Detach(engine::SessionId id, wire::LeaveReason reason) {
  Session& session = sessions_.at(id);
  session.state = State::kEnding;
  const uint32_t broken = session.port->broken_reason();
  if (broken != OPTIREDUCE_SHM_REASON_NONE) {
    session.segment->Close(broken);
  } else {
    session.segment->Close(shutting_down_ ? OPTIREDUCE_SHM_REASON_SHUTDOWN
                                          : OPTIREDUCE_SHM_REASON_CONTROL);
  }
  engine_->Post(engine::DetachSession{id, reason});
}

void SessionTable::OnSessionDetached(const engine::SessionDetached& notice) {
  if (sessions_.count(notice.session) == 0) return;
  LOG(INFO) << "session " << notice.session.value() << " has ended";
  Erase(notice.session);
}

void SessionTable::OnSessionBroken(const engine::SessionBroken& notice) {
  const auto it = sessions_.find(notice.session);
  if (it == sessions_.end() || it->second.state != State::kLive) return;
  const std::string reason = DescribeBroken(it->second.port->broken_reason());
  LOG(WARNING) << "session " << notice.session.value() << " of user "
               << it->second.peer.uid << " is ended: " << reason;
  // Ends the session through OnClosed.
  outbox_->Drop(it->second.connection, ERROR_BAD_REQUEST, reason);
}

void SessionTable::Erase(engine::SessionId id) {
  const auto it = sessions_.find(id);
  bytes_in_use_ -= it->second.asked_bytes;
  const auto remains = std::make_shared<Session>(std::move(it->second));
  sessions_.erase(it);
  worker_->Run(
      [remains] {
        remains->port.reset();
        remains->segment.reset();
      },
      [] {});
}

void SessionTable::StopTaking() {
  for (auto& [id, session] : sessions_) {
    if (session.port != nullptr) session.port->StopTaking();
  }
}

bool SessionTable::Idle() const {
  return std::all_of(sessions_.begin(), sessions_.end(), [](const auto& s) {
    return s.second.port == nullptr || s.second.port->idle();
  });
}

}  // namespace optireduce::control
