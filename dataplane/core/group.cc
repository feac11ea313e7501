#include "dataplane/core/group.h"

#include <algorithm>
#include <bit>
#include <memory>

namespace optireduce::core {
namespace {

constexpr size_t kRequests = 4096;

size_t Align(size_t bytes) { return (bytes + 63) / 64 * 64; }

// An op whose step is open keeps its account when it loses its slot; there is
// one of each bucket at most.
LedgerConfig LedgerOf(const GroupConfig& config, size_t slots) {
  return {.world = config.members.size(),
          .self = config.self,
          .payload_bytes = config.payload_bytes,
          .budget = config.ledger_budget,
          .max_ops = slots + config.max_buckets,
          .max_buckets = config.max_buckets};
}

}  // namespace

Group::Group(GroupId id, const GroupConfig& config, uint64_t line_bps,
             TransitionCounts* transitions, Timestamp now)
    : id_(id),
      config_(config),
      settings_hash_(SettingsHash(config)),
      arena_(config.memory_budget),
      rng_(uint64_t{config.tag} << 16 | config.self.value()),
      transitions_(transitions),
      bounds_(config),
      lateness_(config.members.size()),
      ledger_(LedgerOf(config, std::bit_ceil(size_t{config.window} * 2))),
      // Twice the window, so that closed ops are kept while new ones open; a
      // power of two, so that numbers map alike across their wrap.
      slots_(std::bit_ceil(size_t{config.window} * 2)),
      slot_mask_(static_cast<uint32_t>(slots_.size() - 1)),
      floor_(config.first_op),
      low_(config.first_op),
      done_(config.first_op),
      next_submit_(config.first_op),
      high_(config.first_op),
      heard_upto_(config.first_op),
      peers_(config.members.size()),
      control_due_words_(BitmapView::WordsFor(peers_.size())),
      control_due_(control_due_words_, peers_.size()),
      requests_(kRequests),
      line_bps_(line_bps),
      events_(slots_.size() * 6 + peers_.size() * 4 + 16),
      past_(kPastRecords),
      formation_deadline_(now + config.formation_limit),
      hello_at_(now),
      last_advance_(now) {
  for (size_t i = 0; i < peers_.size(); ++i) {
    peers_[i].endpoint = config.members[i];
    peers_[i].open_upto = peers_[i].done_upto = peers_[i].told_done =
        config.first_op;
    peers_[i].last_heard = now;
    peers_[i].newest_data = config.first_op;
  }
  SetUpShare();
  if (config_.congestion_control) paths_.assign(world(), NewPath());
  WakeBy(now);
}

Op* Group::FindOp(OpSeq seq) {
  Op& op = Slot(seq);
  return op.state != OpState::kFree && op.seq == seq ? &op : nullptr;
}

// Rule 1: a host keeps every op from floor_ up to low_ + window.
Op* Group::FindOrOpen(OpSeq seq, Timestamp now, Verdict* verdict) {
  if (Op* op = FindOp(seq); op != nullptr) return op;
  if (seq.IsBefore(floor_) || phase_ >= Phase::kFailed) {
    *verdict = Verdict::kStaleOp;
    return nullptr;
  }
  if (seq.Since(low_) >= static_cast<int32_t>(config_.window)) {
    *verdict = Verdict::kBeyondWindow;
    return nullptr;
  }
  // Submit order is the same everywhere: who names an op has opened all before.
  while (!seq.IsBefore(high_)) {
    if (!OpenNext(now)) {
      *verdict = Verdict::kNoMemory;
      return nullptr;
    }
  }
  Op* op = FindOp(seq);
  if (op == nullptr) *verdict = Verdict::kStaleOp;
  return op;
}

// Opens op high_, so that from low_ to high_ every op has its slot.
bool Group::OpenNext(Timestamp now) {
  Op& op = Slot(high_);
  while (op.state != OpState::kFree) {
    if (!EvictOldest(high_, now)) return false;
  }
  InitOp(&op, high_, now);
  high_ = high_.Next();
  MaybeStartClocks(&op, now);
  FeedbackSoon(now);
  return true;
}

void Group::InitOp(Op* op, OpSeq seq, Timestamp now) {
  *op = Op{};
  op->seq = seq;
  op->state = OpState::kHeard;
  op->history.opened = now;
  for (size_t i = 0; i < world(); ++i) {
    if (!IsSelf(RankAt(i)) && seq.IsBefore(peers_[i].open_upto)) {
      ++op->opened_count;
      op->history.openers.Add(RankAt(i), now);
    }
  }
}

void Group::SetDescriptor(Op* op, const OpDescriptor& descriptor) {
  op->has_descriptor = true;
  op->descriptor = descriptor;
  op->fingerprint = Fingerprint(descriptor);
  op->plan = ChunkPlan(descriptor, world(), config_.payload_bytes, config_.tag,
                       op->seq);
  // An account has a bit for each.
  if (op->has_accounts()) op->chunks_per_reply = config_.payload_bytes * 8;
  SetBounds(op);
}

size_t Group::BlockBytes(const OpDescriptor& descriptor, const ChunkPlan& plan,
                         Rank owner) const {
  const size_t tails = Align(BitmapView::WordsFor(world()) * 8);
  return Align(Reduction::BytesNeeded(descriptor, plan, owner, world())) +
         Align(Assembly::BytesNeeded(plan)) +
         2 * Align(size_t{plan.ChunksOf(owner)} * sizeof(uint32_t)) +
         4 * tails + LateBytes(descriptor, plan, owner) +
         2 * Align(world() * sizeof(RepairStream)) +
         3 * world() * sizeof(uint32_t);
}

// For noting what comes too late. An exact op waits for all.
size_t Group::LateBytes(const OpDescriptor& descriptor, const ChunkPlan& plan,
                        Rank owner) const {
  if (descriptor.mode != Mode::kBounded) return 0;
  const size_t data = size_t{plan.ChunksOf(owner)} * world();
  return Align(BitmapView::WordsFor(data) * 8) +
         Align(BitmapView::WordsFor(plan.chunk_limit()) * 8);
}

// The same on every rank, so that all refuse the same op.
size_t Group::WorstCaseBytes(const OpDescriptor& descriptor,
                             const ChunkPlan& plan) const {
  const Rank first_shard_owner = RankAt(plan.rotation());
  size_t bytes =
      ByteArena::Cost(BlockBytes(descriptor, plan, first_shard_owner));
  if (descriptor.codec == Codec::kHadamard) {
    bytes += ByteArena::Cost(Coefficients::BytesNeeded(descriptor.count));
  }
  return bytes;
}

bool Group::MayEverFit(const OpDescriptor& descriptor,
                       const ChunkPlan& plan) const {
  return WorstCaseBytes(descriptor, plan) <= arena_.capacity() &&
         (!IsBucketed(descriptor) || ledger_.HasRoomFor(plan.chunk_limit()));
}

// Takes all that the op must have, or nothing: half of it would stand in the
// way of the other half. Its descriptor is known.
bool Group::AttachMemory(Op* op, Timestamp now) {
  if (op->memory.block != nullptr) return true;
  const OpDescriptor& descriptor = op->descriptor;
  uint8_t* const block = AllocateEvicting(
      BlockBytes(descriptor, op->plan, config_.self), op->seq, now);
  if (block == nullptr) return false;
  if (descriptor.codec == Codec::kHadamard) {
    op->memory.coefficients = AllocateEvicting(
        Coefficients::BytesNeeded(descriptor.count), op->seq, now);
    if (op->memory.coefficients == nullptr) {
      arena_.Free(block);
      return false;
    }
  }
  op->memory.block = block;
  CarveBlock(op, block);
  return true;
}

void Group::CarveBlock(Op* op, uint8_t* at) {
  const OpDescriptor& descriptor = op->descriptor;
  op->reduction = op->has_stage1() ? Reduction(descriptor, op->plan,
                                               config_.self, world(), at)
                                   : Reduction();
  at += Align(
      Reduction::BytesNeeded(descriptor, op->plan, config_.self, world()));
  op->assembly = Assembly(descriptor, op->plan, config_.self, at);
  at += Align(Assembly::BytesNeeded(op->plan));
  const uint32_t own_chunks = op->plan.ChunksOf(config_.self);
  op->sending.results = reinterpret_cast<uint32_t*>(at);
  op->sending.results_total = op->RepliesOf(config_.self);
  at += Align(size_t{own_chunks} * sizeof(uint32_t));
  op->sending.result_places = reinterpret_cast<uint32_t*>(at);
  at += Align(size_t{own_chunks} * sizeof(uint32_t));
  const size_t words = BitmapView::WordsFor(world());
  for (BitmapView* ranks : {&op->data_tails, &op->result_tails,
                            &op->closed_owners, &op->late_openers}) {
    *ranks = BitmapView({reinterpret_cast<uint64_t*>(at), words}, world());
    ranks->ClearAll();
    at += Align(words * 8);
  }
  if (!op->is_exact()) at = CarveLate(op, at);
  for (RepairStream*& streams : op->streams) {
    streams = reinterpret_cast<RepairStream*>(at);
    std::uninitialized_fill_n(streams, world(), RepairStream());
    at += Align(world() * sizeof(RepairStream));
  }
  if (!op->is_exact()) RepairBy(op, op->report.quorum);
  op->acknowledged = reinterpret_cast<uint32_t*>(at);
  op->sending.data_next = op->acknowledged + world();
  op->sending.results_next = op->sending.data_next + world();
  std::fill_n(op->acknowledged, 3 * world(), 0u);
  op->sending.streams_left = 0;
  for (size_t i = 0; i < world() && op->has_stage1(); ++i) {
    op->sending.streams_left += op->plan.ChunksOf(RankAt(i)) > 0;
  }
}

uint8_t* Group::CarveLate(Op* op, uint8_t* at) {
  const auto carve = [&at](size_t bits) {
    const size_t words = BitmapView::WordsFor(bits);
    BitmapView view({reinterpret_cast<uint64_t*>(at), words}, bits);
    view.ClearAll();
    at += Align(words * 8);
    return view;
  };
  op->late_data = carve(size_t{op->plan.ChunksOf(config_.self)} * world());
  op->late_results = carve(op->plan.chunk_limit());
  return at;
}

uint8_t* Group::AllocateEvicting(size_t bytes, OpSeq keep_from, Timestamp now) {
  while (true) {
    void* block = arena_.Allocate(bytes);
    if (block != nullptr) return static_cast<uint8_t*>(block);
    if (!EvictOldest(keep_from, now) && !EvictAhead(keep_from)) return nullptr;
  }
}

// Memory goes by op order: what ops behind one that waits for memory keep, the
// newest first. An op whose clocks run or that is exact is not touched: nothing
// that may have been told to other ranks is ever taken back.
bool Group::EvictAhead(OpSeq waiting) {
  for (OpSeq seq = high_; waiting.Next().IsBefore(seq);) {
    seq = OpSeq(seq.value() - 1);
    Op* op = FindOp(seq);
    if (op == nullptr || op->memory.block == nullptr || op->is_exact()) {
      continue;
    }
    if (op->is_closed()) {
      Count(*op, OpEvent::kEvict);
      FreeMemory(op);
      op->evicted = true;
      return true;
    }
    if (op->state == OpState::kServing &&
        op->report.quorum == Timestamp::Never() && HasEventRoom()) {
      GiveUpContributions(op);
      return true;
    }
  }
  return false;
}

// As if they had not arrived; those that still come are summed once there is
// room again.
void Group::GiveUpContributions(Op* op) {
  Count(*op, OpEvent::kEvict);
  FreeMemory(op);
  op->contributions = 0;
  PendingEvent event{EventKind::kContributionsLost, config_.self, {}};
  event.report.op_seq = op->seq;
  PushEvent(event);
}

// Rule 21: over budget the oldest closed op goes. An exact one, whose result
// others may still need, only after its hard limit; one with debts only after
// some time for questions.
bool Group::EvictOldest(OpSeq keep_from, Timestamp now) {
  if (!floor_.IsBefore(low_) || !floor_.IsBefore(keep_from)) return false;
  if (Op* op = FindOp(floor_); op != nullptr) {
    if (op->has_descriptor && op->is_exact() && now < op->hard_limit) {
      return false;
    }
    if (MayBeOwed(*op, now)) return false;
    Count(*op, OpEvent::kEvict);
    ReleaseOp(op);
  }
  floor_ = floor_.Next();
  if (done_.IsBefore(floor_)) done_ = floor_;
  return true;
}

void Group::FreeMemory(Op* op) {
  arena_.Free(op->memory.block);
  arena_.Free(op->memory.coefficients);
  arena_.Free(op->memory.retained);
  op->memory = {};
  op->reduction = Reduction();
  op->assembly = Assembly();
}

void Group::ReleaseOp(Op* op) {
  CloseAccount(op);
  KeepRecord(*op);
  FreeMemory(op);
  op->state = OpState::kFree;
}

// Nothing more is decided here: `low_` may pass the op (rule 4).
void Group::CloseOp(Op* op, Timestamp now) {
  op->state = op->is_submitted() ? OpState::kClosed : OpState::kLate;
  BeginQuestions(op, now);
  AdvanceWindow(now);
}

bool Group::AllDoneWith(OpSeq seq) const {
  for (size_t i = 0; i < world(); ++i) {
    const Rank rank = RankAt(i);
    if (!IsSelf(rank) && WantsPackets(rank) &&
        !seq.IsBefore(peers_[i].done_upto)) {
      return false;
    }
  }
  return true;
}

// Moves low_, done_ and floor_ as far as they go (rules 4, 19, 20).
void Group::AdvanceWindow(Timestamp now) {
  while (low_.IsBefore(high_)) {
    if (!FindOp(low_)->is_closed()) break;
    low_ = low_.Next();
    maybe_sendable_ = true;
  }
  OpenHeard(now);
  while (done_.IsBefore(low_)) {
    const Op* op = FindOp(done_);
    const bool settled = op == nullptr || phase_ >= Phase::kLeaving ||
                         (op->state == OpState::kClosed && !op->is_owed());
    if (!settled) break;
    if (op != nullptr && !op->local_only) FeedbackSoon(now);
    done_ = done_.Next();
  }
  while (floor_.IsBefore(done_)) {
    if (Op* op = FindOp(floor_); op != nullptr) {
      if (!op->local_only && !AllDoneWith(floor_)) break;
      Count(*op, OpEvent::kRelease);
      ReleaseOp(op);
    }
    floor_ = floor_.Next();
  }
}

// A host follows the others although its trainer is late: every op of the
// window that a peer has opened is opened here too.
void Group::OpenHeard(Timestamp now) {
  while (phase_ < Phase::kFailed && high_.IsBefore(heard_upto_) &&
         high_.Since(low_) < static_cast<int32_t>(config_.window)) {
    if (!OpenNext(now)) return;
  }
}

// Room for an event more, besides two for every op and those about peers.
bool Group::HasEventRoom() const {
  return events_.size() - events_count_ >= slots_.size() * 2 + 2 * world() + 8;
}

void Group::PushEvent(const PendingEvent& event) {
  if (events_count_ == events_.size()) return;
  events_[(events_head_ + events_count_) % events_.size()] = event;
  ++events_count_;
}

bool Group::PopEvent(Event* event) {
  if (events_count_ == 0) return false;
  const PendingEvent& pending = events_[events_head_];
  *event = Event{};
  event->kind = pending.kind;
  event->group = id_;
  event->peer = pending.peer;
  event->report = pending.report;
  if (pending.kind == EventKind::kGroupFailed) {
    for (size_t i = 0; i < world(); ++i) {
      const Rank rank = RankAt(i);
      if (IsSelf(rank)) continue;
      if (peers_[i].disagrees) {
        event->disagree.Add(rank);
      } else if (!peers_[i].hello_heard) {
        event->silent.Add(rank);
      } else if (!peers_[i].path_proven) {
        event->narrow.Add(rank);
      }
    }
  }
  events_head_ = (events_head_ + 1) % events_.size();
  --events_count_;
  return true;
}

GroupStatus Group::Status() const {
  GroupStatus status;
  status.tag = config_.tag;
  status.self = config_.self;
  status.world = static_cast<uint16_t>(world());
  status.formed = phase_ == Phase::kReady;
  status.leaving = phase_ >= Phase::kLeaving;
  status.next_op = next_submit_;
  status.first_open = low_;
  for (const Op& op : slots_) {
    if (op.state != OpState::kFree) ++status.ops_kept;
  }
  status.memory_used = arena_.used();
  status.memory_budget = arena_.capacity();
  status.ledger_used = ledger_.memory_used();
  status.ledger_budget = ledger_.memory_capacity();
  status.forgiven = ledger_.forgiven();
  status.ledger_quiet = ledger_.IsQuiet();
  for (const Peer& peer : peers_) {
    PeerStatus& row = status.peers.emplace_back();
    row.endpoint = peer.endpoint;
    row.suspect = peer.suspect;
    row.lost = peer.dead || peer.left;
    row.last_heard = peer.last_heard;
    row.packets_received = peer.packets_received;
    row.open_upto = peer.open_upto;
    row.done_upto = peer.done_upto;
  }
  for (size_t i = 0; i < paths_.size(); ++i) {
    const RateController& control = paths_[i].control;
    status.peers[i].rate_bps = control.rate_bps();
    status.peers[i].round_trip = control.round_trip();
    status.peers[i].queueing = control.queueing();
    status.peers[i].echoes_ignored = control.echoes_ignored();
  }
  return status;
}

}  // namespace optireduce::core
