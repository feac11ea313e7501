#include "dataplane/nic/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "dataplane/base/rng.h"

namespace optireduce::nic {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr UdpAddress kPeer = {.mac = {{0x02, 0, 0, 0, 0, 0x01}},
                              .ip = Ipv4Address(0x0a000001),
                              .port = 51000};
constexpr UdpAddress kSelf = {.mac = {{0x02, 0, 0, 0, 0, 0x02}},
                              .ip = Ipv4Address(0x0a000002),
                              .port = 47000};
constexpr LocalAddress kLocal = {
    .mac = kSelf.mac, .ip = kSelf.ip, .first_port = 46999, .num_ports = 2};

// Offsets in a UDP frame.
constexpr size_t kIp = kEthernetHeaderBytes;
constexpr size_t kUdp = kIp + kIpv4HeaderBytes;

Bytes Payload(size_t bytes) {
  Bytes payload(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    payload[i] = static_cast<uint8_t>(i * 37 + 11);
  }
  return payload;
}

// From kPeer to kSelf.
Bytes UdpFrame(const Bytes& payload,
               TxChecksum checksum = TxChecksum::kSoftware) {
  Bytes frame(kUdpFrameHeaderBytes + payload.size());
  std::copy(payload.begin(), payload.end(),
            frame.begin() + kUdpFrameHeaderBytes);
  EXPECT_TRUE(BuildUdpHeaders(frame, kPeer, kSelf, payload.size(), checksum));
  return frame;
}

constexpr ArpPacket kRequest = {.operation = ArpOperation::kRequest,
                                .sender_mac = kPeer.mac,
                                .sender_ip = kPeer.ip,
                                .target_mac = {},
                                .target_ip = kSelf.ip};

Bytes ArpFrame(const ArpPacket& arp, const MacAddress& destination) {
  Bytes frame(kArpFrameBytes, 0xee);
  BuildArp(std::span<uint8_t, kArpFrameBytes>(frame), destination, arp);
  return frame;
}

Bytes ArpFrame() { return ArpFrame(kRequest, kBroadcastMac); }

// RFC 1071 word by word, apart from the code under test.
uint16_t PlainChecksum(const uint8_t* data, size_t bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes; i += 2) {
    sum += data[i] << 8 | (i + 1 < bytes ? data[i + 1] : 0);
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return static_cast<uint16_t>(~sum);
}

// Makes the IP header checksum right again.
Bytes Fixed(Bytes frame) {
  frame[kIp + 10] = frame[kIp + 11] = 0;
  const uint16_t checksum = PlainChecksum(&frame[kIp], kIpv4HeaderBytes);
  frame[kIp + 10] = static_cast<uint8_t>(checksum >> 8);
  frame[kIp + 11] = static_cast<uint8_t>(checksum);
  return frame;
}

Bytes With(Bytes frame, size_t offset, const Bytes& bytes) {
  std::copy(bytes.begin(), bytes.end(), frame.begin() + offset);
  return frame;
}

ParsedFrame Parse(const Bytes& frame, const LocalAddress* local = &kLocal,
                  const RxOffload& offload = {}) {
  const std::span<const uint8_t> segment(frame);
  return ParseFrame({&segment, 1}, offload, local);
}

// The name, so that a failure can be read.
std::string Verdict(const Bytes& frame, const LocalAddress* local = &kLocal) {
  return std::string(Name(Parse(frame, local).verdict));
}

Bytes PayloadOf(FrameSegments segments, const ParsedFrame& frame) {
  Bytes scratch(frame.payload_bytes);
  const auto payload = UdpPayload(segments, frame, scratch);
  return Bytes(payload.begin(), payload.end());
}

Bytes PayloadOf(const Bytes& frame) {
  const std::span<const uint8_t> segment(frame);
  return PayloadOf({&segment, 1}, Parse(frame));
}

// The frame cut at `cuts` (ascending), each piece in memory of its own, so that
// a sanitizer sees every step past its end.
class Pieces {
 public:
  Pieces(const Bytes& frame, const std::vector<size_t>& cuts) {
    size_t begin = 0;
    for (const size_t cut : cuts) {
      pieces_.emplace_back(frame.begin() + begin, frame.begin() + cut);
      begin = cut;
    }
    pieces_.emplace_back(frame.begin() + begin, frame.end());
    for (const Bytes& piece : pieces_) segments_.emplace_back(piece);
  }

  FrameSegments segments() const { return segments_; }

