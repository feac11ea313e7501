// EngineCore: the whole protocol of one engine, without I/O and without a
// clock.
//
// The caller (the engine's poll loop, or the simulator) owns sockets, clock and
// memory. It hands in datagrams and submits, asks for datagrams to send, and
// says what time it is; nothing happens in between. One poll is
//
//   for each received datagram: OnPacket(...)
//   for each new descriptor:    Submit(...)
//   Advance(now)                // what the datagrams in time did not settle
//   while (PopEvent(&event))    ...
//   PollTx(...)                 // send what comes back
//   sleep until NextWakeup() or a datagram
//
// Not thread-safe: one thread, or one after the other. AddGroup and RemoveGroup
// allocate and free; nothing else does. Nothing a peer or a trainer passes in
// can make it abort.

#ifndef OPTIREDUCE_DATAPLANE_CORE_ENGINE_CORE_H_
#define OPTIREDUCE_DATAPLANE_CORE_ENGINE_CORE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "dataplane/base/counters.h"
#include "dataplane/base/time.h"
#include "dataplane/core/config.h"
#include "dataplane/core/coverage.h"
#include "dataplane/core/drop.h"
#include "dataplane/core/forgiven.h"
#include "dataplane/core/pacer.h"
#include "dataplane/core/report.h"
#include "dataplane/core/types.h"

namespace optireduce::core {

class Group;
struct OpRecord;                    // op_record.h
enum class ImportResult : uint8_t;  // ledger.h

// A received datagram, already past Ethernet, IP and UDP (whose checksums were
// right). `bytes` need not outlive the call.
struct PacketView {
  NetAddress source;
  uint16_t destination_port = 0;
  bool ecn_marked = false;
  std::span<const uint8_t> bytes;
};

// A datagram to send. The caller lends `buffer` (of at least MaxDatagramBytes
// of the group with the largest payload); the core fills in the rest.
struct TxDescriptor {
  uint8_t* buffer = nullptr;
  uint32_t capacity = 0;

  uint32_t length = 0;
  Endpoint source;
  Endpoint destination;
  // Varies by stream, for path entropy: a hint for the UDP source port, which
  // no receiver looks at.
  uint16_t flow = 0;
  bool ecn_capable = false;  // a switch may mark it: its sender will hear of it
};

constexpr size_t MaxDatagramBytes(size_t payload_bytes) {
  return wire::kHeaderBytes + payload_bytes + wire::kTrailerRoom;
}

enum class SubmitResult : uint8_t {
  kAccepted,
  // Try again after the next poll.
  kWindowFull,
  kMemoryFull,
  // Final; the op number is not used up. All ranks get the same answer, as it
  // depends on the descriptor and on settings that all share.
  kNotReady,     // the group is not formed yet
  kUnsupported,  // dtype, operation, codec and mode do not go together
  kBadRoot,
  kBadCount,    // over 2^32-1, or not a multiple of N where it must be
  kBadLimits,   // negative, soft above hard, or soft in exact mode
  kBadScale,    // a loss scale that is not positive, finite and normal
  kBadBuffers,  // input and output overlap
  kTooLarge,    // never fits the group's memory budget
  // Final for the group.
  kPeerLost,
  kLeft,
};

// A snapshot for status commands.
struct PeerStatus {
  Endpoint endpoint;
  bool suspect = false;
  bool lost = false;
  Timestamp last_heard;
  uint64_t packets_received = 0;
  OpSeq open_upto{};
  OpSeq done_upto{};
  // With congestion control: how fast it may be sent to, and why. Else 0.
  uint64_t rate_bps = 0;
  Duration round_trip;
  Duration queueing;
  uint64_t echoes_ignored = 0;  // could not be true, or said nothing new
};
struct GroupStatus {
  uint32_t tag = 0;
  Rank self{};
  uint16_t world = 0;
  bool formed = false;
  bool leaving = false;
  OpSeq next_op{};        // the next submit's number
  OpSeq first_open{};     // first op not closed here
  uint32_t ops_kept = 0;  // slots in use
  size_t memory_used = 0;
  size_t memory_budget = 0;
  // Of residuals and debts, and what of them was given up.
  size_t ledger_used = 0;
  size_t ledger_budget = 0;
  ForgivenCounts forgiven{};
  // No bucketed op is open here: all there is are residuals and debts.
  bool ledger_quiet = false;
  std::vector<PeerStatus> peers;
};

class EngineCore {
 public:
  using Counters = CounterArray<Verdict, kNumVerdicts>;

