// Group: one rank's membership of one group in one epoch. It keeps the window
// of ops and the peers, and is where every packet, submit and timer ends up.
//
// One class, by topic in several files:
//   group.cc             set-up, window, memory, release
//   group_membership.cc  formation, liveness, leaving
//   group_submit.cc      submits and reports: the trainer's side
//   group_receive.cc     packets
//   group_timers.cc      clocks and limits
//   group_bounds.cc      what stages took: for the bounds of later ops
//   group_repair.cc      bounded ops: what to ask for again, and answers
//   group_accounts.cc    bounded reduce-scatters: accounts in place of results
//   group_send.cc        what to send next
//   group_rate.cc        how fast, and to how many at once
//   group_record.cc      how ops went, for people who ask
// Rule numbers in comments refer to docs/PROTOCOL.md.

#ifndef OPTIREDUCE_DATAPLANE_CORE_GROUP_H_
#define OPTIREDUCE_DATAPLANE_CORE_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/base/arena.h"
#include "dataplane/base/rng.h"
#include "dataplane/base/time.h"
#include "dataplane/core/bound_controller.h"
#include "dataplane/core/config.h"
#include "dataplane/core/coverage.h"
#include "dataplane/core/drop.h"
#include "dataplane/core/engine_core.h"
#include "dataplane/core/lateness.h"
#include "dataplane/core/ledger.h"
#include "dataplane/core/op.h"
#include "dataplane/core/op_record.h"
#include "dataplane/core/pacer.h"
#include "dataplane/core/rate_controller.h"
#include "dataplane/core/repair.h"
#include "dataplane/core/report.h"
#include "dataplane/core/round_trip.h"
#include "dataplane/core/types.h"
#include "proto/wire.h"

namespace optireduce::core {

// Ethernet, IPv4 and UDP headers, which take their share of the link too.
inline constexpr uint32_t kEncapsulationBytes = 14 + wire::kIpv4UdpBytes;

// The way to one peer, under congestion control.
struct Path {
  RateController control;
  Pacer pacer;  // at the controller's rate
};

// What one rank knows of another.
struct Peer {
  Endpoint endpoint;
  OpSeq open_upto{};  // first op it has not opened
  OpSeq done_upto{};  // first op it is not done with

  bool hello_heard = false;  // formation: alive, with our settings
  bool disagrees = false;    // formation: other settings
  bool path_proven = false;  // formation: a full-size packet went through
  bool formed = false;       // it says that its group is ready
  bool suspect = false;
  bool dead = false;  // silent for dead_after
  bool left = false;  // said farewell; serves ops before gone_from
  OpSeq gone_from{};

  Timestamp last_heard;
  uint64_t packets_received = 0;
  // The newest packet's send time, to be echoed.
  bool echo_valid = false;
  uint32_t echo_time = 0;
  Timestamp echo_arrival;
  uint16_t ecn_marks = 0;
  RoundTrip round_trip;
  // Of any op: the newest contribution or result, and the newest op with
  // contributions.
  Timestamp last_stream;
  OpSeq newest_data{};
  uint32_t unechoed = 0;  // data and results since the last FEEDBACK
  Timestamp echoed_at;    // when that was

  // Control packets to send.
  bool hello_due = false;
  bool hello_reply_wanted = false;
  bool probe_due = false;
  uint16_t probe_reply_bytes = 0;  // 0: none
  bool feedback_due = false;
  bool leave_due = false;
  OpSeq told_done{};  // the done watermark it was last told

  bool has_control_due() const {
    return hello_due || probe_due || probe_reply_bytes != 0 || feedback_due ||
           leave_due;
  }
};

// An answer or a question to one peer about one op, sent when the pacer lets
// it.
struct Request {
  enum class Kind : uint8_t {
    kResult,      // send this reduced chunk again
    kData,        // send this contribution again
    kOpen,        // send the descriptor again
    kNackData,    // ask for contributions that lack
    kNackResult,  // ask for results that lack
    kNackOpen,    // ask for the descriptor
    kGone,        // say that the op is no longer kept
  };
  Kind kind{};
  Rank peer{};
  OpSeq seq{};
  uint32_t chunk = 0;
};

class Group {
 public:
  // `line_bps`: the engine's rate; 0: no limit is known.
  Group(GroupId id, const GroupConfig& config, uint64_t line_bps,
        TransitionCounts* transitions, Timestamp now);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  GroupId id() const { return id_; }
  const GroupConfig& config() const { return config_; }
  const Ledger& ledger() const { return ledger_; }
  ImportResult ImportState(std::span<const uint8_t> state) {
    return ledger_.Import(state);
  }
  bool memory_ok() const {
    return arena_.capacity() > 0 && ledger_.memory_ok();
  }

