#include "client/testing/fake_daemon.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "client/verdict.h"
#include "proto/shm_abi.h"

namespace optireduce::client {
namespace {

using Shared = std::atomic_ref<uint32_t>;
constexpr auto kOrdered = std::memory_order_seq_cst;

constexpr uint64_t kSubmissionOffset = OPTIREDUCE_SHM_HEADER_BYTES;
constexpr uint64_t kCompletionOffset =
    kSubmissionOffset +
    OPTIREDUCE_SHM_SUBMISSION_SLOTS * sizeof(OptireduceShmSubmission);
constexpr uint64_t kDataOffset =
    (kCompletionOffset +
     OPTIREDUCE_SHM_COMPLETION_SLOTS * sizeof(OptireduceShmCompletion) +
     OPTIREDUCE_SHM_DATA_ALIGNMENT - 1) /
    OPTIREDUCE_SHM_DATA_ALIGNMENT * OPTIREDUCE_SHM_DATA_ALIGNMENT;

void Require(bool condition, const char* what) {
  if (condition) return;
  perror(what);
  abort();  // a test's own machinery
}

int64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

constexpr uint8_t kAllGather = 3;  // of core::Collective

constexpr int64_t kLaterNs = 200'000'000;
// Of an operation that has no soft limit of its own.
constexpr int64_t kGroupLimitNs = 100'000'000;

uint64_t ElementBytes(uint8_t dtype) {
  static constexpr uint64_t kBytes[] = {0, 4, 2, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8};
  return dtype < std::size(kBytes) ? kBytes[dtype] : 0;
}

}  // namespace

class FakeDaemon::Session {
 public:
  Session(UniqueFd socket, const Options& options)
      : options_(options), socket_(std::move(socket)) {}
  ~Session() {
    if (base_ != nullptr) munmap(base_, bytes_);
  }

  int socket() const { return socket_.get(); }
  int bell() const { return engine_bell_.get(); }
  bool over() const { return over_; }

  void OnFrame();
  // Answers what was submitted; then arms the bell.
  void Serve();
  // Milliseconds until Serve() has something to do, or -1.
  int NextAnswer() const;
  // The world of a group that waits for its other ranks, or 0.
  uint32_t waiting_world() const { return waiting_world_; }
  void StopWaiting();

 private:
  void Handle(const control::Request& request);
  void Hello(const control::Hello& hello, control::Reply* reply,
             std::vector<int>* fds);
  void CreateSegment(uint64_t data_bytes);
  void Prepare(const control::PrepareGroup& prepare, control::Reply* reply);
  void Form(const control::FormGroup& form, control::Reply* reply);
  void Send(const control::ServerFrame& frame, const std::vector<int>& fds);
  void SendEvent(uint32_t group, control::GroupEventKind kind);
  void Answer(const OptireduceShmSubmission& submission);
  void AnswerClose(const OptireduceShmSubmission& submission);
  void AnswerState(const OptireduceShmSubmission& submission);
  void AnswerVerdict(const OptireduceShmSubmission& submission);
  // The output of an all-gather.
  void Gather(const OptireduceShmSubmission& submission);
  void Complete(const OptireduceShmCompletion& completion);

  OptireduceShmHeader* header() {
    return reinterpret_cast<OptireduceShmHeader*>(base_);
  }

  const Options options_;
  UniqueFd socket_;
  UniqueFd memory_;
  UniqueFd engine_bell_;
  UniqueFd client_bell_;         // our end
  UniqueFd client_bell_theirs_;  // until it is passed
  uint8_t* base_ = nullptr;
  uint64_t bytes_ = 0;
  uint32_t taken_ = 0;
  uint32_t answered_ = 0;
  uint32_t next_group_ = 1;
  std::string last_name_;  // of the group prepared last
  std::vector<OptireduceShmSubmission> later_;
  int64_t later_at_ = 0;
  uint32_t waiting_world_ = 0;
  control::ServerFrame waiting_;
  uint32_t next_op_ = 0;
  std::map<uint32_t, uint32_t> worlds_;  // by group
  // Open operations, by group and step.
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> open_;
  std::string state_;
  bool over_ = false;
};

void FakeDaemon::Session::OnFrame() {
  std::vector<char> buffer(196608);
  const ssize_t got =
      recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && errno == EAGAIN) return;
  control::Request request;
  if (got <= 0 ||
      !request.ParseFromArray(buffer.data(), static_cast<int>(got))) {
    over_ = true;
    return;
  }
  Handle(request);
}

