// What a training step's operations have come to at this rank: its part of the
// step's verdict.

#ifndef OPTIREDUCE_CLIENT_STEP_ACCOUNT_H_
#define OPTIREDUCE_CLIENT_STEP_ACCOUNT_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "client/op_table.h"

namespace optireduce::client {

struct StepAccount {
  double present = 1;  // the least share of an operation's results
  uint64_t absent = 0;
  bool non_finite = false;  // in an input
};

// Whether verdicts are about operations such as this one: reductions of a step.
bool CountsForVerdict(const or_operation& operation);

// Of the last steps of one group. Not thread-safe.
class StepAccounts {
 public:
  static constexpr size_t kMaxSteps = 16;

  // An operation has ended, and is answered.
  void Note(const Op& op);
  // nullptr if nothing of the step has ended, or it was too long ago.
  const StepAccount* Find(uint64_t step) const;
  void Forget(uint64_t step);

 private:
  struct Entry {
    uint64_t step = 0;
    StepAccount account;
  };

  StepAccount& FindOrAdd(uint64_t step);

  std::deque<Entry> steps_;  // the one that began last is the last
};

}  // namespace optireduce::client

#endif  // OPTIREDUCE_CLIENT_STEP_ACCOUNT_H_
