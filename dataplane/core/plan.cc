#include "dataplane/core/plan.h"

#include <algorithm>
#include <array>

#include "dataplane/base/byte_order.h"
#include "dataplane/base/xxhash64.h"
#include "gradcodec/hadamard.h"

namespace optireduce::core {
namespace {

// Chunks of coefficients that are multiples of this take the same number from
// every block of a full group.
constexpr uint32_t kCoefficientQuantum =
    gradcodec::kRun * gradcodec::kGroupBlocks;

uint64_t CeilDiv(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

}  // namespace

uint32_t Rotation(uint32_t tag, OpSeq seq, size_t world) {
  std::array<uint8_t, 8> fields;
  StoreLe32(fields.data(), tag);
  StoreLe32(fields.data() + 4, seq.value());
  return static_cast<uint32_t>(Xxh64(fields, 0) % world);
}

uint32_t StreamOffset(uint32_t tag, OpSeq seq, Rank from, Rank owner,
                      uint32_t chunks) {
  if (chunks == 0) return 0;
  std::array<uint8_t, 12> fields;
  StoreLe32(fields.data(), tag);
  StoreLe32(fields.data() + 4, seq.value());
  StoreLe16(fields.data() + 8, from.value());
  StoreLe16(fields.data() + 10, owner.value());
  return static_cast<uint32_t>(Xxh64(fields, 0) % chunks);
}

uint32_t Fingerprint(const OpDescriptor& op) {
  std::array<uint8_t, 32> fields{};
  fields[0] = static_cast<uint8_t>(op.collective);
  fields[1] = static_cast<uint8_t>(op.reduce_op);
  fields[2] = static_cast<uint8_t>(op.dtype);
  fields[3] = static_cast<uint8_t>(op.mode);
  fields[4] = static_cast<uint8_t>(op.codec);
  StoreLe16(&fields[6], op.root.value());
  StoreLe64(&fields[8], op.count);
  StoreLe64(&fields[16], op.bucket);
  StoreLe64(&fields[24], op.step);
  const uint64_t hash = Xxh64(fields, 0);
  return static_cast<uint32_t>(hash ^ (hash >> 32));
}

uint32_t TailLength(uint32_t chunks) {
  return std::min(chunks, std::max<uint32_t>(4, chunks / 100));
}

ChunkPlan::ChunkPlan(const OpDescriptor& op, size_t world,
                     uint32_t payload_bytes, uint32_t tag, OpSeq seq)
    : hadamard_(op.codec == Codec::kHadamard),
      count_(op.count),
      world_(static_cast<uint32_t>(world)) {
  wire_dtype_ = WireDtype(op);
  element_bytes_ = static_cast<uint32_t>(gradcodec::SizeOf(wire_dtype_));
  elements_per_chunk_ = payload_bytes / element_bytes_;
  if (hadamard_ && elements_per_chunk_ >= kCoefficientQuantum) {
    elements_per_chunk_ -= elements_per_chunk_ % kCoefficientQuantum;
  }
  elements_ = hadamard_ ? gradcodec::PaddedSize(op.count) : op.count;
  units_ = hadamard_ ? gradcodec::GroupCount(op.count) : op.count;
  switch (op.collective) {
    case Collective::kAllReduce:
      shards_ = world_;
      rotation_ = Rotation(tag, seq, world);
      break;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
      shards_ = world_;  // rank s owns shard s: the caller's layout
      break;
    case Collective::kBroadcast:
      shards_ = 1;
      rotation_ = op.root.value();
      break;
    case Collective::kBarrier:
      shards_ = 1;
      units_ = elements_ = count_ = 0;
      break;
  }
  for (uint32_t shard = 0; shard < shards_; ++shard) {
    const uint64_t chunks =
        CeilDiv(ShardRange(shard).elements, elements_per_chunk_);
    stride_ = std::max(stride_, static_cast<uint32_t>(chunks));
    total_chunks_ += static_cast<uint32_t>(chunks);
  }
}

uint32_t ChunkPlan::ShardOwnedBy(Rank owner) const {
  const uint32_t shard = (owner.value() + world_ - rotation_) % world_;
  return shard < shards_ ? shard : shards_;
}

ChunkPlan::Range ChunkPlan::ShardRange(uint32_t shard) const {
  if (shard >= shards_) return {};
  const uint64_t base = units_ / shards_;
  const uint64_t longer = units_ % shards_;  // shards with one unit more
  const uint64_t first = shard * base + std::min<uint64_t>(shard, longer);
  const uint64_t units = base + (shard < longer ? 1 : 0);
  if (!hadamard_ || units == 0) return {first, units};
  const uint64_t begin = gradcodec::GroupAt(count_, first).first;
  const uint64_t end = first + units == units_
                           ? elements_
                           : gradcodec::GroupAt(count_, first + units).first;
  return {begin, end - begin};
}

uint64_t ChunkPlan::ElementsOf(Rank owner) const {
  return ShardRange(ShardOwnedBy(owner)).elements;
}

uint32_t ChunkPlan::ChunksOf(Rank owner) const {
  return static_cast<uint32_t>(CeilDiv(ElementsOf(owner), elements_per_chunk_));
}

ChunkInfo ChunkPlan::At(uint32_t shard, Rank owner, uint32_t local) const {
  const Range range = ShardRange(shard);
  const uint64_t skipped = uint64_t{local} * elements_per_chunk_;
  ChunkInfo info;
  info.chunk = shard * stride_ + local;
  info.local = local;
  info.owner = owner;
  info.first = range.first + skipped;
  info.elements = static_cast<uint32_t>(
      std::min<uint64_t>(elements_per_chunk_, range.elements - skipped));
  info.bytes = info.elements * element_bytes_;
  return info;
}

ChunkInfo ChunkPlan::ChunkOf(Rank owner, uint32_t local) const {
  return At(ShardOwnedBy(owner), owner, local);
}

std::optional<ChunkInfo> ChunkPlan::Locate(uint32_t chunk) const {
  if (stride_ == 0 || chunk >= chunk_limit()) return std::nullopt;
  const uint32_t shard = chunk / stride_;
  const uint32_t local = chunk % stride_;
  if (uint64_t{local} * elements_per_chunk_ >= ShardRange(shard).elements) {
    return std::nullopt;
  }
  const Rank owner(static_cast<uint16_t>((shard + rotation_) % world_));
  return At(shard, owner, local);
}

}  // namespace optireduce::core