void FakeDaemon::Session::Handle(const control::Request& request) {
  control::ServerFrame frame;
  control::Reply& reply = *frame.mutable_reply();
  reply.set_id(request.id());
  std::vector<int> fds;
  switch (request.body_case()) {
    case control::Request::kHello:
      Hello(request.hello(), &reply, &fds);
      break;
    case control::Request::kMapped:
      reply.mutable_mapped();
      break;
    case control::Request::kPrepareGroup:
      Prepare(request.prepare_group(), &reply);
      break;
    case control::Request::kFormGroup:
      if (options_.never_forms) return;
      Form(request.form_group(), &reply);
      if (last_name_ == kFakeTogether && !reply.has_error()) {
        waiting_world_ =
            static_cast<uint32_t>(request.form_group().members_size());
        waiting_ = frame;
        return;
      }
      break;
    case control::Request::kLeaveGroup:
      reply.mutable_leave_group();
      break;
    default:
      reply.mutable_error()->set_code(control::ERROR_BAD_REQUEST);
  }
  Send(frame, fds);
}

void FakeDaemon::Session::Hello(const control::Hello& hello,
                                control::Reply* reply, std::vector<int>* fds) {
  if (options_.hello_error != control::ERROR_UNKNOWN) {
    reply->mutable_error()->set_code(options_.hello_error);
    reply->mutable_error()->set_message("the fake says no");
    return;
  }
  CreateSegment(hello.data_bytes());
  control::HelloReply& answer = *reply->mutable_hello();
  answer.set_version(options_.protocol_version);
  answer.set_session(1);
  answer.set_segment_bytes(bytes_);
  answer.set_shm_version(OPTIREDUCE_SHM_VERSION);
  *fds = {memory_.get(), engine_bell_.get(), client_bell_theirs_.get()};
}

void FakeDaemon::Session::CreateSegment(uint64_t data_bytes) {
  bytes_ = kDataOffset + data_bytes;
  memory_ = UniqueFd(memfd_create("fake", MFD_CLOEXEC));
  Require(ftruncate(memory_.get(), static_cast<off_t>(bytes_)) == 0,
          "ftruncate");
  void* base = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED,
                    memory_.get(), 0);
  Require(base != MAP_FAILED, "mmap");
  base_ = static_cast<uint8_t*>(base);
  engine_bell_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  int bells[2];
  Require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                     bells) == 0,
          "socketpair");
  client_bell_ = UniqueFd(bells[0]);
  client_bell_theirs_ = UniqueFd(bells[1]);
  OptireduceShmHeader& head = *header();
  head.magic = OPTIREDUCE_SHM_MAGIC;
  head.version = OPTIREDUCE_SHM_VERSION;
  head.header_bytes = OPTIREDUCE_SHM_HEADER_BYTES;
  head.segment_bytes = bytes_;
  head.session = 1;
  head.submission_offset = kSubmissionOffset;
  head.submission_slots = OPTIREDUCE_SHM_SUBMISSION_SLOTS;
  head.submission_bytes = sizeof(OptireduceShmSubmission);
  head.completion_offset = kCompletionOffset;
  head.completion_slots = OPTIREDUCE_SHM_COMPLETION_SLOTS;
  head.completion_bytes = sizeof(OptireduceShmCompletion);
  head.data_offset = kDataOffset;
  head.data_bytes = data_bytes;
  head.state = OPTIREDUCE_SHM_LIVE;
}

void FakeDaemon::Session::Prepare(const control::PrepareGroup& prepare,
                                  control::Reply* reply) {
  control::PrepareGroupReply& answer = *reply->mutable_prepare_group();
  answer.set_group(next_group_++);
  last_name_ = prepare.name();
  answer.set_member("member of rank " + std::to_string(prepare.rank()));
  *answer.mutable_settings() = prepare.settings();
  if (!answer.settings().has_hard_limit_us()) {
    answer.mutable_settings()->set_hard_limit_us(options_.hard_limit_us);
  }
}

void FakeDaemon::Session::Form(const control::FormGroup& form,
                               control::Reply* reply) {
  control::ErrorCode error = options_.form_error;
  for (int rank = 0; rank < form.members_size(); ++rank) {
    if (form.members(rank) != "member of rank " + std::to_string(rank)) {
      error = control::ERROR_MEMBERS;
    }
  }
  if (error != control::ERROR_UNKNOWN) {
    reply->mutable_error()->set_code(error);
    reply->mutable_error()->set_message("rank 1 did not answer");
    return;
  }
  worlds_[form.group()] = static_cast<uint32_t>(form.members_size());
  reply->mutable_form_group()->set_tag(7);
}

