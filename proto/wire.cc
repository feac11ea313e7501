#include "proto/wire.h"

#include <algorithm>
#include <cstring>

#include "dataplane/base/byte_order.h"
#include "dataplane/base/crc32c.h"

namespace optireduce::wire {
namespace {

// Writes fields one behind the other, so that the order of the calls is the
// order on the wire.
class Writer {
 public:
  explicit Writer(uint8_t* out) : begin_(out), at_(out) {}

  void U8(uint8_t value) { *at_++ = value; }
  void U16(uint16_t value) {
    StoreLe16(at_, value);
    at_ += 2;
  }
  void U24(uint32_t value) {
    StoreLe24(at_, value);
    at_ += 3;
  }
  void U32(uint32_t value) {
    StoreLe32(at_, value);
    at_ += 4;
  }
  void U64(uint64_t value) {
    StoreLe64(at_, value);
    at_ += 8;
  }
  void Bool(bool value) { U8(value ? 1 : 0); }
  void Zeros(size_t bytes) {
    std::memset(at_, 0, bytes);
    at_ += bytes;
  }

  size_t written() const { return static_cast<size_t>(at_ - begin_); }

 private:
  uint8_t* begin_;
  uint8_t* at_;
};

// The caller has checked that the bytes are there. What no encoder writes (a
// boolean of 2, a reserved byte that is set) is remembered instead of returned,
// so that a decoder reads like the table of its format.
class Reader {
 public:
  explicit Reader(const uint8_t* in) : at_(in) {}

  uint8_t U8() { return *at_++; }
  uint16_t U16() {
    const uint16_t value = LoadLe16(at_);
    at_ += 2;
    return value;
  }
  uint32_t U24() {
    const uint32_t value = LoadLe24(at_);
    at_ += 3;
    return value;
  }
  uint32_t U32() {
    const uint32_t value = LoadLe32(at_);
    at_ += 4;
    return value;
  }
  uint64_t U64() {
    const uint64_t value = LoadLe64(at_);
    at_ += 8;
    return value;
  }
  bool Bool() {
    const uint8_t value = U8();
    canonical_ = canonical_ && value <= 1;
    return value != 0;
  }
  void Zeros(size_t bytes) {
    canonical_ = canonical_ && std::all_of(at_, at_ + bytes,
                                           [](uint8_t b) { return b == 0; });
    at_ += bytes;
  }

  WireError Result() const {
    return canonical_ ? WireError::kOk : WireError::kBadBody;
  }

