#include "dataplane/nic/frame.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "dataplane/base/byte_order.h"
#include "dataplane/nic/internet_checksum.h"

namespace optireduce::nic {
namespace {

constexpr uint16_t kEthertypeIpv4 = 0x0800;
constexpr uint16_t kEthertypeArp = 0x0806;
constexpr uint16_t kEthertypeVlan = 0x8100;
constexpr uint16_t kEthertypeServiceVlan = 0x88a8;
constexpr uint16_t kEthertypeOldVlan = 0x9100;
constexpr uint16_t kEthertypeIpv6 = 0x86dd;

constexpr uint8_t kVersion4With5Words = 0x45;
constexpr uint8_t kProtocolUdp = 17;
constexpr uint8_t kTimeToLive = 64;
constexpr uint8_t kEcnCe = 3;
constexpr uint16_t kDontFragment = 0x4000;
constexpr uint16_t kMoreFragmentsAndOffset = 0x3fff;

constexpr size_t kArpBytes = 28;
// Hardware type Ethernet, protocol IPv4, address lengths 6 and 4.
constexpr std::array<uint8_t, 6> kArpPreamble = {0, 1, 8, 0, 6, 4};

// Every header that ParseFrame looks at lies in the first so many bytes.
constexpr size_t kHeadBytes = kUdpFrameHeaderBytes;
static_assert(kHeadBytes >= kEthernetHeaderBytes + kArpBytes);

MacAddress LoadMac(const uint8_t* from) {
  MacAddress mac;
  std::memcpy(mac.bytes.data(), from, mac.bytes.size());
  return mac;
}

void StoreMac(const MacAddress& mac, uint8_t* to) {
  std::memcpy(to, mac.bytes.data(), mac.bytes.size());
}

Ipv4Address LoadIp(const uint8_t* from) { return Ipv4Address(LoadBe32(from)); }

bool IsHost(Ipv4Address ip) {
  return ip.value() != 0 && !IsGroupOrReserved(ip);
}

size_t FrameBytes(FrameSegments segments) {
  size_t bytes = 0;
  for (const auto& segment : segments) bytes += segment.size();
  return bytes;
}

// Calls visit(piece) for the pieces of bytes [offset, offset + length), which
// are there.
template <class Visit>
void ForEachPiece(FrameSegments segments, size_t offset, size_t length,
                  const Visit& visit) {
  for (const auto& segment : segments) {
    if (offset >= segment.size()) {
      offset -= segment.size();
      continue;
    }
    const auto piece =
        segment.subspan(offset, std::min(length, segment.size() - offset));
    if (!piece.empty()) visit(piece);
    offset = 0;
    length -= piece.size();
    if (length == 0) return;
  }
}

void Copy(FrameSegments segments, size_t offset, size_t length, uint8_t* to) {
  ForEachPiece(segments, offset, length, [&to](std::span<const uint8_t> piece) {
    to = std::copy(piece.begin(), piece.end(), to);
  });
}

// Adds what UDP's checksum covers besides the UDP header and its payload: the
// addresses, the protocol and the UDP length.
void AddPseudoHeader(const uint8_t* ip_header, uint16_t udp_length,
                     InternetChecksum* checksum) {
  checksum->Add({ip_header + 12, 8});
  std::array<uint8_t, 4> rest = {0, kProtocolUdp};
  StoreBe16(&rest[2], udp_length);
  checksum->Add(rest);
}

// One frame on its way through the table in frame.h, one method per protocol.
class Parser {
 public:
  Parser(FrameSegments segments, const RxOffload& offload,
         const LocalAddress* local)
      : segments_(segments),
        offload_(offload),
        local_(local),
        frame_bytes_(FrameBytes(segments)) {
    const size_t head_bytes = std::min(frame_bytes_, kHeadBytes);
    if (!segments.empty() && segments.front().size() >= head_bytes) {
      head_ = segments.front().data();
    } else {
      Copy(segments, 0, head_bytes, gathered_.data());
      head_ = gathered_.data();
    }
  }
  // head_ may point into the object.
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  FrameVerdict Ethernet(ParsedFrame* frame) const {
    if (frame_bytes_ < kEthernetHeaderBytes) return FrameVerdict::kShortFrame;
    const uint16_t ethertype = LoadBe16(head_ + 12);
    switch (ethertype) {
      case kEthertypeVlan:
      case kEthertypeServiceVlan:
      case kEthertypeOldVlan:
        return FrameVerdict::kVlan;
      case kEthertypeIpv6:
        return FrameVerdict::kIpv6;
      case kEthertypeArp:
      case kEthertypeIpv4:
        break;
      default:
        return FrameVerdict::kUnknownEthertype;
    }
    const bool is_arp = ethertype == kEthertypeArp;
    frame->destination.mac = LoadMac(head_);
    frame->source.mac = LoadMac(head_ + 6);
    if (frame->source.mac.IsGroup()) return FrameVerdict::kBadSource;
    if (frame->destination.mac.IsGroup()) {
      if (!is_arp || frame->destination.mac != kBroadcastMac) {
        return FrameVerdict::kMulticast;
      }
    } else if (local_ != nullptr && frame->destination.mac != local_->mac) {
      return FrameVerdict::kNotOurMac;
    }
    return is_arp ? Arp(&frame->arp) : Ipv4(frame);
  }