void FakeDaemon::Session::StopWaiting() {
  waiting_world_ = 0;
  Send(waiting_, {});
}

void FakeDaemon::Session::Send(const control::ServerFrame& frame,
                               const std::vector<int>& fds) {
  std::string bytes = frame.SerializeAsString();
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  }
  if (sendmsg(socket_.get(), &message, MSG_NOSIGNAL) < 0) over_ = true;
  if (!fds.empty()) client_bell_theirs_.Reset();
}

void FakeDaemon::Session::SendEvent(uint32_t group,
                                    control::GroupEventKind kind) {
  control::ServerFrame frame;
  frame.mutable_group_event()->set_group(group);
  frame.mutable_group_event()->set_kind(kind);
  frame.mutable_group_event()->set_rank(1);
  Send(frame, {});
}

void FakeDaemon::Session::Serve() {
  if (base_ == nullptr) return;
  if (!later_.empty() && Now() >= later_at_) {
    for (const auto& submission : std::exchange(later_, {})) Answer(submission);
  }
  uint64_t discarded = 0;
  [[maybe_unused]] const ssize_t got =
      read(engine_bell_.get(), &discarded, sizeof(discarded));
  Shared sleeps(header()->engine_sleeps);
  Shared tail(header()->submission_tail);
  do {
    sleeps.store(0, kOrdered);
    const auto* ring = reinterpret_cast<const OptireduceShmSubmission*>(
        base_ + kSubmissionOffset);
    while (!over_ && tail.load(kOrdered) != taken_) {
      const OptireduceShmSubmission submission =
          ring[taken_ % OPTIREDUCE_SHM_SUBMISSION_SLOTS];
      Shared(header()->submission_head).store(++taken_, kOrdered);
      Answer(submission);
    }
    sleeps.exchange(1, kOrdered);
  } while (!over_ && tail.load(kOrdered) != taken_);
}

int FakeDaemon::Session::NextAnswer() const {
  if (later_.empty()) return -1;
  return static_cast<int>(std::max<int64_t>(later_at_ - Now(), 0) / 1'000'000) +
         1;
}

void FakeDaemon::Session::AnswerClose(
    const OptireduceShmSubmission& submission) {
  const uint64_t step = submission.step;
  if (step == kFakeHoldStep) return;
  // The second time it comes from `later_`.
  if (step == kFakeLaterStep && submission.count == 0) {
    later_.push_back(submission);
    later_.back().count = 1;
    later_at_ = Now() + kLaterNs;
    return;
  }
  OptireduceShmCompletion completion{};
  completion.cookie = submission.cookie;
  completion.group = submission.group;
  completion.kind = submission.kind;
  if (step >= kFakeStepRefusal && step < kFakeStepRefusal + 100) {
    completion.status = OPTIREDUCE_SHM_REFUSED;
    completion.refusal = static_cast<uint8_t>(step - kFakeStepRefusal);
  } else {
    completion.closed_ops = std::exchange(open_[{submission.group, step}], 0);
  }
  Complete(completion);
}

void FakeDaemon::Session::AnswerState(
    const OptireduceShmSubmission& submission) {
  OptireduceShmCompletion completion{};
  completion.cookie = submission.cookie;
  completion.group = submission.group;
  completion.kind = submission.kind;
  uint8_t refusal = OPTIREDUCE_SHM_REFUSAL_NONE;
  if (std::any_of(open_.begin(), open_.end(),
                  [](const auto& step) { return step.second > 0; })) {
    refusal = OPTIREDUCE_SHM_REFUSAL_NOT_QUIET;
  } else if (submission.kind == OPTIREDUCE_SHM_STATE_LOAD) {
    completion.elements = submission.count;
    state_.assign(
        reinterpret_cast<const char*>(base_ + submission.input_offset),
        submission.count);
    if (state_ == "damaged") refusal = OPTIREDUCE_SHM_REFUSAL_STATE_DAMAGED;
  } else {
    completion.elements = state_.size();
    if (state_.size() > submission.count) {
      refusal = OPTIREDUCE_SHM_REFUSAL_STATE_ROOM;
    } else {
      memcpy(base_ + submission.output_offset, state_.data(), state_.size());
    }
  }
  if (refusal != OPTIREDUCE_SHM_REFUSAL_NONE) {
    completion.status = OPTIREDUCE_SHM_REFUSED;
    completion.refusal = refusal;
  }
  Complete(completion);
}

