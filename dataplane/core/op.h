// The state of one op at one rank. What happens to it is decided in group*.cc.

#ifndef OPTIREDUCE_DATAPLANE_CORE_OP_H_
#define OPTIREDUCE_DATAPLANE_CORE_OP_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/bitmap.h"
#include "dataplane/base/time.h"
#include "dataplane/core/account.h"
#include "dataplane/core/assembly.h"
#include "dataplane/core/bound_controller.h"
#include "dataplane/core/coefficients.h"
#include "dataplane/core/coverage.h"
#include "dataplane/core/ledger.h"
#include "dataplane/core/op_record.h"
#include "dataplane/core/plan.h"
#include "dataplane/core/reduction.h"
#include "dataplane/core/repair.h"
#include "dataplane/core/report.h"
#include "dataplane/core/types.h"

namespace optireduce::core {

// Memory an op takes from its group's arena, besides the slot itself.
struct OpMemory {
  uint8_t* block = nullptr;         // reduction, assembly, per-peer state
  uint8_t* coefficients = nullptr;  // with the block, until the report
  uint8_t* retained = nullptr;      // results that came before the submit
};

// What is still to be sent, apart from answers.
struct OpSending {
  uint32_t opens = 0;  // of our OPEN: rounds and ranks that are behind us
  // The scatter: how far each rank's stream is, the own one too. Streams take
  // turns, packet by packet, so that all are at one position unless some must
  // wait.
  uint32_t* data_next = nullptr;
  uint32_t data_turn = 0;
  uint32_t streams_before = 0;  // not through, of those before that one
  uint32_t streams_left = 0;    // that are not through
  // Frozen chunks in the order of their freezing, or accounts, and how many of
  // them each rank has been sent. Ranks take turns here too.
  uint32_t* results = nullptr;
  uint32_t* result_places = nullptr;  // of each among them
  uint32_t* results_next = nullptr;
  uint32_t results_frozen = 0;
  uint32_t results_turn = 0;
  uint64_t results_owed = 0;  // over all ranks
  uint32_t results_total = 0;
};

// With residuals and debts.
inline bool IsBucketed(const OpDescriptor& op) {
  return op.mode != Mode::kExact && Ledger::Supports(op);
}

struct Op {
  OpSeq seq{};
  OpState state = OpState::kFree;

  // Known from the submit or a peer's OPEN.
  bool has_descriptor = false;
  Rank descriptor_from{};
  OpDescriptor descriptor;
  uint32_t fingerprint = 0;
  ChunkPlan plan;
  uint32_t chunks_per_reply = 1;

  // A peer submitted something else.
  bool mismatched = false;
  Rank mismatch_rank{};
  OpDescriptor mismatch_descriptor;

  BufferView buffers;  // kActive, or while they are held for late results
  Account* account = nullptr;  // bucketed: from the submit on
  OpMemory memory;
  Reduction reduction;
  Assembly assembly;
  Coefficients coefficients;
  OpSending sending;

  bool evicted = false;        // closed, and its results are no longer kept
  bool local_only = false;     // a world of one or no elements: no packets
  uint16_t opened_count = 0;   // ranks that have opened it
  uint64_t contributions = 0;  // summed into the own shard, over its chunks
  bool freezing = false;       // stage 1 is over: nothing more is summed
  bool stage1_noted = false;   // its time is known to the bound controller
  uint32_t freeze_next = 0;
  // Streams whose last packets have come.
  BitmapView data_tails;
  BitmapView result_tails;
  // Owners whose stage 1 is known to be over: a chunk with c < N has come.
  BitmapView closed_owners;
  BitmapView late_openers;  // ranks that opened the op after its quorum
  // Bounded mode, by stage and rank.
  std::array<RepairStream*, 2> streams{};
  RepairBudget repair_budget;
  // Exact mode, by rank: chunks the peer has acknowledged. Of its shard, as
  // reduced (all-reduce, reduce-scatter), or of ours, as received (others).
  uint32_t* acknowledged = nullptr;
  uint32_t advertised_prefix = 0;  // of the own shard, last told to the peers
  // Bounded mode: what came too late to be used, by own chunk and rank, and by
  // chunk.
  BitmapView late_data;
  BitmapView late_results;