 private:
  FrameVerdict Arp(ArpPacket* arp) const {
    const uint8_t* packet = head_ + kEthernetHeaderBytes;
    if (frame_bytes_ < kEthernetHeaderBytes + kArpBytes ||
        !std::equal(kArpPreamble.begin(), kArpPreamble.end(), packet)) {
      return FrameVerdict::kBadArp;
    }
    arp->operation = static_cast<ArpOperation>(LoadBe16(packet + 6));
    arp->sender_mac = LoadMac(packet + 8);
    arp->sender_ip = LoadIp(packet + 14);
    arp->target_mac = LoadMac(packet + 18);
    arp->target_ip = LoadIp(packet + 24);
    const bool is_request = arp->operation == ArpOperation::kRequest;
    if (!is_request && arp->operation != ArpOperation::kReply) {
      return FrameVerdict::kBadArp;
    }
    // Whoever probes for an address has none yet (RFC 5227).
    const bool is_probe = is_request && arp->sender_ip.value() == 0;
    if (arp->sender_mac.IsGroup() || arp->sender_mac == MacAddress{} ||
        (!is_probe && !IsHost(arp->sender_ip))) {
      return FrameVerdict::kBadArp;
    }
    return is_request ? FrameVerdict::kArpRequest : FrameVerdict::kArpReply;
  }

  FrameVerdict Ipv4(ParsedFrame* frame) const {
    const uint8_t* header = head_ + kEthernetHeaderBytes;
    if (frame_bytes_ < kEthernetHeaderBytes + kIpv4HeaderBytes) {
      return FrameVerdict::kShortIp;
    }
    if (header[0] >> 4 != 4) return FrameVerdict::kBadIpVersion;
    const int words = header[0] & 0xf;
    if (words < 5) return FrameVerdict::kBadIhl;
    if (words > 5) return FrameVerdict::kIpOptions;
    const size_t total_length = LoadBe16(header + 2);
    if (total_length < kIpv4HeaderBytes ||
        total_length > frame_bytes_ - kEthernetHeaderBytes) {
      return FrameVerdict::kBadIpLen;
    }
    if ((LoadBe16(header + 6) & kMoreFragmentsAndOffset) != 0) {
      return FrameVerdict::kFragment;
    }
    if (!IpChecksumHolds(header)) return FrameVerdict::kBadIpChecksum;
    frame->source.ip = LoadIp(header + 12);
    frame->destination.ip = LoadIp(header + 16);
    if (!IsHost(frame->source.ip)) return FrameVerdict::kBadSource;
    if (IsGroupOrReserved(frame->destination.ip)) {
      return FrameVerdict::kMulticast;
    }
    if (local_ != nullptr && frame->destination.ip != local_->ip) {
      return FrameVerdict::kNotOurIp;
    }
    if (header[9] != kProtocolUdp) return FrameVerdict::kNotUdp;
    frame->congestion_experienced = (header[1] & 3) == kEcnCe;
    return Udp(total_length - kIpv4HeaderBytes, frame);
  }