  // The header was decoded and names this group.
  Verdict CheckSource(const wire::Header& header, NetAddress source) const;
  // The CRC was right too.
  Verdict OnPacket(const wire::Header& header, std::span<const uint8_t> body,
                   bool ecn_marked, Timestamp arrival, Timestamp now);
  SubmitResult Submit(const OpDescriptor& op, BufferView buffers, Timestamp now,
                      OpSeq* seq);
  size_t CloseStep(uint64_t step, StepOutcome outcome, Timestamp now);
  void Leave(wire::LeaveReason reason, Timestamp now);
  void Advance(Timestamp now);
  // Fills one descriptor; false if there is nothing to send now.
  bool NextPacket(TxDescriptor* out, Timestamp now);
  // When NextPacket might return true.
  Timestamp NextPacketAt(Timestamp now);
  Timestamp next_due() const { return next_due_; }
  bool PopEvent(Event* event);
  GroupStatus Status() const;
  // How its latest ops went, the oldest first, those that it keeps included.
  // At most so many; fills `out` and returns how many there were.
  size_t max_records() const { return kPastRecords + slots_.size(); }
  size_t ReadRecords(std::span<OpRecord> out) const;

 private:
  enum class Phase : uint8_t { kForming, kReady, kFailed, kLeaving, kReleased };

  struct PendingEvent {
    EventKind kind{};
    Rank peer{};
    OpReport report;
  };

  size_t world() const { return config_.members.size(); }
  Rank RankAt(size_t index) const { return Rank(static_cast<uint16_t>(index)); }
  bool IsSelf(Rank rank) const { return rank == config_.self; }
  Peer& PeerOf(Rank rank) { return peers_[rank.index()]; }
  const Peer& PeerOf(Rank rank) const { return peers_[rank.index()]; }

  // group.cc
  Op& Slot(OpSeq seq) { return slots_[seq.value() & slot_mask_]; }
  Op* FindOp(OpSeq seq);
  Op* FindOrOpen(OpSeq seq, Timestamp now, Verdict* verdict);
  bool OpenNext(Timestamp now);
  void OpenHeard(Timestamp now);
  void InitOp(Op* op, OpSeq seq, Timestamp now);
  void SetDescriptor(Op* op, const OpDescriptor& descriptor);
  bool AttachMemory(Op* op, Timestamp now);
  void CarveBlock(Op* op, uint8_t* at);
  uint8_t* CarveLate(Op* op, uint8_t* at);
  size_t BlockBytes(const OpDescriptor& descriptor, const ChunkPlan& plan,
                    Rank owner) const;
  size_t LateBytes(const OpDescriptor& descriptor, const ChunkPlan& plan,
                   Rank owner) const;
  size_t WorstCaseBytes(const OpDescriptor& descriptor,
                        const ChunkPlan& plan) const;
  bool MayEverFit(const OpDescriptor& descriptor, const ChunkPlan& plan) const;
  uint8_t* AllocateEvicting(size_t bytes, OpSeq keep_from, Timestamp now);
  bool EvictOldest(OpSeq keep_from, Timestamp now);
  bool EvictAhead(OpSeq waiting);
  void GiveUpContributions(Op* op);
  void FreeMemory(Op* op);
  void ReleaseOp(Op* op);
  void CloseOp(Op* op, Timestamp now);
  void AdvanceWindow(Timestamp now);
  bool AllDoneWith(OpSeq seq) const;
  bool HasEventRoom() const;
  void PushEvent(const PendingEvent& event);
  void Count(const Op& op, OpEvent event) {
    transitions_->Count(op.state, event);
  }