 private:
  std::vector<Bytes> pieces_;
  std::vector<std::span<const uint8_t>> segments_;
};

void ExpectSameInPieces(const Bytes& frame, const std::vector<size_t>& cuts) {
  const ParsedFrame whole = Parse(frame);
  const Pieces pieces(frame, cuts);
  const ParsedFrame split = ParseFrame(pieces.segments(), {}, &kLocal);
  ASSERT_EQ(Name(split.verdict), Name(whole.verdict));
  if (whole.verdict == FrameVerdict::kUdp) {
    ASSERT_EQ(split.source.port, whole.source.port);
    ASSERT_EQ(split.payload_bytes, whole.payload_bytes);
    ASSERT_EQ(PayloadOf(pieces.segments(), split), PayloadOf(frame));
  }
}

// ---- what we send -----------------------------------------------------------

TEST(FrameBuildTest, GoldenUdpFrame) {
  // The checksums by a program outside of this code base.
  const Bytes golden = {0x02, 0,    0,    0,    0,    0x02, 0x02, 0,
                        0,    0,    0,    0x01, 0x08, 0x00,  //
                        0x45, 0x00, 0x00, 0x21, 0x00, 0x00, 0x40, 0x00,
                        0x40, 0x11, 0x26, 0xca, 0x0a, 0x00, 0x00, 0x01,
                        0x0a, 0x00, 0x00, 0x02,                          //
                        0xc7, 0x38, 0xb7, 0x98, 0x00, 0x0d, 0x29, 0x2e,  //
                        'h',  'e',  'l',  'l',  'o'};
  EXPECT_EQ(UdpFrame({'h', 'e', 'l', 'l', 'o'}), golden);
  EXPECT_EQ(UdpFrame({'h', 'e', 'l', 'l', 'o'}, TxChecksum::kPseudoHeader),
            With(golden, kUdp + 6, {0x14, 0x21}));
  EXPECT_EQ(UdpFrame({'h', 'e', 'l', 'l', 'o'}, TxChecksum::kNone),
            With(golden, kUdp + 6, {0, 0}));
}

TEST(FrameBuildTest, GoldenArp) {
  const Bytes request = {
      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0,    0,    0,    0,
      0x01, 0x08, 0x06, 0x00, 0x01, 0x08, 0x00, 0x06, 0x04, 0x00, 0x01,  //
      0x02, 0,    0,    0,    0,    0x01, 0x0a, 0,    0,    0x01,        //
      0,    0,    0,    0,    0,    0,    0x0a, 0,    0,    0x02,        //
      0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
      0,    0,    0,    0,    0,    0,    0};
  EXPECT_EQ(ArpFrame(), request);
  const ArpPacket reply = {.operation = ArpOperation::kReply,
                           .sender_mac = kSelf.mac,
                           .sender_ip = kSelf.ip,
                           .target_mac = kPeer.mac,
                           .target_ip = kPeer.ip};
  const Bytes frame = ArpFrame(reply, kPeer.mac);
  EXPECT_EQ(
      Bytes(frame.begin(), frame.begin() + 42),
      Bytes({0x02, 0,    0,    0,    0,    0x01, 0x02, 0,    0,    0,
             0,    0x02, 0x08, 0x06, 0x00, 0x01, 0x08, 0x00, 0x06, 0x04,
             0x00, 0x02,                                                  //
             0x02, 0,    0,    0,    0,    0x02, 0x0a, 0,    0,    0x02,  //
             0x02, 0,    0,    0,    0,    0x01, 0x0a, 0,    0,    0x01}));
}

TEST(FrameBuildTest, BothLengthsAreRight) {
  for (const size_t bytes : {0, 1, 1472, 8972, 65507}) {
    const Bytes frame = UdpFrame(Payload(bytes));
    EXPECT_EQ(frame[kIp + 2] << 8 | frame[kIp + 3],
              static_cast<int>(bytes) + 28);
    EXPECT_EQ(frame[kUdp + 4] << 8 | frame[kUdp + 5],
              static_cast<int>(bytes) + 8);
    EXPECT_EQ(Verdict(frame), "udp") << bytes;
    EXPECT_EQ(PayloadOf(frame), Payload(bytes));
  }
}

TEST(FrameBuildTest, WhatDoesNotFitIsNotWritten) {
  Bytes frame(kUdpFrameHeaderBytes + 10, 0xee);
  const Bytes before = frame;
  EXPECT_FALSE(BuildUdpHeaders(frame, kPeer, kSelf, 11, TxChecksum::kNone));
  EXPECT_FALSE(
      BuildUdpHeaders(frame, kPeer, kSelf, SIZE_MAX, TxChecksum::kNone));
  EXPECT_EQ(frame, before);
  Bytes large(kUdpFrameHeaderBytes + kMaxUdpPayloadBytes + 1);
  EXPECT_FALSE(BuildUdpHeaders(large, kPeer, kSelf, kMaxUdpPayloadBytes + 1,
                               TxChecksum::kNone));
}

TEST(FrameBuildTest, AChecksumOfZeroIsSentAsAllOnes) {
  const Bytes frame = UdpFrame({0x6d, 0x06});
  EXPECT_EQ(frame[kUdp + 6], 0xff);
  EXPECT_EQ(frame[kUdp + 7], 0xff);
  EXPECT_EQ(Verdict(frame), "udp");
}

// ---- what we take -----------------------------------------------------------

TEST(FrameParseTest, UdpFields) {
  const Bytes frame = UdpFrame(Payload(100));
  const ParsedFrame parsed = Parse(frame);
  ASSERT_EQ(parsed.verdict, FrameVerdict::kUdp);
  EXPECT_EQ(parsed.source.mac, kPeer.mac);
  EXPECT_EQ(parsed.source.ip, kPeer.ip);
  EXPECT_EQ(parsed.source.port, kPeer.port);
  EXPECT_EQ(parsed.destination.mac, kSelf.mac);
  EXPECT_EQ(parsed.destination.ip, kSelf.ip);
  EXPECT_EQ(parsed.destination.port, kSelf.port);
  EXPECT_EQ(parsed.payload_offset, kUdpFrameHeaderBytes);
  EXPECT_EQ(parsed.payload_bytes, 100u);
  EXPECT_FALSE(parsed.congestion_experienced);
}

TEST(FrameParseTest, PaddingIsNoPayload) {
  Bytes frame = UdpFrame(Payload(5));
  frame.resize(60, 0);
  EXPECT_EQ(Verdict(frame), "udp");
  EXPECT_EQ(PayloadOf(frame), Payload(5));
  // Whatever it holds, and however long it is.
  frame.resize(200, 0xff);
  EXPECT_EQ(Verdict(frame), "udp");
  EXPECT_EQ(PayloadOf(frame), Payload(5));
}

TEST(FrameParseTest, OnlyCeIsCongestion) {
  for (uint8_t tos = 0; tos < 8; ++tos) {
    const ParsedFrame parsed =
        Parse(Fixed(With(UdpFrame(Payload(8)), kIp + 1, {tos})));
    ASSERT_EQ(parsed.verdict, FrameVerdict::kUdp);
    EXPECT_EQ(parsed.congestion_experienced, tos % 4 == 3);
  }
}

TEST(FrameParseTest, ArpFields) {
  const ParsedFrame parsed = Parse(ArpFrame());
  ASSERT_EQ(parsed.verdict, FrameVerdict::kArpRequest);
  EXPECT_EQ(parsed.arp.operation, ArpOperation::kRequest);
  EXPECT_EQ(parsed.arp.sender_mac, kPeer.mac);
  EXPECT_EQ(parsed.arp.sender_ip, kPeer.ip);
  EXPECT_EQ(parsed.arp.target_mac, MacAddress{});
  EXPECT_EQ(parsed.arp.target_ip, kSelf.ip);
  ArpPacket reply = kRequest;
  reply.operation = ArpOperation::kReply;
  EXPECT_EQ(Verdict(ArpFrame(reply, kSelf.mac)), "arp_reply");
  EXPECT_EQ(Verdict(ArpFrame(reply, kBroadcastMac)), "arp_reply");
}

struct BadFrame {
  const char* what;
  Bytes frame;
  const char* verdict;
};

// One row and more for each row of the table in frame.h.
std::vector<BadFrame> BadFrames() {
  const Bytes udp = UdpFrame(Payload(20));
  const Bytes arp = ArpFrame();
  return {
      {"nothing", {}, "short_frame"},
      {"13 bytes", Bytes(udp.begin(), udp.begin() + 13), "short_frame"},
      {"all zero", Bytes(60, 0), "unknown_ethertype"},
      {"VLAN", With(udp, 12, {0x81, 0x00}), "vlan"},
      {"service VLAN", With(udp, 12, {0x88, 0xa8}), "vlan"},
      {"old double VLAN", With(udp, 12, {0x91, 0x00}), "vlan"},
      {"IPv6", With(udp, 12, {0x86, 0xdd}), "ipv6"},
      {"IPv6 to a multicast MAC",
       With(With(udp, 12, {0x86, 0xdd}), 0, {0x33, 0x33}), "ipv6"},
      {"LLDP", With(udp, 12, {0x88, 0xcc}), "unknown_ethertype"},
      {"802.3 length", With(udp, 12, {0x00, 0x2e}), "unknown_ethertype"},
      {"group source MAC", With(udp, 6, {0x03}), "bad_source"},
      {"broadcast IPv4", With(udp, 0, Bytes(6, 0xff)), "multicast"},
      {"multicast IPv4", With(udp, 0, {0x01, 0x00, 0x5e}), "multicast"},
      {"multicast ARP", With(arp, 0, {0x01, 0x00, 0x5e}), "multicast"},
      {"another MAC", With(udp, 5, {0x03}), "not_our_mac"},
      {"ARP to another MAC", ArpFrame(kRequest, kPeer.mac), "not_our_mac"},

      {"ARP, 41 bytes", Bytes(arp.begin(), arp.begin() + 41), "bad_arp"},
      {"ARP hardware type", With(arp, 14, {0, 6}), "bad_arp"},
      {"ARP protocol", With(arp, 16, {0x86, 0xdd}), "bad_arp"},
      {"ARP MAC length", With(arp, 18, {8}), "bad_arp"},
      {"ARP IP length", With(arp, 19, {16}), "bad_arp"},
      {"ARP operation 0", With(arp, 20, {0, 0}), "bad_arp"},
      {"ARP operation 3", With(arp, 20, {0, 3}), "bad_arp"},
      {"ARP operation 0x101", With(arp, 20, {1, 1}), "bad_arp"},
      {"ARP sender MAC zero", With(arp, 22, Bytes(6, 0)), "bad_arp"},
      {"ARP sender MAC group", With(arp, 22, Bytes(6, 0xff)), "bad_arp"},
      {"ARP sender IP multicast", With(arp, 28, {224, 0, 0, 1}), "bad_arp"},
      {"ARP sender IP broadcast", With(arp, 28, Bytes(4, 0xff)), "bad_arp"},
      {"ARP reply of nobody", With(With(arp, 20, {0, 2}), 28, Bytes(4, 0)),
       "bad_arp"},

      {"14 bytes", Bytes(udp.begin(), udp.begin() + 14), "short_ip"},
      {"33 bytes", Bytes(udp.begin(), udp.begin() + 33), "short_ip"},
      {"IP version 6", With(udp, kIp, {0x65}), "bad_ip_version"},
      {"IP version 0", With(udp, kIp, {0x05}), "bad_ip_version"},
      {"IHL 4", With(udp, kIp, {0x44}), "bad_ihl"},
      {"IHL 0", With(udp, kIp, {0x40}), "bad_ihl"},
      {"IHL 6", With(udp, kIp, {0x46}), "ip_options"},
      {"IHL 15", With(udp, kIp, {0x4f}), "ip_options"},
      {"total length 0", Fixed(With(udp, kIp + 2, {0, 0})), "bad_ip_len"},
      {"total length 19", Fixed(With(udp, kIp + 2, {0, 19})), "bad_ip_len"},
      {"total length one beyond", Fixed(With(udp, kIp + 2, {0, 49})),
       "bad_ip_len"},
      {"total length most", Fixed(With(udp, kIp + 2, {0xff, 0xff})),
       "bad_ip_len"},
      {"MF", Fixed(With(udp, kIp + 6, {0x20, 0})), "fragment"},
      {"offset 1", Fixed(With(udp, kIp + 6, {0, 1})), "fragment"},
      {"offset most", Fixed(With(udp, kIp + 6, {0x1f, 0xff})), "fragment"},
      {"DF and offset", Fixed(With(udp, kIp + 6, {0x41, 0})), "fragment"},
      {"TTL changed alone", With(udp, kIp + 8, {63}), "bad_ip_checksum"},
      {"source IP zero", Fixed(With(udp, kIp + 12, {0, 0, 0, 0})),
       "bad_source"},
      {"source IP multicast", Fixed(With(udp, kIp + 12, {224, 0, 0, 9})),
       "bad_source"},
      {"source IP broadcast", Fixed(With(udp, kIp + 12, Bytes(4, 255))),
       "bad_source"},
      {"IP multicast", Fixed(With(udp, kIp + 16, {239, 1, 2, 3})), "multicast"},
      {"IP broadcast", Fixed(With(udp, kIp + 16, Bytes(4, 255))), "multicast"},
      {"another IP", Fixed(With(udp, kIp + 19, {3})), "not_our_ip"},
      {"TCP", Fixed(With(udp, kIp + 9, {6})), "not_udp"},
      {"ICMP", Fixed(With(udp, kIp + 9, {1})), "not_udp"},

      {"no room for UDP", Fixed(With(udp, kIp + 2, {0, 20})), "bad_udp_len"},
      {"7 bytes of UDP", Fixed(With(udp, kIp + 2, {0, 27})), "bad_udp_len"},
      {"UDP length 0", With(udp, kUdp + 4, {0, 0}), "bad_udp_len"},
      {"UDP length 4", With(udp, kUdp + 4, {0, 4}), "bad_udp_len"},
      {"UDP length 7", With(udp, kUdp + 4, {0, 7}), "bad_udp_len"},
      {"UDP length one beyond", With(udp, kUdp + 4, {0, 29}), "bad_udp_len"},
      {"UDP length most", With(udp, kUdp + 4, {0xff, 0xff}), "bad_udp_len"},
      {"UDP length one less", With(udp, kUdp + 4, {0, 27}), "len_mismatch"},
      {"UDP length 8", With(udp, kUdp + 4, {0, 8}), "len_mismatch"},
      {"total length one less", Fixed(With(udp, kIp + 2, {0, 47})),
       "bad_udp_len"},
      {"another port", With(udp, kUdp + 2, {0, 53}), "not_our_port"},
      {"UDP checksum", With(udp, kUdp + 6, {0x12, 0x34}), "bad_udp_checksum"},
      {"payload bit", With(udp, kUdp + 8, {0xff}), "bad_udp_checksum"},
      {"source port", With(udp, kUdp, {0x12}), "bad_udp_checksum"},
  };
}

TEST(FrameParseTest, BadFramesAsTheTableSays) {
  for (const BadFrame& bad : BadFrames()) {
    EXPECT_EQ(Verdict(bad.frame), bad.verdict) << bad.what;
  }
}

TEST(FrameParseTest, EveryVerdictIsReachedAndHasAName) {
  std::set<std::string> reached = {Verdict(UdpFrame(Payload(1))),
                                   Verdict(ArpFrame())};
  ArpPacket reply = kRequest;
  reply.operation = ArpOperation::kReply;
  reached.insert(Verdict(ArpFrame(reply, kSelf.mac)));
  for (const BadFrame& bad : BadFrames()) reached.insert(Verdict(bad.frame));
  EXPECT_EQ(reached.size(), kNumFrameVerdicts);
  EXPECT_EQ(reached.count(""), 0u);
  size_t accepted = 0;
  for (size_t i = 0; i < kNumFrameVerdicts; ++i) {
    accepted += IsAccepted(static_cast<FrameVerdict>(i)) ? 1 : 0;
  }
  EXPECT_EQ(accepted, 3u);
}

TEST(FrameParseTest, EarlierRowsOfTheTableGoFirst) {
  // Wrong in everything; each repair lets the next row speak.
  const Bytes good = UdpFrame(Payload(20));
  Bytes frame = good;
  frame[0] = 0x01;
  frame[kIp] = 0x31;
  frame[kIp + 2] = 0xff;
  frame[kIp + 6] = 0x20;
  frame[kIp + 9] = 6;
  frame[kIp + 12] = 0xe0;
  frame[kIp + 16] = 0x0b;
  frame[kUdp + 2] = 0;
  frame[kUdp + 4] = 0xff;
  frame[kUdp + 6] ^= 0xff;
  EXPECT_EQ(Verdict(frame), "multicast");
  frame[0] = 0x00;
  EXPECT_EQ(Verdict(frame), "not_our_mac");
  frame[0] = good[0];
  EXPECT_EQ(Verdict(frame), "bad_ip_version");
  frame[kIp] = 0x41;
  EXPECT_EQ(Verdict(frame), "bad_ihl");
  frame[kIp] = 0x45;
  EXPECT_EQ(Verdict(frame), "bad_ip_len");
  frame[kIp + 2] = 0;
  EXPECT_EQ(Verdict(frame), "fragment");
  frame[kIp + 6] = 0x40;
  EXPECT_EQ(Verdict(frame), "bad_ip_checksum");
  EXPECT_EQ(Verdict(Fixed(frame)), "bad_source");
  frame[kIp + 12] = 0x0a;
  EXPECT_EQ(Verdict(Fixed(frame)), "not_our_ip");
  frame[kIp + 16] = 0x0a;
  EXPECT_EQ(Verdict(Fixed(frame)), "not_udp");
  frame[kIp + 9] = 17;
  EXPECT_EQ(Verdict(Fixed(frame)), "bad_udp_len");
  frame[kUdp + 4] = 0;
  EXPECT_EQ(Verdict(Fixed(frame)), "not_our_port");
  frame[kUdp + 2] = good[kUdp + 2];
  EXPECT_EQ(Verdict(Fixed(frame)), "bad_udp_checksum");
  frame[kUdp + 6] ^= 0xff;
  EXPECT_EQ(Verdict(Fixed(frame)), "udp");
}

TEST(FrameParseTest, AnArpProbeIsARequest) {
  EXPECT_EQ(Verdict(With(ArpFrame(), 28, Bytes(4, 0))), "arp_request");
}

TEST(FrameParseTest, OurPortsAreARange) {
  const auto verdict = [](uint16_t first, uint16_t count, uint16_t port) {
    LocalAddress local = kLocal;
    local.first_port = first;
    local.num_ports = count;
    Bytes frame = UdpFrame(Payload(1), TxChecksum::kNone);
    frame[kUdp + 2] = static_cast<uint8_t>(port >> 8);
    frame[kUdp + 3] = static_cast<uint8_t>(port);
    return Parse(frame, &local).verdict;
  };
  EXPECT_EQ(verdict(100, 3, 99), FrameVerdict::kNotOurPort);
  EXPECT_EQ(verdict(100, 3, 100), FrameVerdict::kUdp);
  EXPECT_EQ(verdict(100, 3, 102), FrameVerdict::kUdp);
  EXPECT_EQ(verdict(100, 3, 103), FrameVerdict::kNotOurPort);
  EXPECT_EQ(verdict(100, 0, 100), FrameVerdict::kNotOurPort);
  EXPECT_EQ(verdict(65535, 1, 65535), FrameVerdict::kUdp);
  EXPECT_EQ(verdict(65535, 1, 0), FrameVerdict::kNotOurPort);
}

TEST(FrameParseTest, WithoutALocalAddressEveryHostIsUs) {
  const Bytes frame =
      With(Fixed(With(UdpFrame(Payload(4), TxChecksum::kNone), kIp + 19, {77})),
           5, {9});
  EXPECT_EQ(Verdict(frame), "not_our_mac");
  EXPECT_EQ(Verdict(frame, nullptr), "udp");
  EXPECT_EQ(Verdict(With(frame, 0, Bytes(6, 0xff)), nullptr), "multicast");
}

// ---- checksums --------------------------------------------------------------

TEST(FrameChecksumTest, FourStatesOfTheUdpChecksum) {
  const Bytes good = UdpFrame(Payload(33));
  const Bytes bad = With(good, kUdp + 6, {0x12, 0x34});
  const Bytes none = UdpFrame(Payload(33), TxChecksum::kNone);
  const auto verdict = [](const Bytes& frame, RxChecksum state) {
    return Parse(frame, &kLocal, {.udp = state}).verdict;
  };
  EXPECT_EQ(verdict(good, RxChecksum::kUnknown), FrameVerdict::kUdp);
  EXPECT_EQ(verdict(bad, RxChecksum::kUnknown), FrameVerdict::kBadUdpChecksum);
  EXPECT_EQ(verdict(bad, RxChecksum::kGood), FrameVerdict::kUdp);
  EXPECT_EQ(verdict(bad, RxChecksum::kNone), FrameVerdict::kUdp);
  EXPECT_EQ(verdict(good, RxChecksum::kBad), FrameVerdict::kBadUdpChecksum);
  for (const RxChecksum state : {RxChecksum::kUnknown, RxChecksum::kNone,
                                 RxChecksum::kGood, RxChecksum::kBad}) {
    EXPECT_EQ(verdict(none, state), FrameVerdict::kUdp);
  }
}

TEST(FrameChecksumTest, FourStatesOfTheIpChecksum) {
  const Bytes good = UdpFrame(Payload(33));
  const Bytes bad = With(good, kIp + 10, {0x12, 0x34});
  const auto verdict = [](const Bytes& frame, RxChecksum state) {
    return Parse(frame, &kLocal, {.ip = state}).verdict;
  };
  EXPECT_EQ(verdict(good, RxChecksum::kUnknown), FrameVerdict::kUdp);
  EXPECT_EQ(verdict(bad, RxChecksum::kUnknown), FrameVerdict::kBadIpChecksum);
  EXPECT_EQ(verdict(bad, RxChecksum::kGood), FrameVerdict::kUdp);
  EXPECT_EQ(verdict(bad, RxChecksum::kNone), FrameVerdict::kUdp);
  EXPECT_EQ(verdict(good, RxChecksum::kBad), FrameVerdict::kBadIpChecksum);
}

TEST(FrameChecksumTest, PseudoHeaderSumIsWhatHardwareCompletes) {
  for (const size_t bytes : {0, 1, 2, 33, 1424}) {
    Bytes frame = UdpFrame(Payload(bytes), TxChecksum::kPseudoHeader);
    // What the hardware does: the sum over all from the UDP header on.
    uint16_t checksum = PlainChecksum(&frame[kUdp], frame.size() - kUdp);
    if (checksum == 0) checksum = 0xffff;
    frame[kUdp + 6] = static_cast<uint8_t>(checksum >> 8);
    frame[kUdp + 7] = static_cast<uint8_t>(checksum);
    EXPECT_EQ(frame, UdpFrame(Payload(bytes)));
  }
}

TEST(FrameChecksumTest, EveryBitFlipOfIpAndUdpIsDetected) {
  const Bytes good = UdpFrame(Payload(41));
  for (size_t bit = kIp * 8; bit < good.size() * 8; ++bit) {
    Bytes frame = good;
    frame[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    ASSERT_NE(Verdict(frame), "udp") << "bit " << bit;
  }
}

// ---- cuts and pieces --------------------------------------------------------

TEST(FramePiecesTest, OnlyTheWholeFrameIsAccepted) {
  for (const Bytes& whole : {UdpFrame(Payload(50)), UdpFrame({})}) {
    for (size_t length = 0; length < whole.size(); ++length) {
      const Bytes cut(whole.begin(), whole.begin() + length);
      ASSERT_FALSE(IsAccepted(Parse(cut).verdict)) << length;
      ASSERT_FALSE(IsAccepted(Parse(cut, nullptr).verdict)) << length;
    }
    EXPECT_EQ(Verdict(whole), "udp");
  }
  const Bytes arp = ArpFrame();
  for (size_t length = 0; length < arp.size(); ++length) {
    const Bytes cut(arp.begin(), arp.begin() + length);
    ASSERT_EQ(IsAccepted(Parse(cut).verdict), length >= 42) << length;
  }
}

TEST(FramePiecesTest, AFrameThatEndsInsideTheUdpHeader) {
  // The IP total length agrees with the frame: only UDP's own check is left.
  const Bytes whole = UdpFrame(Payload(50));
  for (uint8_t udp_bytes = 0; udp_bytes < kUdpHeaderBytes; ++udp_bytes) {
    Bytes frame(whole.begin(), whole.begin() + kUdp + udp_bytes);
    frame.shrink_to_fit();
    frame[kIp + 2] = 0;
    frame[kIp + 3] = static_cast<uint8_t>(kIpv4HeaderBytes + udp_bytes);
    EXPECT_EQ(Verdict(Fixed(frame)), "bad_udp_len") << int{udp_bytes};
  }
}

TEST(FramePiecesTest, TheSameInTwoPieces) {
  std::vector<Bytes> frames = {UdpFrame(Payload(51)), UdpFrame({}), ArpFrame()};
  for (const BadFrame& bad : BadFrames()) frames.push_back(bad.frame);
  for (const Bytes& frame : frames) {
    for (size_t cut = 0; cut <= frame.size(); ++cut) {
      ExpectSameInPieces(frame, {cut});
    }
  }
}

TEST(FramePiecesTest, TheSameInSinglesWithEmptyPiecesBetween) {
  for (const Bytes& frame : {UdpFrame(Payload(51)), ArpFrame()}) {
    std::vector<size_t> cuts;
    for (size_t cut = 0; cut <= frame.size(); ++cut) {
      cuts.push_back(cut);
      if (cut % 3 == 0) cuts.push_back(cut);
    }
    ExpectSameInPieces(frame, cuts);
  }
}

TEST(FramePiecesTest, NoPieces) {
  EXPECT_EQ(ParseFrame({}, {}, &kLocal).verdict, FrameVerdict::kShortFrame);
}

TEST(FramePiecesTest, PayloadInOnePieceIsNotCopied) {
  const Bytes frame = UdpFrame(Payload(51));
  const std::span<const uint8_t> bytes(frame);
  const std::span<const uint8_t> in_place[] = {bytes.first(42),
                                               bytes.subspan(42)};
  const ParsedFrame parsed = ParseFrame(in_place, {}, &kLocal);
  EXPECT_EQ(UdpPayload(in_place, parsed, {}).data(), frame.data() + 42);
  const std::span<const uint8_t> split[] = {bytes.first(50), bytes.subspan(50)};
  Bytes scratch(51);
  EXPECT_EQ(UdpPayload(split, parsed, scratch).data(), scratch.data());
  EXPECT_EQ(scratch, Payload(51));
  EXPECT_TRUE(UdpPayload(split, parsed, std::span(scratch).first(50)).empty());
}

class FramePropertyTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(FramePropertyTest, BuiltFramesParseToWhatTheyWereBuiltFrom) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  Rng rng(GetParam());
  for (int i = 0; i < 200; ++i) {
    const auto address = [&rng] {
      UdpAddress any;
      for (uint8_t& byte : any.mac.bytes) {
        byte = static_cast<uint8_t>(rng.Next());
      }
      any.mac.bytes[0] &= 0xfe;
      any.ip = Ipv4Address(static_cast<uint32_t>(1 + rng.Below(0xdfffffff)));
      any.port = static_cast<uint16_t>(rng.Next());
      return any;
    };
    const UdpAddress source = address();
    const UdpAddress destination = address();
    Bytes payload(rng.Below(300));
    for (uint8_t& byte : payload) byte = static_cast<uint8_t>(rng.Next());
    Bytes frame(kUdpFrameHeaderBytes + payload.size() + rng.Below(20));
    std::copy(payload.begin(), payload.end(),
              frame.begin() + kUdpFrameHeaderBytes);
    ASSERT_TRUE(BuildUdpHeaders(
        frame, source, destination, payload.size(),
        rng.Chance(0.5) ? TxChecksum::kSoftware : TxChecksum::kNone));
    const LocalAddress local = {.mac = destination.mac,
                                .ip = destination.ip,
                                .first_port = destination.port,
                                .num_ports = 1};
    const ParsedFrame parsed = Parse(frame, &local);
    ASSERT_EQ(Name(parsed.verdict), "udp");
    ASSERT_EQ(parsed.source.mac, source.mac);
    ASSERT_EQ(parsed.source.ip, source.ip);
    ASSERT_EQ(parsed.source.port, source.port);
    ASSERT_EQ(parsed.destination.mac, destination.mac);
    ASSERT_EQ(parsed.destination.ip, destination.ip);
    ASSERT_EQ(parsed.destination.port, destination.port);
    const std::span<const uint8_t> segment(frame);
    ASSERT_EQ(PayloadOf({&segment, 1}, parsed), payload);
  }
}

TEST_P(FramePropertyTest, BuiltArpParsesToWhatItWasBuiltFrom) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  Rng rng(GetParam());
  const auto mac = [&rng] {
    MacAddress any;
    for (uint8_t& byte : any.bytes) byte = static_cast<uint8_t>(rng.Next());
    any.bytes[0] = static_cast<uint8_t>((any.bytes[0] & 0xfe) | 2);
    return any;
  };
  const auto ip = [&rng] {
    return Ipv4Address(static_cast<uint32_t>(1 + rng.Below(0xdfffffff)));
  };
  for (int i = 0; i < 200; ++i) {
    const ArpPacket arp = {.operation = rng.Chance(0.5) ? ArpOperation::kRequest
                                                        : ArpOperation::kReply,
                           .sender_mac = mac(),
                           .sender_ip = ip(),
                           .target_mac = mac(),
                           .target_ip = ip()};
    const ParsedFrame parsed = Parse(ArpFrame(arp, kSelf.mac));
    ASSERT_TRUE(IsAccepted(parsed.verdict)) << Name(parsed.verdict);
    ASSERT_EQ(parsed.arp, arp);
  }
}

TEST_P(FramePropertyTest, BrokenFramesAreTheSameInAnyPieces) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  Rng rng(GetParam());
  for (int i = 0; i < 500; ++i) {
    Bytes frame =
        rng.Chance(0.8) ? UdpFrame(Payload(rng.Below(100))) : ArpFrame();
    for (uint64_t changes = rng.Below(4); changes > 0; --changes) {
      frame[rng.Below(frame.size())] = static_cast<uint8_t>(rng.Next());
    }
    if (rng.Chance(0.3)) frame.resize(rng.Below(frame.size() + 20));
    std::vector<size_t> cuts(rng.Below(6));
    for (size_t& cut : cuts) cut = rng.Below(frame.size() + 1);
    std::sort(cuts.begin(), cuts.end());
    ExpectSameInPieces(frame, cuts);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, FramePropertyTest,
                         ::testing::Range<uint64_t>(1, 9));

}  // namespace
}  // namespace optireduce::nic