  // `available`: what the IP total length leaves for UDP.
  FrameVerdict Udp(size_t available, ParsedFrame* frame) const {
    if (available < kUdpHeaderBytes) return FrameVerdict::kBadUdpLen;
    const uint8_t* header = head_ + kEthernetHeaderBytes + kIpv4HeaderBytes;
    const uint16_t length = LoadBe16(header + 4);
    if (length < kUdpHeaderBytes || length > available) {
      return FrameVerdict::kBadUdpLen;
    }
    if (length < available) return FrameVerdict::kLenMismatch;
    frame->source.port = LoadBe16(header);
    frame->destination.port = LoadBe16(header + 2);
    if (!IsOurPort(frame->destination.port)) return FrameVerdict::kNotOurPort;
    frame->payload_offset = kUdpFrameHeaderBytes;
    frame->payload_bytes = length - kUdpHeaderBytes;
    if (LoadBe16(header + 6) != 0 && !UdpChecksumHolds(length)) {
      return FrameVerdict::kBadUdpChecksum;
    }
    return FrameVerdict::kUdp;
  }

  bool IsOurPort(uint16_t port) const {
    return local_ == nullptr ||
           static_cast<uint16_t>(port - local_->first_port) < local_->num_ports;
  }

  bool IpChecksumHolds(const uint8_t* header) const {
    if (offload_.ip != RxChecksum::kUnknown) {
      return offload_.ip != RxChecksum::kBad;
    }
    InternetChecksum checksum;
    checksum.Add({header, kIpv4HeaderBytes});
    return checksum.Sum() == 0xffff;
  }

  bool UdpChecksumHolds(uint16_t length) const {
    if (offload_.udp != RxChecksum::kUnknown) {
      return offload_.udp != RxChecksum::kBad;
    }
    InternetChecksum checksum;
    AddPseudoHeader(head_ + kEthernetHeaderBytes, length, &checksum);
    ForEachPiece(
        segments_, kEthernetHeaderBytes + kIpv4HeaderBytes, length,
        [&checksum](std::span<const uint8_t> piece) { checksum.Add(piece); });
    return checksum.Sum() == 0xffff;
  }