  // group_membership.cc
  bool IsExpected(Rank rank, OpSeq seq) const;
  bool WantsPackets(Rank rank) const;
  bool AllExpectedArrived(const Op& op, uint32_t local) const;
  Verdict OnHello(Rank source, std::span<const uint8_t> body, Timestamp now);
  Verdict OnProbe(Rank source, std::span<const uint8_t> body, Timestamp now);
  Verdict OnLeave(Rank source, std::span<const uint8_t> body, Timestamp now);
  void CheckFormed(Timestamp now);
  void AdvanceFormation(Timestamp now);
  void AdvanceLiveness(Timestamp now);
  void AdvanceLeaving(Timestamp now);
  bool IsBroken(const Op& op) const;
  void NoteLost(Rank rank);
  void FailOpsWithout(Rank rank, Timestamp now);
  void FailIfNeeded(Op* op, Timestamp now);
  void AbandonIfNeeded(Op* op, Timestamp now);
  // Ends the wait of an op that cannot go on without a rank that is lost.
  void EndAsPeerLost(Op* op, Timestamp now);
  bool HasEnough(const Op& op) const;
  // Whether the wait ended with an error.
  bool EndIfOverdue(Op* op, Timestamp now);
  void Heard(Rank rank, Timestamp now);

  // group_submit.cc
  // Whether its fields go together; a limit or a count may still be wrong.
  static bool IsSupported(const OpDescriptor& op);
  SubmitResult CheckSubmit(const OpDescriptor& op, BufferView buffers) const;
  void SubmitExpired(const OpDescriptor& descriptor, Timestamp now);
  void SubmitTrivial(Op* op, const OpDescriptor& descriptor, BufferView buffers,
                     Timestamp now);
  void SubmitEvicted(Op* op, const OpDescriptor& descriptor, Timestamp now);
  void SubmitMismatched(Op* op, const OpDescriptor& descriptor, Timestamp now);
  void NoteExpired(const OpDescriptor& op);
  void BeginReport(Op* op, Timestamp now);
  void ActivateOp(Op* op, BufferView buffers, Timestamp now);
  void TakeRetained(Op* op);
  void FreeRetained(Op* op);
  void PlaceOwnShard(Op* op);
  void PlaceOwnChunk(Op* op, uint32_t local);
  void QueueGathered(Op* op);
  bool HasAllAcknowledged(const Op& op) const;
  void MaybeComplete(Op* op, Timestamp now);
  void End(Op* op, EndCause cause, Timestamp now);
  void Report(Op* op, OpStatus status, EndCause cause, Timestamp now);
  void NoteMissing(Op* op);
  void FillAbsent(Op* op);
  void OwnAsResult(Op* op, const ChunkInfo& info, uint8_t* result);

  // group_bucket.cc
  bool OpenAccount(Op* op, BufferView buffers);
  static Verdict VerdictOf(Placed placed);
  Placed TakeResult(Op* op, const ChunkInfo& info, const ChunkResult& result);
  void Retain(Op* op, const ChunkInfo& info, const ChunkResult& result);
  void TakeOwnResult(Op* op, uint32_t local);
  void TakeRetainedResults(Op* op);
  Verdict OnLateResult(Rank source, const wire::Header& header,
                       std::span<const uint8_t> body, Timestamp arrival, Op* op,
                       Timestamp now);
  std::optional<ChunkResult> ResultIn(const wire::Header& header,
                                      std::span<const uint8_t> body) const;
  void OnOwedLess(Op* op, Timestamp now);
  void EndAccount(Op* op, OpStatus status);
  void FreeClosedBuffers();
  void FreeBuffers(Op* op);
  void GiveUpOwed(Op* op);
  void CloseAccount(Op* op);
  void CloseAllAccounts();
  void BeginQuestions(Op* op, Timestamp now);
  bool MayBeOwed(const Op& op, Timestamp now) const;
  void AdvanceDebts(Op* op, Timestamp now);
  bool LacksOf(const Op& op, const ChunkInfo& first) const;
  bool CanAnswer(const Op& op) const;
  bool ClosedUnreduced(const Op& op) const;
  void VoidOwnShard(Op* op);
  void OnOwnerGone(Op* op, Rank owner, Timestamp now);

