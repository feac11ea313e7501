// The calls about verdicts on steps.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "client/error.h"
#include "client/session.h"
#include "client/verdict.h"

namespace optireduce::client {
namespace {

std::optional<std::array<float, OR_SKETCH_SUMS>> Narrowed(
    const or_sketch* sketch) {
  if (sketch == nullptr) return std::nullopt;
  std::array<float, OR_SKETCH_SUMS> narrow;
  for (size_t i = 0; i < narrow.size(); ++i) {
    narrow[i] = static_cast<float>(sketch->sums[i]);
  }
  return narrow;
}

// `share` in so many parts of one, as far as that can be told.
uint32_t InParts(double share, double parts) {
  const double scaled = std::max(share, 0.0) * parts;
  return scaled < UINT32_MAX ? static_cast<uint32_t>(scaled) : UINT32_MAX;
}

}  // namespace

or_status Session::SubmitVerdict(or_group group, uint64_t step,
                                 const or_sketch* sketch, or_op* op) {
  const Lock lock(mutex_);
  if (over_ != OR_OK) return FailAsOver();
  if (FindFormed(group) == nullptr) return OR_ERR_CLOSED;
  TakeCompletions();
  Group& found = *FindGroup(group);
  or_status status = CheckVerdict(group, found, step);
  if (status != OR_OK) return status;
  StepRecord record;
  record.step = step;
  record.account = *found.accounts.Find(step);
  record.bad_steps = found.bad_steps;
  record.halt_after = found.halt_after;
  record.min_fraction = found.min_fraction;
  record.sketch = Narrowed(sketch);
  status = PostVerdict(group, found, record, op);
  if (status == OR_OK) {
    found.verdict_of = step;
    found.accounts.Forget(step);
  }
  return status;
}

or_status Session::CheckVerdict(or_group id, const Group& group,
                                uint64_t step) const {
  const auto number = static_cast<unsigned long long>(step);
  if (group.verdict_of != 0) {
    return Fail(OR_ERR_BUSY,
                "the verdict on step %llu has not been read: call "
                "or_verdict_wait first",
                static_cast<unsigned long long>(group.verdict_of));
  }
  if (ops_.IsInFlight(id, step)) {
    return Fail(OR_ERR_BUSY,
                "an operation of step %llu is in flight: wait for it first",
                number);
  }
  if (group.accounts.Find(step) == nullptr) {
    return Fail(OR_ERR_ARGUMENT,
                "no all-reduce or reduce-scatter of step %llu has ended since "
                "the last verdict on it, or %zu later steps have",
                number, StepAccounts::kMaxSteps);
  }
  return OR_OK;
}

// One allocation has the records of all ranks; this one's is written in place.
or_status Session::PostVerdict(or_group id, Group& group,
                               const StepRecord& record, or_op* op_id) {
  const uint64_t bytes = kRecordBytes * group.speaker->world;
  uint64_t offset = 0;
  or_status status = AllocateLocked(bytes, &offset);
  if (status != OR_OK) return status;
  const uint64_t own = offset + kRecordBytes * group.speaker->rank;
  EncodeRecord(record, std::span<uint8_t, kRecordBytes>(segment_.data() + own,
                                                        kRecordBytes));
  Op op;
  op.group = id;
  op.speaker = group.speaker;
  op.kind = OpKind::kVerdict;
  op.operation.collective = OR_ALL_GATHER;
  op.operation.reduce_op = OR_SUM;
  op.operation.dtype = OR_UINT8;
  op.operation.mode = OR_EXACT;
  op.operation.count = bytes;
  op.operation.step = record.step;
  op.operation.hard_limit_ns = group.hard_limit.nanos();
  op.operation.loss_scale = 1;
  op.input = {segment_.data_offset() + own, kRecordBytes};
  op.output = {segment_.data_offset() + offset, bytes};
  status = Post(std::move(op), group.daemon_id, op_id);
  if (status != OR_OK) allocator_.Free(offset);
  return status;
}

or_status Session::WaitVerdict(or_op id, const Deadline& deadline,
                               or_verdict* verdict) {
  Lock lock(mutex_);
  if (IsVerdict(id)) {
    TakeFrames();  // is the daemon alive? The deadline may be over at once.
    const or_status awaited = AwaitEnd(lock, id, deadline);
    if (awaited != OR_OK) return awaited;
  }
  if (!IsVerdict(id)) {
    return Fail(OR_ERR_ARGUMENT, "no verdict %llu, or it was read before",
                static_cast<unsigned long long>(id));
  }
  const Op op = *ops_.Find(id);
  or_status status = Claim(id, nullptr);
  if (status == OR_OK) status = ReadRecords(op, verdict);
  allocator_.Free(op.output.offset - segment_.data_offset());
  Group* const group = FindGroup(op.group);
  if (group == nullptr) return status;
  group->verdict_of = 0;
  if (status != OR_OK) return status;
  group->bad_steps = verdict->bad_steps;
  TellVerdict(group->daemon_id, *verdict);
  return OR_OK;
}

or_status Session::ReadRecords(const Op& op, or_verdict* verdict) const {
  const uint8_t* bytes =
      segment_.data() + (op.output.offset - segment_.data_offset());
  std::vector<StepRecord> records;
  for (uint32_t rank = 0; rank < op.speaker->world; ++rank) {
    const auto record = DecodeRecord(std::span<const uint8_t, kRecordBytes>(
        bytes + kRecordBytes * rank, kRecordBytes));
    if (!record.has_value()) {
      return Fail(OR_ERR_VERSION,
                  "rank %u has another version of liboptireduce: this one does "
                  "not know its part of the verdict",
                  rank);
    }
    records.push_back(*record);
  }
  *verdict = Judge(records);
  return OR_OK;
}

// For the daemon's telemetry, if the ring has room.
void Session::TellVerdict(uint32_t daemon_id, const or_verdict& verdict) {
  OptireduceShmSubmission submission{};
  submission.group = daemon_id;
  submission.kind = OPTIREDUCE_SHM_VERDICT;
  submission.step = verdict.step;
  submission.verdict =
      (verdict.below_floor != 0 ? OPTIREDUCE_SHM_BELOW_FLOOR : 0) |
      (verdict.non_finite_count != 0 ? OPTIREDUCE_SHM_NON_FINITE : 0) |
      (verdict.halt_advised != 0 ? OPTIREDUCE_SHM_HALT_ADVISED : 0);
  submission.bad_steps = verdict.bad_steps;
  submission.present_ppm = InParts(verdict.least_present, 1e6);
  submission.divergence_ppb = InParts(verdict.divergence, 1e9);
  segment_.Submit(submission);
}

}  // namespace optireduce::client
