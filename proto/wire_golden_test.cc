// Golden vectors.
//
// Written from docs/PROTOCOL.md by hand, the CRCs by a bitwise CRC32C outside
// of this code base. If one of these has to change, so has kVersion.

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>

#include "proto/wire.h"
#include "proto/wire_testing.h"

namespace optireduce::wire {
namespace {

// Hex digits with any spacing.
Bytes FromHex(const std::string& hex) {
  Bytes bytes;
  int high = -1;
  for (const char c : hex) {
    if (c == ' ') continue;
    const int digit = c <= '9' ? c - '0' : c - 'a' + 10;
    if (high < 0) {
      high = digit;
    } else {
      bytes.push_back(static_cast<uint8_t>(high * 16 + digit));
      high = -1;
    }
  }
  return bytes;
}

void ExpectGolden(const Header& header, const Bytes& body,
                  const std::string& hex) {
  const Bytes golden = FromHex(hex);
  EXPECT_EQ(Sealed(header, body), golden);
  Header decoded;
  ASSERT_EQ(DecodeHeader(golden, &decoded), WireError::kOk);
  EXPECT_EQ(CheckCrc(golden), WireError::kOk);
  Header expected = header;
  expected.length = static_cast<uint16_t>(body.size());
  EXPECT_EQ(decoded, expected);
  const std::span<const uint8_t> view = Body(golden, decoded);
  EXPECT_EQ(Bytes(view.begin(), view.end()), body);
}

TEST(WireGoldenTest, Data) {
  const Header header = {.type = PacketType::kData,
                         .flags = kFlagTail | kFlagNonFinite,
                         .tag = 0x11223344,
                         .source = 0x0102,
                         .op_seq = 0xfffffffe,
                         .fingerprint = 0xa1b2c3d4,
                         .chunk = 0x00010203,
                         .timeout = 0x1234,
                         .incast = 7,
                         .send_time = 0xabcdef};
  Bytes payload(16);
  for (size_t i = 0; i < payload.size(); ++i) {
    payload[i] = static_cast<uint8_t>(i);
  }
  ExpectGolden(header, payload,
               "b7 01 01 05  44 33 22 11  02 01 10 00  fe ff ff ff"
               "d4 c3 b2 a1  03 02 01 00  00 00 34 12  07 ef cd ab"
               "00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f"
               "64 cc 59 85");
}

TEST(WireGoldenTest, Result) {
  const Header header = {
      .type = PacketType::kResult,
      .flags = kFlagRepair | kFlagIncluded | kFlagImputed | kFlagEcn,
      .tag = 0x12345678,
      .source = 1023,
      .op_seq = 0x80000000,
      .fingerprint = 1,
      .chunk = 0xffffffff,
      .contributors = 1024,
      .timeout = 0xffff,
      .incast = 0xff,
      .send_time = 0xffffff};
  ExpectGolden(header, {0x00, 0x00, 0x80, 0x3f},
               "b7 01 02 3a  78 56 34 12  ff 03 04 00  00 00 00 80"
               "01 00 00 00  ff ff ff ff  00 04 ff ff  ff ff ff ff"
               "00 00 80 3f  e9 6f 51 06");
}

TEST(WireGoldenTest, Open) {
  const Header header = {.type = PacketType::kOpen,
                         .tag = 0x11223344,
                         .source = 3,
                         .op_seq = 5,
                         .fingerprint = 0xa1b2c3d4,
                         .send_time = 1};
  const OpenBody body = {.watermarks = {.open_upto = 6, .done_upto = 4},
                         .collective = 1,
                         .reduce_op = 2,
                         .dtype = 3,
                         .mode = 4,
                         .codec = 5,
                         .root = 0x0109,
                         .count = 0xffffffff,
                         .bucket = 0x0102030405060708,
                         .step = 0xfedcba9876543210};
  const std::string hex =
      "b7 01 03 00  44 33 22 11  03 00 28 00  05 00 00 00"
      "d4 c3 b2 a1  00 00 00 00  00 00 00 00  00 01 00 00"
      "06 00 00 00  04 00 00 00  01 02 03 04 05 00 09 01"
      "ff ff ff ff 00 00 00 00  08 07 06 05 04 03 02 01"
      "10 32 54 76 98 ba dc fe  9d cf 59 72";
  ExpectGolden(header, Encoded(body), hex);
  OpenBody decoded;
  ASSERT_EQ(Decode(Encoded(body), &decoded), WireError::kOk);
  EXPECT_EQ(decoded, body);
}

TEST(WireGoldenTest, Feedback) {
  const Header header = {.type = PacketType::kFeedback,
                         .flags = kFlagEcn,
                         .tag = 0x11223344,
                         .send_time = 0x123456};
  FeedbackBody body;
  body.watermarks = {.open_upto = 0x80000000, .done_upto = 0x7fffffff};
  body.echo_time = 0xaabbcc;
  body.echo_valid = true;
  body.echo_delay = 10'000;
  body.ecn_marks = 3;
  body.received = 0x00010000;
  body.num_credits = 2;
  body.credits[0] = {.op_seq = 7, .prefix = 64};
  body.credits[1] = {.op_seq = 8, .prefix = 256};
  ExpectGolden(header, Encoded(body),
               "b7 01 04 20  44 33 22 11  00 00 28 00  00 00 00 00"
               "00 00 00 00  00 00 00 00  00 00 00 00  00 56 34 12"
               "00 00 00 80  ff ff ff 7f  cc bb aa 01  10 27 03 00"
               "00 00 01 00  02 00 00 00"
               "07 00 00 00 40 00 00 00  08 00 00 00 00 01 00 00"
               "c1 15 e5 16");
  FeedbackBody decoded;
  ASSERT_EQ(Decode(Encoded(body), &decoded), WireError::kOk);
  EXPECT_EQ(decoded.watermarks, body.watermarks);
  EXPECT_EQ(decoded.echo_time, 0xaabbccu);
  EXPECT_TRUE(decoded.echo_valid);
  EXPECT_EQ(decoded.echo_delay, 10'000);
  EXPECT_EQ(decoded.ecn_marks, 3);
  EXPECT_EQ(decoded.received, 0x00010000u);
  ASSERT_EQ(decoded.num_credits, 2);
  EXPECT_EQ(decoded.credits[0], body.credits[0]);
  EXPECT_EQ(decoded.credits[1], body.credits[1]);
}

TEST(WireGoldenTest, Nack) {
  const Header header = {.type = PacketType::kNack,
                         .tag = 0x11223344,
                         .source = 1,
                         .op_seq = 7,
                         .fingerprint = 0xa1b2c3d4,
                         .send_time = 2};
  NackBody body;
  body.kind = NackKind::kResult;
  body.num_ranges = 2;
  body.ranges[0] = {.first = 0, .count = 1};
  body.ranges[1] = {.first = 64, .count = 0xffffffbf};
  ExpectGolden(header, Encoded(body),
               "b7 01 05 00  44 33 22 11  01 00 14 00  07 00 00 00"
               "d4 c3 b2 a1  00 00 00 00  00 00 00 00  00 02 00 00"
               "02 02 00 00  00 00 00 00 01 00 00 00"
               "40 00 00 00 bf ff ff ff  48 03 6f e7");
  NackBody decoded;
  ASSERT_EQ(Decode(Encoded(body), &decoded), WireError::kOk);
  EXPECT_EQ(decoded.kind, NackKind::kResult);
  ASSERT_EQ(decoded.num_ranges, 2);
  EXPECT_EQ(decoded.ranges[0], body.ranges[0]);
  EXPECT_EQ(decoded.ranges[1], body.ranges[1]);
}

TEST(WireGoldenTest, Gone) {
  const Header header = {.type = PacketType::kGone,
                         .tag = 0x11223344,
                         .source = 1,
                         .op_seq = 7,
                         .fingerprint = 0xa1b2c3d4,
                         .chunk = 10,
                         .send_time = 3};
  ExpectGolden(header, {},
               "b7 01 06 00  44 33 22 11  01 00 00 00  07 00 00 00"
               "d4 c3 b2 a1  0a 00 00 00  00 00 00 00  00 03 00 00"
               "3e c4 16 5d");
}

TEST(WireGoldenTest, Hello) {
  const Header header = {.type = PacketType::kHello,
                         .tag = 0x11223344,
                         .source = 2,
                         .send_time = 4};
  const HelloBody body = {.min_version = 1,
                          .max_version = 2,
                          .reply_wanted = true,
                          .formed = false,
                          .settings_hash = 0xdeadbeef,
                          .sequence = 42};
  ExpectGolden(header, Encoded(body),
               "b7 01 07 00  44 33 22 11  02 00 0c 00  00 00 00 00"
               "00 00 00 00  00 00 00 00  00 00 00 00  00 04 00 00"
               "01 02 01 00  ef be ad de  2a 00 00 00  67 b3 8f f1");
  HelloBody decoded;
  ASSERT_EQ(Decode(Encoded(body), &decoded), WireError::kOk);
  EXPECT_EQ(decoded, body);
}

TEST(WireGoldenTest, Probe) {
  Header header = {.type = PacketType::kProbe,
                   .tag = 0x11223344,
                   .source = 2,
                   .send_time = 5};
  const ProbeBody request = {.reply = false, .probed_bytes = 8};
  ExpectGolden(header, Encoded(request, 8),
               "b7 01 08 00  44 33 22 11  02 00 08 00  00 00 00 00"
               "00 00 00 00  00 00 00 00  00 00 00 00  00 05 00 00"
               "00 00 08 00  00 00 00 00  55 ef 8e 95");
  header.source = 3;
  header.send_time = 6;
  const ProbeBody reply = {.reply = true, .probed_bytes = 1424};
  ExpectGolden(header, Encoded(reply, kProbeFixedBytes),
               "b7 01 08 00  44 33 22 11  03 00 04 00  00 00 00 00"
               "00 00 00 00  00 00 00 00  00 00 00 00  00 06 00 00"
               "01 00 90 05  68 dd a1 ca");
  ProbeBody decoded;
  ASSERT_EQ(Decode(Encoded(request, 8), &decoded), WireError::kOk);
  EXPECT_EQ(decoded, request);
  ASSERT_EQ(Decode(Encoded(reply, kProbeFixedBytes), &decoded), WireError::kOk);
  EXPECT_EQ(decoded, reply);
}

TEST(WireGoldenTest, Leave) {
  const Header header = {.type = PacketType::kLeave,
                         .tag = 0x11223344,
                         .source = 2,
                         .send_time = 7};
  const LeaveBody body = {
      .watermarks = {.open_upto = 0xffffffff, .done_upto = 0},
      .reason = LeaveReason::kClientDied};
  ExpectGolden(header, Encoded(body),
               "b7 01 09 00  44 33 22 11  02 00 0c 00  00 00 00 00"
               "00 00 00 00  00 00 00 00  00 00 00 00  00 07 00 00"
               "ff ff ff ff  00 00 00 00  02 00 00 00  06 4f f2 0a");
  LeaveBody decoded;
  ASSERT_EQ(Decode(Encoded(body), &decoded), WireError::kOk);
  EXPECT_EQ(decoded, body);
}

}  // namespace
}  // namespace optireduce::wire
