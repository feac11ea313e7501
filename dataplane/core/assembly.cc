#include "dataplane/core/assembly.h"

#include <algorithm>

namespace optireduce::core {
namespace {

bool IsExactScatter(const OpDescriptor& op) {
  return op.collective == Collective::kReduceScatter &&
         op.mode != Mode::kBounded;
}

}  // namespace

size_t Assembly::BytesNeeded(const ChunkPlan& plan) {
  return BitmapView::WordsFor(plan.chunk_limit()) * 8;
}

Assembly::Assembly(const OpDescriptor& op, const ChunkPlan& plan, Rank self,
                   uint8_t* memory)
    : plan_(plan),
      due_(IsExactScatter(op) ? plan.ChunksOf(self) : plan.total_chunks()),
      due_elements_(op.collective == Collective::kReduceScatter
                        ? plan.ElementsOf(self)
                        : plan.elements()),
      present_({reinterpret_cast<uint64_t*>(memory),
                BitmapView::WordsFor(plan.chunk_limit())},
               plan.chunk_limit()) {
  present_.ClearAll();
}

bool Assembly::Note(const ChunkInfo& info, uint16_t contributors) {
  if (present_.TestAndSet(info.chunk)) return false;
  ++present_count_;
  tally_.Add(info.elements, contributors);
  return true;
}

uint32_t Assembly::PrefixOf(Rank owner) const {
  const uint32_t chunks = plan_.ChunksOf(owner);
  if (chunks == 0) return 0;
  const uint32_t first = plan_.ChunkOf(owner, 0).chunk;
  const auto gap = static_cast<uint32_t>(present_.FindFirstClear(first));
  return std::min(chunks, gap - first);
}

void Assembly::Summarize(OpReport* report) const {
  report->elements = due_elements_;
  report->absent = due_elements_ - present_elements();
  report->contributions = tally_.contributions();
  report->min_contributors = static_cast<uint16_t>(tally_.k_min());
}

}  // namespace optireduce::core
