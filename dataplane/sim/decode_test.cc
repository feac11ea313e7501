#include "dataplane/sim/decode.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "dataplane/nic/frame.h"
#include "gtest/gtest.h"
#include "proto/wire.h"

namespace optireduce::sim {
namespace {

using Bytes = std::vector<uint8_t>;

void Append32(uint32_t value, bool big, Bytes* to) {
  for (int i = 0; i < 4; ++i) {
    to->push_back(static_cast<uint8_t>(value >> (big ? 24 - 8 * i : 8 * i)));
  }
}

Bytes Pcap(const std::vector<Bytes>& frames, bool big = false) {
  Bytes file;
  Append32(0xa1b2c3d4, big, &file);
  for (int i = 0; i < 4; ++i) Append32(0, big, &file);
  Append32(1, big, &file);
  for (const Bytes& frame : frames) {
    Append32(0, big, &file);
    Append32(0, big, &file);
    Append32(static_cast<uint32_t>(frame.size()), big, &file);
    Append32(static_cast<uint32_t>(frame.size()), big, &file);
    file.insert(file.end(), frame.begin(), frame.end());
  }
  return file;
}

Bytes ResultFrame() {
  wire::Header header;
  header.type = wire::PacketType::kResult;
  header.tag = 7;
  header.op_seq = 9;
  header.chunk = 3;
  header.length = 16;
  Bytes packet(wire::kHeaderBytes + 16 + wire::kCrcBytes, 0x11);
  wire::EncodeHeader(header, packet.data());
  wire::Seal(packet.data(), wire::kHeaderBytes + 16);
  Bytes frame(nic::kUdpFrameHeaderBytes + packet.size());
  std::copy(packet.begin(), packet.end(),
            frame.begin() + nic::kUdpFrameHeaderBytes);
  nic::UdpAddress source;
  source.mac.bytes = {2, 0, 0, 0, 0, 1};
  source.ip = nic::Ipv4Address(0x0a000001);
  source.port = 1000;
  nic::UdpAddress destination = source;
  destination.mac.bytes[5] = 2;
  destination.ip = nic::Ipv4Address(0x0a000002);
  EXPECT_TRUE(nic::BuildUdpHeaders(frame, source, destination, packet.size(),
                                   nic::TxChecksum::kSoftware));
  return frame;
}

TEST(DecodeTest, ReadsFramesOfEitherByteOrder) {
  for (const bool big : {false, true}) {
    const auto frames = ReadPcap(Pcap({{1, 2, 3}, {}, {4}}, big));
    ASSERT_TRUE(frames.ok());
    EXPECT_EQ(*frames, (std::vector<Bytes>{{1, 2, 3}, {}, {4}}));
  }
}

TEST(DecodeTest, ACutFileIsAnErrorAtEveryLength) {
  const Bytes file = Pcap({{1, 2, 3}});
  for (size_t length = 0; length < file.size(); ++length) {
    const Bytes cut(file.begin(),
                    file.begin() + static_cast<ptrdiff_t>(length));
    EXPECT_EQ(ReadPcap(cut).ok(), length == 24) << length;
  }
  EXPECT_FALSE(ReadPcap(Bytes(100)).ok());
}

TEST(DecodeTest, SaysTheSameHoweverTheFrameIsCut) {
  const Bytes frame = ResultFrame();
  const std::string whole = DecodeFrame(frame, {});
  const auto json = nlohmann::json::parse(whole);
  EXPECT_EQ(json["frame"], "udp");
  EXPECT_EQ(json["packet"]["verdict"], "ok");
  EXPECT_EQ(json["packet"]["op_seq"], 9);
  EXPECT_EQ(json["packet"]["chunk"], 3);
  for (uint64_t first = 1; first < frame.size(); first += 5) {
    const std::vector<uint64_t> split = {first, first + 3, 20, 1000};
    EXPECT_EQ(DecodeFrame(frame, split), whole) << first;
  }
}

TEST(DecodeTest, NamesWhatIsWrong) {
  Bytes frame = ResultFrame();
  frame[nic::kUdpFrameHeaderBytes + 40] ^= 1;
  EXPECT_EQ(nlohmann::json::parse(DecodeFrame(frame, {}))["frame"],
            "bad_udp_checksum");
  // The sender made no UDP checksum: then our own finds it.
  frame[40] = frame[41] = 0;
  EXPECT_EQ(nlohmann::json::parse(DecodeFrame(frame, {}))["packet"]["verdict"],
            "bad_crc");
  frame.resize(13);
  EXPECT_EQ(nlohmann::json::parse(DecodeFrame(frame, {}))["frame"],
            "short_frame");
}

}  // namespace
}  // namespace optireduce::sim
