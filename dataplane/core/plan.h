// How a buffer is cut: shards, their owners, chunks, and who starts where.
//
// A plan works on "plan elements": the buffer's elements or, under a codec, its
// coefficients. N shards of almost equal size (cut at interleave groups under
// Hadamard), each cut into chunks of at most one packet's payload. Chunk
// numbers are unique in the buffer: shard * stride + number in the shard.
// Pure functions of their arguments; the same on all ranks. No division by
// anything a peer sends.

#ifndef OPTIREDUCE_DATAPLANE_CORE_PLAN_H_
#define OPTIREDUCE_DATAPLANE_CORE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "dataplane/core/types.h"
#include "gradcodec/dtype.h"

namespace optireduce::core {

// The shards' rotation: in op `seq` shard s is owned by rank
// (s + Rotation()) mod world. A hash, not seq itself, so that no number of
// buckets per step resonates with it.
uint32_t Rotation(uint32_t tag, OpSeq seq, size_t world);

// Where the stream from one rank to an owner starts, in chunks of the shard.
uint32_t StreamOffset(uint32_t tag, OpSeq seq, Rank from, Rank owner,
                      uint32_t chunks);

// Names everything about an op that all ranks must agree on.
uint32_t Fingerprint(const OpDescriptor& op);

// Packets at the end of a stream of `chunks` that carry the tail mark.
uint32_t TailLength(uint32_t chunks);

struct ChunkInfo {
  uint32_t chunk = 0;  // number in the buffer
  uint32_t local = 0;  // number in its shard
  Rank owner{};
  uint64_t first = 0;     // plan element in the buffer
  uint32_t elements = 0;  // plan elements
  uint32_t bytes = 0;     // on the wire
};

class ChunkPlan {
 public:
  ChunkPlan() = default;
  ChunkPlan(const OpDescriptor& op, size_t world, uint32_t payload_bytes,
            uint32_t tag, OpSeq seq);

  gradcodec::Dtype wire_dtype() const { return wire_dtype_; }
  uint32_t element_bytes() const { return element_bytes_; }  // on the wire
  uint32_t elements_per_chunk() const { return elements_per_chunk_; }
  uint64_t elements() const { return elements_; }
  // Chunk numbers are below this; some of them may not exist.
  uint32_t chunk_limit() const { return shards_ * stride_; }
  uint32_t total_chunks() const { return total_chunks_; }
  uint32_t rotation() const { return rotation_; }

  // Of the shard this rank owns; 0 if it owns none or an empty one.
  uint32_t ChunksOf(Rank owner) const;
  uint64_t ElementsOf(Rank owner) const;
  // `local` < ChunksOf(owner).
  ChunkInfo ChunkOf(Rank owner, uint32_t local) const;
  // Nothing if there is no such chunk: the check for numbers off the wire.
  std::optional<ChunkInfo> Locate(uint32_t chunk) const;

 private:
  struct Range {
    uint64_t first = 0;
    uint64_t elements = 0;
  };

  uint32_t ShardOwnedBy(Rank owner) const;  // shards_ if none
  Range ShardRange(uint32_t shard) const;
  ChunkInfo At(uint32_t shard, Rank owner, uint32_t local) const;

  gradcodec::Dtype wire_dtype_ = gradcodec::Dtype::kFloat32;
  bool hadamard_ = false;
  uint32_t element_bytes_ = 4;
  uint32_t elements_per_chunk_ = 1;
  uint64_t elements_ = 0;
  uint64_t count_ = 0;
  uint64_t units_ = 0;  // what shards are counted in: elements or groups
  uint32_t world_ = 1;
  uint32_t shards_ = 1;
  uint32_t stride_ = 0;
  uint32_t rotation_ = 0;
  uint32_t total_chunks_ = 0;
};

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_PLAN_H_
