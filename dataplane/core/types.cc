#include "dataplane/core/types.h"

#include "dataplane/base/byte_order.h"
#include "dataplane/base/xxhash64.h"

namespace optireduce::core {
namespace {

size_t WholeBytes(const OpDescriptor& op) {
  return op.count * gradcodec::SizeOf(op.dtype);
}

}  // namespace

gradcodec::Dtype WireDtype(const OpDescriptor& op) {
  switch (op.codec) {
    case Codec::kNone:
      break;
    case Codec::kHadamard:
      return gradcodec::Dtype::kFloat32;
    case Codec::kBfloat16:
      return gradcodec::Dtype::kBfloat16;
    case Codec::kFloat16:
      return gradcodec::Dtype::kFloat16;
  }
  return op.dtype;
}

size_t InputBytes(const OpDescriptor& op, size_t world) {
  return op.collective == Collective::kAllGather ? WholeBytes(op) / world
                                                 : WholeBytes(op);
}

size_t OutputBytes(const OpDescriptor& op, size_t world) {
  return op.collective == Collective::kReduceScatter ? WholeBytes(op) / world
                                                     : WholeBytes(op);
}

bool BuffersAllowed(const OpDescriptor& op, size_t world, Rank self,
                    BufferView buffers) {
  const size_t input_bytes = InputBytes(op, world);
  const size_t output_bytes = OutputBytes(op, world);
  const auto input = reinterpret_cast<uintptr_t>(buffers.input);
  const auto output = reinterpret_cast<uintptr_t>(buffers.output);
  if (input_bytes == 0) return true;
  if (input == 0 || output == 0) return false;
  if (input + input_bytes <= output || output + output_bytes <= input) {
    return true;
  }
  const size_t part = WholeBytes(op) / world * self.index();
  switch (op.collective) {
    case Collective::kReduceScatter:
      return output == input + part;
    case Collective::kAllGather:
      return input == output + part;
    default:
      return input == output;
  }
}

uint64_t SignSeed(uint32_t tag, OpSeq seq, uint64_t bucket) {
  std::array<uint8_t, 12> fields{};
  StoreLe32(fields.data(), tag);
  StoreLe64(fields.data() + 4, bucket != 0 ? bucket : seq.value());
  return Xxh64(fields, bucket != 0 ? 1 : 0);
}

}  // namespace optireduce::core
