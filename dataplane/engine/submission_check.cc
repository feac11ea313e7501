#include "dataplane/engine/submission_check.h"

#include <optional>

#include "gradcodec/dtype.h"

namespace optireduce::engine {
namespace {

using core::Codec;
using core::Collective;
using core::Mode;

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
  }
  return std::nullopt;
}

std::optional<Codec> CodecFromWire(uint8_t value) {
  const auto codec = static_cast<Codec>(value);
  switch (codec) {
    case Codec::kNone:
    case Codec::kHadamard:
      return codec;
  }
  return std::nullopt;
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
  if (entry.reserved != 0) return OPTIREDUCE_SHM_REFUSAL_RESERVED;
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
         .hard_limit = Duration::Micros(entry.hard_limit_us)};
  return OPTIREDUCE_SHM_REFUSAL_NONE;
}

shm::BufferRange MakeRange(uint64_t offset, size_t bytes) {
  return bytes == 0 ? shm::BufferRange{} : shm::BufferRange{offset, bytes};
}

}  // namespace

Refusal CheckSubmission(const OptireduceShmSubmission& entry, uint16_t world,
                        const shm::BufferRange& data,
                        CheckedSubmission* checked) {
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

}  // namespace optireduce::engine
