// The receiver's side of one op: which reduced chunks are here, and the account
// of what they hold.

#ifndef OPTIREDUCE_DATAPLANE_CORE_ASSEMBLY_H_
#define OPTIREDUCE_DATAPLANE_CORE_ASSEMBLY_H_

#include <cstddef>
#include <cstdint>

#include "dataplane/base/bitmap.h"
#include "dataplane/core/plan.h"
#include "dataplane/core/report.h"
#include "dataplane/core/types.h"
#include "gradcodec/contribution.h"

namespace optireduce::core {

// Keeps the account only; where the bytes go is the op's business.
class Assembly {
 public:
  Assembly() = default;
  // `memory`: BytesNeeded(plan) bytes, 64-byte aligned, any content.
  Assembly(const OpDescriptor& op, const ChunkPlan& plan, Rank self,
           uint8_t* memory);
  static size_t BytesNeeded(const ChunkPlan& plan);

  // Chunks that this rank is to get or, in a bounded reduce-scatter, to hear
  // of: all, but in an exact reduce-scatter its own.
  uint32_t due() const { return due_; }
  uint32_t present() const { return present_count_; }
  bool complete() const { return present_count_ == due_; }
  bool Has(uint32_t chunk) const { return present_.Test(chunk); }
  // Of the chunks that are here, but for those to which nobody contributed.
  uint64_t present_elements() const {
    return tally_.elements() - tally_.absent();
  }

  // A reduced chunk of `contributors` is here; false if it already was.
  bool Note(const ChunkInfo& info, uint16_t contributors);

  // The owner of another shard has said which contributions it has summed.
  void NoteAccount(const ChunkInfo& info) {
    if (!present_.TestAndSet(info.chunk)) ++present_count_;
  }

  // Chunks of `owner` that are here, counted from its first without a gap.
  uint32_t PrefixOf(Rank owner) const;

  // Adds the account to the report.
  void Summarize(OpReport* report) const;

 private:
  ChunkPlan plan_;
  uint32_t due_ = 0;
  uint32_t present_count_ = 0;
  uint64_t due_elements_ = 0;
  gradcodec::ContributionTally tally_;  // of the chunks that are here
  BitmapView present_;                  // by chunk number
};

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_ASSEMBLY_H_