  // group_receive.cc
  Verdict OnOpen(Rank source, OpSeq seq, std::span<const uint8_t> body,
                 Timestamp now);
  Verdict OnData(Rank source, const wire::Header& header,
                 std::span<const uint8_t> body, Timestamp arrival,
                 Timestamp now);
  Verdict OnResult(Rank source, const wire::Header& header,
                   std::span<const uint8_t> body, Timestamp arrival,
                   Timestamp now);
  Verdict OnFeedback(Rank source, const wire::Header& header,
                     std::span<const uint8_t> body, Timestamp now);
  void NoteEcho(Rank source, const wire::FeedbackBody& feedback, Timestamp now);
  void OnCredit(Rank source, const wire::Credit& credit, Timestamp now);
  Verdict OnNack(Rank source, OpSeq seq, std::span<const uint8_t> body,
                 Timestamp now);
  void AnswerNackData(Op* op, Rank source, const wire::NackBody& nack);
  void AnswerNackResult(Op* op, Rank source, const wire::NackBody& nack);
  Verdict OnGone(Rank source, OpSeq seq, Timestamp now);
  void OnWatermarks(Rank source, const wire::Watermarks& marks, Timestamp now);
  void RaiseOpenUpto(Rank source, OpSeq upto, Timestamp now);
  Verdict CheckOpOf(Rank source, const wire::Header& header, Op* op,
                    Timestamp now);
  void AskOpen(Op* op, Rank source, Timestamp now);
  void NoteMismatch(Op* op, Rank source, const OpDescriptor& other,
                    Timestamp now);
  void OnContribution(Op* op, uint32_t local, Rank source, Timestamp when,
                      Timestamp now);
  void NoteProgress(Op* op, Timestamp now);
  void FreezeExact(Op* op, const ChunkInfo& info);
  void FreezeChunk(Op* op, uint32_t local, Timestamp now);
  bool AttachRetained(Op* op, Timestamp now);
  void StoreResult(Op* op, const ChunkInfo& info, const uint8_t* payload);
  void NoteIfTooEarly(const Op& op, const wire::Header& header,
                      Timestamp arrival);

  // group_bounds.cc
  void NoteOpened(Op* op, Rank rank, Timestamp now);
  void NoteSum(Op* op, Rank source, Timestamp when);
  void NoteAdvertised(const Op& op, Rank source, const wire::Header& header);
  uint16_t Advertised(const Op& op) const;
  void NoteStage1(Op* op, EndCause cause);
  void NoteStage2(const Op& op, EndCause cause);
  void NoteTooEarly(const Op& op);
  bool IsSilent(const Op& op, Rank rank) const;
  bool AreMostSilent(const Op& op) const;
  uint64_t ContributionsDue(const Op& op) const;
  uint64_t OnTheirWay(const Op& op) const;
  uint64_t ResultsDue(const Op& op) const;
  bool HasOpened(const Op& op, Rank rank) const;
  Timestamp AwaitedUntil(const Op& op, Rank rank) const;
  bool IsAwaited(const Op& op, Rank rank, Timestamp now) const;
  bool AreOpenersIn(const Op& op) const;
  Timestamp NextGivenUp(const Op& op, Timestamp now) const;

  // group_repair.cc
  RepairTiming TimingOf(const Op& op, Rank rank) const;
  void RepairBy(Op* op, Timestamp when);
  bool MayAsk(const Op& op, Stage stage) const;
  bool MayBeAsked(const Op& op, Stage stage, Rank rank) const;
  uint32_t StreamLength(const Op& op, Stage stage, Rank rank) const;
  void BeginStream(Op* op, Stage stage, Rank rank, Timestamp now);
  void NoteStreamPacket(Op* op, Stage stage, const wire::Header& header,
                        uint32_t local, Timestamp now);
  Timestamp StreamHeardAt(const Op& op, Stage stage, Rank rank) const;
  void AdvanceBoundedRepair(Op* op, Timestamp now);
  Timestamp AdvanceStream(Op* op, Stage stage, Rank rank, Timestamp now);
  bool ListLost(Op* op, Rank rank, Timestamp now, wire::NackBody* nack);
  bool TakeLost(Op* op, Rank rank, Timestamp now, wire::NackBody* nack);
  bool IsRepairHopeful(const Op& op, Stage stage, Timestamp now) const;
  void AnswerLostData(Op* op, Rank source, const wire::NackBody& nack,
                      Timestamp now);
  void AnswerLostResults(Op* op, Rank source, const wire::NackBody& nack);
  bool MayRepair(Op* op, uint32_t body_bytes);