void FakeDaemon::Session::AnswerVerdict(
    const OptireduceShmSubmission& submission) {
  OptireduceShmCompletion completion{};
  completion.cookie = submission.cookie;
  completion.group = submission.group;
  completion.kind = submission.kind;
  Complete(completion);
}

void FakeDaemon::Session::Gather(const OptireduceShmSubmission& submission) {
  const uint64_t part = submission.count * ElementBytes(submission.dtype) /
                        worlds_.at(submission.group);
  const std::vector<uint8_t> own(base_ + submission.input_offset,
                                 base_ + submission.input_offset + part);
  uint8_t* const output = base_ + submission.output_offset;
  for (uint32_t r = 0; r < worlds_.at(submission.group); ++r) {
    memcpy(output + r * part, own.data(), part);
  }
  if (submission.step < kFakeNonFiniteStep ||
      submission.step > kFakeOtherVersionStep) {
    return;
  }
  const std::span<uint8_t, kRecordBytes> bytes(output + part, kRecordBytes);
  StepRecord record = *DecodeRecord(bytes);
  if (submission.step == kFakeNonFiniteStep) record.account.non_finite = true;
  if (submission.step == kFakeAbsentStep) {
    record.account.present = 0;
    record.account.absent = 10;
  }
  EncodeRecord(record, bytes);
  if (submission.step == kFakeOtherVersionStep) ++bytes[0];
}

void FakeDaemon::Session::Answer(const OptireduceShmSubmission& submission) {
  if (submission.kind == OPTIREDUCE_SHM_STATE_SAVE ||
      submission.kind == OPTIREDUCE_SHM_STATE_LOAD) {
    return AnswerState(submission);
  }
  if (submission.kind == OPTIREDUCE_SHM_STEP_CLOSE) {
    return AnswerClose(submission);
  }
  if (submission.kind == OPTIREDUCE_SHM_VERDICT) {
    return AnswerVerdict(submission);
  }
  const bool is_gather = submission.collective == kAllGather;
  if (is_gather && submission.step == kFakeHoldVerdict) return;
  OptireduceShmCompletion completion{};
  completion.cookie = submission.cookie;
  completion.group = submission.group;
  completion.kind = submission.kind;
  completion.world = 2;
  completion.elements = submission.count;
  completion.contributions = 2ull * submission.count;
  completion.min_contributors = 2;
  completion.submitted_ns = completion.quorum_ns = Now();
  completion.deadline_ns =
      completion.submitted_ns + (submission.soft_limit_us != 0
                                     ? int64_t{submission.soft_limit_us} * 1000
                                     : kGroupLimitNs);
  const uint64_t bucket = submission.bucket;
  if (bucket == kFakeHold) return;
  if (bucket == kFakeLater) {
    later_.push_back(submission);
    later_.back().bucket = 0;
    later_at_ = Now() + kLaterNs;
    return;
  }
  if (bucket == kFakeGoodbye) {
    control::ServerFrame frame;
    frame.mutable_goodbye()->set_message("the fake has had enough");
    Send(frame, {});
    over_ = true;
    return;
  }
  if (bucket == kFakeSuspect) {
    SendEvent(submission.group, control::GROUP_PEER_SUSPECT);
  }
  if (bucket == kFakePeerLost) {
    SendEvent(submission.group, control::GROUP_PEER_LOST);
  }
  if (bucket >= kFakeRefusal && bucket < kFakeRefusal + 100) {
    completion.status = OPTIREDUCE_SHM_REFUSED;
    completion.refusal = static_cast<uint8_t>(bucket - kFakeRefusal);
    completion.wanted = {kDataOffset, 64};
    completion.conflict = {kDataOffset + 32, 64};
    return Complete(completion);
  }
  if (bucket >= kFakeStatus && bucket < kFakeRefusal) {
    completion.status = static_cast<uint8_t>(bucket - kFakeStatus);
    completion.cause = completion.status == OPTIREDUCE_SHM_PARTIAL
                           ? OPTIREDUCE_SHM_CAUSE_DEADLINE
                           : OPTIREDUCE_SHM_CAUSE_ERROR;
    completion.absent = submission.count / 4;
    completion.contributions =
        2 * (submission.count - completion.absent) - submission.count / 4;
    completion.min_contributors = 1;
    completion.missing[0] = uint64_t{1} << 1;
    completion.missing[1] = uint64_t{1} << 1;
    completion.decision_late_ns = 1234;
    completion.repaired = 17;
    completion.wall_late_ns = 56789;
    completion.mismatch_rank = 1;
    completion.mismatch_collective = 4;
    completion.mismatch_dtype = 9;
    completion.mismatch_mode = 2;
    completion.mismatch_count = 77;
  }
  if (is_gather && submission.step == kFakeFailVerdict) {
    completion.status = OPTIREDUCE_SHM_HARD_LIMIT;
    completion.cause = OPTIREDUCE_SHM_CAUSE_ERROR;
    completion.missing[0] = uint64_t{1} << 1;
  }
  if (completion.status <= OPTIREDUCE_SHM_PARTIAL && submission.count > 0) {
    if (is_gather) {
      Gather(submission);
    } else {
      memmove(base_ + submission.output_offset, base_ + submission.input_offset,
              submission.count * ElementBytes(submission.dtype));
    }
    if (bucket == kFakeScale) {
      memcpy(base_ + submission.output_offset, &submission.loss_scale,
             sizeof(submission.loss_scale));
    }
    if (bucket != 0 && submission.step != 0) {
      completion.step_open = 1;
      ++open_[{submission.group, submission.step}];
    }
  }
  completion.op_seq = next_op_++;
  Complete(completion);
}