  Timestamp stage1_bound = Timestamp::Never();
  Timestamp send_bound = Timestamp::Never();  // nobody sums later data
  Timestamp close_bound = Timestamp::Never();
  Timestamp limit = Timestamp::Never();  // T2 or the caller's, if earlier
  Timestamp hard_limit = Timestamp::Never();
  // A rank was lost before enough had opened the op. Who has heard of that
  // opens no more ops, so that it may wait in vain: unless enough have opened
  // it by then, it ends.
  Timestamp abandon_at = Timestamp::Never();
  Timestamp grace_end;          // for ranks that have not opened it
  Duration early_wait;          // in force for this op
  Timestamp last_open;          // when the newest rank was seen to open it
  Timestamp last_data;          // arrival of the newest
  Timestamp last_sum;           // the newest contribution, the own ones too
  Timestamp last_punctual_sum;  // of ranks that had opened it by the quorum
  Timestamp last_result;
  Timestamp last_progress;  // exact mode
  Timestamp ask_open_at;    // not before: one question per interval
  Timestamp early_check_at = Timestamp::Never();
  Timestamp repair_at = Timestamp::Never();  // when to look for what lacks
  uint32_t repair_backoff = 1;
  Timestamp debt_at = Timestamp::Never();  // closed, and something lacks
  uint32_t debt_backoff = 1;
  Timestamp kept_until;  // before that no room is made at its cost
  Timestamp due = Timestamp::Never();  // earliest of all that can fire

  OpReport report;
  OpHistory history;

  bool is_bucketed() const { return IsBucketed(descriptor); }
  // Whether somebody must still be asked for what is owed here.
  bool is_owed() const {
    return account != nullptr && !account->has_everything();
  }
  RepairStream& Stream(Stage stage, Rank rank) const {
    return streams[static_cast<size_t>(stage)][rank.index()];
  }

  StageRecord& StageOf(Stage stage) {
    return history.stages[static_cast<size_t>(stage)];
  }

  bool is_exact() const { return descriptor.mode != Mode::kBounded; }
  bool is_flush() const { return descriptor.mode == Mode::kFlush; }
  bool is_closed() const {
    return state == OpState::kLate || state == OpState::kClosed;
  }
  bool is_submitted() const {
    return state == OpState::kActive || state == OpState::kReported ||
           state == OpState::kClosed;
  }
  bool is_reported() const {
    return state == OpState::kReported || state == OpState::kClosed;
  }
  // Contributions go to owners / owners send reduced (or gathered) chunks.
  bool has_stage1() const {
    return descriptor.collective == Collective::kAllReduce ||
           descriptor.collective == Collective::kReduceScatter;
  }
  bool has_stage2() const {
    return descriptor.collective != Collective::kReduceScatter &&
           descriptor.collective != Collective::kBarrier;
  }
  // A bounded reduce-scatter: owners send accounts instead of results.
  bool has_accounts() const {
    return descriptor.collective == Collective::kReduceScatter && !is_exact();
  }
  // What an owner sends to each rank: a result for each of its chunks, or an
  // account for many.
  uint32_t RepliesOf(Rank owner) const {
    const uint32_t chunks = plan.ChunksOf(owner);
    if (has_accounts()) {
      return (chunks + chunks_per_reply - 1) / chunks_per_reply;
    }
    return has_stage2() ? chunks : 0;
  }
  // The first chunk that it is about.
  ChunkInfo ChunkOfReply(Rank owner, uint32_t reply) const {
    return plan.ChunkOf(owner, reply * chunks_per_reply);
  }
  // How many they are.
  uint32_t ChunksFrom(const ChunkInfo& first) const {
    return std::min(chunks_per_reply, plan.ChunksOf(first.owner) - first.local);
  }

  // Results that are kept until the submit: the values, and in bucketed ops
  // behind them for each chunk its contributors and whether it is imputed.
  static constexpr uint16_t kImputed = 0x8000;
  size_t retained_bytes() const {
    return is_bucketed() ? accounts_offset() + 2 * size_t{plan.chunk_limit()}
                         : bytes();
  }
  uint16_t* RetainedAccounts() const {
    return reinterpret_cast<uint16_t*>(memory.retained + accounts_offset());
  }

  // What the op's size class goes by.
  uint64_t bytes() const { return plan.elements() * plan.element_bytes(); }

  // Byte offset of a chunk in the input or the output buffer, without the
  // Hadamard codec; the input of an all-gather and the output of a
  // reduce-scatter hold one shard only.
  uint64_t InputOffset(const ChunkInfo& info) const {
    const uint64_t first =
        descriptor.collective == Collective::kAllGather
            ? uint64_t{info.local} * plan.elements_per_chunk()
            : info.first;
    return first * gradcodec::SizeOf(descriptor.dtype);
  }
  uint64_t OutputOffset(const ChunkInfo& info) const {
    const uint64_t first =
        descriptor.collective == Collective::kReduceScatter
            ? uint64_t{info.local} * plan.elements_per_chunk()
            : info.first;
    return first * gradcodec::SizeOf(descriptor.dtype);
  }

 private:
  size_t accounts_offset() const { return (bytes() + 1) / 2 * 2; }
};

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_OP_H_