  // group_timers.cc
  size_t QuorumSize() const;
  void MaybeStartClocks(Op* op, Timestamp now);
  void StartClocks(Op* op, Timestamp now);
  void SetBounds(Op* op);
  Timestamp DueOf(const Op& op) const;
  void Rearm(Op* op);
  void WakeBy(Timestamp when);
  void FeedbackSoon(Timestamp now);
  Duration FeedbackInterval() const;
  Duration Jitter(Duration interval);
  void AdvanceDue(Timestamp now);
  void AdvanceHeartbeat(Timestamp now);
  void AdvanceFeedback(Timestamp now);
  void AdvanceOp(Op* op, Timestamp now);
  void AdvanceExact(Op* op, Timestamp now);
  void AdvanceBounded(Op* op, Timestamp now);
  void AdvanceRepair(Op* op, Timestamp now);
  void AskAnyOpen(Op* op, Timestamp now);
  void BeginFreeze(Op* op, EndCause cause, Timestamp now);
  void AdvanceFreeze(Op* op, uint32_t budget, Timestamp now);
  void CheckEarlyBy(Op* op, Timestamp when);
  void CheckEarly(Op* op, Timestamp now);
  void CheckStage1Early(Op* op, Timestamp now);
  bool IsStage1Spent(const Op& op, Timestamp now) const;
  bool IsStage2Spent(const Op& op) const;
  Duration Stage2Wait(const Op& op) const;
  void AcknowledgeReduced(Op* op, Timestamp now);
  void AcknowledgeReceived(Op* op, Rank source, Timestamp now);

  // group_accounts.cc
  void QueueAccounts(Op* op);
  static uint32_t AccountBytes(const Op& op, const ChunkInfo& first);
  void SendAccount(Op* op, Rank peer, uint32_t account, uint8_t flags,
                   TxDescriptor* out, Timestamp now);
  Verdict CheckAccount(const Op& op, const ChunkInfo& first,
                       std::span<const uint8_t> body) const;
  Verdict OnAccount(Rank source, const wire::Header& header,
                    std::span<const uint8_t> body, Timestamp arrival, Op* op,
                    Timestamp now);
  Verdict OnLateAccount(const ChunkInfo& first, std::span<const uint8_t> body,
                        Op* op, Timestamp now);
  void TakeAccount(Op* op, const ChunkInfo& first,
                   std::span<const uint8_t> body);
  void TakeEarlyAccounts(Op* op);

  // group_record.cc
  void NoteStage1Closed(Op* op, EndCause cause, Timestamp now);
  void NoteStage2Closed(Op* op, EndCause cause, Timestamp now);
  void NoteLacking(Op* op, Stage stage);
  uint32_t LackingOf(const Op& op, Stage stage, Rank rank) const;
  uint32_t LateResultsOf(const Op& op, Stage stage, Rank owner) const;
  void NoteLateData(Op* op, Rank source, uint32_t local, Timestamp arrival);
  void NoteLateResult(Op* op, const ChunkInfo& info, Timestamp arrival);
  void NoteOwed(Op* op, const ChunkInfo& info, const ChunkResult& result,
                bool was_held, Placed placed);
  void NoteForgiven(Op* op, uint32_t first, uint32_t end);
  void CountLacking(const Op& op, uint32_t first, uint32_t end,
                    uint64_t* contributions, uint64_t* results) const;
  void NoteSkipped(uint64_t step);
  OpRecord RecordOf(const Op& op) const;
  void KeepRecord(const Op& op);

  // group_send.cc
  bool Ask(Request::Kind kind, Rank peer, OpSeq seq, uint32_t chunk);
  bool NextControl(TxDescriptor* out, Timestamp now);
  bool NextRequest(TxDescriptor* out, Timestamp now);
  bool MustWait(const Request& request, Timestamp now);
  bool AnswerRequest(const Request& request, TxDescriptor* out, Timestamp now);
  bool NextOpen(TxDescriptor* out, Timestamp now);
  bool NextResult(TxDescriptor* out, Timestamp now);
  bool ResultOf(Op* op, TxDescriptor* out, Timestamp now);
  bool NextData(TxDescriptor* out, Timestamp now);
  bool DataOf(Op* op, TxDescriptor* out, Timestamp now);
  bool NextOfStream(Op* op, Rank owner, uint32_t position, TxDescriptor* out,
                    Timestamp now);
  bool CanResend(const Op& op, Rank peer, uint32_t local) const;
  void QueueResult(Op* op, uint32_t local);
  bool MaySendData(const Op& op, Rank owner, uint32_t position, Timestamp now);
  bool HasCredit(const Op& op, Rank owner, uint32_t position) const;
  uint32_t StreamChunk(const Op& op, Rank owner, uint32_t position,
                       uint32_t chunks) const;
  void AddOwnChunk(Op* op, uint32_t local, Timestamp now);
  bool ReadInput(Op* op, const ChunkInfo& info, uint8_t* out);
  void SendOpen(Op* op, Rank peer, TxDescriptor* out, Timestamp now);
  bool SendData(Op* op, Rank peer, const ChunkInfo& info, uint8_t flags,
                TxDescriptor* out, Timestamp now);
  uint32_t ReplyBytes(const Op& op, uint32_t reply) const;
  void SendResult(Op* op, Rank peer, uint32_t local, uint8_t flags,
                  TxDescriptor* out, Timestamp now);
  bool SendNack(Op* op, Rank peer, wire::NackKind kind, TxDescriptor* out,
                Timestamp now);
  bool ListLacking(const Op& op, Rank peer, wire::NackBody* nack) const;
  size_t EncodeFeedback(Rank rank, uint8_t* body, Timestamp now);
  wire::Header HeaderFor(wire::PacketType type, Timestamp now) const;
  void Finish(const wire::Header& header, Rank peer, TxDescriptor* out,
              Timestamp now);
  wire::Watermarks OwnWatermarks() const;
  void MarkControl(Rank rank) { control_due_.Set(rank.index()); }

