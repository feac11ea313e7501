// The wire format: what one OptiReduce datagram carries after UDP.
//
//   | header, 32 bytes | body, header.length bytes | trailer: CRC32C, 4 bytes |
//
// Everything is little-endian and of fixed width; docs/PROTOCOL.md has the byte
// tables, wire_golden_test.cc golden vectors. Encoding writes into memory the
// caller owns. Decoding never reads past the bytes it is given, aborts on
// nothing, and says in one WireError what is wrong. Pure functions, no state,
// any thread.

#ifndef OPTIREDUCE_PROTO_WIRE_H_
#define OPTIREDUCE_PROTO_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace optireduce::wire {

inline constexpr uint8_t kMagic = 0xB7;
inline constexpr uint8_t kVersion = 1;
inline constexpr size_t kHeaderBytes = 32;
inline constexpr size_t kCrcBytes = 4;
// Room that the plan always keeps for a trailer, so that it does not depend on
// whether packets carry a CRC or a keyed MAC.
inline constexpr size_t kTrailerRoom = 16;
inline constexpr size_t kIpv4UdpBytes = 28;
// Chunk payloads are multiples of this many bytes: whole elements of any dtype.
inline constexpr size_t kPayloadQuantum = 16;
// The least MTU for which a plan exists (IPv4 hosts accept 576).
inline constexpr size_t kMinMtu = 576;
inline constexpr size_t kMaxMtu = 9216;
inline constexpr size_t kMaxWorld = 1024;

// Bytes of a chunk for an MTU; 0 outside kMinMtu..kMaxMtu. 1,424 at MTU 1500.
size_t PayloadForMtu(size_t mtu);

enum class PacketType : uint8_t {
  kData = 1,      // stage 1: a contribution to its owner
  kResult = 2,    // stage 2: a reduced chunk from its owner
  kOpen = 3,      // the full descriptor of an op and both watermarks
  kFeedback = 4,  // watermarks, echo times, counts, credits
  kNack = 5,      // ranges of chunks that are lacking
  kGone = 6,      // what was asked for does not exist here any more
  kHello = 7,     // formation and liveness
  kProbe = 8,     // is the path as wide as the MTU says?
  kLeave = 9,     // nothing more comes from this rank in this epoch
};

enum Flag : uint8_t {
  kFlagTail = 1,       // one of the last packets of this stream
  kFlagRepair = 2,     // sent again on request
  kFlagNonFinite = 4,  // the contribution holds NaN or Inf
  kFlagIncluded = 8,   // result: the receiver's contribution was summed
  kFlagImputed = 16,   // result: missing contributions were imputed
  kFlagEcn = 32,       // the sender has seen congestion marks
};
inline constexpr uint8_t kKnownFlags = 63;

// The 32 bytes every packet starts with. Fields that a type does not use are 0.
struct Header {
  PacketType type{};
  uint8_t flags = 0;
  uint32_t tag = 0;     // names the group's epoch
  uint16_t source = 0;  // rank
  uint16_t length = 0;  // bytes of the body
  uint32_t op_seq = 0;
  uint32_t fingerprint = 0;   // of the op's descriptor
  uint32_t chunk = 0;         // data, result: number in the whole buffer
  uint16_t contributors = 0;  // result: c
  uint16_t timeout = 0;       // advertised stage time, units of 64 us
  uint8_t incast = 0;         // advertised senders at once; 0 = no limit
  uint32_t send_time = 0;     // 24 bits, microseconds of the sender's clock

  bool operator==(const Header&) const = default;
};

// How far a rank has come. Cumulative, so that a lost one is repaired by the
// next.
struct Watermarks {
  uint32_t open_upto = 0;  // first op NOT opened by the sender's trainer
  uint32_t done_upto = 0;  // first op NOT settled at the sender

  bool operator==(const Watermarks&) const = default;
};

// Body of kOpen, 40 bytes.
struct OpenBody {
  Watermarks watermarks{};
  uint8_t collective = 0;  // core::Collective
  uint8_t reduce_op = 0;   // gradcodec::ReduceOp
  uint8_t dtype = 0;       // gradcodec::Dtype
  uint8_t mode = 0;        // core::Mode
  uint8_t codec = 0;       // core::Codec
  uint16_t root = 0;
  uint64_t count = 0;   // elements
  uint64_t bucket = 0;  // 0 = one-shot
  uint64_t step = 0;

  bool operator==(const OpenBody&) const = default;
};
inline constexpr size_t kOpenBodyBytes = 40;

// "Every chunk of my shard before `prefix` is reduced": what lets a sender of
// an exact op run ahead.
struct Credit {
  uint32_t op_seq = 0;
  uint32_t prefix = 0;  // chunks, counted inside the shard

  bool operator==(const Credit&) const = default;
};

// Body of kFeedback, 24 + 8 * num_credits bytes.
struct FeedbackBody {
  static constexpr size_t kMaxCredits = 32;