  FrameSegments segments_;
  RxOffload offload_;
  const LocalAddress* local_;
  size_t frame_bytes_;
  const uint8_t* head_;
  std::array<uint8_t, kHeadBytes> gathered_{};
};

void BuildEthernet(const MacAddress& destination, const MacAddress& source,
                   uint16_t ethertype, uint8_t* out) {
  StoreMac(destination, out);
  StoreMac(source, out + 6);
  StoreBe16(out + 12, ethertype);
}

void BuildIpv4(Ipv4Address source, Ipv4Address destination,
               uint16_t total_length, uint8_t* out) {
  out[0] = kVersion4With5Words;
  out[1] = 0;
  StoreBe16(out + 2, total_length);
  // What is never fragmented needs no identification (RFC 6864).
  StoreBe16(out + 4, 0);
  StoreBe16(out + 6, kDontFragment);
  out[8] = kTimeToLive;
  out[9] = kProtocolUdp;
  StoreBe16(out + 10, 0);
  StoreBe32(out + 12, source.value());
  StoreBe32(out + 16, destination.value());
  InternetChecksum checksum;
  checksum.Add({out, kIpv4HeaderBytes});
  StoreLe16(out + 10, static_cast<uint16_t>(~checksum.Sum()));
}

// `datagram` is the UDP header, its checksum field 0, and for kSoftware the
// payload behind it.
uint16_t UdpChecksumField(const uint8_t* ip_header,
                          std::span<const uint8_t> datagram,
                          TxChecksum checksum) {
  if (checksum == TxChecksum::kNone) return 0;
  InternetChecksum sum;
  AddPseudoHeader(ip_header, static_cast<uint16_t>(datagram.size()), &sum);
  if (checksum == TxChecksum::kPseudoHeader) return sum.Sum();
  sum.Add(datagram);
  const auto field = static_cast<uint16_t>(~sum.Sum());
  // 0 says that there is no checksum; all ones is the same number.
  return field == 0 ? 0xffff : field;
}

}  // namespace

std::string_view Name(FrameVerdict verdict) {
  static constexpr std::array<std::string_view, kNumFrameVerdicts> kNames = {
      "udp",
      "arp_request",
      "arp_reply",
      "short_frame",
      "vlan",
      "ipv6",
      "unknown_ethertype",
      "bad_source",
      "multicast",
      "not_our_mac",
      "bad_arp",
      "short_ip",
      "bad_ip_version",
      "bad_ihl",
      "ip_options",
      "bad_ip_len",
      "fragment",
      "bad_ip_checksum",
      "not_our_ip",
      "not_udp",
      "bad_udp_len",
      "len_mismatch",
      "not_our_port",
      "bad_udp_checksum",
  };
  return kNames[static_cast<size_t>(verdict)];
}

ParsedFrame ParseFrame(FrameSegments segments, const RxOffload& offload,
                       const LocalAddress* local) {
  ParsedFrame frame;
  frame.verdict = Parser(segments, offload, local).Ethernet(&frame);
  return frame;
}

std::span<const uint8_t> UdpPayload(FrameSegments segments,
                                    const ParsedFrame& frame,
                                    std::span<uint8_t> scratch) {
  size_t offset = frame.payload_offset;
  for (const auto& segment : segments) {
    if (offset < segment.size()) {
      if (frame.payload_bytes > segment.size() - offset) break;
      return segment.subspan(offset, frame.payload_bytes);
    }
    offset -= segment.size();
  }
  if (frame.payload_bytes > scratch.size()) return {};
  Copy(segments, frame.payload_offset, frame.payload_bytes, scratch.data());
  return scratch.first(frame.payload_bytes);
}

bool BuildUdpHeaders(std::span<uint8_t> frame, const UdpAddress& source,
                     const UdpAddress& destination, size_t payload_bytes,
                     TxChecksum checksum) {
  if (payload_bytes > kMaxUdpPayloadBytes ||
      frame.size() < kUdpFrameHeaderBytes + payload_bytes) {
    return false;
  }
  uint8_t* ip = frame.data() + kEthernetHeaderBytes;
  uint8_t* udp = ip + kIpv4HeaderBytes;
  const auto udp_length =
      static_cast<uint16_t>(kUdpHeaderBytes + payload_bytes);
  BuildEthernet(destination.mac, source.mac, kEthertypeIpv4, frame.data());
  BuildIpv4(source.ip, destination.ip,
            static_cast<uint16_t>(kIpv4HeaderBytes + udp_length), ip);
  StoreBe16(udp, source.port);
  StoreBe16(udp + 2, destination.port);
  StoreBe16(udp + 4, udp_length);
  StoreBe16(udp + 6, 0);
  StoreLe16(udp + 6, UdpChecksumField(ip, {udp, udp_length}, checksum));
  return true;
}

void BuildArp(std::span<uint8_t, kArpFrameBytes> frame,
              const MacAddress& destination, const ArpPacket& arp) {
  std::fill(frame.begin(), frame.end(), uint8_t{0});
  BuildEthernet(destination, arp.sender_mac, kEthertypeArp, frame.data());
  uint8_t* packet = frame.data() + kEthernetHeaderBytes;
  std::copy(kArpPreamble.begin(), kArpPreamble.end(), packet);
  StoreBe16(packet + 6, static_cast<uint16_t>(arp.operation));
  StoreMac(arp.sender_mac, packet + 8);
  StoreBe32(packet + 14, arp.sender_ip.value());
  StoreMac(arp.target_mac, packet + 18);
  StoreBe32(packet + 24, arp.target_ip.value());
}

}  // namespace optireduce::nic
