#include "dataplane/core/ledger.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "dataplane/base/require.h"
#include "gradcodec/residual.h"

namespace optireduce::core {
namespace {

// Ops of a bucket in the same type on the wire cut it in the same chunks; only
// their owners differ.
ChunkPlan PlanOf(const OpDescriptor& op, const LedgerConfig& config) {
  return ChunkPlan(op, config.world, config.payload_bytes, 0, OpSeq());
}

}  // namespace

Ledger::Ledger(const LedgerConfig& config)
    : config_(config),
      arena_(config.budget),
      buckets_(config.max_buckets),
      accounts_(config.max_ops),
      // The narrowest type has two bytes.
      scratch_(config.payload_bytes / 2) {
  open_.reserve(config.max_ops);
  free_.reserve(config.max_ops);
  for (Account& account : accounts_) free_.push_back(&account);
}

bool Ledger::Supports(const OpDescriptor& op) {
  return op.bucket != 0 && op.count != 0 &&
         (op.collective == Collective::kAllReduce ||
          (op.collective == Collective::kReduceScatter &&
           op.mode == Mode::kBounded)) &&
         (op.codec == Codec::kNone || IsNarrowing(op.codec)) &&
         gradcodec::HasResidual(op.dtype) &&
         (op.reduce_op == gradcodec::ReduceOp::kSum ||
          op.reduce_op == gradcodec::ReduceOp::kAvg);
}

bool Ledger::IsValidScale(float scale) {
  return scale > 0 && std::isnormal(scale);
}

// ---- buckets

Bucket* Ledger::Find(uint64_t key) {
  for (Bucket& bucket : buckets_) {
    if (bucket.key == key) return &bucket;
  }
  return nullptr;
}

Bucket* Ledger::FindOrMake(const OpDescriptor& op) {
  Bucket* bucket = Find(op.bucket);
  if (bucket != nullptr) {
    if (bucket->count == op.count && bucket->dtype == op.dtype &&
        bucket->reduce_op == op.reduce_op) {
      return bucket;
    }
    Remove(bucket, ForgivenFor::kReset);
  } else {
    bucket = Find(0);
    if (bucket == nullptr && MakeRoom(nullptr)) bucket = Find(0);
    if (bucket == nullptr) return nullptr;
  }
  return Make(bucket, op) ? bucket : nullptr;
}

bool Ledger::Make(Bucket* bucket, const OpDescriptor& op) {
  const ChunkPlan plan = PlanOf(op, config_);
  const size_t chunks = plan.chunk_limit();
  void* tables = AllocateForSubmit(2 * chunks * sizeof(float*), bucket);
  if (tables == nullptr) return false;
  std::memset(tables, 0, 2 * chunks * sizeof(float*));
  *bucket = Bucket();
  bucket->key = op.bucket;
  bucket->count = op.count;
  bucket->dtype = op.dtype;
  bucket->reduce_op = op.reduce_op;
  bucket->plan = plan;
  bucket->residual = static_cast<float**>(tables);
  bucket->debt = bucket->residual + chunks;
  return true;
}

// Its next op travels in another type, and so in other chunks. Ops that still
// have something to book or to get know the old ones only. False if there is no
// memory for the tables now.
bool Ledger::Recut(Bucket* bucket, const OpDescriptor& op) {
  const ChunkPlan plan = PlanOf(op, config_);
  const size_t chunks = plan.chunk_limit();
  void* tables = AllocateForSubmit(2 * chunks * sizeof(float*), bucket);
  if (tables == nullptr) return false;
  std::memset(tables, 0, 2 * chunks * sizeof(float*));
  for (Account* account : open_) {
    if (account->bucket_ == bucket && !account->is_settled()) {
      account->Detach(ForgivenFor::kReset);
    }
  }
  float** const residual = static_cast<float**>(tables);
  float** const debt = residual + chunks;
  for (uint32_t i = 0; i < bucket->plan.chunk_limit(); ++i) {
    const std::optional<ChunkInfo> from = bucket->plan.Locate(i);
    if (!from.has_value()) continue;
    const size_t skipped =
        size_t{from->local} * bucket->plan.elements_per_chunk();
    CountContributions(
        ForgivenFor::kNoMemory,
        MoveToPlan(*from, skipped, &bucket->residual[i], plan, residual));
    CountResults(ForgivenFor::kNoMemory,
                 MoveToPlan(*from, skipped, &bucket->debt[i], plan, debt));
  }
  arena_.Free(bucket->residual);
  bucket->plan = plan;
  bucket->residual = residual;
  bucket->debt = debt;
  return true;
}

// Moves a block, `skipped` elements behind its shard's start, to the blocks of
// another plan. Returns the elements for which there was no memory.
uint64_t Ledger::MoveToPlan(const ChunkInfo& from, size_t skipped,
                            float** block, const ChunkPlan& plan, float** to) {
  if (*block == nullptr) return 0;
  uint64_t lost = 0;
  for (size_t done = 0; done < from.elements;) {
    const size_t at = skipped + done;
    const auto local = static_cast<uint32_t>(at / plan.elements_per_chunk());
    const ChunkInfo info = plan.ChunkOf(from.owner, local);
    const size_t offset = at % plan.elements_per_chunk();
    const size_t n = std::min(from.elements - done, info.elements - offset);
    float*& target = to[info.chunk];
    if (target == nullptr) {
      target = Allocate(info.elements);
      if (target != nullptr) {
        std::memset(target, 0, info.elements * sizeof(float));
      }
    }
    if (target != nullptr) {
      std::memcpy(target + offset, *block + done, n * sizeof(float));
    } else {
      lost += n;
    }
    done += n;
  }
  Free(block);
  return lost;
}

void Ledger::ForgiveResiduals(Bucket* bucket, ForgivenFor reason) {
  for (uint32_t i = 0; i < bucket->plan.chunk_limit(); ++i) {
    if (bucket->residual[i] == nullptr) continue;
    CountContributions(reason, bucket->plan.Locate(i)->elements);
    Free(&bucket->residual[i]);
  }
}

void Ledger::ForgiveDebts(Bucket* bucket, ForgivenFor reason) {
  for (uint32_t i = 0; i < bucket->plan.chunk_limit(); ++i) {
    if (bucket->debt[i] == nullptr) continue;
    CountResults(reason, bucket->plan.Locate(i)->elements);
    Free(&bucket->debt[i]);
  }
}

void Ledger::ResetBucket(Bucket* bucket, ForgivenFor reason) {
  for (size_t i = open_.size(); i-- > 0;) {
    Account* account = open_[i];
    if (account->bucket_ != bucket) continue;
    account->Detach(reason);
    if (account->release_at_close_) Release(account);
  }
  ForgiveResiduals(bucket, reason);
  ForgiveDebts(bucket, reason);
}

void Ledger::Remove(Bucket* bucket, ForgivenFor reason) {
  ResetBucket(bucket, reason);
  arena_.Free(bucket->residual);
  *bucket = Bucket();
}

void Ledger::Reset(uint64_t key) {
  Bucket* bucket = key == 0 ? nullptr : Find(key);
  if (bucket != nullptr) Remove(bucket, ForgivenFor::kReset);
}

void Ledger::ResetAll() {
  for (Bucket& bucket : buckets_) {
    if (bucket.key != 0) Remove(&bucket, ForgivenFor::kReset);
  }
}

void Ledger::ClearDebts() {
  for (Bucket& bucket : buckets_) {
    if (bucket.key != 0) ForgiveDebts(&bucket, ForgivenFor::kOverwritten);
  }
  for (Account* account : open_) {
    if (account->bucket_ != nullptr && account->has_ended() &&
        account->step_ == Account::Step::kUsed) {
      account->ForgiveMissingResults(ForgivenFor::kOverwritten);
    }
  }
}

// When gradients come with another loss scale, so does what is kept of them.
void Ledger::SetScale(Bucket* bucket, float scale) {
  if (bucket->scale == scale) return;
  const float factor = scale / bucket->scale;
  bucket->scale = scale;
  for (uint32_t i = 0; i < bucket->plan.chunk_limit(); ++i) {
    if (bucket->residual[i] != nullptr) {
      CountContributions(ForgivenFor::kNonFinite,
                         gradcodec::Rescale(factor, bucket->residual[i],
                                            bucket->plan.Locate(i)->elements));
    }
    if (bucket->debt[i] != nullptr) {
      CountResults(ForgivenFor::kNonFinite,
                   gradcodec::Rescale(factor, bucket->debt[i],
                                      bucket->plan.Locate(i)->elements));
    }
  }
}

bool Ledger::Read(uint64_t key, float* residual, float* debt) const {
  for (const Bucket& bucket : buckets_) {
    if (key == 0 || bucket.key != key) continue;
    std::memset(residual, 0, bucket.count * sizeof(float));
    std::memset(debt, 0, bucket.count * sizeof(float));
    for (uint32_t i = 0; i < bucket.plan.chunk_limit(); ++i) {
      const std::optional<ChunkInfo> info = bucket.plan.Locate(i);
      if (!info.has_value()) continue;
      const size_t bytes = info->elements * sizeof(float);
      if (bucket.residual[i] != nullptr) {
        std::memcpy(residual + info->first, bucket.residual[i], bytes);
      }
      if (bucket.debt[i] != nullptr) {
        std::memcpy(debt + info->first, bucket.debt[i], bytes);
      }
    }
    return true;
  }
  return false;
}

// ---- ops

Account* Ledger::Open(const OpDescriptor& op, OpSeq seq, float scale,
                      const uint8_t* input) {
  Require(Supports(op) && IsValidScale(scale));
  Bucket* bucket = FindOrMake(op);
  if (bucket == nullptr) return nullptr;
  for (size_t i = open_.size(); i-- > 0;) {  // rule 13
    if (open_[i]->bucket_ == bucket) Close(open_[i], StepOutcome::kUsed);
  }
  if (free_.empty()) return nullptr;
  if (bucket->plan.wire_dtype() != WireDtype(op) && !Recut(bucket, op)) {
    return nullptr;
  }
  const size_t chunks = bucket->plan.chunk_limit();
  void* table = AllocateForSubmit(chunks * sizeof(Account::Chunk), bucket);
  if (table == nullptr) return nullptr;
  SetScale(bucket, scale);
  bucket->last_used = ++uses_;
  Account* account = free_.back();
  free_.pop_back();
  open_.push_back(account);
  // The same chunks, with their owners where those are always the same.
  account->Begin(this, bucket, op, PlanOf(op, config_), seq, scale, input,
                 static_cast<Account::Chunk*>(table));
  return account;
}

bool Ledger::HasRoomFor(uint32_t chunks) const {
  return ByteArena::Cost(2 * size_t{chunks} * sizeof(float*)) +
             ByteArena::Cost(size_t{chunks} * sizeof(Account::Chunk)) <=
         arena_.capacity();
}

void Ledger::Release(Account* account) {
  void* table = account->chunks_;
  account->End();
  arena_.Free(table);
  std::erase(open_, account);
  free_.push_back(account);
}

void Ledger::ReleaseAtClose(Account* account) {
  if (account->is_settled()) {
    Release(account);
  } else {
    account->release_at_close_ = true;
  }
}

void Ledger::Close(Account* account, StepOutcome outcome) {
  if (outcome == StepOutcome::kUsed) {
    account->CloseUsed();
  } else {
    account->CloseSkipped();
  }
  if (account->release_at_close_) Release(account);
}

size_t Ledger::CloseStep(uint64_t step, StepOutcome outcome) {
  size_t closed = 0;
  for (size_t i = open_.size(); i-- > 0;) {
    if (open_[i]->step_number_ != step || open_[i]->is_closed()) continue;
    Close(open_[i], outcome);
    ++closed;
  }
  return closed;
}

void Ledger::Clear() {
  while (!open_.empty()) Release(open_.back());
  ResetAll();
}

bool Ledger::IsQuiet() const {
  return std::all_of(open_.begin(), open_.end(), [](const Account* account) {
    return account->is_settled();
  });
}

// ---- memory

float* Ledger::Allocate(size_t elements) {
  void* block = arena_.Allocate(elements * sizeof(float));
  while (block == nullptr && ForgiveOldest()) {
    block = arena_.Allocate(elements * sizeof(float));
  }
  return static_cast<float*>(block);
}

void Ledger::Free(float** block) {
  arena_.Free(*block);
  *block = nullptr;
}

uint64_t Ledger::MoveInto(float** stored, float** block, float factor,
                          size_t n) {
  uint64_t dropped = 0;
  if (*stored == nullptr) {
    if (factor != 1.0f) dropped = gradcodec::Rescale(factor, *block, n);
    *stored = *block;
    *block = nullptr;
  } else {
    dropped = gradcodec::AddToStored(*block, factor, *stored, n);
    Free(block);
  }
  return dropped;
}

// The contributions of the oldest op that is over and closed; false if none
// holds any.
bool Ledger::ForgiveOldest() {
  Account* oldest = nullptr;
  for (Account* account : open_) {
    if (account->bucket_ == nullptr || !account->has_ended() ||
        account->step_ != Account::Step::kUsed ||
        account->lacking_bookings_ == 0) {
      continue;
    }
    if (oldest == nullptr || account->seq_.IsBefore(oldest->seq_)) {
      oldest = account;
    }
  }
  if (oldest == nullptr) return false;
  oldest->ForgiveHeld(ForgivenFor::kNoMemory);
  return true;
}

bool Ledger::IsEmpty(const Bucket& bucket) const {
  for (uint32_t i = 0; i < bucket.plan.chunk_limit(); ++i) {
    if (bucket.residual[i] != nullptr || bucket.debt[i] != nullptr) {
      return false;
    }
  }
  return true;
}

// Gives up one bucket that no open op uses, but `keep`.
bool Ledger::MakeRoom(const Bucket* keep) {
  Bucket* unused = nullptr;
  bool any_open = false;
  for (Bucket& bucket : buckets_) {
    any_open |= bucket.open_ops != 0;
    if (bucket.key == 0 || bucket.open_ops != 0 || &bucket == keep) continue;
    if (IsEmpty(bucket)) {
      Remove(&bucket, ForgivenFor::kNoMemory);
      return true;
    }
    if (unused == nullptr || bucket.last_used < unused->last_used) {
      unused = &bucket;
    }
  }
  if (unused == nullptr || any_open) return false;
  Remove(unused, ForgivenFor::kNoMemory);
  return true;
}

void* Ledger::AllocateForSubmit(size_t bytes, const Bucket* keep) {
  void* memory = arena_.Allocate(bytes);
  while (memory == nullptr && (ForgiveOldest() || MakeRoom(keep))) {
    memory = arena_.Allocate(bytes);
  }
  return memory;
}

}  // namespace optireduce::core
