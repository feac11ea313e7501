// What the reliable transport puts into a packet.

#ifndef OPTIREDUCE_DATAPLANE_SIM_BASELINE_SEGMENT_H_
#define OPTIREDUCE_DATAPLANE_SIM_BASELINE_SEGMENT_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "dataplane/base/time.h"

namespace optireduce::sim::baseline {

// A half-open range of a byte stream.
struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;

  bool operator==(const Range&) const = default;
};

// Bytes of the stream; the bytes themselves are never there.
struct Data {
  Range range;
  bool push = false;  // the sender has nothing behind it
  Timestamp sent;
};

// With three ranges at most, as they fit beside a timestamp (RFC 2018).
struct Ack {
  static constexpr size_t kMostRanges = 3;

  uint64_t next = 0;       // everything before it is there
  Timestamp echo;          // when the segment that it answers was sent
  bool duplicate = false;  // that segment was there already (RFC 2883)
  uint8_t ranges = 0;
  std::array<Range, kMostRanges> sack;  // the newest one first
};

struct Segment {
  uint32_t flow = 0;
  bool is_ack = false;
  Data data;
  Ack ack;
};

// What a segment takes beyond the bytes that kWireOverhead counts with a UDP
// header: a TCP header with timestamps is 24 longer than UDP's.
inline constexpr uint32_t kTcpBeyondUdp = 20 + 12 - 8;

// Bytes of the stream in a full segment.
constexpr uint32_t SegmentBytes(uint32_t mtu) { return mtu - 20 - 20 - 12; }

// sim::Packet::length of a segment.
uint32_t PacketLength(const Segment& segment);

// Into and out of the first kForeignBytes of a packet's buffer.
void Encode(const Segment& segment, uint8_t* to);
Segment Decode(const uint8_t* from);

}  // namespace optireduce::sim::baseline

#endif  // OPTIREDUCE_DATAPLANE_SIM_BASELINE_SEGMENT_H_
