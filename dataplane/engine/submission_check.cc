#include "dataplane/engine/submission_check.h"

#include <algorithm>
#include <optional>
#include <span>

#include "dataplane/core/ledger.h"
#include "gradcodec/dtype.h"

namespace optireduce::engine {
namespace {

using core::Codec;
using core::Collective;
using core::Mode;
using core::StepOutcome;

// Like DtypeFromWire. No default: the compiler names what is forgotten here.
std::optional<Collective> CollectiveFromWire(uint8_t value) {
  const auto collective = static_cast<Collective>(value);
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kBroadcast:
    case Collective::kBarrier:
      return collective;
  }
  return std::nullopt;
}

std::optional<Mode> ModeFromWire(uint8_t value) {
  const auto mode = static_cast<Mode>(value);
  switch (mode) {
    case Mode::kBounded:
    case Mode::kExact:
      return mode;
    case Mode::kFlush:
      break;  // not in shared memory
  }
  return std::nullopt;
}

std::optional<Codec> CodecFromWire(uint8_t value) {
  const auto codec = static_cast<Codec>(value);
  switch (codec) {
    case Codec::kNone:
    case Codec::kHadamard:
    case Codec::kBfloat16:
    case Codec::kFloat16:
      return codec;
  }
  return std::nullopt;
}

std::optional<StepOutcome> OutcomeFromWire(uint8_t value) {
  switch (value) {
    case OPTIREDUCE_SHM_STEP_USED:
      return StepOutcome::kUsed;
    case OPTIREDUCE_SHM_STEP_SKIPPED:
      return StepOutcome::kSkipped;
    default:
      return std::nullopt;
  }
}

bool AreReservedZero(const OptireduceShmSubmission& entry) {
  uint64_t used = entry.outcome | entry.verdict | entry.bad_steps |
                  entry.present_ppm | entry.divergence_ppb;
  for (const uint8_t byte : entry.reserved0) used |= byte;
  for (const uint64_t word : entry.reserved1) used |= word;
  return used == 0;
}

uint8_t CheckFields(const OptireduceShmSubmission& entry,
                    core::OpDescriptor* op) {
  const auto collective = CollectiveFromWire(entry.collective);
  const auto reduce_op = gradcodec::ReduceOpFromWire(entry.reduce_op);
  const auto dtype = gradcodec::DtypeFromWire(entry.dtype);
  const auto mode = ModeFromWire(entry.mode);
  const auto codec = CodecFromWire(entry.codec);
  if (!collective) return OPTIREDUCE_SHM_REFUSAL_COLLECTIVE;
  if (!reduce_op) return OPTIREDUCE_SHM_REFUSAL_REDUCE_OP;
  if (!dtype) return OPTIREDUCE_SHM_REFUSAL_DTYPE;
  if (!mode) return OPTIREDUCE_SHM_REFUSAL_MODE;
  if (!codec) return OPTIREDUCE_SHM_REFUSAL_CODEC;
  if (!AreReservedZero(entry)) return OPTIREDUCE_SHM_REFUSAL_RESERVED;
  if (!core::Ledger::IsValidScale(entry.loss_scale)) {
    return OPTIREDUCE_SHM_REFUSAL_LOSS_SCALE;
  }
  *op = {.collective = *collective,
         .reduce_op = *reduce_op,
         .dtype = *dtype,
         .mode = *mode,
         .codec = *codec,
         .root = core::Rank(entry.root),
         .count = entry.count,
         .bucket = entry.bucket,
         .step = entry.step,
         .soft_limit = Duration::Micros(entry.soft_limit_us),
         .hard_limit = Duration::Micros(entry.hard_limit_us),
         .loss_scale = entry.loss_scale};
  return OPTIREDUCE_SHM_REFUSAL_NONE;
}

// What every entry has; its other fields zero.
OptireduceShmSubmission BareEntry(const OptireduceShmSubmission& entry) {
  OptireduceShmSubmission bare{};
  bare.cookie = entry.cookie;
  bare.group = entry.group;
  bare.kind = entry.kind;
  return bare;
}

// All bytes count: a field that an entry does not use is zero to the bit.
bool HaveSameBytes(const OptireduceShmSubmission& a,
                   const OptireduceShmSubmission& b) {
  return std::ranges::equal(std::as_bytes(std::span(&a, 1)),
                            std::as_bytes(std::span(&b, 1)));
}

shm::BufferRange MakeRange(uint64_t offset, size_t bytes) {
  return bytes == 0 ? shm::BufferRange{} : shm::BufferRange{offset, bytes};
}

}  // namespace

