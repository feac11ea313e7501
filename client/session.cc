#include "client/session.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "client/error.h"

namespace optireduce::client {
namespace {

// Sleeps are cut into pieces of at most this, as clocks overflow.
constexpr Duration kLongestSleep = Duration::Seconds(3600);
constexpr Duration kSendRetry = Duration::Millis(10);
// Of a group, for a trainer that reads none; the oldest go first.
constexpr size_t kMaxEvents = 4096;

}  // namespace

Session::Session(Connection connection)
    : owner_(getpid()),
      path_(std::move(connection.path)),
      control_(std::move(connection.control)),
      segment_(std::move(connection.segment)),
      allocator_(segment_.data_bytes()) {}

Session::~Session() {
  // A forked child only drops its copies: the parent's connection lives on.
  if (getpid() == owner_) control_.Shutdown();
}

or_status Session::CheckOwner() const {
  if (getpid() == owner_) return OR_OK;
  return Fail(OR_ERR_FORKED,
              "this session was opened by process %d and is not inherited by "
              "its children: connect again in process %d",
              static_cast<int>(owner_), static_cast<int>(getpid()));
}

void Session::Disconnect() {
  const Lock lock(mutex_);
  if (over_ == OR_OK) End(OR_ERR_CLOSED, "the session was disconnected");
}

or_status Session::Allocate(size_t bytes, void** buffer) {
  const Lock lock(mutex_);
  if (over_ != OR_OK) return FailAsOver();
  uint64_t offset = 0;
  const or_status status = AllocateLocked(bytes, &offset);
  if (status == OR_OK) *buffer = segment_.data() + offset;
  return status;
}

or_status Session::AllocateLocked(uint64_t bytes, uint64_t* offset) {
  const std::optional<uint64_t> found = allocator_.Allocate(bytes);
  if (!found) {
    return Fail(OR_ERR_NO_MEMORY,
                "%llu bytes do not fit the session's segment: %llu of %llu "
                "bytes are in use, the largest gap has %llu; ask for more "
                "segment_bytes when connecting",
                static_cast<unsigned long long>(bytes),
                static_cast<unsigned long long>(allocator_.in_use()),
                static_cast<unsigned long long>(allocator_.capacity()),
                static_cast<unsigned long long>(allocator_.largest_gap()));
  }
  *offset = *found;
  return OR_OK;
}

or_status Session::Free(void* buffer) {
  if (buffer == nullptr) return OR_OK;
  const Lock lock(mutex_);
  const uint64_t offset =
      static_cast<uint64_t>(reinterpret_cast<uintptr_t>(buffer) -
                            reinterpret_cast<uintptr_t>(segment_.data()));
  const uint64_t bytes = allocator_.SizeAt(offset);
  if (bytes == 0) {
    return Fail(OR_ERR_ARGUMENT, "%p is not a buffer of this session", buffer);
  }
  TakeCompletions();
  const Range whole{segment_.data_offset() + offset, bytes};
  if (const Range* used = ops_.FindInFlight(whole); used != nullptr) {
    return Fail(
        OR_ERR_BUSY, "buffer %p is in flight, in %s: wait for its operation",
        buffer,
        DescribeRange(*used, segment_.data(), segment_.data_offset()).c_str());
  }
  const or_status status = CheckOpenOutputs("the buffer", whole);
  if (status != OR_OK) return status;
  allocator_.Free(offset);
  return OR_OK;
}

void Session::Sleep(Lock& lock, const Deadline& deadline) {
  const Duration span = std::min(deadline.Left(), kLongestSleep);
  if (someone_sleeps_) {
    changed_.wait_for(lock, std::chrono::nanoseconds(span.nanos()));
    return;
  }
  someone_sleeps_ = true;
  pollfd fds[2] = {{control_.fd(), POLLIN, 0}, {segment_.bell(), POLLIN, 0}};
  if (segment_.PrepareToSleep()) {
    lock.unlock();
    const timespec time = ToTimespec(span);
    if (ppoll(fds, 2, &time, nullptr) <= 0) fds[0].revents = fds[1].revents = 0;
    lock.lock();
  }
  segment_.WokeUp();
  someone_sleeps_ = false;
  if (fds[1].revents != 0 && !segment_.SilenceBell()) {
    TakeFrames();  // what it said last
    EndAsLost("it is gone");
  }
  if (fds[0].revents != 0) TakeFrames();
  TakeCompletions();
  changed_.notify_all();
}

void Session::TakeCompletions() {
  OptireduceShmCompletion completion;
  bool any = false;
  while (segment_.TakeCompletion(&completion)) {
    if (completion.kind == OPTIREDUCE_SHM_STEP_CLOSE) {
      any |= steps_.Complete(completion);
    } else if (completion.kind != OPTIREDUCE_SHM_VERDICT) {
      any |= TakeEnd(completion);
    }
  }
  if (any) changed_.notify_all();
}

// Of an operation that somebody may wait for.
bool Session::TakeEnd(const OptireduceShmCompletion& completion) {
  const Op* const op = ops_.Complete(completion);
  if (op == nullptr) return false;
  if (completion.step_open != 0) {
    steps_.HoldOutput(completion.cookie,
                      {op->group, op->operation.step, op->output});
  }
  if (Group* group = FindGroup(op->group); group != nullptr) {
    group->last_answer = MonotonicNow();
    group->accounts.Note(*op);
  }
  return true;
}

void Session::TakeFrames() {
  control::ServerFrame frame;
  std::vector<UniqueFd> fds;
  while (over_ == OR_OK) {
    switch (control_.TryReceive(&frame, &fds)) {
      case ControlChannel::Result::kWouldBlock:
        return;
      case ControlChannel::Result::kEnd: {
        uint32_t reason = OPTIREDUCE_SHM_REASON_NONE;
        return EndAsLost(segment_.IsClosed(&reason) ? CloseReason(reason)
                                                    : "it is gone");
      }
      case ControlChannel::Result::kDone:
        if (frame.has_reply()) TakeReply(std::move(*frame.mutable_reply()));
        if (frame.has_group_event()) TakeEvent(frame.group_event());
        if (frame.has_goodbye()) return EndAsLost(frame.goodbye().message());
    }
  }
}

void Session::TakeReply(control::Reply reply) {
  const uint64_t id = reply.id();
  if (expected_.erase(id) > 0) {
    replies_.emplace(id, std::move(reply));
    changed_.notify_all();
  } else if (reply.has_prepare_group()) {
    // Whoever asked for it gave up before.
    ForgetDaemonGroup(reply.prepare_group().group());
  }
}

void Session::TakeEvent(const control::GroupEvent& event) {
  for (auto& [id, group] : groups_) {
    if (group.daemon_id != event.group() || group.state == Group::kLeft) {
      continue;
    }
    if (event.kind() < control::GROUP_PEER_SUSPECT ||
        event.kind() > control::GROUP_PEER_LOST) {
      return;  // of a later version
    }
    if (group.events.size() == kMaxEvents) group.events.pop_front();
    group.events.push_back(
        {sizeof(or_event), static_cast<int32_t>(event.kind()), event.rank()});
    return;
  }
}

void Session::End(or_status status, std::string reason) {
  TakeCompletions();
  over_ = status;
  over_reason_ = std::move(reason);
  ops_.EndAll(status);
  steps_.EndAll(status);
  control_.Shutdown();
  changed_.notify_all();
}

void Session::EndAsLost(const std::string& reason) {
  if (over_ != OR_OK) return;
  End(OR_ERR_DAEMON_LOST, "the daemon at " + path_ + " is lost: " + reason +
                              "; close the session and connect again");
}

or_status Session::FailAsOver() const {
  return Fail(over_, "%s", over_reason_.c_str());
}

or_status Session::Call(Lock& lock, control::Request request,
                        const Deadline& deadline, control::Reply* reply) {
  const uint64_t id = next_request_++;
  request.set_id(id);
  expected_.insert(id);
  or_status status = Send(lock, request, deadline);
  if (status == OR_OK) {
    const Awaited end =
        Await(lock, deadline, [&] { return replies_.count(id) > 0; });
    if (end == Awaited::kOver) status = FailAsOver();
    if (end == Awaited::kTimeout) {
      status = Fail(OR_ERR_TIMEOUT,
                    "the daemon at %s did not answer within the limit",
                    path_.c_str());
    }
  }
  expected_.erase(id);
  if (status != OR_OK) return status;
  *reply = std::move(replies_.extract(id).mapped());
  if (!reply->has_error()) return OR_OK;
  return Fail(StatusOf(reply->error().code()), "%s",
              reply->error().message().c_str());
}

or_status Session::Send(Lock& lock, const control::Request& request,
                        const Deadline& deadline) {
  for (;;) {
    if (over_ != OR_OK) return FailAsOver();
    switch (control_.TrySend(request)) {
      case ControlChannel::Result::kDone:
        return OR_OK;
      case ControlChannel::Result::kEnd:
        TakeFrames();
        EndAsLost("it is gone");
        break;
      case ControlChannel::Result::kWouldBlock:
        if (deadline.Passed()) {
          return Fail(OR_ERR_TIMEOUT,
                      "the daemon at %s takes no requests; it is stopped or "
                      "overloaded",
                      path_.c_str());
        }
        lock.unlock();
        SleepFor(std::min(deadline.Left(), kSendRetry));
        lock.lock();
    }
  }
}

void Session::SendAndForget(control::Request request) {
  request.set_id(next_request_++);
  if (over_ == OR_OK) control_.TrySend(request);
}

void Session::ForgetDaemonGroup(uint32_t daemon_id) {
  control::Request request;
  request.mutable_leave_group()->set_group(daemon_id);
  SendAndForget(std::move(request));
}

}  // namespace optireduce::client
