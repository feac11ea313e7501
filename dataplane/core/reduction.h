// The owner's side of one op: the shard this rank reduces.
//
// Bounded mode sums contributions as they arrive into accumulators; a chunk is
// frozen with whatever set it has. Exact mode holds them in a stash of a few
// chunks and reduces a chunk in rank order once all are there, so that every
// arrival order gives the same bits. A frozen chunk's result is final and stays
// in the daemon's memory, so that it outlives the trainer's buffers.

#ifndef OPTIREDUCE_DATAPLANE_CORE_REDUCTION_H_
#define OPTIREDUCE_DATAPLANE_CORE_REDUCTION_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/bitmap.h"
#include "dataplane/core/plan.h"
#include "dataplane/core/types.h"

namespace optireduce::core {

class Reduction {
 public:
  enum class AddResult : uint8_t { kAdded, kDuplicate, kFrozen, kBeyondCredit };

  // An empty shard.
  Reduction() = default;
  // `memory` holds BytesNeeded(...) bytes, any content, 64-byte aligned; it
  // must outlive the object. Nothing of it is freed here.
  Reduction(const OpDescriptor& op, const ChunkPlan& plan, Rank self,
            size_t world, uint8_t* memory);
  static size_t BytesNeeded(const OpDescriptor& op, const ChunkPlan& plan,
                            Rank self, size_t world);
  // Chunks that an exact op's senders may run ahead of the owner.
  static uint32_t CreditWindow(uint32_t payload_bytes, size_t world);

  uint32_t chunks() const { return chunks_; }
  uint32_t frozen_count() const { return frozen_count_; }
  bool all_frozen() const { return frozen_count_ == chunks_; }
  // All chunks before this are frozen.
  uint32_t prefix() const { return prefix_; }
  // First chunk that the stash cannot take yet; chunks() in bounded mode.
  uint32_t credit_limit() const;

  // A contribution of `source` to chunk `local` (< chunks()); `payload` has the
  // chunk's bytes. In exact mode the own rank's payload is read at the freeze,
  // not now, and passed then; here it may be null.
  AddResult Add(uint32_t local, Rank source, const uint8_t* payload);

  bool IsFrozen(uint32_t local) const { return frozen_.Test(local); }
  bool HasArrived(uint32_t local, Rank source) const;
  // Contributions summed; of a frozen chunk this is c, final.
  uint16_t Contributors(uint32_t local) const { return counts_[local]; }

  // Makes the chunk's result final. Exact mode: all ranks have arrived, and
  // `own_input` is this rank's own contribution.
  void Freeze(uint32_t local, const uint8_t* own_input);
  // The same for a bounded op with residuals (gradcodec/residual.h).
  void FreezeBucketed(uint32_t local, bool imputed);

  // Whether a frozen chunk's missing contributions were imputed.
  bool IsImputed(uint32_t local) const {
    return chunks_ != 0 && imputed_.Test(local);
  }
  // Of a frozen chunk, in the plan's wire type.
  std::span<const uint8_t> Result(uint32_t local) const;
  // What the rounding of that result has left of the sum, for the owner's
  // residual. Empty if there is nothing: in one-shot and exact ops, where the
  // wire type is as wide as the sums, and of a chunk without contributions.
  std::span<const float> Remainder(uint32_t local) const;

 private:
  struct Layout;

  uint32_t Slot(uint32_t local) const { return local % window_; }
  uint64_t* ArrivedWords(uint32_t local) const;
  uint32_t ElementsOf(uint32_t local) const;
  uint8_t* StashEntry(uint32_t local, size_t rank) const;
  uint8_t* Accumulator(uint32_t local) const;
  uint8_t* ResultAt(uint32_t local) const;
  void RoundBucketed(uint32_t local, bool imputed);
  void ReduceBounded(uint32_t local);
  void ReduceExact(uint32_t local, const uint8_t* own_input);
  void NoteFrozen(uint32_t local);

  OpDescriptor op_;
  gradcodec::Dtype dtype_ = gradcodec::Dtype::kFloat32;
  Rank self_{};
  uint32_t world_ = 0;
  uint32_t chunks_ = 0;
  uint64_t elements_ = 0;
  uint32_t elements_per_chunk_ = 0;
  uint32_t element_bytes_ = 0;
  uint32_t accumulator_bytes_ = 0;  // of an element; exact: of a result element
  uint32_t window_ = 1;             // chunks in the stash
  uint32_t arrived_words_ = 0;      // per chunk
  uint32_t frozen_count_ = 0;
  uint32_t prefix_ = 0;

  // Carved from the caller's memory. Bounded: results replace accumulators at
  // the same place; or have one of their own, and remainders replace them.
  uint8_t* values_ = nullptr;
  uint8_t* results_ = nullptr;  // null: among the values
  uint8_t* stash_ = nullptr;
  uint64_t* arrived_ = nullptr;
  uint16_t* counts_ = nullptr;
  BitmapView frozen_;
  BitmapView imputed_;
};

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_REDUCTION_H_
