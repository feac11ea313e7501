#include "dataplane/core/account.h"

#include <cstring>
#include <span>

#include "dataplane/base/crc32c.h"
#include "dataplane/base/require.h"
#include "dataplane/core/ledger.h"
#include "gradcodec/residual.h"

namespace optireduce::core {

using gradcodec::Dtype;

template <typename F>
void Account::ForEachChunk(F f) {
  for (uint32_t i = 0; i < plan_.chunk_limit(); ++i) {
    const std::optional<ChunkInfo> info = plan_.Locate(i);
    if (info.has_value()) f(*info, &chunks_[i]);
  }
}

void Account::Begin(Ledger* ledger, Bucket* bucket, const OpDescriptor& op,
                    const ChunkPlan& plan, OpSeq seq, float scale,
                    const uint8_t* input, Chunk* chunks) {
  ledger_ = ledger;
  bucket_ = bucket;
  plan_ = plan;
  seq_ = seq;
  step_number_ = op.step;
  dtype_ = op.dtype;
  wire_ = plan.wire_dtype();
  const bool is_sum = op.reduce_op == gradcodec::ReduceOp::kSum;
  divisor_ = is_sum ? static_cast<float>(ledger->config_.world) : 1.0f;
  scatters_ = op.collective == Collective::kReduceScatter;
  scale_ = scale;
  input_ = input;
  chunks_ = chunks;
  lacking_bookings_ = plan.total_chunks();
  lacking_results_ =
      scatters_ ? plan.ChunksOf(ledger->config_.self) : plan.total_chunks();
  phase_ = Phase::kRunning;
  step_ = Step::kOpen;
  skip_at_end_ = false;
  release_at_close_ = false;
  ++bucket->open_ops;
  for (uint32_t i = 0; i < plan.chunk_limit(); ++i) {
    chunks_[i] = Chunk();
    chunks_[i].taken = bucket->residual[i];  // rule 8
    bucket->residual[i] = nullptr;
  }
  if (!scatters_) return;
  ForEachChunk([this](const ChunkInfo& info, Chunk* chunk) {
    if (!HasOutput(info)) chunk->flags |= kHasResult;  // there is none
  });
}

void Account::End() {
  if (!is_settled()) Detach(ForgivenFor::kReset);
  ForEachChunk([this](const ChunkInfo&, Chunk* chunk) { DropBlocks(chunk); });
  if (bucket_ != nullptr) --bucket_->open_ops;
  bucket_ = nullptr;
  input_ = nullptr;
  chunks_ = nullptr;
  phase_ = Phase::kFree;
}

float Account::Factor() const { return bucket_->scale / scale_; }

// Whether the trainer gets it: all, or in a reduce-scatter the own shard.
bool Account::HasOutput(const ChunkInfo& info) const {
  return !scatters_ || info.owner == ledger_->config_.self;
}

size_t Account::InputOffset(const ChunkInfo& info) const {
  return info.first * gradcodec::SizeOf(dtype_);
}

size_t Account::OutputOffset(const ChunkInfo& info) const {
  const uint64_t first = scatters_
                             ? uint64_t{info.local} * plan_.elements_per_chunk()
                             : info.first;
  return first * gradcodec::SizeOf(dtype_);
}

void Account::DropBlocks(Chunk* chunk) {
  ledger_->Free(&chunk->value);
  ledger_->Free(&chunk->taken);
  ledger_->Free(&chunk->debt);
}

// ---- contributions

bool Account::ReadContribution(const ChunkInfo& info, const Chunk& chunk,
                               float* out) const {
  const bool detached = bucket_ == nullptr;
  if (chunk.has(kBooked | kContributionForgiven) && !detached) return false;
  if (!detached && chunk.value != nullptr) {
    std::memcpy(out, chunk.value, info.elements * sizeof(float));
    return true;
  }
  // Of a detached op the buffer is all there is, until a result may be in it.
  if (input_ == nullptr || (detached && chunk.has(kInOutput))) return false;
  gradcodec::AddResidual(dtype_, input_ + InputOffset(info), chunk.taken, out,
                         info.elements);
  return true;
}

bool Account::Contribution(const ChunkInfo& info, uint8_t* packet) {
  float* value = ledger_->scratch();
  if (!ReadContribution(info, chunks_[info.chunk], value)) return false;
  gradcodec::RoundToWire(wire_, value, packet, info.elements);
  return true;
}

// Keeps the contribution before the trainer's buffer changes.
void Account::Hold(const ChunkInfo& info, Chunk* chunk) {
  if (chunk->has(kBooked | kContributionForgiven) || chunk->value != nullptr) {
    return;
  }
  float* block = ledger_->Allocate(info.elements);
  if (block == nullptr) {
    ForgiveContribution(info, chunk, ForgivenFor::kNoMemory);
    return;
  }
  ReadContribution(info, *chunk, block);
  chunk->value = block;
}

void Account::ReleaseInput() {
  ForEachChunk([this](const ChunkInfo& info, Chunk* chunk) {
    Hold(info, chunk);
    // With the step closed nobody needs the old residual any more.
    if (step_ == Step::kUsed) ledger_->Free(&chunk->taken);
  });
  input_ = nullptr;
}

// ---- booking

// Whether what was summed is the contribution to the last bit.
bool Account::IsExactOnWire(const Chunk& chunk) const {
  return wire_ == Dtype::kFloat32 ||
         (wire_ == dtype_ && chunk.taken == nullptr && chunk.value == nullptr);
}

// Rule 10. `value` is the contribution, and becomes its residual.
void Account::BookValue(const ChunkResult& result, bool included, float* value,
                        size_t n) {
  uint64_t dropped = 0;
  if (included) {
    gradcodec::BookSummed(wire_, value, n);
  } else {
    const uint8_t* mean =
        result.imputed && result.contributors > 0 ? result.payload : nullptr;
    dropped = gradcodec::BookMissing(wire_, mean, divisor_, value, n);
  }
  if (result.remainder != nullptr) {
    dropped += gradcodec::AddToStored(result.remainder, 1.0f, value, n);
  }
  ledger_->CountContributions(ForgivenFor::kNonFinite, dropped);
}

void Account::Book(const ChunkInfo& info, Chunk* chunk,
                   const ChunkResult& result, bool included) {
  if (chunk->has(kBooked | kContributionForgiven)) return;
  const size_t n = info.elements;
  if (included && IsExactOnWire(*chunk) && result.remainder == nullptr) {
    ledger_->Free(&chunk->value);
  } else {
    float* value = chunk->value;
    if (value == nullptr) {
      value = ledger_->scratch();
      ReadContribution(info, *chunk, value);
    }
    BookValue(result, included, value, n);
    if (!gradcodec::AnyNonZero(value, n)) {
      ledger_->Free(&chunk->value);
    } else if (chunk->value == nullptr) {
      chunk->value = ledger_->Allocate(n);
      if (chunk->value != nullptr) {
        std::memcpy(chunk->value, value, n * sizeof(float));
      } else {
        ledger_->CountContributions(ForgivenFor::kNoMemory, n);
      }
    }
  }
  chunk->flags |= kBooked;
  --lacking_bookings_;
  if (step_ == Step::kUsed) Commit(info, chunk);
}

void Account::Commit(const ChunkInfo& info, Chunk* chunk) {
  if (!chunk->has(kBooked) || chunk->value == nullptr) return;
  ledger_->CountContributions(
      ForgivenFor::kNonFinite,
      ledger_->MoveInto(&bucket_->residual[info.chunk], &chunk->value, Factor(),
                        info.elements));
}

// ---- results

uint32_t Account::HashOf(const ChunkInfo& info,
                         const ChunkResult& result) const {
  if (result.contributors == 0) return 0;
  return Crc32c(
      std::span(result.payload, info.elements * gradcodec::SizeOf(wire_)));
}

Placed Account::OnResult(const ChunkInfo& info, const ChunkResult& result,
                         uint8_t* out) {
  Chunk* chunk = &chunks_[info.chunk];
  const bool over = step_ == Step::kSkipped || bucket_ == nullptr;
  if (over && phase_ != Phase::kRunning) return Placed::kNowhere;
  const uint32_t hash = HashOf(info, result);
  const bool known = chunk->has(kHasResult);
  if (known &&
      (chunk->contributors != result.contributors ||
       chunk->imputed != result.imputed || chunk->result_hash != hash)) {
    return Placed::kConflict;
  }
  // Rule 9: the account and the result are taken once each. Booking comes
  // first, as in place the result overwrites the contribution. Rule 18: all and
  // none need no owner to say it.
  std::optional<bool> included = result.included;
  const uint16_t c = result.contributors;
  if (!included.has_value() && (c == 0 || c == ledger_->config_.world)) {
    included = c != 0;
  }
  if (included.has_value() && !chunk->has(kIncludedKnown)) {
    chunk->flags |= kIncludedKnown;
    Book(info, chunk, result, *included);
  }
  Placed placed = Placed::kDuplicate;
  if (!known) {
    placed = Place(info, chunk, result, out);
    if (!chunk->has(kResultForgiven)) --lacking_results_;
    chunk->flags |= kHasResult;
    chunk->contributors = c;
    chunk->imputed = result.imputed;
    chunk->result_hash = hash;
  }
  if (chunk->has(kOwnerGone)) {
    ForgiveContribution(info, chunk, ForgivenFor::kOwnerGone);
  }
  return placed;
}

// Nothing is imputed without a result (rule 10: a = 0).
void Account::OnAccount(const ChunkInfo& info, bool included) {
  const bool over = step_ == Step::kSkipped || bucket_ == nullptr;
  Chunk* chunk = &chunks_[info.chunk];
  if (over || HasOutput(info) || chunk->has(kIncludedKnown)) return;
  chunk->flags |= kIncludedKnown;
  Book(info, chunk, {}, included);
}

// Rule 11: a result is used once.
Placed Account::Place(const ChunkInfo& info, Chunk* chunk,
                      const ChunkResult& result, uint8_t* out) {
  if (chunk->has(kResultForgiven)) return Placed::kNowhere;
  const bool in_place = phase_ == Phase::kRunning ||
                        (phase_ == Phase::kComplete && step_ == Step::kOpen);
  if (!in_place) {
    if (result.contributors == 0) return Placed::kDebt;
    return Owe(info, chunk, wire_, result.payload);
  }
  Require(out != nullptr);
  Hold(info, chunk);
  PutInPlace(info, chunk, result, out);
  chunk->flags |= kInOutput;
  return Placed::kOutput;
}

void Account::PutInPlace(const ChunkInfo& info, Chunk* chunk,
                         const ChunkResult& result, uint8_t* out) {
  const size_t n = info.elements;
  if (result.contributors == 0) {
    // After the end it is zero already, or holds a debt.
    if (phase_ == Phase::kRunning) {
      std::memset(out, 0, n * gradcodec::SizeOf(dtype_));
    }
  } else if (chunk->debt == nullptr) {
    gradcodec::StoreResult(dtype_, wire_, result.payload, out, n);
  } else {
    float* rest = ledger_->scratch();
    // What does not fit beside the debt that was paid counts as not paid.
    if (gradcodec::AddResultToOutput(dtype_, wire_, result.payload, out, rest,
                                     n) &&
        OweRest(info, rest)) {
      gradcodec::AddToStored(rest, -1.0f, chunk->debt, n);
    }
  }
}

// To the bucket's debts, or until the step is closed to those of the op.
// `result` is in `type`.
Placed Account::Owe(const ChunkInfo& info, Chunk* chunk, Dtype type,
                    const uint8_t* result) {
  const bool waits = step_ == Step::kOpen;
  float** debt = waits ? &chunk->debt : &bucket_->debt[info.chunk];
  const size_t n = info.elements;
  if (*debt == nullptr) {
    *debt = ledger_->Allocate(n);
    if (*debt == nullptr) {
      // Not by ForgiveResult: it is here, and lacks no more.
      ledger_->CountResults(ForgivenFor::kNoMemory, n);
      return Placed::kNowhere;
    }
    std::memset(*debt, 0, n * sizeof(float));
  }
  ledger_->CountResults(ForgivenFor::kNonFinite,
                        gradcodec::AddResultToStored(
                            type, result, waits ? 1.0f : Factor(), *debt, n));
  return Placed::kDebt;
}

// What the output's type could not hold goes back to the bucket's debts.
bool Account::OweRest(const ChunkInfo& info, const float* rest) {
  float** debt = &bucket_->debt[info.chunk];
  if (*debt == nullptr) {
    *debt = ledger_->Allocate(info.elements);
    if (*debt == nullptr) {
      ledger_->CountResults(ForgivenFor::kNoMemory, info.elements);
      return false;
    }
    std::memset(*debt, 0, info.elements * sizeof(float));
  }
  ledger_->CountResults(
      ForgivenFor::kNonFinite,
      gradcodec::AddToStored(rest, Factor(), *debt, info.elements));
  return true;
}

// ---- the op's end

void Account::Complete(uint8_t* output) {
  Require(phase_ == Phase::kRunning);
  ReleaseInput();
  phase_ = Phase::kComplete;
  ForEachChunk([this, output](const ChunkInfo& info, Chunk* chunk) {
    if (!HasOutput(info)) return;
    uint8_t* out = output + OutputOffset(info);
    if (!chunk->has(kInOutput)) {
      std::memset(out, 0, info.elements * gradcodec::SizeOf(dtype_));
    }
    if (bucket_ != nullptr && !skip_at_end_) TakeDebt(info, chunk, out);
  });
  if (bucket_ == nullptr) ForgiveMissingResults(ForgivenFor::kReset);
  if (skip_at_end_) SkipNow();
}

// Rule 12.
void Account::TakeDebt(const ChunkInfo& info, Chunk* chunk, uint8_t* out) {
  float** debt = &bucket_->debt[info.chunk];
  if (*debt == nullptr) return;
  const size_t n = info.elements;
  chunk->debt = *debt;
  *debt = nullptr;
  if (Factor() != 1.0f) {
    ledger_->CountResults(ForgivenFor::kNonFinite,
                          gradcodec::Rescale(1.0f / Factor(), chunk->debt, n));
  }
  float* rest = ledger_->scratch();
  if (gradcodec::PayDebt(dtype_, out, chunk->debt, rest, n)) {
    OweRest(info, rest);
  }
  if (step_ == Step::kUsed) ledger_->Free(&chunk->debt);
}

// Rule 14.
void Account::Fail(const uint8_t* output) {
  Require(phase_ == Phase::kRunning);
  ReleaseInput();
  phase_ = Phase::kFailed;
  if (bucket_ == nullptr) {
    ForgiveMissingResults(ForgivenFor::kReset);
    return;
  }
  ForEachChunk([this, output](const ChunkInfo& info, Chunk* chunk) {
    if (!chunk->has(kInOutput) || chunk->contributors == 0) return;
    chunk->flags &= static_cast<uint8_t>(~kInOutput);
    if (!skip_at_end_) Owe(info, chunk, dtype_, output + OutputOffset(info));
  });
  if (skip_at_end_) SkipNow();
}

// ---- the step's close

void Account::CloseUsed() {
  if (step_ != Step::kOpen || skip_at_end_) return;
  step_ = Step::kUsed;
  if (bucket_ == nullptr) return;
  ForEachChunk([this](const ChunkInfo& info, Chunk* chunk) {
    Commit(info, chunk);
    if (phase_ == Phase::kRunning) return;
    ledger_->Free(&chunk->taken);
    if (phase_ == Phase::kFailed && chunk->debt != nullptr) {
      ledger_->CountResults(
          ForgivenFor::kNonFinite,
          ledger_->MoveInto(&bucket_->debt[info.chunk], &chunk->debt, Factor(),
                            info.elements));
    }
    ledger_->Free(&chunk->debt);
  });
}

void Account::CloseSkipped() {
  if (step_ != Step::kOpen) return;
  if (phase_ == Phase::kRunning) {
    skip_at_end_ = true;
  } else {
    SkipNow();
  }
}

void Account::SkipNow() {
  step_ = Step::kSkipped;
  lacking_results_ = lacking_bookings_ = 0;
  if (bucket_ == nullptr) return;
  ForEachChunk([this](const ChunkInfo& info, Chunk* chunk) {
    if (chunk->taken != nullptr) {
      ledger_->CountContributions(
          ForgivenFor::kNonFinite,
          ledger_->MoveInto(&bucket_->residual[info.chunk], &chunk->taken,
                            Factor(), info.elements));
    }
    if (phase_ == Phase::kComplete && chunk->debt != nullptr) {
      ledger_->CountResults(
          ForgivenFor::kNonFinite,
          ledger_->MoveInto(&bucket_->debt[info.chunk], &chunk->debt, Factor(),
                            info.elements));
    }
    DropBlocks(chunk);
  });
}

// ---- forgiving

void Account::ForgiveContribution(const ChunkInfo& info, Chunk* chunk,
                                  ForgivenFor reason) {
  if (chunk->has(kBooked | kContributionForgiven)) return;
  chunk->flags |= kContributionForgiven;
  --lacking_bookings_;
  ledger_->Free(&chunk->value);
  ledger_->CountContributions(reason, info.elements);
}

void Account::ForgiveResult(const ChunkInfo& info, Chunk* chunk,
                            ForgivenFor reason) {
  if (chunk->has(kHasResult | kResultForgiven)) return;
  chunk->flags |= kResultForgiven;
  --lacking_results_;
  ledger_->CountResults(reason, info.elements);
}

void Account::ForgiveHeld(ForgivenFor reason) {
  ForEachChunk([this, reason](const ChunkInfo& info, Chunk* chunk) {
    ForgiveContribution(info, chunk, reason);
  });
}

void Account::ForgiveMissingResults(ForgivenFor reason) {
  ForEachChunk([this, reason](const ChunkInfo& info, Chunk* chunk) {
    ForgiveResult(info, chunk, reason);
  });
}

void Account::OwnerGone(const ChunkInfo& info) {
  if (step_ == Step::kSkipped || bucket_ == nullptr) return;
  Chunk* chunk = &chunks_[info.chunk];
  chunk->flags |= kOwnerGone;
  if (chunk->has(kHasResult | kResultForgiven)) {
    ForgiveContribution(info, chunk, ForgivenFor::kOwnerGone);
  }
}

void Account::NoHolder(const ChunkInfo& info) {
  if (step_ == Step::kSkipped || bucket_ == nullptr) return;
  ForgiveResult(info, &chunks_[info.chunk], ForgivenFor::kNoHolder);
  OwnerGone(info);
}

void Account::Evict() {
  Require(has_ended());
  if (step_ == Step::kSkipped || bucket_ == nullptr) return;
  ForgiveHeld(ForgivenFor::kEvicted);
  ForgiveMissingResults(ForgivenFor::kEvicted);
}

// The bucket's state is given up, with all that this op still meant for it.
void Account::Detach(ForgivenFor reason) {
  if (bucket_ == nullptr) return;
  ForgiveHeld(reason);
  if (phase_ != Phase::kRunning) ForgiveMissingResults(reason);
  ForEachChunk([this, reason](const ChunkInfo& info, Chunk* chunk) {
    const size_t n = info.elements;
    if (chunk->value != nullptr) ledger_->CountContributions(reason, n);
    if (phase_ == Phase::kFailed && chunk->debt != nullptr) {
      ledger_->CountResults(reason, n);
    }
    DropBlocks(chunk);
  });
  --bucket_->open_ops;
  bucket_ = nullptr;
}

// ---- questions

bool Account::is_settled() const {
  if (!has_ended()) return false;
  if (bucket_ == nullptr) return true;
  return step_ != Step::kOpen && lacking_results_ == 0 &&
         lacking_bookings_ == 0;
}

bool Account::LacksResult(uint32_t chunk) const {
  return lacking_results_ != 0 && plan_.Locate(chunk).has_value() &&
         !chunks_[chunk].has(kHasResult | kResultForgiven);
}

bool Account::LacksBooking(uint32_t chunk) const {
  return lacking_bookings_ != 0 && plan_.Locate(chunk).has_value() &&
         !chunks_[chunk].has(kBooked | kContributionForgiven);
}

uint32_t Account::FindLacking(uint32_t from) const {
  if (lacking_results_ == 0 && lacking_bookings_ == 0) {
    return plan_.chunk_limit();
  }
  uint32_t chunk = from;
  while (chunk < plan_.chunk_limit() && !LacksResult(chunk) &&
         !LacksBooking(chunk)) {
    ++chunk;
  }
  return chunk;
}

}  // namespace optireduce::core