Refusal CheckOp(const OptireduceShmSubmission& entry, uint16_t world,
                const shm::BufferRange& data, CheckedOp* checked) {
  const uint8_t reason = CheckFields(entry, &checked->op);
  if (reason != OPTIREDUCE_SHM_REFUSAL_NONE) return {.reason = reason};

  checked->input =
      MakeRange(entry.input_offset, core::InputBytes(checked->op, world));
  checked->output =
      MakeRange(entry.output_offset, core::OutputBytes(checked->op, world));
  const shm::BufferRange& input = checked->input;
  const shm::BufferRange& output = checked->output;
  if (input.bytes != 0 && !input.IsInside(data)) {
    return {OPTIREDUCE_SHM_REFUSAL_INPUT_RANGE, input, data};
  }
  if (output.bytes != 0 && !output.IsInside(data)) {
    return {OPTIREDUCE_SHM_REFUSAL_OUTPUT_RANGE, output, data};
  }
  if (!checked->InPlace() && output.Overlaps(input)) {
    return {OPTIREDUCE_SHM_REFUSAL_OVERLAP, output, input};
  }
  return {};
}

Refusal CheckStepClose(const OptireduceShmSubmission& entry, StepClose* close) {
  const auto outcome = OutcomeFromWire(entry.outcome);
  if (!outcome) return {.reason = OPTIREDUCE_SHM_REFUSAL_OUTCOME};
  if (entry.step == 0) return {.reason = OPTIREDUCE_SHM_REFUSAL_STEP};
  OptireduceShmSubmission bare = BareEntry(entry);
  bare.outcome = entry.outcome;
  bare.step = entry.step;
  if (!HaveSameBytes(bare, entry)) {
    return {.reason = OPTIREDUCE_SHM_REFUSAL_RESERVED};
  }
  *close = {entry.step, *outcome};
  return {};
}

Refusal CheckState(const OptireduceShmSubmission& entry,
                   const shm::BufferRange& data, CheckedOp* checked) {
  const bool is_save = entry.kind == OPTIREDUCE_SHM_STATE_SAVE;
  OptireduceShmSubmission bare = BareEntry(entry);
  bare.count = entry.count;
  (is_save ? bare.output_offset : bare.input_offset) =
      is_save ? entry.output_offset : entry.input_offset;
  if (!HaveSameBytes(bare, entry)) {
    return {.reason = OPTIREDUCE_SHM_REFUSAL_RESERVED};
  }
  *checked = {};
  shm::BufferRange& buffer = is_save ? checked->output : checked->input;
  buffer = MakeRange(is_save ? entry.output_offset : entry.input_offset,
                     entry.count);
  if (buffer.bytes != 0 && !buffer.IsInside(data)) {
    const uint8_t reason = is_save ? OPTIREDUCE_SHM_REFUSAL_OUTPUT_RANGE
                                   : OPTIREDUCE_SHM_REFUSAL_INPUT_RANGE;
    return {reason, buffer, data};
  }
  return {};
}

Refusal CheckVerdict(const OptireduceShmSubmission& entry,
                     StepVerdict* verdict) {
  if (entry.step == 0) return {.reason = OPTIREDUCE_SHM_REFUSAL_STEP};
  constexpr uint32_t kBits = OPTIREDUCE_SHM_BELOW_FLOOR |
                             OPTIREDUCE_SHM_NON_FINITE |
                             OPTIREDUCE_SHM_HALT_ADVISED;
  if ((entry.verdict & ~kBits) != 0) {
    return {.reason = OPTIREDUCE_SHM_REFUSAL_VERDICT};
  }
  OptireduceShmSubmission bare = BareEntry(entry);
  bare.step = entry.step;
  bare.verdict = entry.verdict;
  bare.bad_steps = entry.bad_steps;
  bare.present_ppm = entry.present_ppm;
  bare.divergence_ppb = entry.divergence_ppb;
  if (!HaveSameBytes(bare, entry)) {
    return {.reason = OPTIREDUCE_SHM_REFUSAL_RESERVED};
  }
  const auto has = [&entry](uint32_t bit) {
    return (entry.verdict & bit) != 0;
  };
  *verdict = {.step = entry.step,
              .below_floor = has(OPTIREDUCE_SHM_BELOW_FLOOR),
              .non_finite = has(OPTIREDUCE_SHM_NON_FINITE),
              .halt_advised = has(OPTIREDUCE_SHM_HALT_ADVISED),
              .bad_steps = entry.bad_steps,
              .present_ppm = entry.present_ppm,
              .divergence_ppb = entry.divergence_ppb};
  return {};
}

bool StaysOpen(const core::OpDescriptor& op) {
  return op.step != 0 && op.mode == core::Mode::kBounded &&
         core::Ledger::Supports(op);
}

}  // namespace optireduce::engine
