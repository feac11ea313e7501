#include "proto/wire.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "dataplane/base/rng.h"

namespace optireduce::wire {
namespace {

using Bytes = std::vector<uint8_t>;

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

Bytes Sealed(Header header, const Bytes& body) {
  header.length = static_cast<uint16_t>(body.size());
  Bytes packet(kHeaderBytes + body.size() + kCrcBytes);
  EncodeHeader(header, packet.data());
  std::copy(body.begin(), body.end(), packet.begin() + kHeaderBytes);
  EXPECT_EQ(Seal(packet.data(), packet.size() - kCrcBytes), packet.size());
  return packet;
}

Bytes Encoded(const OpenBody& body) {
  Bytes out(kOpenBodyBytes);
  EXPECT_EQ(EncodeOpen(body, out.data()), out.size());
  return out;
}

Bytes Encoded(const FeedbackBody& body) {
  Bytes out(kFeedbackFixedBytes + kCreditBytes * body.num_credits);
  EXPECT_EQ(EncodeFeedback(body, out.data()), out.size());
  return out;
}

Bytes Encoded(const NackBody& body) {
  Bytes out(kNackFixedBytes + kRangeBytes * body.num_ranges);
  EXPECT_EQ(EncodeNack(body, out.data()), out.size());
  return out;
}

Bytes Encoded(const HelloBody& body) {
  Bytes out(kHelloBodyBytes);
  EXPECT_EQ(EncodeHello(body, out.data()), out.size());
  return out;
}

Bytes Encoded(const ProbeBody& body, size_t total) {
  Bytes out(total, 0xee);
  EXPECT_EQ(EncodeProbe(body, total, out.data()), total);
  return out;
}

Bytes Encoded(const LeaveBody& body) {
  Bytes out(kLeaveBodyBytes);
  EXPECT_EQ(EncodeLeave(body, out.data()), out.size());
  return out;
}

WireError Decode(const Bytes& bytes, OpenBody* body) {
  return DecodeOpen(bytes, body);
}
WireError Decode(const Bytes& bytes, FeedbackBody* body) {
  return DecodeFeedback(bytes, body);
}
WireError Decode(const Bytes& bytes, NackBody* body) {
  return DecodeNack(bytes, body);
}
WireError Decode(const Bytes& bytes, HelloBody* body) {
  return DecodeHello(bytes, body);
}
WireError Decode(const Bytes& bytes, ProbeBody* body) {
  return DecodeProbe(bytes, body);
}
WireError Decode(const Bytes& bytes, LeaveBody* body) {
  return DecodeLeave(bytes, body);
}

template <class Body>
WireError DecodeError(const Bytes& bytes) {
  Body body;
  return Decode(bytes, &body);
}

// ---- sizes ------------------------------------------------------------------

TEST(WireSizeTest, PayloadForMtu) {
  EXPECT_EQ(PayloadForMtu(0), 0u);
  EXPECT_EQ(PayloadForMtu(575), 0u);
  EXPECT_EQ(PayloadForMtu(576), 496u);
  EXPECT_EQ(PayloadForMtu(1500), 1424u);
  EXPECT_EQ(PayloadForMtu(9000), 8912u);
  EXPECT_EQ(PayloadForMtu(9216), 9136u);
  EXPECT_EQ(PayloadForMtu(9217), 0u);
  EXPECT_EQ(PayloadForMtu(SIZE_MAX), 0u);
}

TEST(WireSizeTest, PayloadFillsTheMtuButForLessThanAQuantum) {
  for (size_t mtu = kMinMtu; mtu <= kMaxMtu; ++mtu) {
    const size_t payload = PayloadForMtu(mtu);
    const size_t packet = kIpv4UdpBytes + kHeaderBytes + payload + kTrailerRoom;
    ASSERT_EQ(payload % kPayloadQuantum, 0u) << mtu;
    ASSERT_LE(packet, mtu);
    ASSERT_GT(packet + kPayloadQuantum, mtu);
  }
}

// ---- golden vectors ---------------------------------------------------------
// Written from docs/PROTOCOL.md by hand, the CRCs by a bitwise CRC32C outside
// of this code base. If one of these has to change, so has kVersion.

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

// ---- the header -------------------------------------------------------------

Bytes SampleData() {
  return Sealed({.type = PacketType::kData,
                 .flags = kFlagTail,
                 .tag = 0xcafe0001,
                 .source = 5,
                 .op_seq = 9,
                 .fingerprint = 77,
                 .chunk = 3},
                Bytes(48, 0x5a));
}

WireError HeaderError(const Bytes& datagram) {
  Header header;
  return DecodeHeader(datagram, &header);
}

TEST(WireHeaderTest, OnlyTheWholeDatagramIsAccepted) {
  const Bytes whole = SampleData();
  for (size_t length = 0; length < whole.size(); ++length) {
    // A buffer of its own, so that a sanitizer sees a read past the cut.
    const Bytes cut(whole.begin(), whole.begin() + length);
    ASSERT_EQ(HeaderError(cut), length < kHeaderBytes + kCrcBytes
                                    ? WireError::kTruncated
                                    : WireError::kBadLength)
        << length;
  }
  EXPECT_EQ(HeaderError(whole), WireError::kOk);
  Bytes longer = whole;
  longer.push_back(0);
  EXPECT_EQ(HeaderError(longer), WireError::kBadLength);
}

TEST(WireHeaderTest, LengthFieldMustMatchTheDatagram) {
  for (const int off : {-48, -1, 1, 1000}) {
    Bytes packet = SampleData();
    const int claimed = 48 + off;
    packet[10] = static_cast<uint8_t>(claimed);
    packet[11] = static_cast<uint8_t>(claimed >> 8);
    EXPECT_EQ(HeaderError(packet), WireError::kBadLength) << claimed;
  }
  Bytes packet = SampleData();
  packet[10] = packet[11] = 0xff;
  EXPECT_EQ(HeaderError(packet), WireError::kBadLength);
}

TEST(WireHeaderTest, OtherVersionsTypesAndFlagsAreRejected) {
  for (int value = 0; value < 256; ++value) {
    const auto byte = static_cast<uint8_t>(value);
    Bytes packet = SampleData();
    packet[0] = byte;
    EXPECT_EQ(HeaderError(packet),
              byte == 0xb7 ? WireError::kOk : WireError::kBadMagic);
    packet = SampleData();
    packet[1] = byte;
    EXPECT_EQ(HeaderError(packet),
              byte == 1 ? WireError::kOk : WireError::kBadVersion);
    packet = SampleData();
    packet[3] = byte;
    EXPECT_EQ(HeaderError(packet),
              byte < 64 ? WireError::kOk : WireError::kReservedFlag);
    packet = Sealed({.type = static_cast<PacketType>(byte)}, {});
    EXPECT_EQ(HeaderError(packet), byte >= 1 && byte <= 9
                                       ? WireError::kOk
                                       : WireError::kUnknownType);
  }
}

TEST(WireHeaderTest, ChecksRunInTheDocumentedOrder) {
  Bytes packet = SampleData();
  packet[0] = 0;      // magic
  packet[1] = 2;      // version
  packet[2] = 200;    // type
  packet[3] = 0x80;   // flags
  packet[10] = 0x11;  // length
  EXPECT_EQ(HeaderError(Bytes(packet.begin(), packet.begin() + 35)),
            WireError::kTruncated);
  EXPECT_EQ(HeaderError(packet), WireError::kBadMagic);
  packet[0] = kMagic;
  EXPECT_EQ(HeaderError(packet), WireError::kBadVersion);
  packet[1] = kVersion;
  EXPECT_EQ(HeaderError(packet), WireError::kUnknownType);
  packet[2] = static_cast<uint8_t>(PacketType::kGone);
  EXPECT_EQ(HeaderError(packet), WireError::kReservedFlag);
  packet[3] = 0;
  EXPECT_EQ(HeaderError(packet), WireError::kBadLength);
  packet[10] = 48;
  EXPECT_EQ(HeaderError(packet), WireError::kBadBody);
  packet[2] = static_cast<uint8_t>(PacketType::kData);
  EXPECT_EQ(HeaderError(packet), WireError::kOk);
  EXPECT_EQ(CheckCrc(packet), WireError::kBadCrc);
}

TEST(WireHeaderTest, SendTimeHas24Bits) {
  const Bytes packet =
      Sealed({.type = PacketType::kData, .send_time = 0xff000001}, {});
  Header header;
  ASSERT_EQ(DecodeHeader(packet, &header), WireError::kOk);
  EXPECT_EQ(header.send_time, 1u);
}

TEST(WireCrcTest, TooShortForACrc) {
  for (size_t length = 0; length < kCrcBytes; ++length) {
    EXPECT_EQ(CheckCrc(Bytes(length)), WireError::kTruncated);
  }
}

TEST(WireCrcTest, EverySingleBitFlipIsDetected) {
  const Bytes original = SampleData();
  for (size_t bit = 0; bit < original.size() * 8; ++bit) {
    Bytes packet = original;
    packet[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    ASSERT_EQ(CheckCrc(packet), WireError::kBadCrc) << "bit " << bit;
  }
}

TEST(WireCrcTest, SealTouchesNothingButTheTrailer) {
  Bytes packet(kHeaderBytes + 8 + kCrcBytes + 3, 0xa5);
  EXPECT_EQ(Seal(packet.data(), kHeaderBytes + 8), kHeaderBytes + 12);
  for (size_t i = 0; i < packet.size(); ++i) {
    if (i >= kHeaderBytes + 8 && i < kHeaderBytes + 12) continue;
    EXPECT_EQ(packet[i], 0xa5) << i;
  }
}

// ---- bodies -----------------------------------------------------------------

FeedbackBody SampleFeedback() {
  FeedbackBody body;
  body.watermarks = {.open_upto = 12, .done_upto = 10};
  body.echo_time = 0x010203;
  body.echo_valid = true;
  body.num_credits = 3;
  body.credits[2] = {.op_seq = 11, .prefix = 5};
  return body;
}

NackBody SampleNack() {
  NackBody body;
  body.kind = NackKind::kData;
  body.num_ranges = 3;
  body.ranges[0] = {.first = 1, .count = 2};
  body.ranges[1] = {.first = 9, .count = 1};
  body.ranges[2] = {.first = 20, .count = 300};
  return body;
}

// `whole` decodes, and neither a shorter nor a longer one does.
template <class Body>
void ExpectExactLength(const Bytes& whole) {
  ASSERT_EQ(DecodeError<Body>(whole), WireError::kOk);
  for (size_t length = 0; length < whole.size(); ++length) {
    const Bytes cut(whole.begin(), whole.begin() + length);
    ASSERT_EQ(DecodeError<Body>(cut), WireError::kBadBody) << length;
  }
  for (size_t more = 1; more <= 16; ++more) {
    Bytes longer = whole;
    longer.resize(whole.size() + more, 0);
    ASSERT_EQ(DecodeError<Body>(longer), WireError::kBadBody) << more;
  }
}

TEST(WireBodyTest, OnlyTheExactLengthIsAccepted) {
  ExpectExactLength<OpenBody>(Encoded(OpenBody{.count = 3}));
  ExpectExactLength<FeedbackBody>(Encoded(SampleFeedback()));
  ExpectExactLength<FeedbackBody>(Encoded(FeedbackBody{}));
  ExpectExactLength<NackBody>(Encoded(SampleNack()));
  ExpectExactLength<NackBody>(Encoded(NackBody{.kind = NackKind::kOpen}));
  ExpectExactLength<HelloBody>(Encoded(HelloBody{}));
  ExpectExactLength<ProbeBody>(Encoded(ProbeBody{.probed_bytes = 64}, 64));
  ExpectExactLength<ProbeBody>(
      Encoded(ProbeBody{.reply = true, .probed_bytes = 64}, 4));
  ExpectExactLength<LeaveBody>(
      Encoded(LeaveBody{.reason = LeaveReason::kLeft}));
}

// Every value of the byte at `offset` but those in `allowed` is refused.
template <class Body>
void ExpectOnlyAllowed(const Bytes& good, size_t offset,
                       const std::function<bool(uint8_t)>& allowed) {
  for (int value = 0; value < 256; ++value) {
    const auto byte = static_cast<uint8_t>(value);
    Bytes bytes = good;
    bytes[offset] = byte;
    ASSERT_EQ(DecodeError<Body>(bytes),
              allowed(byte) ? WireError::kOk : WireError::kBadBody)
        << "byte " << offset << " = " << value;
  }
}

bool IsZero(uint8_t byte) { return byte == 0; }
bool IsBoolean(uint8_t byte) { return byte <= 1; }

TEST(WireBodyTest, ReservedBytesMustBeZero) {
  ExpectOnlyAllowed<OpenBody>(Encoded(OpenBody{}), 13, IsZero);
  for (const size_t offset : {21, 22, 23}) {
    ExpectOnlyAllowed<FeedbackBody>(Encoded(SampleFeedback()), offset, IsZero);
  }
  ExpectOnlyAllowed<NackBody>(Encoded(SampleNack()), 2, IsZero);
  ExpectOnlyAllowed<NackBody>(Encoded(SampleNack()), 3, IsZero);
  const Bytes probe = Encoded(ProbeBody{.probed_bytes = 24}, 24);
  ExpectOnlyAllowed<ProbeBody>(probe, 1, IsZero);
  for (size_t offset = kProbeFixedBytes; offset < probe.size(); ++offset) {
    ExpectOnlyAllowed<ProbeBody>(probe, offset, IsZero);
  }
  const Bytes leave = Encoded(LeaveBody{.reason = LeaveReason::kLeft});
  for (const size_t offset : {9, 10, 11}) {
    ExpectOnlyAllowed<LeaveBody>(leave, offset, IsZero);
  }
}

TEST(WireBodyTest, BooleansAreZeroOrOne) {
  ExpectOnlyAllowed<FeedbackBody>(Encoded(SampleFeedback()), 11, IsBoolean);
  ExpectOnlyAllowed<HelloBody>(Encoded(HelloBody{}), 2, IsBoolean);
  ExpectOnlyAllowed<HelloBody>(Encoded(HelloBody{}), 3, IsBoolean);
  ExpectOnlyAllowed<ProbeBody>(Encoded(ProbeBody{.probed_bytes = 4}, 4), 0,
                               IsBoolean);
}

TEST(WireBodyTest, EnumeratorsMustBeKnown) {
  const auto one_to_three = [](uint8_t byte) { return byte >= 1 && byte <= 3; };
  ExpectOnlyAllowed<NackBody>(Encoded(SampleNack()), 0, one_to_three);
  ExpectOnlyAllowed<LeaveBody>(Encoded(LeaveBody{.reason = LeaveReason::kLeft}),
                               8, one_to_three);
}

TEST(WireBodyTest, HelloVersionsAreARange) {
  ExpectOnlyAllowed<HelloBody>(
      Encoded(HelloBody{.min_version = 3, .max_version = 7}), 0,
      [](uint8_t byte) { return byte <= 7; });
}

TEST(WireBodyTest, NumbersOfEntriesMustMatchTheLength) {
  ExpectOnlyAllowed<FeedbackBody>(Encoded(SampleFeedback()), 20,
                                  [](uint8_t byte) { return byte == 3; });
  ExpectOnlyAllowed<NackBody>(Encoded(SampleNack()), 1,
                              [](uint8_t byte) { return byte == 3; });
}

TEST(WireBodyTest, EntriesUpToTheMaximumAndNotOneMore) {
  FeedbackBody feedback;
  feedback.num_credits = FeedbackBody::kMaxCredits;
  Bytes bytes = Encoded(feedback);
  EXPECT_EQ(DecodeError<FeedbackBody>(bytes), WireError::kOk);
  bytes.resize(bytes.size() + kCreditBytes);
  bytes[20] = FeedbackBody::kMaxCredits + 1;
  EXPECT_EQ(DecodeError<FeedbackBody>(bytes), WireError::kBadBody);

  NackBody nack;
  nack.kind = NackKind::kData;
  nack.num_ranges = NackBody::kMaxRanges;
  for (ChunkRange& range : nack.ranges) range = {.first = 1, .count = 1};
  bytes = Encoded(nack);
  EXPECT_EQ(DecodeError<NackBody>(bytes), WireError::kOk);
  bytes.insert(bytes.end(), {1, 0, 0, 0, 1, 0, 0, 0});
  bytes[1] = NackBody::kMaxRanges + 1;
  EXPECT_EQ(DecodeError<NackBody>(bytes), WireError::kBadBody);
}

TEST(WireBodyTest, RangesAreNotEmptyAndDoNotOverflow) {
  const auto error = [](uint32_t first, uint32_t count) {
    NackBody body;
    body.kind = NackKind::kResult;
    body.num_ranges = 1;
    body.ranges[0] = {.first = first, .count = count};
    return DecodeError<NackBody>(Encoded(body));
  };
  EXPECT_EQ(error(0, 1), WireError::kOk);
  EXPECT_EQ(error(0, 0), WireError::kBadBody);
  EXPECT_EQ(error(0, 0xffffffff), WireError::kOk);
  EXPECT_EQ(error(1, 0xfffffffe), WireError::kOk);
  EXPECT_EQ(error(1, 0xffffffff), WireError::kBadBody);
  EXPECT_EQ(error(0x80000000, 0x80000000), WireError::kBadBody);
  EXPECT_EQ(error(0xfffffffe, 1), WireError::kOk);
  EXPECT_EQ(error(0xffffffff, 1), WireError::kBadBody);
  EXPECT_EQ(error(0xffffffff, 0), WireError::kBadBody);
}

TEST(WireBodyTest, ProbeRequestStatesItsOwnLength) {
  EXPECT_EQ(DecodeError<ProbeBody>(Encoded(ProbeBody{.probed_bytes = 63}, 64)),
            WireError::kBadBody);
  EXPECT_EQ(DecodeError<ProbeBody>(Encoded(ProbeBody{.probed_bytes = 65}, 64)),
            WireError::kBadBody);
  // A reply names a request that could have been.
  const auto reply_error = [](uint16_t probed_bytes) {
    return DecodeError<ProbeBody>(
        Encoded(ProbeBody{.reply = true, .probed_bytes = probed_bytes}, 4));
  };
  EXPECT_EQ(reply_error(3), WireError::kBadBody);
  EXPECT_EQ(reply_error(4), WireError::kOk);
  EXPECT_EQ(reply_error(0xffff), WireError::kOk);
}

TEST(WireBodyTest, EchoTimeHas24Bits) {
  FeedbackBody body;
  body.echo_time = 0xff123456;
  FeedbackBody decoded;
  ASSERT_EQ(Decode(Encoded(body), &decoded), WireError::kOk);
  EXPECT_EQ(decoded.echo_time, 0x123456u);
  EXPECT_FALSE(decoded.echo_valid);
}

// ---- properties -------------------------------------------------------------

class Random {
 public:
  explicit Random(uint64_t seed) : rng_(seed) {}

  uint64_t Below(uint64_t bound) { return rng_.Below(bound); }
  // Any value, the edges of its range more often than by chance.
  template <class T>
  T Any() {
    const uint64_t edges[] = {0, 1, ~uint64_t{0}, uint64_t{1} << 31,
                              (uint64_t{1} << 31) - 1};
    return static_cast<T>(Below(4) == 0 ? edges[Below(5)] : rng_.Next());
  }

 private:
  Rng rng_;
};

Header AnyHeader(Random* random) {
  Header header;
  // Not kGone, which has no body.
  header.type = random->Below(2) == 0 ? PacketType::kData : PacketType::kHello;
  header.flags = random->Any<uint8_t>() & kKnownFlags;
  header.tag = random->Any<uint32_t>();
  header.source = random->Any<uint16_t>();
  header.op_seq = random->Any<uint32_t>();
  header.fingerprint = random->Any<uint32_t>();
  header.chunk = random->Any<uint32_t>();
  header.contributors = random->Any<uint16_t>();
  header.timeout = random->Any<uint16_t>();
  header.incast = random->Any<uint8_t>();
  header.send_time = random->Any<uint32_t>() & 0xffffff;
  return header;
}

Watermarks AnyWatermarks(Random* random) {
  return {.open_upto = random->Any<uint32_t>(),
          .done_upto = random->Any<uint32_t>()};
}

Bytes AnyOpen(Random* random) {
  return Encoded(OpenBody{.watermarks = AnyWatermarks(random),
                          .collective = random->Any<uint8_t>(),
                          .reduce_op = random->Any<uint8_t>(),
                          .dtype = random->Any<uint8_t>(),
                          .mode = random->Any<uint8_t>(),
                          .codec = random->Any<uint8_t>(),
                          .root = random->Any<uint16_t>(),
                          .count = random->Any<uint64_t>(),
                          .bucket = random->Any<uint64_t>(),
                          .step = random->Any<uint64_t>()});
}

Bytes AnyFeedback(Random* random) {
  FeedbackBody body;
  body.watermarks = AnyWatermarks(random);
  body.echo_time = random->Any<uint32_t>() & 0xffffff;
  body.echo_valid = random->Below(2) == 1;
  body.echo_delay = random->Any<uint16_t>();
  body.received = random->Any<uint32_t>();
  body.ecn_marks = random->Any<uint16_t>();
  body.num_credits =
      static_cast<uint8_t>(random->Below(FeedbackBody::kMaxCredits + 1));
  for (Credit& credit : body.credits) {
    credit = {.op_seq = random->Any<uint32_t>(),
              .prefix = random->Any<uint32_t>()};
  }
  return Encoded(body);
}

Bytes AnyNack(Random* random) {
  NackBody body;
  body.kind = static_cast<NackKind>(1 + random->Below(3));
  body.num_ranges =
      static_cast<uint8_t>(random->Below(NackBody::kMaxRanges + 1));
  for (ChunkRange& range : body.ranges) {
    range.first = static_cast<uint32_t>(random->Below(UINT32_MAX));
    range.count =
        1 + static_cast<uint32_t>(random->Below(UINT32_MAX - range.first));
  }
  return Encoded(body);
}

Bytes AnyHello(Random* random) {
  HelloBody body;
  body.max_version = random->Any<uint8_t>();
  body.min_version =
      static_cast<uint8_t>(random->Below(uint64_t{body.max_version} + 1));
  body.reply_wanted = random->Below(2) == 1;
  body.formed = random->Below(2) == 1;
  body.settings_hash = random->Any<uint32_t>();
  body.sequence = random->Any<uint32_t>();
  return Encoded(body);
}

Bytes AnyProbe(Random* random) {
  const bool reply = random->Below(2) == 1;
  const auto probed = static_cast<uint16_t>(4 + random->Below(9133));
  return Encoded(ProbeBody{.reply = reply, .probed_bytes = probed},
                 reply ? kProbeFixedBytes : probed);
}

Bytes AnyLeave(Random* random) {
  return Encoded(
      LeaveBody{.watermarks = AnyWatermarks(random),
                .reason = static_cast<LeaveReason>(1 + random->Below(3))});
}

// Decodes what an encoder wrote and encodes it once more: the same bytes, so
// no field is lost, cut or swapped with another.
template <class Body>
void ExpectRoundTrip(const Bytes& bytes) {
  Body body;
  ASSERT_EQ(Decode(bytes, &body), WireError::kOk);
  if constexpr (std::is_same_v<Body, ProbeBody>) {
    ASSERT_EQ(Encoded(body, bytes.size()), bytes);
  } else {
    ASSERT_EQ(Encoded(body), bytes);
  }
}

class WirePropertyTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(WirePropertyTest, BodiesSurviveARoundTrip) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  Random random(GetParam());
  for (int i = 0; i < 200; ++i) {
    ExpectRoundTrip<OpenBody>(AnyOpen(&random));
    ExpectRoundTrip<FeedbackBody>(AnyFeedback(&random));
    ExpectRoundTrip<NackBody>(AnyNack(&random));
    ExpectRoundTrip<HelloBody>(AnyHello(&random));
    ExpectRoundTrip<ProbeBody>(AnyProbe(&random));
    ExpectRoundTrip<LeaveBody>(AnyLeave(&random));
  }
}

TEST_P(WirePropertyTest, HeadersSurviveARoundTrip) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  Random random(GetParam());
  for (int i = 0; i < 1000; ++i) {
    Header header = AnyHeader(&random);
    header.length = static_cast<uint16_t>(random.Below(100));
    const Bytes packet = Sealed(header, Bytes(header.length));
    Header decoded;
    ASSERT_EQ(DecodeHeader(packet, &decoded), WireError::kOk);
    ASSERT_EQ(decoded, header);
    ASSERT_EQ(CheckCrc(packet), WireError::kOk);
  }
}

TEST_P(WirePropertyTest, EveryBitFlipInASealedPacketIsDetected) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  Random random(GetParam());
  Bytes body(random.Below(200));
  for (uint8_t& byte : body) byte = random.Any<uint8_t>();
  const Bytes original = Sealed(AnyHeader(&random), body);
  for (size_t bit = 0; bit < original.size() * 8; ++bit) {
    Bytes packet = original;
    packet[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    Header header;
    ASSERT_TRUE(DecodeHeader(packet, &header) != WireError::kOk ||
                CheckCrc(packet) != WireError::kOk)
        << "bit " << bit;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, WirePropertyTest,
                         ::testing::Range<uint64_t>(1, 17));

}  // namespace
}  // namespace optireduce::wire