void FakeDaemon::Session::Complete(const OptireduceShmCompletion& completion) {
  auto* ring =
      reinterpret_cast<OptireduceShmCompletion*>(base_ + kCompletionOffset);
  OptireduceShmCompletion& slot =
      ring[answered_ % OPTIREDUCE_SHM_COMPLETION_SLOTS];
  slot = completion;
  slot.closed_ns = Now();
  Shared(header()->completion_tail).store(++answered_, kOrdered);
  if (Shared(header()->client_sleeps).exchange(0, kOrdered) == 1) {
    send(client_bell_.get(), "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

FakeDaemon::FakeDaemon(const std::string& path, const Options& options)
    : path_(path), options_(options), stop_(eventfd(0, EFD_CLOEXEC)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  Require(path.size() < sizeof(address.sun_path), "socket path");
  memcpy(address.sun_path, path.c_str(), path.size() + 1);
  listener_ = UniqueFd(
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  unlink(path.c_str());
  Require(bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address),
               sizeof(address)) == 0,
          path.c_str());
  Require(listen(listener_.get(), 64) == 0, "listen");
}

FakeDaemon::~FakeDaemon() { unlink(path_.c_str()); }

void FakeDaemon::Run() {
  for (;;) {
    std::erase_if(sessions_,
                  [](const auto& session) { return session->over(); });
    std::vector<pollfd> fds = {{stop_.get(), POLLIN, 0},
                               {listener_.get(), POLLIN, 0}};
    for (const auto& session : sessions_) {
      fds.push_back({session->socket(), POLLIN, 0});
      fds.push_back({session->bell(), POLLIN, 0});
    }
    int timeout = -1;
    for (const auto& session : sessions_) {
      timeout = std::max(timeout, session->NextAnswer());
    }
    if (poll(fds.data(), fds.size(), timeout) < 0) continue;
    if (fds[0].revents != 0) return;
    for (size_t i = 0; i < sessions_.size(); ++i) {
      if (fds[2 + 2 * i].revents != 0) sessions_[i]->OnFrame();
      sessions_[i]->Serve();
    }
    if (fds[1].revents != 0) Accept();
    FormTogether();
  }
}

void FakeDaemon::FormTogether() {
  uint32_t waiting = 0;
  uint32_t world = 0;
  for (const auto& session : sessions_) {
    if (session->waiting_world() == 0) continue;
    ++waiting;
    world = session->waiting_world();
  }
  if (waiting == 0 || waiting < world) return;
  for (const auto& session : sessions_) {
    if (session->waiting_world() != 0) session->StopWaiting();
  }
}

void FakeDaemon::Accept() {
  UniqueFd socket(
      accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) return;
  sessions_.push_back(std::make_unique<Session>(std::move(socket), options_));
}

void FakeDaemon::Stop() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written =
      write(stop_.get(), &one, sizeof(one));
}

}  // namespace optireduce::client
