// Residuals and debts of all buckets of one group at one rank, within a budget
// of bytes. The accounts of single ops are handed out from here (account.h).
//
// What is stored, in float32, by chunk, and only where it is not zero: per
// bucket the residual e and the debt d; per op the contributions that are not
// booked yet, and until its step is closed the e and d that it took. So memory
// follows what was lost, not what was sent. All of it is in units of the loss
// scale that the bucket was last submitted with.
//
// At the bound, in this order:
//   1. contributions held by ops that are over and whose step is closed are
//      forgiven, the oldest op's first;
//   2. for a submit only: buckets that no open op uses go, empty ones first;
//      others, the longest unused first, only if no op is open at all, as
//      otherwise waiting helps;
//   3. what asks for memory goes without: a contribution or result is forgiven,
//      a submit is refused until there is room.
// Residuals and debts of buckets in use are never forgiven for memory. Whatever
// is forgiven is counted, in elements, by reason.
//
// Memory is taken at construction, never later. Not thread-safe.

#ifndef OPTIREDUCE_DATAPLANE_CORE_LEDGER_H_
#define OPTIREDUCE_DATAPLANE_CORE_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/base/arena.h"
#include "dataplane/core/account.h"
#include "dataplane/core/forgiven.h"
#include "dataplane/core/plan.h"
#include "dataplane/core/types.h"

namespace optireduce::core {

struct LedgerConfig {
  size_t world = 1;
  Rank self{};
  uint32_t payload_bytes = 1424;  // of a chunk, as in GroupConfig
  size_t budget = size_t{256} << 20;
  size_t max_ops = 32;  // accounts at once
  size_t max_buckets = 4096;
};

// State of one bucket; internal to ledger and accounts.
struct Bucket {
  uint64_t key = 0;  // 0: free
  uint64_t count = 0;
  gradcodec::Dtype dtype = gradcodec::Dtype::kFloat32;
  gradcodec::ReduceOp reduce_op = gradcodec::ReduceOp::kSum;
  // Of its newest op; those of others in the same type on the wire have the
  // same chunks, but for their owners.
  ChunkPlan plan;
  float scale = 1;
  uint64_t last_used = 0;
  size_t open_ops = 0;
  // By chunk; null: zero. One allocation, `residual` its start.
  float** residual = nullptr;
  float** debt = nullptr;
};

enum class ImportResult : uint8_t {
  kImported,
  kDamaged,     // no state, cut off, or its checksum is wrong
  kVersion,     // written by another version
  kOtherGroup,  // another world or rank: what is stored means something else
  kNoMemory,    // does not fit; the ledger is empty now
  kNotQuiet,    // ops are open
};

class Ledger {
 public:
  explicit Ledger(const LedgerConfig& config);
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  bool memory_ok() const { return arena_.capacity() > 0; }

  // Ops that have residuals and debts: all-reduces and bounded reduce-scatters
  // with a bucket key, SUM or AVG, of at most 32-bit floats, without the
  // Hadamard codec. All others are one-shot.
  static bool Supports(const OpDescriptor& op);
  // Loss scales are positive, finite and normal.
  static bool IsValidScale(float scale);

  // A trainer submits `op` (supported; `input` is its buffer, `scale` the loss
  // scale of its values). Closes the steps of the bucket's earlier ops as used;
  // takes the bucket's residual. If count, type or operation of the bucket have
  // changed, its state is reset first; if only the type on the wire has, what
  // is stored stays, and what earlier ops have still to book or get is reset.
  // Null if there is no memory now, or max_ops accounts are open; the submit
  // may be repeated.
  Account* Open(const OpDescriptor& op, OpSeq seq, float scale,
                const uint8_t* input);
  // Whether the budget is enough for an op of so many chunks (chunk_limit() of
  // its plan) while there is no other.
  bool HasRoomFor(uint32_t chunks) const;
  // All ranks are done with the op, or it was evicted. What is not settled is
  // forgiven as reset.
  void Release(Account* account);
  // The same, as soon as the step is closed: nothing but that is still to come.
  void ReleaseAtClose(Account* account);
  // Closes all ops of a step; returns how many were open.
  size_t CloseStep(uint64_t step, StepOutcome outcome);
  // The trainer submitted an op that was evicted before (rule 21): what its
  // owners imputed for it, up to so many elements, is never booked.
  void NoteExpired(uint64_t elements) {
    CountContributions(ForgivenFor::kEvicted, elements);
  }
  // The trainer has left: releases all accounts, forgives all state.
  void Clear();

