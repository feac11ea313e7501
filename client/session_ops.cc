// The calls about operations.

#include <algorithm>
#include <cmath>
#include <utility>

#include "client/error.h"
#include "client/session.h"
#include "client/step_account.h"
#include "gradcodec/dtype.h"
#include "gradcodec/finite.h"

namespace optireduce::client {
namespace {

// A daemon that lives ends every operation by its hard limit. One that is short
// of processor time is granted so many more waits of this length before it is
// called lost. A wait counts as one even if this process was stopped for all of
// it, and the daemon with it.
constexpr int kGraceWaits = 10;
constexpr Duration kGraceWait = Duration::Millis(100);

// Limits travel as 32-bit microseconds.
constexpr int64_t kLongestLimit = int64_t{UINT32_MAX} * 1000;

bool FitsByte(int32_t value) { return value >= 0 && value <= UINT8_MAX; }

or_status CheckFields(const or_operation& operation) {
  if (!FitsByte(operation.collective) || !FitsByte(operation.reduce_op) ||
      !FitsByte(operation.dtype) || !FitsByte(operation.mode) ||
      !FitsByte(operation.codec)) {
    return Fail(OR_ERR_ARGUMENT,
                "collective %d, reduce_op %d, dtype %d, mode %d or codec %d is "
                "outside its enumeration",
                operation.collective, operation.reduce_op, operation.dtype,
                operation.mode, operation.codec);
  }
  if (operation.count > UINT32_MAX) {
    return Fail(OR_ERR_ARGUMENT, "count %llu is over 4294967295: split it",
                static_cast<unsigned long long>(operation.count));
  }
  if (operation.root >= OR_MAX_WORLD) {
    return Fail(OR_ERR_ARGUMENT, "root %u is no rank", operation.root);
  }
  for (const int64_t limit :
       {operation.soft_limit_ns, operation.hard_limit_ns}) {
    if (limit < 0 || limit > kLongestLimit) {
      return Fail(OR_ERR_ARGUMENT,
                  "soft_limit_ns and hard_limit_ns are 0 (the group's) to %lld",
                  static_cast<long long>(kLongestLimit));
    }
  }
  if (!std::isnormal(operation.loss_scale) || operation.loss_scale < 0) {
    return Fail(OR_ERR_ARGUMENT,
                "loss_scale %g is not positive, finite and normal",
                static_cast<double>(operation.loss_scale));
  }
  return OR_OK;
}

// As the barrier has no data and broadcast one buffer for both directions, what
// the caller left out is filled in.
void Normalize(or_operation* operation) {
  if (operation->collective == OR_BARRIER) {
    operation->reduce_op = OR_SUM;
    operation->dtype = OR_UINT8;
    operation->count = 0;
    operation->input = operation->output = nullptr;
  }
  if (operation->collective == OR_BROADCAST) {
    if (operation->input == nullptr) operation->input = operation->output;
    if (operation->output == nullptr) {
      operation->output = const_cast<void*>(operation->input);
    }
  } else {
    operation->root = 0;
  }
  if (operation->collective == OR_BROADCAST ||
      operation->collective == OR_ALL_GATHER) {
    operation->reduce_op = OR_SUM;
  }
}

uint64_t InputBytes(const or_operation& operation, uint32_t world) {
  const uint64_t bytes =
      operation.count *
      gradcodec::SizeOf(static_cast<gradcodec::Dtype>(operation.dtype));
  return operation.collective == OR_ALL_GATHER ? bytes / world : bytes;
}

uint64_t OutputBytes(const or_operation& operation, uint32_t world) {
  const uint64_t bytes =
      operation.count *
      gradcodec::SizeOf(static_cast<gradcodec::Dtype>(operation.dtype));
  return operation.collective == OR_REDUCE_SCATTER ? bytes / world : bytes;
}

bool HoldsNonFinite(const Op& op) {
  const or_operation& operation = op.operation;
  const auto dtype = static_cast<gradcodec::Dtype>(operation.dtype);
  return CountsForVerdict(operation) &&
         !gradcodec::AllFinite(dtype, operation.input, operation.count);
}

// Where input and output of an operation may overlap.
bool IsInPlace(const Op& op) {
  const uint64_t rank = op.speaker->rank;
  switch (op.operation.collective) {
    case OR_REDUCE_SCATTER:
      return op.output.offset == op.input.offset + rank * op.output.bytes;
    case OR_ALL_GATHER:
      return op.input.offset == op.output.offset + rank * op.input.bytes;
    default:
      return op.input.offset == op.output.offset;
  }
}

or_status FailAsVerdict() {
  return Fail(OR_ERR_ARGUMENT,
              "it is the verdict on a step: call or_verdict_wait");
}

uint32_t MicrosRoundedUp(int64_t nanos) {
  return static_cast<uint32_t>((nanos + 999) / 1000);
}

void TranslateCollective(const Op& op, OptireduceShmSubmission* out) {
  const or_operation& operation = op.operation;
  OptireduceShmSubmission& submission = *out;
  submission.kind = OPTIREDUCE_SHM_OP;
  submission.collective = static_cast<uint8_t>(operation.collective);
  submission.reduce_op = static_cast<uint8_t>(operation.reduce_op);
  submission.dtype = static_cast<uint8_t>(operation.dtype);
  submission.mode = static_cast<uint8_t>(operation.mode);
  submission.codec = static_cast<uint8_t>(operation.codec);
  submission.root = static_cast<uint16_t>(operation.root);
  submission.count = static_cast<uint32_t>(operation.count);
  submission.soft_limit_us = MicrosRoundedUp(operation.soft_limit_ns);
  submission.hard_limit_us = MicrosRoundedUp(operation.hard_limit_ns);
  submission.bucket = operation.bucket;
  submission.step = operation.step;
  submission.loss_scale = operation.loss_scale;
  submission.input_offset = op.input.offset;
  submission.output_offset = op.output.offset;
}

OptireduceShmSubmission Translate(const Op& op, or_op id, uint32_t daemon_id) {
  OptireduceShmSubmission submission{};
  submission.cookie = id;
  submission.group = daemon_id;
  switch (op.kind) {
    case OpKind::kCollective:
    case OpKind::kVerdict:
      TranslateCollective(op, &submission);
      break;
    case OpKind::kSave:
      submission.kind = OPTIREDUCE_SHM_STATE_SAVE;
      submission.count = static_cast<uint32_t>(op.output.bytes);
      submission.output_offset = op.output.offset;
      break;
    case OpKind::kLoad:
      submission.kind = OPTIREDUCE_SHM_STATE_LOAD;
      submission.count = static_cast<uint32_t>(op.input.bytes);
      submission.input_offset = op.input.offset;
      break;
  }
  return submission;
}

}  // namespace

or_status Session::Locate(const char* what, const void* address, uint64_t bytes,
                          Range* range) const {
  *range = {segment_.data_offset(), bytes};
  if (bytes == 0) return OR_OK;
  const uint64_t offset = reinterpret_cast<uintptr_t>(address) -
                          reinterpret_cast<uintptr_t>(segment_.data());
  if (!allocator_.Contains(offset, bytes)) {
    return Fail(OR_ERR_ARGUMENT,
                "%s: %llu bytes at %p do not lie in one buffer from "
                "or_allocate",
                what, static_cast<unsigned long long>(bytes), address);
  }
  range->offset += offset;
  return OR_OK;
}

or_status Session::CheckBuffers(const Op& op) const {
  const auto text = [this](const Range& range) {
    return DescribeRange(range, segment_.data(), segment_.data_offset());
  };
  if (op.input.Overlaps(op.output) && !IsInPlace(op)) {
    return Fail(OR_ERR_ARGUMENT,
                "output %s overlaps input %s, but is neither the same nor, for "
                "reduce-scatter and all-gather, this rank's part of the other",
                text(op.output).c_str(), text(op.input).c_str());
  }
  for (const Range& range : {op.input, op.output}) {
    const Range* const used = ops_.FindInFlight(range);
    if (used == nullptr) continue;
    return Fail(OR_ERR_BUSY,
                "buffer %s overlaps %s, which is in flight: wait for its "
                "operation first",
                text(range).c_str(), text(*used).c_str());
  }
  const or_status status = CheckOpenOutputs("the input", op.input);
  return status != OR_OK ? status : CheckOpenOutputs("the output", op.output);
}

or_status Session::Submit(or_group group, const or_operation& operation,
                          or_op* id) {
  or_operation known = operation;
  if (known.loss_scale == 0) known.loss_scale = 1;
  or_status status = CheckFields(known);
  Op op;
  if (status == OR_OK) status = MakeOp(group, known, &op);
  if (status != OR_OK) return status;
  // Takes the time of a pass over the input: others go on meanwhile.
  op.non_finite = HoldsNonFinite(op);
  const Lock lock(mutex_);
  if (over_ != OR_OK) return FailAsOver();
  const Group* const found = FindFormed(group);
  return found == nullptr ? OR_ERR_CLOSED
                          : Post(std::move(op), found->daemon_id, id);
}

or_status Session::MakeOp(or_group group, const or_operation& operation,
                          Op* op) {
  const Lock lock(mutex_);
  if (over_ != OR_OK) return FailAsOver();
  const Group* const found = FindFormed(group);
  if (found == nullptr) return OR_ERR_CLOSED;
  op->group = group;
  op->speaker = found->speaker;
  op->operation = operation;
  Normalize(&op->operation);
  if (op->operation.hard_limit_ns == 0) {
    op->operation.hard_limit_ns = found->hard_limit.nanos();
  }
  const uint32_t world = found->speaker->world;
  const or_status status = Locate("input", op->operation.input,
                                  InputBytes(op->operation, world), &op->input);
  return status != OR_OK
             ? status
             : Locate("output", op->operation.output,
                      OutputBytes(op->operation, world), &op->output);
}

or_status Session::SubmitState(or_group group, const StateRequest& request,
                               or_op* id) {
  if (request.bytes > UINT32_MAX) {
    return Fail(OR_ERR_ARGUMENT, "%llu bytes are over 4294967295",
                static_cast<unsigned long long>(request.bytes));
  }
  const Lock lock(mutex_);
  if (over_ != OR_OK) return FailAsOver();
  const Group* const found = FindFormed(group);
  if (found == nullptr) return OR_ERR_CLOSED;
  Op op;
  op.group = group;
  op.speaker = found->speaker;
  op.kind = request.kind;
  op.operation.hard_limit_ns = found->hard_limit.nanos();
  const or_status status =
      Locate("the state", request.memory, request.bytes,
             request.kind == OpKind::kSave ? &op.output : &op.input);
  return status != OR_OK ? status : Post(std::move(op), found->daemon_id, id);
}

const Session::Group* Session::FindFormed(or_group group) {
  const Group* const found = FindGroup(group);
  if (found != nullptr && found->state == Group::kFormed) return found;
  Fail(OR_ERR_CLOSED, "group %llu was left, or is not formed",
       static_cast<unsigned long long>(group));
  return nullptr;
}

or_status Session::Post(Op op, uint32_t daemon_id, or_op* id) {
  TakeCompletions();
  const or_status status = CheckBuffers(op);
  if (status != OR_OK) return status;
  if (ops_.IsFull()) {
    return Fail(OR_ERR_BUSY,
                "nobody has asked for the end of %zu operations: call or_wait",
                OpTable::kMaxOps);
  }
  op.submitted = MonotonicNow();
  const or_op added = ops_.Add(op);
  if (!segment_.Submit(Translate(op, added, daemon_id))) {
    ops_.Forget(added);
    return Fail(OR_ERR_BUSY,
                "as many operations as the rings hold are in flight: wait for "
                "one first");
  }
  *id = added;
  return OR_OK;
}

or_status Session::Poll(or_op id, or_report* report) {
  const Lock lock(mutex_);
  if (IsVerdict(id)) return FailAsVerdict();
  TakeCompletions();
  const Op* const op = ops_.Find(id);
  if (op != nullptr && op->status == OR_PENDING) {
    TakeFrames();  // is the daemon alive?
    if (op->status == OR_PENDING) return OR_PENDING;
  }
  return Claim(id, report);
}

or_status Session::Wait(or_op id, const Deadline& deadline, or_report* report) {
  Lock lock(mutex_);
  if (IsVerdict(id)) return FailAsVerdict();
  const or_status status = AwaitEnd(lock, id, deadline);
  return status != OR_OK ? status : Claim(id, report);
}

bool Session::IsVerdict(or_op id) {
  const Op* const op = ops_.Find(id);
  return op != nullptr && op->kind == OpKind::kVerdict;
}

or_status Session::AwaitEnd(Lock& lock, or_op id, const Deadline& deadline) {
  int grace_waits = 0;
  for (;;) {
    const Op* op = ops_.Find(id);
    if (op == nullptr || op->status != OR_PENDING) return OR_OK;
    Timestamp due = AnswerDue(*op);
    if (grace_waits > 0) due = std::max(due, MonotonicNow() + kGraceWait);
    const Awaited end =
        Await(lock, Deadline::At(std::min(deadline.when(), due)), [&] {
          op = ops_.Find(id);
          return op == nullptr || op->status != OR_PENDING;
        });
    if (end != Awaited::kTimeout) return OR_OK;
    if (deadline.Passed()) {
      return Fail(OR_ERR_TIMEOUT, "the operation (%s) goes on: wait again",
                  DescribeOp(*op).c_str());
    }
    if (MonotonicNow() < AnswerDue(*op)) {
      grace_waits = 0;  // the daemon has answered others meanwhile
    } else if (++grace_waits > kGraceWaits) {
      EndAsLost("it did not end an operation by its hard limit");
    }
  }
}

Timestamp Session::AnswerDue(const Op& op) const {
  const auto group = groups_.find(op.group);
  const Timestamp alive =
      group == groups_.end() ? op.submitted : group->second.last_answer;
  return std::max(op.submitted, alive) +
         Duration::Nanos(op.operation.hard_limit_ns);
}

or_status Session::Claim(or_op id, or_report* report) {
  const Op* const op = ops_.Find(id);
  if (op == nullptr) {
    return Fail(OR_ERR_ARGUMENT,
                "no operation %llu, or its end was reported before",
                static_cast<unsigned long long>(id));
  }
  const or_status status = op->status;
  if (report != nullptr) {
    *report = MakeReport(*op);
    report->step_open = steps_.IsOpen(id) ? 1 : 0;
  }
  if (status < 0) {
    if (op->answered) {
      Fail(status, "%s",
           DescribeFailure(*op, segment_.data(), segment_.data_offset())
               .c_str());
    } else if (status == OR_ERR_CANCELLED) {
      Fail(status, "the group was left while the operation was in flight");
    } else {
      FailAsOver();
    }
  }
  ops_.Forget(id);
  return status;
}

}  // namespace optireduce::client
