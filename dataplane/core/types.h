// The vocabulary of the protocol core: ranks, op numbers, descriptors, buffers.

#ifndef OPTIREDUCE_DATAPLANE_CORE_TYPES_H_
#define OPTIREDUCE_DATAPLANE_CORE_TYPES_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "dataplane/base/serial.h"
#include "dataplane/base/strong_int.h"
#include "dataplane/base/time.h"
#include "gradcodec/dtype.h"

namespace optireduce::core {

// A member of a group, 0..N-1.
using Rank = StrongInt<struct RankTag, uint16_t>;

// One rank's membership of one group, as this engine knows it. Never reused
// while anything still refers to it.
using GroupId = StrongInt<struct GroupIdTag, uint32_t>;

// The number of an op in its group, in submit order, the same on all ranks. It
// wraps: only serial arithmetic (RFC 1982) compares two of them, and only while
// they are less than 2^31 apart, which the op window ensures.
class OpSeq {
 public:
  constexpr OpSeq() = default;
  constexpr explicit OpSeq(uint32_t value) : value_(value) {}

  constexpr uint32_t value() const { return value_; }
  constexpr OpSeq Next() const { return OpSeq(value_ + 1); }
  constexpr OpSeq Plus(uint32_t ops) const { return OpSeq(value_ + ops); }
  // Ops from `other` to this one; negative if this one is earlier.
  constexpr int32_t Since(OpSeq other) const {
    return SerialDistance(other.value_, value_);
  }
  constexpr bool IsBefore(OpSeq other) const { return Since(other) < 0; }
  constexpr bool operator==(const OpSeq&) const = default;

 private:
  uint32_t value_ = 0;
};

// An IPv6 address; IPv4 ones are mapped (::ffff:a.b.c.d, RFC 4291).
struct NetAddress {
  std::array<uint8_t, 16> bytes{};

  // `address` in host byte order: 10.0.0.1 is 0x0A000001.
  static constexpr NetAddress FromIpv4(uint32_t address) {
    NetAddress result;
    result.bytes[10] = result.bytes[11] = 0xFF;
    for (size_t i = 0; i < 4; ++i) {
      result.bytes[12 + i] = static_cast<uint8_t>(address >> (24 - 8 * i));
    }
    return result;
  }
  constexpr uint32_t ToIpv4() const {
    return static_cast<uint32_t>(bytes[12]) << 24 |
           static_cast<uint32_t>(bytes[13]) << 16 |
           static_cast<uint32_t>(bytes[14]) << 8 | bytes[15];
  }
  constexpr bool operator==(const NetAddress&) const = default;
};

// Where a rank receives: its host's data address and a UDP port of its own, so
// that several ranks of one group may live on one host.
struct Endpoint {
  NetAddress address;
  uint16_t port = 0;

  constexpr bool operator==(const Endpoint&) const = default;
};

// Values go on the wire (OPEN) and into shared memory.
enum class Collective : uint8_t {
  kAllReduce = 1,
  kReduceScatter = 2,
  kAllGather = 3,
  kBroadcast = 4,
  kBarrier = 5,
};

enum class Mode : uint8_t {
  kBounded = 1,  // ends by the soft limit with what is there
  kExact = 2,    // reliable, bit-identical on all ranks
  // Exact, of what is kept of a bucket: nobody puts in anything, and after it
  // there are no residuals and no debts. Its output, which is its input too, is
  // cleared first. Waits until nothing is owed to this rank from before.
  kFlush = 3,
};

// How values travel. All but kNone are for bounded ops only.
enum class Codec : uint8_t {
  kNone = 0,
  kHadamard = 1,  // randomized interleaved block Hadamard
  // float32 only: rounded to half as many bytes, in both stages.
  kBfloat16 = 2,
  kFloat16 = 3,
};

constexpr bool IsNarrowing(Codec codec) {
  return codec == Codec::kBfloat16 || codec == Codec::kFloat16;
}

// What a reduced chunk counts as when it did not arrive in time.
enum class FillPolicy : uint8_t {
  kZero = 0,
  kOwn = 1,  // the rank's own input (SUM: N times it)
};

// What became of a training step at the trainer.
enum class StepOutcome : uint8_t {
  kUsed,     // it has used the outputs, or does so now
  kSkipped,  // it has thrown them away, as if the step had not been
};

// What is to be done. All ranks submit the same one, but for the two limits and
// the loss scale, which concern this rank only.
struct OpDescriptor {
  Collective collective = Collective::kAllReduce;
  gradcodec::ReduceOp reduce_op = gradcodec::ReduceOp::kSum;
  gradcodec::Dtype dtype = gradcodec::Dtype::kFloat32;
  Mode mode = Mode::kBounded;
  Codec codec = Codec::kNone;
  Rank root{};  // broadcast only
  // Elements: of the buffer (all-reduce, broadcast), of the whole input
  // (reduce-scatter) or of the whole output (all-gather), the last two
  // multiples of N. 0 for a barrier.
  uint64_t count = 0;
  uint64_t bucket = 0;    // 0: one-shot
  uint64_t step = 0;      // closed by CloseStep; 0: none, closed by its end
  Duration soft_limit{};  // from the submit; zero: the group's bound alone
  Duration hard_limit{};  // from the submit; zero: the group's
  // By what the trainer has multiplied its gradients; positive, finite, normal.
  // Residuals and debts follow when it changes.
  float loss_scale = 1;

  bool operator==(const OpDescriptor&) const = default;
};

// The type of the values in packets.
gradcodec::Dtype WireDtype(const OpDescriptor& op);

inline constexpr uint64_t kMaxCount = (uint64_t{1} << 32) - 1;

// Bytes of the two buffers of an op at one rank. In a broadcast only the root's
// input is read; the others may pass their output for it.
size_t InputBytes(const OpDescriptor& op, size_t world);
size_t OutputBytes(const OpDescriptor& op, size_t world);

// The trainer's memory for one op. The core reads `input` and writes `output`
// from the submit until the event that reports the op; and if that report says
// `holds_buffers`, it still writes late results to `output` until kBuffersFree.
// Never after that. Any alignment; null only for 0 bytes.
struct BufferView {
  const uint8_t* input = nullptr;
  uint8_t* output = nullptr;
};

// Buffers do not overlap, or the op is in place: input and output are the same,
// or the smaller one is the own rank's part of the larger one (reduce-scatter,
// all-gather).
bool BuffersAllowed(const OpDescriptor& op, size_t world, Rank self,
                    BufferView buffers);

// Of the Hadamard codec: fixed per bucket and epoch, new for each one-shot op.
uint64_t SignSeed(uint32_t tag, OpSeq seq, uint64_t bucket);

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_TYPES_H_
