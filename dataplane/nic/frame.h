// What crosses the port: Ethernet frames with UDP over IPv4, and ARP.
//
// ParseFrame() is a pure function of bytes, length and segments, and the only
// place that decides about a frame. It takes the first of these decisions that
// applies; "drop" names the verdict.
//
//   frame < 14 bytes                                  drop short_frame
//   EtherType 0x8100, 0x88a8, 0x9100                  drop vlan
//   EtherType 0x86dd                                  drop ipv6
//   EtherType not IPv4 or ARP (also 802.3 lengths)    drop unknown_ethertype
//   source MAC is a group address                     drop bad_source
//   destination MAC is a group address (ARP: other
//     than broadcast)                                 drop multicast
//   destination MAC is another host's                 drop not_our_mac
//  ARP:
//   cut short, or not Ethernet/IPv4, or operation not
//     1 or 2, or sender MAC zero or a group address,
//     or sender IP no host's (a request's may be 0)   drop bad_arp
//   otherwise                                         arp_request, arp_reply
//  IPv4:
//   cut before the end of the 20-byte header          drop short_ip
//   version not 4                                     drop bad_ip_version
//   header length < 5 words                           drop bad_ihl
//   header length > 5 words                           drop ip_options
//   total length < 20 or beyond the frame             drop bad_ip_len
//   more fragments, or offset not 0                   drop fragment
//   header checksum wrong                             drop bad_ip_checksum
//   source IP 0 or no host's                          drop bad_source
//   destination IP no host's                          drop multicast
//   destination IP another host's                     drop not_our_ip
//   protocol not UDP                                  drop not_udp
//  UDP:
//   fewer than 8 bytes, or UDP length < 8 or beyond
//     the IP total length                             drop bad_udp_len
//   UDP length ends before the IP total length        drop len_mismatch
//   destination port not one of ours                  drop not_our_port
//   checksum present and wrong                        drop bad_udp_checksum
//   otherwise                                         udp
//
// Bytes behind the IP total length (Ethernet padding, a kept FCS) are accepted
// and are no part of the payload. A UDP checksum of 0 means that the sender
// made none and is accepted whatever the hardware says of it.
//
// No state, no allocation; everything here may be called from any thread.

#ifndef OPTIREDUCE_DATAPLANE_NIC_FRAME_H_
#define OPTIREDUCE_DATAPLANE_NIC_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "dataplane/nic/address.h"

namespace optireduce::nic {

inline constexpr size_t kEthernetHeaderBytes = 14;
inline constexpr size_t kIpv4HeaderBytes = 20;
inline constexpr size_t kUdpHeaderBytes = 8;
// What precedes the payload of every UDP frame that we send or accept.
inline constexpr size_t kUdpFrameHeaderBytes =
    kEthernetHeaderBytes + kIpv4HeaderBytes + kUdpHeaderBytes;
// The IPv4 total length has 16 bits.
inline constexpr size_t kMaxUdpPayloadBytes =
    65535 - kIpv4HeaderBytes - kUdpHeaderBytes;
// Least Ethernet frame without its FCS; an ARP packet is padded to it.
inline constexpr size_t kArpFrameBytes = 60;

enum class FrameVerdict : uint8_t {
  kUdp,
  kArpRequest,
  kArpReply,
  // From here on: dropped.
  kShortFrame,
  kVlan,
  kIpv6,
  kUnknownEthertype,
  kBadSource,
  kMulticast,
  kNotOurMac,
  kBadArp,
  kShortIp,
  kBadIpVersion,
  kBadIhl,
  kIpOptions,
  kBadIpLen,
  kFragment,
  kBadIpChecksum,
  kNotOurIp,
  kNotUdp,
  kBadUdpLen,
  kLenMismatch,
  kNotOurPort,
  kBadUdpChecksum,
};
inline constexpr size_t kNumFrameVerdicts =
    static_cast<size_t>(FrameVerdict::kBadUdpChecksum) + 1;

constexpr bool IsAccepted(FrameVerdict verdict) {
  return verdict < FrameVerdict::kShortFrame;
}

// As in the table above: the names of the counters.
std::string_view Name(FrameVerdict verdict);

// What the port says of a received checksum.
enum class RxChecksum : uint8_t {
  kUnknown,  // nobody looked: checked here
  kNone,     // the field is not filled in, but the data is known to be whole
             // (a frame that never left this host)
  kGood,
  kBad,
};

struct RxOffload {
  RxChecksum ip = RxChecksum::kUnknown;
  RxChecksum udp = RxChecksum::kUnknown;
};

// Where this port receives. Our UDP ports are [first_port, first_port +
// num_ports).
struct LocalAddress {
  MacAddress mac;
  Ipv4Address ip;
  uint16_t first_port = 0;
  uint16_t num_ports = 0;
};

enum class ArpOperation : uint16_t { kRequest = 1, kReply = 2 };

struct ArpPacket {
  ArpOperation operation = ArpOperation::kRequest;
  MacAddress sender_mac;
  Ipv4Address sender_ip;
  MacAddress target_mac;  // means nothing in a request
  Ipv4Address target_ip;

  bool operator==(const ArpPacket&) const = default;
};

struct UdpAddress {
  MacAddress mac;
  Ipv4Address ip;
  uint16_t port = 0;

  bool operator==(const UdpAddress&) const = default;
};

struct ParsedFrame {
  FrameVerdict verdict = FrameVerdict::kShortFrame;

  // Only for kUdp. The payload is bytes [payload_offset, payload_offset +
  // payload_bytes) of the frame.
  UdpAddress source;
  UdpAddress destination;
  bool congestion_experienced = false;  // ECN CE in the IP header
  size_t payload_offset = 0;
  size_t payload_bytes = 0;

  // Only for kArpRequest and kArpReply.
  ArpPacket arp;
};

// The bytes of one frame in order, in any number of pieces; empty pieces are
// allowed.
using FrameSegments = std::span<const std::span<const uint8_t>>;

// `local` null: takes every address as ours (for a capture file).
ParsedFrame ParseFrame(FrameSegments segments, const RxOffload& offload,
                       const LocalAddress* local);

// The payload of a frame with verdict kUdp. In place if one segment holds it
// all; else it is copied to `scratch`. Empty if it has to be copied and
// `scratch` is too small. The result lives as long as `segments` and `scratch`.
std::span<const uint8_t> UdpPayload(FrameSegments segments,
                                    const ParsedFrame& frame,
                                    std::span<uint8_t> scratch);

enum class TxChecksum : uint8_t {
  kNone,          // 0 in the frame: none was made
  kSoftware,      // made here, over the payload that is in the frame already
  kPseudoHeader,  // the pseudo header's sum: hardware adds the rest
};

// Writes the 42 bytes of headers before the payload, which starts at
// frame[kUdpFrameHeaderBytes]. The IP header checksum is always made here; DF
// is set. False, with nothing written, if `payload_bytes` is beyond
// kMaxUdpPayloadBytes or the frame is too small for it.
[[nodiscard]] bool BuildUdpHeaders(std::span<uint8_t> frame,
                                   const UdpAddress& source,
                                   const UdpAddress& destination,
                                   size_t payload_bytes, TxChecksum checksum);

// Writes a whole ARP frame, from arp.sender_mac to `destination`.
void BuildArp(std::span<uint8_t, kArpFrameBytes> frame,
              const MacAddress& destination, const ArpPacket& arp);

}  // namespace optireduce::nic

#endif  // OPTIREDUCE_DATAPLANE_NIC_FRAME_H_
