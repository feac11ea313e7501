// What one rank owes and is owed in one bucketed op: its contributions until
// they are booked, and the results that it still has to get.
//
// An account lives from the submit (Ledger::Open) until all ranks are done with
// the op (Ledger::Release). docs/ARCHITECTURE.md, "Residuals and debts", has
// the calls and the rules of docs/PROTOCOL.md that they follow. In this order:
//
//     Contribution   for each packet of DATA, first or repeated
//     OnResult       for each RESULT, wherever it comes from, in any order with
//                    the next three
//     Complete/Fail  when the op ends for the trainer
//     CloseUsed/CloseSkipped
//                    when the trainer closes the step, or without steps at once
//     OwnerGone, NoHolder, Evict
//                    when there is nobody left to ask
//
// No call fails: what cannot be kept is forgiven, and the ledger counts it.

#ifndef OPTIREDUCE_DATAPLANE_CORE_ACCOUNT_H_
#define OPTIREDUCE_DATAPLANE_CORE_ACCOUNT_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "dataplane/core/forgiven.h"
#include "dataplane/core/plan.h"
#include "dataplane/core/types.h"
#include "gradcodec/dtype.h"

namespace optireduce::core {

class Ledger;
struct Bucket;

// A reduced chunk as it comes: from its owner, from another rank that holds it,
// or by the decision that it is void (c = 0).
struct ChunkResult {
  const uint8_t* payload = nullptr;  // wire type; not read if c = 0
  uint16_t contributors = 0;         // c
  bool imputed = false;
  // Whether this rank's contribution was summed: only its owner can say.
  std::optional<bool> included;
  // At the owner: what rounding the result has left of the sum; null: nothing.
  // It is booked with the contribution, and `included` is known then.
  const float* remainder = nullptr;
};

enum class Placed : uint8_t {
  kOutput,     // in the trainer's buffer
  kDebt,       // owed: comes with a later op's output, if its step is used
  kNowhere,    // the step was skipped, or the result was forgiven before
  kDuplicate,  // it is here already; its `included` may still have been news
  kConflict,   // differs from the one that is here: its sender is broken
};

// Belongs to a Ledger, which owns all memory. Not thread-safe.
class Account {
 public:
  Account() = default;
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  OpSeq seq() const { return seq_; }
  uint64_t step() const { return step_number_; }

  // The payload of this rank's DATA for a chunk; alike each time. False once
  // its contribution is booked or forgiven: it is never to be sent again. Works
  // after the op's end too, as long as the owner may still ask.
  bool Contribution(const ChunkInfo& info, uint8_t* packet);

  // `out` is the chunk's place in the trainer's output. It must be there until
  // the op ends, and if it ends well until its step is closed; it is not used
  // later. In place, it may overwrite the chunk's input: what is needed of that
  // is kept first.
  Placed OnResult(const ChunkInfo& info, const ChunkResult& result,
                  uint8_t* out);

  // In a reduce-scatter, of a chunk of another rank's, of which there is no
  // result: what that owner says of this rank's contribution. The first word
  // counts.
  void OnAccount(const ChunkInfo& info, bool included);

  // The op ends with a result: absent chunks of `output`, all of the buffer,
  // become zero, and the bucket's debts are paid into it (rule 12). The input
  // buffer is not read after this.
  void Complete(uint8_t* output);
  // The op ends with an error: no debt is paid, and the results that `output`
  // holds are owed (rule 14).
  void Fail(const uint8_t* output);

  // The step is closed (rule 13), by whichever comes first. As used: what was
  // booked enters the residual, later results are debts. As skipped: residual
  // and debts are as before the op; takes effect at the op's end if that is
  // still to come. The trainer reads its output after this.
  void CloseUsed();
  void CloseSkipped();

  // Rule 18. The owner of this chunk has nothing any more, or was removed and
  // its results decided upon: from then on a result from a holder is all that
  // can come, and the contribution is forgiven with it.
  void OwnerGone(const ChunkInfo& info);
  // No other living rank has the result either.
  void NoHolder(const ChunkInfo& info);

  // Rule 21: forgives what is still to come. After the op's end only; the step
  // is closed apart.
  void Evict();

  bool has_ended() const {
    return phase_ == Phase::kComplete || phase_ == Phase::kFailed;
  }
  // Whether the step is closed, or will be by the op's end.
  bool is_closed() const { return step_ != Step::kOpen || skip_at_end_; }
  // No result is still waited for: the op may complete.
  bool has_all_results() const { return lacking_results_ == 0; }
  // Nobody need be asked for anything. The step may still be open.
  bool has_everything() const {
    return lacking_results_ == 0 && lacking_bookings_ == 0;
  }
  // Rule 19: nothing is owed either way.
  bool is_settled() const;

