// Engine: the poll loop. One port, one core, any number of sessions, one
// thread.
//
// Control posts commands and takes notices from its own thread; Run() is the
// engine's thread. Nothing the engine does waits for anybody: each poll does a
// bounded amount of work, and when there is none the thread sleeps until the
// next timer, frame, submission or command.

#ifndef OPTIREDUCE_DATAPLANE_ENGINE_ENGINE_H_
#define OPTIREDUCE_DATAPLANE_ENGINE_ENGINE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "dataplane/base/counters.h"
#include "dataplane/base/histogram.h"
#include "dataplane/base/time.h"
#include "dataplane/core/engine_core.h"
#include "dataplane/engine/clock.h"
#include "dataplane/engine/mailbox.h"
#include "dataplane/engine/messages.h"
#include "dataplane/engine/op_ledger.h"
#include "dataplane/engine/sleeper.h"
#include "dataplane/nic/packet_port.h"

namespace optireduce::engine {

struct EngineOptions {
  core::EngineConfig core;
  // Whoever made the thread gave it a CPU of its own: it never sleeps.
  bool dedicated_core = false;
};

class Engine {
 public:
  // `port` and `clock` outlive the engine; nobody else uses the port.
  Engine(const EngineOptions& options, nic::PacketPort* port,
         const Clock* clock);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // ---- control's thread ----

  // False, and `command` is kept, if the engine has not caught up with earlier
  // ones.
  bool Post(std::unique_ptr<Command>& command);
  bool Post(Command command);
  // Null if there is none. notice_fd() is readable when there may be one; call
  // AcknowledgeNotices() before taking them all.
  std::unique_ptr<Notice> TakeNotice() { return notices_.Take(); }
  int notice_fd() const { return notices_.fd(); }
  void AcknowledgeNotices() const { notices_.Quiet(); }

  // ---- any thread ----

  // Makes Run() return soon.
  void Stop();
  // Grows at least every 200 ms while Run() is at work.
  uint64_t heartbeat() const {
    return heartbeat_.load(std::memory_order_relaxed);
  }

  // ---- the engine's thread ----

  void Run();

  struct PollResult {
    bool again = false;   // there is more to do now
    bool active = false;  // something came in or went out
    Timestamp next;       // when to poll again at the latest
  };
  // One round. What Run() does over and over; tests call it by themselves.
  PollResult Poll();

 private:
  enum class Count : uint8_t {
    kPolls,
    kSleeps,
    kDatagramsReceived,
    kDatagramsSent,
    kDatagramsLooped,
    kSubmissions,
    kOpsDone,
    kReceiveBudgetUsedUp,
    kNoTransmitBuffer,
  };
  static constexpr size_t kNumCounts = 9;
  static constexpr size_t kBatch = 64;

  // Commands.
  void HandleCommands(Timestamp now);
  void Handle(AddGroup& command, Timestamp now);
  void Handle(const LeaveGroup& command, Timestamp now);
  void Handle(const RemoveGroup& command, Timestamp now);
  void Handle(const AttachSession& command, Timestamp now);
  void Handle(const DetachSession& command, Timestamp now);
  void Handle(const TakeSnapshot& command, Timestamp now);
  absl::Status CheckGroup(const AddGroup& command) const;
  void Remove(core::GroupId group);

  enum class Sending : uint8_t { kDone, kMore, kBlocked };

  // The steps of a poll.
  bool Receive();  // true if there may be more
  Sending Transmit(Timestamp now);
  Sending TransmitBatch(Timestamp now);
  bool SeenActivity(const std::array<uint64_t, kNumCounts>& before) const;
  void DeliverEvents();
  void DeliverOpDone(const core::Event& event);
  void WatchPort();

  void Tell(Notice notice);
  void PostNotices();
  void Sleep(const PollResult& poll);
  Duration Nap(bool active);

  void Add(Count which, uint64_t by = 1) { counters_.Increment(which, by); }
  void AppendCounters(std::vector<nic::NamedCounter>* out) const;

  const EngineOptions options_;
  nic::PacketPort* const port_;
  const Clock* const clock_;
  core::EngineCore core_;
  OpLedger ledger_;
  Sleeper sleeper_;
  Mailbox<Command> commands_;
  Mailbox<Notice> notices_;
  std::deque<std::unique_ptr<Notice>> late_notices_;  // the mailbox was full
  std::map<SessionId, int> wakeup_fds_;

  // Of this poll.
  Timestamp poll_start_;
  Duration poll_cpu_start_;
  // The last time at which the port's queue was seen empty: what comes later
  // arrived later.
  Timestamp queue_empty_;

  std::array<nic::RxDatagram, kBatch> received_;
  std::array<nic::TxDatagram, kBatch> lent_;
  size_t num_lent_ = 0;

  bool port_up_ = true;
  Duration nap_;
  Histogram wall_late_;
  Histogram decision_late_;
  CounterArray<Count, kNumCounts> counters_;
  std::atomic<uint64_t> heartbeat_ = 0;
  std::atomic<bool> stop_ = false;
};

}  // namespace optireduce::engine

#endif  // OPTIREDUCE_DATAPLANE_ENGINE_ENGINE_H_
