#include "client/op_table.h"

#include <algorithm>

namespace optireduce::client {
namespace {

or_status StatusOfRefusal(uint8_t refusal) {
  switch (refusal) {
    case OPTIREDUCE_SHM_REFUSAL_GROUP:
    case OPTIREDUCE_SHM_REFUSAL_LEFT:
      return OR_ERR_CLOSED;
    case OPTIREDUCE_SHM_REFUSAL_PEER_LOST:
      return OR_ERR_PEER_LOST;
    case OPTIREDUCE_SHM_REFUSAL_UNSUPPORTED:
      return OR_ERR_UNSUPPORTED;
    case OPTIREDUCE_SHM_REFUSAL_TOO_LARGE:
    case OPTIREDUCE_SHM_REFUSAL_STATE_ROOM:
    case OPTIREDUCE_SHM_REFUSAL_STATE_MEMORY:
      return OR_ERR_NO_MEMORY;
    case OPTIREDUCE_SHM_REFUSAL_STATE_VERSION:
      return OR_ERR_VERSION;
    case OPTIREDUCE_SHM_REFUSAL_IN_FLIGHT:
    case OPTIREDUCE_SHM_REFUSAL_STEPS_OPEN:
    case OPTIREDUCE_SHM_REFUSAL_NOT_QUIET:
      return OR_ERR_BUSY;
    case OPTIREDUCE_SHM_REFUSAL_SHUTDOWN:
      return OR_ERR_REFUSED;
    default:
      return OR_ERR_ARGUMENT;
  }
}

}  // namespace

or_status StatusOf(const OptireduceShmCompletion& completion) {
  switch (completion.status) {
    case OPTIREDUCE_SHM_COMPLETE:
      return OR_OK;
    case OPTIREDUCE_SHM_PARTIAL:
      return OR_PARTIAL;
    case OPTIREDUCE_SHM_HARD_LIMIT:
      return OR_ERR_HARD_LIMIT;
    case OPTIREDUCE_SHM_PEER_LOST:
      return OR_ERR_PEER_LOST;
    case OPTIREDUCE_SHM_MISMATCH:
      return OR_ERR_MISMATCH;
    case OPTIREDUCE_SHM_EXPIRED:
      return OR_ERR_EXPIRED;
    case OPTIREDUCE_SHM_CANCELLED:
      return OR_ERR_CANCELLED;
    case OPTIREDUCE_SHM_REFUSED:
      return StatusOfRefusal(completion.refusal);
    default:
      return OR_ERR_VERSION;  // a status of a later version
  }
}

or_op OpTable::Add(const Op& op) {
  ops_.emplace(next_, op);
  return next_++;
}

Op* OpTable::Find(or_op id) {
  const auto found = ops_.find(id);
  return found == ops_.end() ? nullptr : &found->second;
}

Op* OpTable::Complete(const OptireduceShmCompletion& completion) {
  Op* const op = Find(completion.cookie);
  if (op == nullptr || op->status != OR_PENDING) return nullptr;
  op->status = StatusOf(completion);
  op->answered = true;
  op->completion = completion;
  return op;
}

void OpTable::EndAll(or_status status) {
  for (auto& [id, op] : ops_) {
    if (op.status == OR_PENDING) op.status = status;
  }
}

void OpTable::EndGroup(or_group group, or_status status) {
  for (auto& [id, op] : ops_) {
    if (op.group == group && op.status == OR_PENDING) op.status = status;
  }
}

const Range* OpTable::FindInFlight(const Range& wanted) const {
  for (const auto& [id, op] : ops_) {
    if (op.status != OR_PENDING) continue;
    if (op.input.Overlaps(wanted)) return &op.input;
    if (op.output.Overlaps(wanted)) return &op.output;
  }
  return nullptr;
}

bool OpTable::IsInFlight(or_group group, uint64_t step) const {
  return std::any_of(ops_.begin(), ops_.end(), [&](const auto& entry) {
    const Op& op = entry.second;
    return op.status == OR_PENDING && op.kind == OpKind::kCollective &&
           op.group == group && op.operation.step == step;
  });
}

}  // namespace optireduce::client
