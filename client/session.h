// A session: one connection to the daemon, its segment, groups and operations.
//
// All state is under one mutex. Threads that wait take turns: one of them
// sleeps in poll() on the control socket and the bell, the others on a
// condition variable; whoever wakes takes in everything that has come and tells
// the rest. No thread of its own.

#ifndef OPTIREDUCE_CLIENT_SESSION_H_
#define OPTIREDUCE_CLIENT_SESSION_H_

#include <sys/types.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "client/allocator.h"
#include "client/connect.h"
#include "client/control.pb.h"
#include "client/deadline.h"
#include "client/describe.h"
#include "client/op_table.h"
#include "client/optireduce.h"
#include "client/step_account.h"
#include "client/step_table.h"
#include "client/verdict.h"

namespace optireduce::client {

// The C ABI's calls, each as its header says. Structs have our own version
// already, pointers are not null. Throws std::bad_alloc alone.
class Session {
 public:
  explicit Session(Connection connection);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // OR_ERR_FORKED in a child of the process that connected. Nothing else may be
  // called then, as the mutex may be held by a thread that is not here.
  or_status CheckOwner() const;

  void Disconnect();

  or_status Allocate(size_t bytes, void** buffer);
  or_status Free(void* buffer);

  or_status PrepareGroup(const or_group_settings& settings,
                         const Deadline& deadline, or_group* group,
                         or_member* member);
  or_status FormGroup(or_group group, const or_member* members,
                      const Deadline& deadline);
  // Drops a group that is prepared and will not be formed.
  void AbandonGroup(or_group group);
  or_status LeaveGroup(or_group group, const Deadline& deadline);
  or_status NextEvent(or_group group, or_event* event);

  or_status Submit(or_group group, const or_operation& operation, or_op* op);
  struct StateRequest {
    OpKind kind;
    const void* memory;  // written to if it is a save
    uint64_t bytes;
  };
  or_status SubmitState(or_group group, const StateRequest& request, or_op* op);
  or_status Poll(or_op op, or_report* report);
  or_status Wait(or_op op, const Deadline& deadline, or_report* report);

  // `closed` may be null.
  or_status CloseStep(or_group group, uint64_t step, or_step_outcome outcome,
                      const Deadline& deadline, uint64_t* closed);

  // `sketch` may be null.
  or_status SubmitVerdict(or_group group, uint64_t step,
                          const or_sketch* sketch, or_op* op);
  or_status WaitVerdict(or_op op, const Deadline& deadline,
                        or_verdict* verdict);

 private:
  using Lock = std::unique_lock<std::mutex>;

  struct Group {
    uint32_t daemon_id = 0;
    std::shared_ptr<const Speaker> speaker;
    Duration hard_limit;
    enum { kPrepared, kFormed, kLeft } state = kPrepared;
    std::deque<or_event> events;
    Timestamp last_answer;  // to one of its operations

    // For verdicts.
    double min_fraction = 0;
    uint32_t halt_after = kDefaultHaltAfter;
    StepAccounts accounts;
    uint32_t bad_steps = 0;   // in a row, up to the last verdict
    uint64_t verdict_of = 0;  // the step whose verdict is not read; 0: none
  };

  // ---- waiting (session.cc) ----
  enum class Awaited { kDone, kOver, kTimeout };
  // Sleeps until done() or the session is over; the lock is free meanwhile.
  template <class Done>
  Awaited Await(Lock& lock, const Deadline& deadline, Done done) {
    for (;;) {
      TakeCompletions();
      if (done()) return Awaited::kDone;
      if (over_ != OR_OK) return Awaited::kOver;
      if (deadline.Passed()) return Awaited::kTimeout;
      Sleep(lock, deadline);
    }
  }
  void Sleep(Lock& lock, const Deadline& deadline);
  void TakeCompletions();
  bool TakeEnd(const OptireduceShmCompletion& completion);
  void TakeFrames();
  void TakeReply(control::Reply reply);
  void TakeEvent(const control::GroupEvent& event);
  // Ends the session: everything in flight ends as `status`.
  void End(or_status status, std::string reason);
  void EndAsLost(const std::string& reason);
  or_status FailAsOver() const;

  // Sends a request and waits for its reply, which is no error.
  or_status Call(Lock& lock, control::Request request, const Deadline& deadline,
                 control::Reply* reply);
  or_status Send(Lock& lock, const control::Request& request,
                 const Deadline& deadline);
  // For requests whose answer changes nothing.
  void SendAndForget(control::Request request);
  void ForgetDaemonGroup(uint32_t daemon_id);

  // ---- groups (session_groups.cc) ----
  Group* FindGroup(or_group group);

  // ---- buffers (session.cc) ----
  or_status AllocateLocked(uint64_t bytes, uint64_t* offset);

  // ---- operations (session_ops.cc) ----
  // The operation with its buffers' ranges.
  or_status MakeOp(or_group group, const or_operation& operation, Op* op);
  or_status Locate(const char* what, const void* address, uint64_t bytes,
                   Range* range) const;
  or_status CheckBuffers(const Op& op) const;
  // The group if it takes operations, else nullptr after Fail().
  const Group* FindFormed(or_group group);
  or_status Post(Op op, uint32_t daemon_id, or_op* id);
  // Sleeps until the operation has ended, or is none; OR_ERR_TIMEOUT.
  or_status AwaitEnd(Lock& lock, or_op id, const Deadline& deadline);
  // Hands on how it has ended, and forgets it.
  or_status Claim(or_op id, or_report* report);
  bool IsVerdict(or_op id);
  // When the daemon must have answered `op`, if it is alive.
  Timestamp AnswerDue(const Op& op) const;

  // ---- steps (session_steps.cc) ----
  or_status PostClose(or_group group, uint64_t step, or_step_outcome outcome,
                      uint64_t* number);
  // Hands on how a close has ended, and forgets it.
  or_status ClaimClose(uint64_t number, uint64_t* closed);
  // OR_ERR_BUSY if the daemon still writes into `range`, which is called
  // `what`.
  or_status CheckOpenOutputs(const char* what, const Range& range) const;

  // ---- verdicts (session_verdicts.cc) ----
  or_status CheckVerdict(or_group id, const Group& group, uint64_t step) const;
  or_status PostVerdict(or_group id, Group& group, const StepRecord& record,
                        or_op* op);
  or_status ReadRecords(const Op& op, or_verdict* verdict) const;
  void TellVerdict(uint32_t daemon_id, const or_verdict& verdict);

  const pid_t owner_;
  const std::string path_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool someone_sleeps_ = false;

  ControlChannel control_;
  Segment segment_;
  Allocator allocator_;
  OpTable ops_;
  StepTable steps_;
  std::map<or_group, Group> groups_;
  or_group next_group_ = 1;

  uint64_t next_request_ = 1;
  std::set<uint64_t> expected_;  // requests whose reply somebody waits for
  std::map<uint64_t, control::Reply> replies_;

  or_status over_ = OR_OK;  // OR_ERR_CLOSED or OR_ERR_DAEMON_LOST
  std::string over_reason_;
};

}  // namespace optireduce::client

#endif  // OPTIREDUCE_CLIENT_SESSION_H_
