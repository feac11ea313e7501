// The call about steps, and what open steps forbid.

#include "client/error.h"
#include "client/session.h"

namespace optireduce::client {

or_status Session::CloseStep(or_group group, uint64_t step,
                             or_step_outcome outcome, const Deadline& deadline,
                             uint64_t* closed) {
  Lock lock(mutex_);
  uint64_t number = 0;
  const or_status posted = PostClose(group, step, outcome, &number);
  if (posted != OR_OK) return posted;
  const Awaited end = Await(lock, deadline, [&] {
    return steps_.Find(number)->status != OR_PENDING;
  });
  if (end != Awaited::kTimeout) return ClaimClose(number, closed);
  steps_.Abandon(number);
  return Fail(OR_ERR_TIMEOUT,
              "the daemon did not close step %llu within the limit; it will "
              "still do it: call again before reading the results",
              static_cast<unsigned long long>(step));
}

or_status Session::PostClose(or_group group, uint64_t step,
                             or_step_outcome outcome, uint64_t* number) {
  if (over_ != OR_OK) return FailAsOver();
  const Group* const found = FindFormed(group);
  if (found == nullptr) return OR_ERR_CLOSED;
  OptireduceShmSubmission submission{};
  submission.cookie = *number = steps_.Add(group, step);
  submission.group = found->daemon_id;
  submission.kind = OPTIREDUCE_SHM_STEP_CLOSE;
  submission.outcome = outcome == OR_STEP_USED ? OPTIREDUCE_SHM_STEP_USED
                                               : OPTIREDUCE_SHM_STEP_SKIPPED;
  submission.step = step;
  if (segment_.Submit(submission)) return OR_OK;
  steps_.Forget(*number);
  return Fail(OR_ERR_BUSY,
              "as many operations as the rings hold are in flight: wait for "
              "one first");
}

or_status Session::ClaimClose(uint64_t number, uint64_t* closed) {
  const StepClose close = *steps_.Find(number);
  steps_.Forget(number);
  if (close.status == OR_OK) {
    if (closed != nullptr) *closed = close.completion.closed_ops;
    return OR_OK;
  }
  if (close.completion.status == OPTIREDUCE_SHM_REFUSED) {
    return Fail(close.status, "step %llu was not closed: %s",
                static_cast<unsigned long long>(close.step),
                DescribeRefusal(close.completion, segment_.data(),
                                segment_.data_offset())
                    .c_str());
  }
  if (close.status == OR_ERR_CANCELLED) {
    return Fail(close.status, "the group was left while step %llu was closed",
                static_cast<unsigned long long>(close.step));
  }
  return FailAsOver();
}

or_status Session::CheckOpenOutputs(const char* what,
                                    const Range& range) const {
  const OpenOutput* const open = steps_.FindOutput(range);
  if (open == nullptr) return OR_OK;
  const auto text = [this](const Range& r) {
    return DescribeRange(r, segment_.data(), segment_.data_offset());
  };
  return Fail(OR_ERR_BUSY,
              "%s %s overlaps %s, an output of step %llu, which is open: the "
              "daemon still puts results in place there; call or_step_close "
              "first",
              what, text(range).c_str(), text(open->range).c_str(),
              static_cast<unsigned long long>(open->step));
}

}  // namespace optireduce::client
