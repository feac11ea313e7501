#include "client/step_account.h"

#include <algorithm>

namespace optireduce::client {
namespace {

// (1 - stage 1 loss) * (1 - stage 2 loss).
double SharePresent(const OptireduceShmCompletion& completion) {
  const double due = static_cast<double>(completion.elements) *
                     static_cast<double>(completion.world);
  if (due == 0) return 1;
  return static_cast<double>(completion.contributions) / due;
}

}  // namespace

bool CountsForVerdict(const or_operation& operation) {
  return operation.step != 0 && (operation.collective == OR_ALL_REDUCE ||
                                 operation.collective == OR_REDUCE_SCATTER);
}

void StepAccounts::Note(const Op& op) {
  const OptireduceShmCompletion& completion = op.completion;
  // What was refused has not been.
  if (op.kind != OpKind::kCollective || !CountsForVerdict(op.operation) ||
      completion.status == OPTIREDUCE_SHM_REFUSED) {
    return;
  }
  StepAccount& account = FindOrAdd(op.operation.step);
  account.non_finite |= op.non_finite;
  if (op.status >= 0) {
    account.present = std::min(account.present, SharePresent(completion));
    account.absent += completion.absent;
  } else {
    account.present = 0;
    account.absent += op.operation.count;
  }
}

const StepAccount* StepAccounts::Find(uint64_t step) const {
  for (const Entry& entry : steps_) {
    if (entry.step == step) return &entry.account;
  }
  return nullptr;
}

void StepAccounts::Forget(uint64_t step) {
  std::erase_if(steps_, [step](const Entry& e) { return e.step == step; });
}

StepAccount& StepAccounts::FindOrAdd(uint64_t step) {
  for (Entry& entry : steps_) {
    if (entry.step == step) return entry.account;
  }
  if (steps_.size() == kMaxSteps) steps_.pop_front();
  steps_.push_back({.step = step, .account = {}});
  return steps_.back().account;
}

}  // namespace optireduce::client