  // Of a chunk: what a question to its owner is about (rule 16).
  bool LacksResult(uint32_t chunk) const;
  bool LacksBooking(uint32_t chunk) const;
  // The first chunk at or after `from` that lacks either; the plan's
  // chunk_limit() if there is none.
  uint32_t FindLacking(uint32_t from) const;

 private:
  friend class Ledger;

  enum class Phase : uint8_t { kFree, kRunning, kComplete, kFailed };
  enum class Step : uint8_t { kOpen, kUsed, kSkipped };

  static constexpr uint8_t kHasResult = 1;
  static constexpr uint8_t kResultForgiven = 2;
  static constexpr uint8_t kIncludedKnown = 4;
  static constexpr uint8_t kBooked = 8;
  static constexpr uint8_t kContributionForgiven = 16;
  static constexpr uint8_t kOwnerGone = 32;
  static constexpr uint8_t kInOutput = 64;

  // All blocks are float32, one element each; null: zero, or none.
  struct Chunk {
    // The contribution v while it is held; once booked, the new residual, which
    // waits for the step's close.
    float* value = nullptr;
    float* taken = nullptr;  // the bucket's residual that went into v
    // Completed: the debt that was paid. Failed: the result that is owed if the
    // step is used.
    float* debt = nullptr;
    uint32_t result_hash = 0;
    uint16_t contributors = 0;
    uint8_t flags = 0;
    bool imputed = false;

    bool has(uint8_t any_of) const { return (flags & any_of) != 0; }
  };

  void Begin(Ledger* ledger, Bucket* bucket, const OpDescriptor& op,
             const ChunkPlan& plan, OpSeq seq, float scale,
             const uint8_t* input, Chunk* chunks);
  void End();
  void Detach(ForgivenFor reason);
  void ForgiveHeld(ForgivenFor reason);
  void ForgiveMissingResults(ForgivenFor reason);

  template <typename F>
  void ForEachChunk(F f);
  bool ReadContribution(const ChunkInfo& info, const Chunk& chunk,
                        float* out) const;
  void Hold(const ChunkInfo& info, Chunk* chunk);
  void ReleaseInput();
  bool IsExactOnWire(const Chunk& chunk) const;
  void BookValue(const ChunkResult& result, bool included, float* value,
                 size_t n);
  void Book(const ChunkInfo& info, Chunk* chunk, const ChunkResult& result,
            bool included);
  void Commit(const ChunkInfo& info, Chunk* chunk);
  Placed Place(const ChunkInfo& info, Chunk* chunk, const ChunkResult& result,
               uint8_t* out);
  void PutInPlace(const ChunkInfo& info, Chunk* chunk,
                  const ChunkResult& result, uint8_t* out);
  Placed Owe(const ChunkInfo& info, Chunk* chunk, gradcodec::Dtype type,
             const uint8_t* result);
  bool OweRest(const ChunkInfo& info, const float* rest);
  void TakeDebt(const ChunkInfo& info, Chunk* chunk, uint8_t* out);
  void SkipNow();
  void DropBlocks(Chunk* chunk);
  void ForgiveContribution(const ChunkInfo& info, Chunk* chunk,
                           ForgivenFor reason);
  void ForgiveResult(const ChunkInfo& info, Chunk* chunk, ForgivenFor reason);
  float Factor() const;
  bool HasOutput(const ChunkInfo& info) const;
  size_t InputOffset(const ChunkInfo& info) const;
  size_t OutputOffset(const ChunkInfo& info) const;
  uint32_t HashOf(const ChunkInfo& info, const ChunkResult& result) const;

  Ledger* ledger_ = nullptr;
  Bucket* bucket_ = nullptr;  // null: detached, the bucket was reset
  ChunkPlan plan_;
  OpSeq seq_{};
  uint64_t step_number_ = 0;
  gradcodec::Dtype dtype_ = gradcodec::Dtype::kFloat32;  // of the buffers
  gradcodec::Dtype wire_ = gradcodec::Dtype::kFloat32;
  float divisor_ = 1;  // of a result, to get the mean: SUM's is the world
  bool scatters_ = false;
  float scale_ = 1;                 // the loss scale of this op's gradients
  const uint8_t* input_ = nullptr;  // null once the op has ended
  Chunk* chunks_ = nullptr;         // by chunk number
  uint32_t lacking_results_ = 0;
  uint32_t lacking_bookings_ = 0;
  Phase phase_ = Phase::kFree;
  Step step_ = Step::kOpen;
  bool skip_at_end_ = false;
  bool release_at_close_ = false;
};

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_ACCOUNT_H_