 private:
  const uint8_t* at_;
  bool canonical_ = true;
};

void PutWatermarks(const Watermarks& watermarks, Writer* out) {
  out->U32(watermarks.open_upto);
  out->U32(watermarks.done_upto);
}

Watermarks GetWatermarks(Reader* in) {
  Watermarks watermarks;
  watermarks.open_upto = in->U32();
  watermarks.done_upto = in->U32();
  return watermarks;
}

bool IsKnownType(uint8_t type) {
  return type >= static_cast<uint8_t>(PacketType::kData) &&
         type <= static_cast<uint8_t>(PacketType::kLeave);
}

// Its end must be a chunk number too: nobody who adds the two can overflow.
bool IsValidRange(const ChunkRange& range) {
  return range.count > 0 && range.count <= UINT32_MAX - range.first;
}

}  // namespace

size_t PayloadForMtu(size_t mtu) {
  if (mtu < kMinMtu || mtu > kMaxMtu) return 0;
  const size_t room = mtu - kIpv4UdpBytes - kHeaderBytes - kTrailerRoom;
  return room - room % kPayloadQuantum;
}

void EncodeHeader(const Header& header, uint8_t* out) {
  Writer w(out);
  w.U8(kMagic);
  w.U8(kVersion);
  w.U8(static_cast<uint8_t>(header.type));
  w.U8(header.flags);
  w.U32(header.tag);
  w.U16(header.source);
  w.U16(header.length);
  w.U32(header.op_seq);
  w.U32(header.fingerprint);
  w.U32(header.chunk);
  w.U16(header.contributors);
  w.U16(header.timeout);
  w.U8(header.incast);
  w.U24(header.send_time);
}

WireError DecodeHeader(std::span<const uint8_t> datagram, Header* header) {
  if (datagram.size() < kHeaderBytes + kCrcBytes) return WireError::kTruncated;
  Reader r(datagram.data());
  if (r.U8() != kMagic) return WireError::kBadMagic;
  if (r.U8() != kVersion) return WireError::kBadVersion;
  const uint8_t type = r.U8();
  if (!IsKnownType(type)) return WireError::kUnknownType;
  header->type = static_cast<PacketType>(type);
  header->flags = r.U8();
  if ((header->flags & ~kKnownFlags) != 0) return WireError::kReservedFlag;
  header->tag = r.U32();
  header->source = r.U16();
  header->length = r.U16();
  if (kHeaderBytes + header->length + kCrcBytes != datagram.size()) {
    return WireError::kBadLength;
  }
  header->op_seq = r.U32();
  header->fingerprint = r.U32();
  header->chunk = r.U32();
  header->contributors = r.U16();
  header->timeout = r.U16();
  header->incast = r.U8();
  header->send_time = r.U24();
  if (header->type == PacketType::kGone && header->length != 0) {
    return WireError::kBadBody;
  }
  return WireError::kOk;
}

std::span<const uint8_t> Body(std::span<const uint8_t> datagram,
                              const Header& header) {
  return datagram.subspan(kHeaderBytes, header.length);
}

size_t Seal(uint8_t* packet, size_t bytes) {
  StoreLe32(packet + bytes, Crc32c({packet, bytes}));
  return bytes + kCrcBytes;
}

WireError CheckCrc(std::span<const uint8_t> datagram) {
  if (datagram.size() < kCrcBytes) return WireError::kTruncated;
  const size_t covered = datagram.size() - kCrcBytes;
  const uint32_t sent = LoadLe32(datagram.data() + covered);
  return Crc32c(datagram.first(covered)) == sent ? WireError::kOk
                                                 : WireError::kBadCrc;
}

size_t EncodeOpen(const OpenBody& body, uint8_t* out) {
  Writer w(out);
  PutWatermarks(body.watermarks, &w);
  w.U8(body.collective);
  w.U8(body.reduce_op);
  w.U8(body.dtype);
  w.U8(body.mode);
  w.U8(body.codec);
  w.Zeros(1);
  w.U16(body.root);
  w.U64(body.count);
  w.U64(body.bucket);
  w.U64(body.step);
  return w.written();
}

WireError DecodeOpen(std::span<const uint8_t> bytes, OpenBody* body) {
  if (bytes.size() != kOpenBodyBytes) return WireError::kBadBody;
  Reader r(bytes.data());
  body->watermarks = GetWatermarks(&r);
  body->collective = r.U8();
  body->reduce_op = r.U8();
  body->dtype = r.U8();
  body->mode = r.U8();
  body->codec = r.U8();
  r.Zeros(1);
  body->root = r.U16();
  body->count = r.U64();
  body->bucket = r.U64();
  body->step = r.U64();
  return r.Result();
}

size_t EncodeFeedback(const FeedbackBody& body, uint8_t* out) {
  Writer w(out);
  PutWatermarks(body.watermarks, &w);
  w.U24(body.echo_time);
  w.Bool(body.echo_valid);
  w.U16(body.echo_delay);
  w.U16(body.ecn_marks);
  w.U32(body.received);
  w.U8(body.num_credits);
  w.Zeros(3);
  for (size_t i = 0; i < body.num_credits; ++i) {
    w.U32(body.credits[i].op_seq);
    w.U32(body.credits[i].prefix);
  }
  return w.written();
}

WireError DecodeFeedback(std::span<const uint8_t> bytes, FeedbackBody* body) {
  if (bytes.size() < kFeedbackFixedBytes) return WireError::kBadBody;
  Reader r(bytes.data());
  body->watermarks = GetWatermarks(&r);
  body->echo_time = r.U24();
  body->echo_valid = r.Bool();
  body->echo_delay = r.U16();
  body->ecn_marks = r.U16();
  body->received = r.U32();
  body->num_credits = r.U8();
  r.Zeros(3);
  if (body->num_credits > FeedbackBody::kMaxCredits ||
      bytes.size() != kFeedbackFixedBytes + kCreditBytes * body->num_credits) {
    return WireError::kBadBody;
  }
  for (size_t i = 0; i < body->num_credits; ++i) {
    body->credits[i].op_seq = r.U32();
    body->credits[i].prefix = r.U32();
  }
  return r.Result();
}

size_t EncodeNack(const NackBody& body, uint8_t* out) {
  Writer w(out);
  w.U8(static_cast<uint8_t>(body.kind));
  w.U8(body.num_ranges);
  w.Zeros(2);
  for (size_t i = 0; i < body.num_ranges; ++i) {
    w.U32(body.ranges[i].first);
    w.U32(body.ranges[i].count);
  }
  return w.written();
}

WireError DecodeNack(std::span<const uint8_t> bytes, NackBody* body) {
  if (bytes.size() < kNackFixedBytes) return WireError::kBadBody;
  Reader r(bytes.data());
  const uint8_t kind = r.U8();
  if (kind < static_cast<uint8_t>(NackKind::kData) ||
      kind > static_cast<uint8_t>(NackKind::kOpen)) {
    return WireError::kBadBody;
  }
  body->kind = static_cast<NackKind>(kind);
  body->num_ranges = r.U8();
  r.Zeros(2);
  if (body->num_ranges > NackBody::kMaxRanges ||
      bytes.size() != kNackFixedBytes + kRangeBytes * body->num_ranges) {
    return WireError::kBadBody;
  }
  for (size_t i = 0; i < body->num_ranges; ++i) {
    body->ranges[i].first = r.U32();
    body->ranges[i].count = r.U32();
    if (!IsValidRange(body->ranges[i])) return WireError::kBadBody;
  }
  return r.Result();
}

size_t EncodeHello(const HelloBody& body, uint8_t* out) {
  Writer w(out);
  w.U8(body.min_version);
  w.U8(body.max_version);
  w.Bool(body.reply_wanted);
  w.Bool(body.formed);
  w.U32(body.settings_hash);
  w.U32(body.sequence);
  return w.written();
}

WireError DecodeHello(std::span<const uint8_t> bytes, HelloBody* body) {
  if (bytes.size() != kHelloBodyBytes) return WireError::kBadBody;
  Reader r(bytes.data());
  body->min_version = r.U8();
  body->max_version = r.U8();
  if (body->min_version > body->max_version) return WireError::kBadBody;
  body->reply_wanted = r.Bool();
  body->formed = r.Bool();
  body->settings_hash = r.U32();
  body->sequence = r.U32();
  return r.Result();
}

size_t EncodeProbe(const ProbeBody& body, size_t total, uint8_t* out) {
  Writer w(out);
  w.Bool(body.reply);
  w.Zeros(1);
  w.U16(body.probed_bytes);
  w.Zeros(total - kProbeFixedBytes);
  return w.written();
}

WireError DecodeProbe(std::span<const uint8_t> bytes, ProbeBody* body) {
  if (bytes.size() < kProbeFixedBytes) return WireError::kBadBody;
  Reader r(bytes.data());
  body->reply = r.Bool();
  r.Zeros(1);
  body->probed_bytes = r.U16();
  const size_t described =
      body->reply ? kProbeFixedBytes : size_t{body->probed_bytes};
  if (bytes.size() != described || body->probed_bytes < kProbeFixedBytes) {
    return WireError::kBadBody;
  }
  r.Zeros(bytes.size() - kProbeFixedBytes);
  return r.Result();
}

size_t EncodeLeave(const LeaveBody& body, uint8_t* out) {
  Writer w(out);
  PutWatermarks(body.watermarks, &w);
  w.U8(static_cast<uint8_t>(body.reason));
  w.Zeros(3);
  return w.written();
}

WireError DecodeLeave(std::span<const uint8_t> bytes, LeaveBody* body) {
  if (bytes.size() != kLeaveBodyBytes) return WireError::kBadBody;
  Reader r(bytes.data());
  body->watermarks = GetWatermarks(&r);
  const uint8_t reason = r.U8();
  if (reason < static_cast<uint8_t>(LeaveReason::kLeft) ||
      reason > static_cast<uint8_t>(LeaveReason::kShutdown)) {
    return WireError::kBadBody;
  }
  body->reason = static_cast<LeaveReason>(reason);
  r.Zeros(3);
  return r.Result();
}

}  // namespace optireduce::wire
