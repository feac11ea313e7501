#include "dataplane/sim/baseline/segment.h"

#include <span>

#include "dataplane/base/byte_order.h"
#include "dataplane/base/xxhash64.h"
#include "dataplane/sim/packet_pool.h"

namespace optireduce::sim::baseline {

namespace {

// | hash 4 | flow 4 | kind and ranges 8 | position 8 | length or echo ... |
constexpr size_t kWords = 10;
constexpr uint64_t kAckBit = 1 << 8;
constexpr uint64_t kMarkBit = 1 << 9;  // push, or duplicate
constexpr uint64_t kRangesMask = 0xFF;
static_assert(8 * kWords <= kForeignBytes);

using Words = std::array<uint64_t, kWords>;

Words WordsOf(const Segment& segment) {
  Words words{};
  words[0] = uint64_t{segment.flow} << 32;
  if (!segment.is_ack) {
    words[1] = segment.data.push ? kMarkBit : 0;
    words[2] = static_cast<uint64_t>(segment.data.sent.nanos());
    words[3] = segment.data.range.begin;
    words[4] = segment.data.range.end;
    return words;
  }
  const Ack& ack = segment.ack;
  words[1] = kAckBit | (ack.duplicate ? kMarkBit : 0) | ack.ranges;
  words[2] = static_cast<uint64_t>(ack.echo.nanos());
  words[3] = ack.next;
  for (size_t i = 0; i < ack.ranges; ++i) {
    words[4 + 2 * i] = ack.sack[i].begin;
    words[5 + 2 * i] = ack.sack[i].end;
  }
  return words;
}

}  // namespace

uint32_t PacketLength(const Segment& segment) {
  if (segment.is_ack) {
    const uint32_t sack = segment.ack.ranges;
    return kTcpBeyondUdp + (sack == 0 ? 0 : 4 + 8 * sack);
  }
  return kTcpBeyondUdp + static_cast<uint32_t>(segment.data.range.end -
                                               segment.data.range.begin);
}

void Encode(const Segment& segment, uint8_t* to) {
  const Words words = WordsOf(segment);
  for (size_t i = 0; i < kWords; ++i) StoreLe64(to + 8 * i, words[i]);
  const uint64_t hash = Xxh64(std::span(to + 4, 8 * kWords - 4));
  StoreLe32(to, static_cast<uint32_t>(hash));
}

Segment Decode(const uint8_t* from) {
  const auto word = [from](size_t i) { return LoadLe64(from + 8 * i); };
  const auto time = Timestamp::FromNanos(static_cast<int64_t>(word(2)));
  const bool mark = (word(1) & kMarkBit) != 0;
  Segment segment;
  segment.flow = LoadLe32(from + 4);
  segment.is_ack = (word(1) & kAckBit) != 0;
  if (!segment.is_ack) {
    segment.data = {{word(3), word(4)}, mark, time};
    return segment;
  }
  Ack& ack = segment.ack;
  ack.next = word(3);
  ack.echo = time;
  ack.duplicate = mark;
  ack.ranges = static_cast<uint8_t>(word(1) & kRangesMask);
  for (size_t i = 0; i < ack.ranges; ++i) {
    ack.sack[i] = {word(4 + 2 * i), word(5 + 2 * i)};
  }
  return segment;
}

}  // namespace optireduce::sim::baseline
