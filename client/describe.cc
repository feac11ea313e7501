#include "client/describe.h"

#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <string_view>

#include "gradcodec/dtype.h"

namespace optireduce::client {
namespace {

constexpr int kRanksNamed = 16;

const char* CollectiveName(int32_t collective) {
  switch (collective) {
    case OR_ALL_REDUCE:
      return "all_reduce";
    case OR_REDUCE_SCATTER:
      return "reduce_scatter";
    case OR_ALL_GATHER:
      return "all_gather";
    case OR_BROADCAST:
      return "broadcast";
    case OR_BARRIER:
      return "barrier";
    default:
      return "unknown collective";
  }
}

const char* CodecName(int32_t codec) {
  switch (codec) {
    case OR_CODEC_NONE:
      return "";
    case OR_CODEC_HADAMARD:
      return ", hadamard";
    case OR_CODEC_BFLOAT16:
      return ", as bfloat16";
    case OR_CODEC_FLOAT16:
      return ", as float16";
    default:
      return ", unknown codec";
  }
}

std::string Milliseconds(int64_t nanos) {
  char text[32];
  snprintf(text, sizeof(text), "%.0f ms", static_cast<double>(nanos) / 1e6);
  return text;
}

std::string DescribeOperation(const or_operation& operation) {
  std::string text = CollectiveName(operation.collective);
  if (operation.collective == OR_BARRIER) return text;
  if (operation.collective == OR_ALL_REDUCE ||
      operation.collective == OR_REDUCE_SCATTER) {
    text += ' ';
    text +=
        gradcodec::Name(static_cast<gradcodec::ReduceOp>(operation.reduce_op));
  }
  text += ' ';
  text += gradcodec::Name(static_cast<gradcodec::Dtype>(operation.dtype));
  text += ", " + std::to_string(operation.count) + " elements, ";
  text += operation.mode == OR_EXACT ? "exact" : "bounded";
  text += CodecName(operation.codec);
  if (operation.collective == OR_BROADCAST) {
    text += ", root " + std::to_string(operation.root);
  }
  if (operation.bucket != 0) {
    text += ", bucket " + std::to_string(operation.bucket);
  }
  if (operation.step != 0) text += ", step " + std::to_string(operation.step);
  return text;
}

or_operation PeersOperation(const OptireduceShmCompletion& completion) {
  or_operation operation{};
  operation.collective = completion.mismatch_collective;
  operation.reduce_op = completion.mismatch_reduce_op;
  operation.dtype = completion.mismatch_dtype;
  operation.mode = completion.mismatch_mode;
  operation.codec = completion.mismatch_codec;
  operation.root = completion.mismatch_root;
  operation.count = completion.mismatch_count;
  operation.bucket = completion.mismatch_bucket;
  operation.step = completion.mismatch_step;
  return operation;
}

std::string DescribeEnd(const Op& op, const uint8_t* data,
                        uint64_t data_offset) {
  const OptireduceShmCompletion& answer = op.completion;
  const std::string missing = DescribeRanks(answer.missing);
  switch (answer.status) {
    case OPTIREDUCE_SHM_HARD_LIMIT:
      return "the hard limit passed after " +
             Milliseconds(answer.closed_ns - answer.submitted_ns) +
             "; missing: rank " + missing +
             ". See whether it runs and submits the same operations";
    case OPTIREDUCE_SHM_PEER_LOST:
      return "rank " + missing +
             " died or left; leave the group and form a new one";
    case OPTIREDUCE_SHM_MISMATCH:
      return "rank " + std::to_string(answer.mismatch_rank) + " submitted " +
             DescribeOperation(PeersOperation(answer)) +
             " instead; all ranks must submit the same operations in the same "
             "order";
    case OPTIREDUCE_SHM_EXPIRED:
      return "it was submitted so long after the others that its result is no "
             "longer kept; broadcast the parameters from a rank that has them";
    case OPTIREDUCE_SHM_CANCELLED:
      return "it was cancelled, as the group was left or the daemon stops";
    case OPTIREDUCE_SHM_REFUSED:
      return DescribeRefusal(answer, data, data_offset);
    default:
      return "it ended in a way that this liboptireduce does not know: upgrade "
             "the library";
  }
}

void SetShares(or_report* report) {
  const double elements = static_cast<double>(report->elements);
  const double present = static_cast<double>(report->elements - report->absent);
  const double due = present * static_cast<double>(report->world);
  const double summed = static_cast<double>(report->contributions);
  report->stage1_loss = due > 0 ? 1 - summed / due : 0;
  report->stage2_loss =
      elements > 0 ? static_cast<double>(report->absent) / elements : 0;
  report->missing_fraction =
      1 - (1 - report->stage1_loss) * (1 - report->stage2_loss);
}

int64_t Since(int64_t start, int64_t time) {
  return time == OPTIREDUCE_SHM_NEVER ? OR_NEVER : time - start;
}

}  // namespace

std::string DescribeRefusal(const OptireduceShmCompletion& answer,
                            const uint8_t* data, uint64_t data_offset) {
  const auto range = [&](const OptireduceShmRange& r) {
    return DescribeRange({r.offset, r.bytes}, data, data_offset);
  };
  switch (answer.refusal) {
    case OPTIREDUCE_SHM_REFUSAL_COLLECTIVE:
      return "the daemon knows no such collective";
    case OPTIREDUCE_SHM_REFUSAL_REDUCE_OP:
      return "the daemon knows no such reduction";
    case OPTIREDUCE_SHM_REFUSAL_DTYPE:
      return "the daemon knows no such dtype";
    case OPTIREDUCE_SHM_REFUSAL_MODE:
      return "the daemon knows no such mode";
    case OPTIREDUCE_SHM_REFUSAL_CODEC:
      return "the daemon knows no such codec";
    case OPTIREDUCE_SHM_REFUSAL_GROUP:
    case OPTIREDUCE_SHM_REFUSAL_LEFT:
      return "this rank has left the group";
    case OPTIREDUCE_SHM_REFUSAL_NOT_READY:
      return "the group is not formed yet";
    case OPTIREDUCE_SHM_REFUSAL_PEER_LOST:
      return "a rank died or left before; leave the group and form a new one";
    case OPTIREDUCE_SHM_REFUSAL_UNSUPPORTED:
      return "dtype, reduction, codec and mode do not go together: bounded "
             "mode has sum and avg of floating types, avg needs one in exact "
             "mode too, a codec needs a bounded all-reduce: hadamard of types "
             "of "
             "up to 32 bits, bfloat16 and float16 of float32";
    case OPTIREDUCE_SHM_REFUSAL_ROOT:
      return "the root is no rank of the group";
    case OPTIREDUCE_SHM_REFUSAL_COUNT:
      return "the count is over 4294967295, or not a multiple of the number of "
             "ranks where it must be";
    case OPTIREDUCE_SHM_REFUSAL_LIMITS:
      return "the soft limit is above the hard limit";
    case OPTIREDUCE_SHM_REFUSAL_TOO_LARGE:
      return "it needs more memory than the group's budget; split it, or raise "
             "memory_budget_bytes and, with a bucket, owed_budget_bytes";
    case OPTIREDUCE_SHM_REFUSAL_INPUT_RANGE:
      return "the input " + range(answer.wanted) +
             " is not inside the shared memory " + range(answer.conflict);
    case OPTIREDUCE_SHM_REFUSAL_OUTPUT_RANGE:
      return "the output " + range(answer.wanted) +
             " is not inside the shared memory " + range(answer.conflict);
    case OPTIREDUCE_SHM_REFUSAL_OVERLAP:
      return "the output " + range(answer.wanted) + " overlaps the input " +
             range(answer.conflict) + " without being the same";
    case OPTIREDUCE_SHM_REFUSAL_IN_FLIGHT:
      return "the buffer " + range(answer.wanted) + " overlaps " +
             range(answer.conflict) + ", which is in flight";
    case OPTIREDUCE_SHM_REFUSAL_SHUTDOWN:
      return "the daemon is stopping and takes nothing new";
    case OPTIREDUCE_SHM_REFUSAL_LOSS_SCALE:
      return "the loss scale is not positive, finite and normal";
    case OPTIREDUCE_SHM_REFUSAL_NOT_QUIET:
      return "operations with a bucket are not closed yet, or wait for what "
             "they lost: let them end, close their steps, and try again";
    case OPTIREDUCE_SHM_REFUSAL_STATE_ROOM:
      return "it takes " + std::to_string(answer.elements) + " bytes";
    case OPTIREDUCE_SHM_REFUSAL_STATE_DAMAGED:
      return "the bytes are no saved state, or damaged";
    case OPTIREDUCE_SHM_REFUSAL_STATE_VERSION:
      return "another version has saved it";
    case OPTIREDUCE_SHM_REFUSAL_STATE_GROUP:
      return "it is the state of another rank, or of a group of another size";
    case OPTIREDUCE_SHM_REFUSAL_STATE_MEMORY:
      return "it does not fit the daemon's memory for what is owed "
             "(owed_budget_bytes); nothing is owed any more";
    case OPTIREDUCE_SHM_REFUSAL_STEPS_OPEN:
      return "the steps of " + std::to_string(OPTIREDUCE_SHM_MAX_STEP_OPS) +
             " operations are open: call or_step_close";
    default:
      return "the daemon refused it for a reason that this liboptireduce does "
             "not know: upgrade the library";
  }
}

std::string DescribeOp(const Op& op) {
  switch (op.kind) {
    case OpKind::kCollective:
      return DescribeOperation(op.operation);
    case OpKind::kSave:
      return "saving its state";
    case OpKind::kLoad:
      return "loading its state";
    case OpKind::kVerdict:
      return "the verdict on step " + std::to_string(op.operation.step);
  }
  return "unknown";
}

std::string DescribeFailure(const Op& op, const uint8_t* data,
                            uint64_t data_offset) {
  const Speaker& speaker = *op.speaker;
  std::string text = "rank " + std::to_string(speaker.rank) + " of " +
                     std::to_string(speaker.world) + ", group \"" +
                     speaker.group + "\", ";
  if (op.completion.status != OPTIREDUCE_SHM_REFUSED) {
    text += "operation " + std::to_string(op.completion.op_seq) + " ";
  }
  return text + "(" + DescribeOp(op) +
         "): " + DescribeEnd(op, data, data_offset);
}

or_report MakeReport(const Op& op) {
  or_report report{};
  report.struct_size = sizeof(report);
  report.status = op.status;
  report.cause = OR_CAUSE_ERROR;
  report.quorum_ns = OR_NEVER;
  report.deadline_ns = OR_NEVER;
  const OptireduceShmCompletion& answer = op.completion;
  if (!op.answered) return report;
  report.elements = answer.elements;
  if (answer.status == OPTIREDUCE_SHM_REFUSED) return report;
  report.cause = answer.cause;
  report.op_seq = answer.op_seq;
  report.world = answer.world;
  report.absent = std::min(answer.absent, answer.elements);
  report.contributions = answer.contributions;
  report.repaired = answer.repaired;
  report.min_contributors = answer.min_contributors;
  static_assert(sizeof(report.missing) == sizeof(answer.missing));
  memcpy(report.missing, answer.missing, sizeof(report.missing));
  for (const uint64_t word : report.missing) {
    report.missing_count += static_cast<uint32_t>(std::popcount(word));
  }
  SetShares(&report);
  report.quorum_ns = Since(answer.submitted_ns, answer.quorum_ns);
  report.deadline_ns = Since(answer.submitted_ns, answer.deadline_ns);
  report.duration_ns = answer.closed_ns - answer.submitted_ns;
  report.wall_late_ns = answer.wall_late_ns;
  report.decision_late_ns = answer.decision_late_ns;
  report.mismatch_rank = answer.mismatch_rank;
  return report;
}

std::string DescribeRange(const Range& range, const uint8_t* data,
                          uint64_t data_offset) {
  const uint64_t begin =
      reinterpret_cast<uintptr_t>(data) + (range.offset - data_offset);
  char text[64];
  snprintf(text, sizeof(text), "[0x%" PRIx64 ", 0x%" PRIx64 ")", begin,
           begin + range.bytes);
  return text;
}

std::string DescribeRanks(const uint64_t (&bits)[OR_MAX_WORLD / 64]) {
  std::string text;
  int ranks = 0;
  for (uint32_t rank = 0; rank < OR_MAX_WORLD; ++rank) {
    if ((bits[rank / 64] >> (rank % 64) & 1) == 0) continue;
    if (++ranks > kRanksNamed) continue;
    if (ranks > 1) text += ", ";
    text += std::to_string(rank);
  }
  if (ranks > kRanksNamed) {
    text += " and " + std::to_string(ranks - kRanksNamed) + " more";
  }
  return ranks == 0 ? "unknown" : text;
}

}  // namespace optireduce::client
