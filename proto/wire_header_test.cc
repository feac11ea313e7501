// The header, the CRC, and what fits in an MTU.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "proto/wire.h"
#include "proto/wire_testing.h"

namespace optireduce::wire {
namespace {

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

}  // namespace
}  // namespace optireduce::wire
