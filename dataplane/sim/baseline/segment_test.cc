#include "dataplane/sim/baseline/segment.h"

#include <array>

#include "dataplane/sim/packet_pool.h"
#include "gtest/gtest.h"

namespace optireduce::sim::baseline {
namespace {

using Buffer = std::array<uint8_t, kForeignBytes>;

TEST(Segment, FullOneFillsTheMtu) {
  Segment segment;
  segment.data.range = {1000, 1000 + SegmentBytes(1500)};
  // IPv4 and UDP are 28 of kWireOverhead.
  EXPECT_EQ(PacketLength(segment), 1500u - 28);
}

TEST(Segment, AckGrowsWithItsRanges) {
  Segment segment;
  segment.is_ack = true;
  EXPECT_EQ(PacketLength(segment), 20u + 12 - 8);
  segment.ack.ranges = 3;
  EXPECT_EQ(PacketLength(segment), 20u + 12 + 28 - 8);
}

TEST(Segment, DataComesBackAsItWas) {
  Segment segment;
  segment.flow = 0x12345678;
  segment.data = {{uint64_t{1} << 40, (uint64_t{1} << 40) + 7},
                  true,
                  Timestamp::FromNanos(123456789)};
  Buffer buffer{};
  Encode(segment, buffer.data());
  const Segment back = Decode(buffer.data());
  EXPECT_EQ(back.flow, segment.flow);
  EXPECT_FALSE(back.is_ack);
  EXPECT_EQ(back.data.range, segment.data.range);
  EXPECT_TRUE(back.data.push);
  EXPECT_EQ(back.data.sent, segment.data.sent);
}

TEST(Segment, AckComesBackAsItWas) {
  Segment segment;
  segment.flow = 7;
  segment.is_ack = true;
  segment.ack.next = 99;
  segment.ack.echo = Timestamp::FromNanos(5);
  segment.ack.duplicate = true;
  segment.ack.ranges = 3;
  segment.ack.sack = {Range{100, 200}, Range{300, 400}, Range{500, 600}};
  Buffer buffer{};
  Encode(segment, buffer.data());
  const Segment back = Decode(buffer.data());
  EXPECT_TRUE(back.is_ack);
  EXPECT_EQ(back.ack.next, 99u);
  EXPECT_EQ(back.ack.echo, segment.ack.echo);
  EXPECT_TRUE(back.ack.duplicate);
  ASSERT_EQ(back.ack.ranges, 3);
  EXPECT_EQ(back.ack.sack, segment.ack.sack);
}

// What goes into the trace's hash.
TEST(Segment, FirstBytesTellSegmentsApart) {
  Segment segment;
  segment.data.range = {0, 100};
  Buffer one{};
  Buffer other{};
  Encode(segment, one.data());
  segment.data.sent = Timestamp::FromNanos(1);
  Encode(segment, other.data());
  EXPECT_FALSE(std::equal(one.begin(), one.begin() + 4, other.begin()));
}

}  // namespace
}  // namespace optireduce::sim::baseline
