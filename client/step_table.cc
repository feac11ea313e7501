#include "client/step_table.h"

namespace optireduce::client {

const OpenOutput* StepTable::FindOutput(const Range& wanted) const {
  for (const auto& [op, output] : outputs_) {
    if (output.range.Overlaps(wanted)) return &output;
  }
  return nullptr;
}

uint64_t StepTable::Add(or_group group, uint64_t step) {
  StepClose close;
  close.group = group;
  close.step = step;
  closes_.emplace(next_, close);
  return next_++;
}

StepClose* StepTable::Find(uint64_t number) {
  const auto found = closes_.find(number);
  return found == closes_.end() ? nullptr : &found->second;
}

void StepTable::Abandon(uint64_t number) {
  if (StepClose* close = Find(number); close != nullptr) close->wanted = false;
}

bool StepTable::Complete(const OptireduceShmCompletion& completion) {
  StepClose* const close = Find(completion.cookie);
  if (close == nullptr || close->status != OR_PENDING) return false;
  close->status = StatusOf(completion);
  close->completion = completion;
  // Ends come in the order in which the daemon has taken notice: what is held
  // now was submitted before the close.
  if (close->status == OR_OK) {
    std::erase_if(outputs_, [close](const auto& held) {
      return held.second.group == close->group &&
             held.second.step == close->step;
    });
  }
  const bool wanted = close->wanted;
  if (!wanted) Forget(completion.cookie);
  return wanted;
}

void StepTable::EndGroup(or_group group, or_status status) {
  std::erase_if(outputs_, [group](const auto& held) {
    return held.second.group == group;
  });
  EndCloses(status, [group](const StepClose& c) { return c.group == group; });
}

void StepTable::EndAll(or_status status) {
  outputs_.clear();
  EndCloses(status, [](const StepClose&) { return true; });
}

template <class Predicate>
void StepTable::EndCloses(or_status status, Predicate which) {
  for (auto& [number, close] : closes_) {
    if (close.status == OR_PENDING && which(close)) close.status = status;
  }
  std::erase_if(closes_, [](const auto& close) {
    return close.second.status != OR_PENDING && !close.second.wanted;
  });
}

}  // namespace optireduce::client