  // group_rate.cc
  void SetUpShare();
  Path NewPath() const;
  uint64_t Ceiling() const;
  void NoteSent(Rank peer, uint32_t bytes, Timestamp now);
  bool MayLeaveAt(Timestamp at, Timestamp now);
  bool MayUseShare(Timestamp now);
  bool MaySendTo(Rank peer, Timestamp now);
  bool MayStartStream(const Op& op) const;
  void NoteStreamFrom(Rank source, Timestamp now);
  void NotePathEcho(Rank source, const wire::Header& header,
                    const wire::FeedbackBody& feedback, Timestamp now);
  void NoteNeed(const Op& op, Duration bound);

  const GroupId id_;
  const GroupConfig config_;
  const uint32_t settings_hash_;
  Phase phase_ = Phase::kForming;
  ByteArena arena_;
  Rng rng_;  // jitter only
  TransitionCounts* const transitions_;
  BoundController bounds_;
  Lateness lateness_;
  Ledger ledger_;

  // Ops. floor_ <= low_ <= next_submit may be anywhere up to low_ + window.
  std::vector<Op> slots_;  // by op number modulo their count, a power of two
  uint32_t slot_mask_ = 0;
  OpSeq floor_{};        // first op kept
  OpSeq low_{};          // first op not closed here
  OpSeq done_{};         // first op not settled here
  OpSeq next_submit_{};  // the next submit's number: own open_upto
  OpSeq high_{};         // after the newest op opened here
  OpSeq heard_upto_{};   // the greatest open_upto of all peers

  std::vector<Peer> peers_;  // by rank; the own entry is unused
  size_t lost_count_ = 0;    // peers dead or left

  // Sending.
  std::vector<uint64_t> control_due_words_;
  BitmapView control_due_;         // peers with control packets to send
  std::vector<Request> requests_;  // a ring
  size_t requests_head_ = 0;
  size_t requests_count_ = 0;
  bool requests_ready_ = false;  // one of them may leave
  bool maybe_sendable_ = false;  // an op may have something to send
  // Something that a rate holds back may leave.
  Timestamp blocked_until_ = Timestamp::Never();

  // Rates.
  const uint64_t line_bps_;
  Pacer share_;              // of the line
  std::vector<Path> paths_;  // by rank; none without congestion control
  uint64_t needed_bps_ = 0;  // on each path, for the newest op's bound

  // Events, a ring.
  std::vector<PendingEvent> events_;
  size_t events_head_ = 0;
  size_t events_count_ = 0;

  // Of ops that have lost their places, a ring.
  std::vector<OpRecord> past_;
  uint64_t past_count_ = 0;

  // Timers.
  Timestamp next_due_ = Timestamp::Never();
  Timestamp formation_deadline_;
  Timestamp hello_at_ = Timestamp::Never();
  uint32_t hello_backoff_ = 1;
  uint32_t hello_sequence_ = 0;
  Timestamp liveness_at_ = Timestamp::Never();
  Timestamp heartbeat_at_ = Timestamp::Never();
  Timestamp feedback_at_ = Timestamp::Never();
  uint32_t feedback_backoff_ = 1;
  Timestamp last_advance_;
  // When the last Advance wanted the next one: later than that is a pause.
  Timestamp wanted_at_ = Timestamp::Never();
  wire::LeaveReason leave_reason_{};
  OpSeq gone_from_{};  // when leaving: first op we take no part in
  Timestamp release_by_ = Timestamp::Never();
  uint32_t farewells_left_ = 0;
};

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_GROUP_H_