  Watermarks watermarks{};
  uint32_t echo_time = 0;   // send_time of the packet echoed, 24 bits
  bool echo_valid = false;  // only a real echo makes a sample
  uint16_t echo_delay = 0;  // microseconds the echo was held, saturating
  uint32_t received = 0;    // packets from this peer, modulo 2^32
  uint16_t ecn_marks = 0;   // of those, marked; modulo 2^16
  uint8_t num_credits = 0;
  Credit credits[kMaxCredits]{};
};
inline constexpr size_t kFeedbackFixedBytes = 24;
inline constexpr size_t kCreditBytes = 8;

enum class NackKind : uint8_t {
  kData = 1,    // chunks of my shard that lack your contribution
  kResult = 2,  // chunks of your shard whose result I lack
  kOpen = 3,    // I do not know this op's descriptor
};

// Chunks [first, first + count); not empty, and its end fits 32 bits.
struct ChunkRange {
  uint32_t first = 0;
  uint32_t count = 0;

  bool operator==(const ChunkRange&) const = default;
};

// Body of kNack, 4 + 8 * num_ranges bytes.
struct NackBody {
  static constexpr size_t kMaxRanges = 32;

  NackKind kind{};
  uint8_t num_ranges = 0;
  ChunkRange ranges[kMaxRanges]{};
};
inline constexpr size_t kNackFixedBytes = 4;
inline constexpr size_t kRangeBytes = 8;

// Body of kHello, 12 bytes. Also the heartbeat.
struct HelloBody {
  uint8_t min_version = kVersion;
  uint8_t max_version = kVersion;
  bool reply_wanted = false;
  bool formed = false;         // the sender's group is ready
  uint32_t settings_hash = 0;  // of what all ranks must agree on
  uint32_t sequence = 0;

  bool operator==(const HelloBody&) const = default;
};
inline constexpr size_t kHelloBodyBytes = 12;

// Body of kProbe: 4 bytes, then zeros up to the full payload in a request.
struct ProbeBody {
  bool reply = false;
  uint16_t probed_bytes = 0;  // length of the request's body, in both

  bool operator==(const ProbeBody&) const = default;
};
inline constexpr size_t kProbeFixedBytes = 4;

enum class LeaveReason : uint8_t {
  kLeft = 1,        // the trainer left the group
  kClientDied = 2,  // the trainer's process is gone
  kShutdown = 3,    // the daemon stops
};

// Body of kLeave, 12 bytes.
struct LeaveBody {
  Watermarks watermarks{};
  LeaveReason reason{};

  bool operator==(const LeaveBody&) const = default;
};
inline constexpr size_t kLeaveBodyBytes = 12;

enum class WireError : uint8_t {
  kOk = 0,
  kTruncated,  // shorter than header and trailer
  kBadMagic,
  kBadVersion,
  kUnknownType,
  kReservedFlag,
  kBadLength,  // header.length disagrees with the datagram
  kBadCrc,
  kBadBody,  // a body of the wrong length, or a field out of its range
};
inline constexpr size_t kNumWireErrors = 9;

// Writes the header; `out` must have kHeaderBytes.
void EncodeHeader(const Header& header, uint8_t* out);

// Checks length, magic, version, type and flags, in this order, that header,
// body and trailer are exactly the datagram, and that a kGone has no body. Does
// not check the CRC: the caller looks tag and source up first (cheap rejects
// first). *header is unspecified on error.
WireError DecodeHeader(std::span<const uint8_t> datagram, Header* header);

// The body of a datagram that DecodeHeader accepted.
std::span<const uint8_t> Body(std::span<const uint8_t> datagram,
                              const Header& header);

// Seals a packet whose header and body are in place: writes the CRC32C over
// both behind them. `bytes` is their length; kCrcBytes more must be writable.
// Returns the length of the datagram.
size_t Seal(uint8_t* packet, size_t bytes);
WireError CheckCrc(std::span<const uint8_t> datagram);

// Bodies. Encoders return the bytes written; decoders accept exactly what an
// encoder writes (kBadBody for any other length, number, boolean or reserved
// byte) and leave *body unspecified on error.
size_t EncodeOpen(const OpenBody& body, uint8_t* out);
WireError DecodeOpen(std::span<const uint8_t> bytes, OpenBody* body);
size_t EncodeFeedback(const FeedbackBody& body, uint8_t* out);
WireError DecodeFeedback(std::span<const uint8_t> bytes, FeedbackBody* body);
size_t EncodeNack(const NackBody& body, uint8_t* out);
WireError DecodeNack(std::span<const uint8_t> bytes, NackBody* body);
size_t EncodeHello(const HelloBody& body, uint8_t* out);
WireError DecodeHello(std::span<const uint8_t> bytes, HelloBody* body);
// `total` >= kProbeFixedBytes; what follows the fixed part is zero.
size_t EncodeProbe(const ProbeBody& body, size_t total, uint8_t* out);
WireError DecodeProbe(std::span<const uint8_t> bytes, ProbeBody* body);
size_t EncodeLeave(const LeaveBody& body, uint8_t* out);
WireError DecodeLeave(std::span<const uint8_t> bytes, LeaveBody* body);

}  // namespace optireduce::wire

#endif  // OPTIREDUCE_PROTO_WIRE_H_
