// What open steps of a session hold, and the closes that are on their way.

#ifndef OPTIREDUCE_CLIENT_STEP_TABLE_H_
#define OPTIREDUCE_CLIENT_STEP_TABLE_H_

#include <cstdint>
#include <map>

#include "client/op_table.h"
#include "client/optireduce.h"
#include "proto/shm_abi.h"

namespace optireduce::client {

// The output of an operation that has ended and whose step is open.
struct OpenOutput {
  or_group group = 0;
  uint64_t step = 0;
  Range range;
};

struct StepClose {
  or_group group = 0;
  uint64_t step = 0;

  // OR_PENDING until it is answered, in `completion`.
  or_status status = OR_PENDING;
  OptireduceShmCompletion completion{};
  bool wanted = true;  // somebody waits for it
};

// Not thread-safe. Pointers to closes stay valid until Forget().
class StepTable {
 public:
  void HoldOutput(or_op op, const OpenOutput& output) {
    outputs_.emplace(op, output);
  }
  bool IsOpen(or_op op) const { return outputs_.count(op) > 0; }
  // One that overlaps `wanted`; nullptr if there is none.
  const OpenOutput* FindOutput(const Range& wanted) const;

  // A close that is about to be submitted; the number is its cookie.
  uint64_t Add(or_group group, uint64_t step);
  StepClose* Find(uint64_t number);
  // Nobody waits for it any more: it is kept only until its answer is here.
  void Abandon(uint64_t number);
  void Forget(uint64_t number) { closes_.erase(number); }
  // Records a close's answer; the step's outputs are the caller's again. False
  // if nobody waits for it.
  bool Complete(const OptireduceShmCompletion& completion);

  // The daemon holds no output of the group, or none at all, any more; closes
  // end as `status`.
  void EndGroup(or_group group, or_status status);
  void EndAll(or_status status);

 private:
  template <class Predicate>
  void EndCloses(or_status status, Predicate which);

  std::map<or_op, OpenOutput> outputs_;
  std::map<uint64_t, StepClose> closes_;
  uint64_t next_ = 1;
};

}  // namespace optireduce::client

#endif  // OPTIREDUCE_CLIENT_STEP_TABLE_H_