  // Forgives the state of a bucket or of all, and what open ops of it have
  // still to book or get. Those ops go on as one-shot ones.
  void Reset(uint64_t bucket);
  void ResetAll();
  // The parameters were replaced by others that hold every result so far
  // (resync): debts are void. Between steps; residuals stay.
  void ClearDebts();

  // Accounts that are handed out, and those that wait for their step's close.
  std::span<Account* const> open() const { return open_; }
  // No account is open but settled ones: all state is in residuals and debts.
  bool IsQuiet() const;
  // The state as bytes (docs/ARCHITECTURE.md, "Saved residuals and debts").
  size_t StateBytes() const;
  // `out` has StateBytes() bytes. Only while quiet.
  void Export(std::span<uint8_t> out) const;
  // Replaces all state; what was here is forgiven as reset. The bytes may come
  // from anywhere: nothing changes unless they are valid.
  ImportResult Import(std::span<const uint8_t> state);

  // A copy of a bucket's residual and debt, its count of elements each, for
  // whoever checks the account. False for an unknown bucket.
  bool Read(uint64_t bucket, float* residual, float* debt) const;

  const Forgiven& forgiven(ForgivenFor reason) const {
    return forgiven_[static_cast<size_t>(reason)];
  }
  const ForgivenCounts& forgiven() const { return forgiven_; }
  size_t memory_used() const { return arena_.used(); }
  size_t memory_capacity() const { return arena_.capacity(); }

 private:
  friend class Account;

  void Close(Account* account, StepOutcome outcome);
  Bucket* Find(uint64_t key);
  Bucket* FindOrMake(const OpDescriptor& op);
  bool Make(Bucket* bucket, const OpDescriptor& op);
  bool Recut(Bucket* bucket, const OpDescriptor& op);
  uint64_t MoveToPlan(const ChunkInfo& from, size_t skipped, float** block,
                      const ChunkPlan& plan, float** to);
  void Remove(Bucket* bucket, ForgivenFor reason);
  void ResetBucket(Bucket* bucket, ForgivenFor reason);
  bool IsEmpty(const Bucket& bucket) const;
  bool MakeRoom(const Bucket* keep);
  bool ForgiveOldest();
  void* AllocateForSubmit(size_t bytes, const Bucket* keep);
  void SetScale(Bucket* bucket, float scale);
  void ForgiveDebts(Bucket* bucket, ForgivenFor reason);
  void ForgiveResiduals(Bucket* bucket, ForgivenFor reason);
  bool ImportBucket(const uint8_t* record);

  // For accounts. A block for `elements` floats, or null.
  float* Allocate(size_t elements);
  void Free(float** block);
  // Adds a block to a stored one and frees it.
  uint64_t MoveInto(float** stored, float** block, float factor, size_t n);
  void CountContributions(ForgivenFor reason, uint64_t elements) {
    forgiven_[static_cast<size_t>(reason)].contributions += elements;
  }
  void CountResults(ForgivenFor reason, uint64_t elements) {
    forgiven_[static_cast<size_t>(reason)].results += elements;
  }
  float* scratch() { return scratch_.data(); }

  const LedgerConfig config_;
  ByteArena arena_;
  std::vector<Bucket> buckets_;
  std::vector<Account> accounts_;
  std::vector<Account*> open_;  // those in use, by age
  std::vector<Account*> free_;
  std::vector<float> scratch_;  // one chunk
  ForgivenCounts forgiven_{};
  uint64_t uses_ = 0;
};

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_LEDGER_H_