  explicit EngineCore(const EngineConfig& config);
  ~EngineCore();
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  // Joins a group: allocates its budget and starts its formation. An error
  // names the setting that is out of its range.
  absl::StatusOr<GroupId> AddGroup(const GroupConfig& config, Timestamp now);
  // Takes no more ops; ops in flight are cancelled, but what peers still need
  // is served until kGroupReleased (at the latest after the hard limit). The
  // buffers of cancelled ops are not touched after this returns.
  void Leave(GroupId group, wire::LeaveReason reason, Timestamp now);
  // Frees all of it at once.
  void RemoveGroup(GroupId group);

  // `arrival`: when the datagram reached the NIC, or the nearest earlier time
  // that is known (the previous poll); decides what is late. arrival <= now.
  Verdict OnPacket(const PacketView& packet, Timestamp arrival, Timestamp now);
  // On kAccepted *op_seq is the op's number, and one kOpDone event will follow;
  // if that leaves the buffers in use, one kBuffersFree at the step's close, at
  // the next submit of the bucket, when all results are in or given up, or when
  // the group is left (not if it is removed).
  SubmitResult Submit(GroupId group, const OpDescriptor& op, BufferView buffers,
                      Timestamp now, OpSeq* op_seq);
  // The trainer closes a step (not 0) once its ops have ended, before it reads
  // their outputs for good: all ops with residuals and debts of that step that
  // it has submitted. Returns how many it closed; ops closed before, by the
  // next submit of their bucket for one, are not among them. Takes effect
  // before it returns: from then on nothing is written to those outputs, and
  // results that still come are debts. An op without a step is closed by its
  // end. An op that has not ended yet goes on, and is closed by its end.
  size_t CloseStep(GroupId group, uint64_t step, StepOutcome outcome,
                   Timestamp now);
  void Advance(Timestamp now);
  // Fills at most out.size() descriptors and returns how many.
  size_t PollTx(std::span<TxDescriptor> out, Timestamp now);
  // When Advance or PollTx has something to do next, packets and submits apart.
  // A time that has passed means: now.
  Timestamp NextWakeup() const;
  bool PopEvent(Event* event);

  const Counters& counters() const { return counters_; }
  // How often each event met an op in each state, over all groups.
  const TransitionCounts& transitions() const { return transitions_; }
  GroupStatus Status(GroupId group) const;
  // How the group's latest ops went, the oldest first: those that are not done
  // with, and some before them.
  std::vector<OpRecord> Records(GroupId group) const;
  // Copies of a bucket's residual and debt, its count of elements each. False
  // if it has none yet.
  bool ReadBucket(GroupId group, uint64_t bucket, float* residual,
                  float* debt) const;
  std::vector<GroupId> Groups() const;

  // Saved residuals and debts (Ledger::Export, Ledger::Import).

  // No state is larger than the first; the second is what there is now.
  size_t MaxStateBytes(GroupId group) const;
  size_t StateBytes(GroupId group) const;
  // `out` has StateBytes(). False, and nothing is written, while a bucketed op
  // is open (GroupStatus.ledger_quiet).
  bool ExportState(GroupId group, std::span<uint8_t> out) const;
  // kOtherGroup, too, if there is no such group.
  ImportResult ImportState(GroupId group, std::span<const uint8_t> state);

 private:
  Group* Find(GroupId group) const;
  Verdict Receive(const PacketView& packet, Timestamp arrival, Timestamp now);

  mutable Pacer pacer_;
  Counters counters_;
  TransitionCounts transitions_;
  std::vector<std::unique_ptr<Group>> groups_;
  // By tag and the receiving port, so that two ranks of one group can live
  // here.
  std::unordered_map<uint64_t, Group*> by_tag_and_port_;
  uint32_t next_group_id_ = 1;
  size_t next_to_send_ = 0;  // round robin over groups_
  Timestamp last_now_;
};

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_ENGINE_CORE_H_
