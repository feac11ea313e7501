// Ops with residuals and debts.

#include "dataplane/core/group.h"
#include "dataplane/core/ledger.h"

namespace optireduce::core {

bool Group::IsBucketed(const OpDescriptor& op) {
  return op.mode == Mode::kBounded && Ledger::Supports(op);
}

// Groups run bucketed ops as one-shot ones, to which it makes no difference
// what became of the step.
size_t Group::CloseStep(uint64_t step, StepOutcome /*outcome*/,
                        Timestamp /*now*/) {
  size_t closed = 0;
  for (OpSeq seq = floor_; seq.IsBefore(next_submit_); seq = seq.Next()) {
    Op* op = FindOp(seq);
    if (op == nullptr || !op->step_open || op->descriptor.step != step) {
      continue;
    }
    op->step_open = false;
    ++closed;
  }
  return closed;
}

}  // namespace optireduce::core
