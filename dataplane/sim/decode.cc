#include "dataplane/sim/decode.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "dataplane/nic/frame.h"
#include "proto/wire.h"

namespace optireduce::sim {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kFileHeaderBytes = 24;
constexpr size_t kRecordHeaderBytes = 16;
constexpr uint32_t kLinkEthernet = 1;

uint32_t Load32(std::span<const uint8_t> bytes, size_t at, bool swapped) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value |= uint32_t{bytes[at + (swapped ? 3 - i : i)]} << (8 * i);
  }
  return value;
}

const char* Name(wire::WireError error) {
  switch (error) {
    case wire::WireError::kOk:
      return "ok";
    case wire::WireError::kTruncated:
      return "truncated";
    case wire::WireError::kBadMagic:
      return "bad_magic";
    case wire::WireError::kBadVersion:
      return "bad_version";
    case wire::WireError::kUnknownType:
      return "unknown_type";
    case wire::WireError::kReservedFlag:
      return "reserved_flag";
    case wire::WireError::kBadLength:
      return "bad_length";
    case wire::WireError::kBadCrc:
      return "bad_crc";
    case wire::WireError::kBadBody:
      return "bad_body";
  }
  return "unknown";
}

wire::WireError CheckBody(const wire::Header& header,
                          std::span<const uint8_t> body) {
  switch (header.type) {
    case wire::PacketType::kData:
    case wire::PacketType::kResult:
      return wire::WireError::kOk;
    case wire::PacketType::kGone:
      return body.empty() ? wire::WireError::kOk : wire::WireError::kBadBody;
    case wire::PacketType::kOpen: {
      wire::OpenBody open;
      return wire::DecodeOpen(body, &open);
    }
    case wire::PacketType::kFeedback: {
      wire::FeedbackBody feedback;
      return wire::DecodeFeedback(body, &feedback);
    }
    case wire::PacketType::kNack: {
      wire::NackBody nack;
      return wire::DecodeNack(body, &nack);
    }
    case wire::PacketType::kHello: {
      wire::HelloBody hello;
      return wire::DecodeHello(body, &hello);
    }
    case wire::PacketType::kProbe: {
      wire::ProbeBody probe;
      return wire::DecodeProbe(body, &probe);
    }
    case wire::PacketType::kLeave: {
      wire::LeaveBody leave;
      return wire::DecodeLeave(body, &leave);
    }
  }
  return wire::WireError::kUnknownType;
}

Json PacketJson(std::span<const uint8_t> payload) {
  Json json;
  wire::Header header;
  wire::WireError error = wire::DecodeHeader(payload, &header);
  if (error == wire::WireError::kOk) error = wire::CheckCrc(payload);
  if (error == wire::WireError::kOk) {
    error = CheckBody(header, wire::Body(payload, header));
  }
  json["verdict"] = Name(error);
  if (error != wire::WireError::kOk) return json;
  json["type"] = static_cast<unsigned>(header.type);
  json["flags"] = header.flags;
  json["tag"] = header.tag;
  json["source"] = header.source;
  json["op_seq"] = header.op_seq;
  json["fingerprint"] = header.fingerprint;
  json["chunk"] = header.chunk;
  json["contributors"] = header.contributors;
  json["length"] = header.length;
  return json;
}

}  // namespace

absl::StatusOr<std::vector<std::vector<uint8_t>>> ReadPcap(
    std::span<const uint8_t> file) {
  if (file.size() < kFileHeaderBytes) {
    return absl::InvalidArgumentError("shorter than a pcap header");
  }
  const auto is_magic = [](uint32_t magic) {
    return magic == 0xa1b2c3d4 || magic == 0xa1b23c4d;
  };
  const bool swapped = is_magic(Load32(file, 0, true));
  if (!swapped && !is_magic(Load32(file, 0, false))) {
    return absl::InvalidArgumentError("no pcap file (pcapng is not read)");
  }
  if (Load32(file, 20, swapped) != kLinkEthernet) {
    return absl::InvalidArgumentError("not a capture of Ethernet");
  }
  std::vector<std::vector<uint8_t>> frames;
  size_t at = kFileHeaderBytes;
  while (at < file.size()) {
    if (file.size() - at < kRecordHeaderBytes) {
      return absl::InvalidArgumentError("ends inside a record's header");
    }
    const uint32_t length = Load32(file, at + 8, swapped);
    at += kRecordHeaderBytes;
    if (file.size() - at < length) {
      return absl::InvalidArgumentError("ends inside a frame");
    }
    const auto frame = file.subspan(at, length);
    frames.emplace_back(frame.begin(), frame.end());
    at += length;
  }
  return frames;
}

std::string DecodeFrame(std::span<const uint8_t> frame,
                        std::span<const uint64_t> split) {
  std::vector<std::span<const uint8_t>> segments;
  size_t begin = 0;
  for (const uint64_t end : split) {
    if (end <= begin || end >= frame.size()) continue;
    segments.push_back(frame.subspan(begin, end - begin));
    begin = end;
  }
  segments.push_back(frame.subspan(begin));

  const nic::ParsedFrame parsed =
      nic::ParseFrame(segments, nic::RxOffload(), nullptr);
  Json json;
  json["frame"] = std::string(nic::Name(parsed.verdict));
  json["bytes"] = frame.size();
  if (parsed.verdict == nic::FrameVerdict::kUdp) {
    json["source_port"] = parsed.source.port;
    json["destination_port"] = parsed.destination.port;
    json["payload_bytes"] = parsed.payload_bytes;
    std::vector<uint8_t> scratch(nic::kMaxUdpPayloadBytes);
    json["packet"] = PacketJson(nic::UdpPayload(segments, parsed, scratch));
  }
  return json.dump();
}

}  // namespace optireduce::sim
