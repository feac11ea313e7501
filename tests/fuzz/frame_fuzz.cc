// The frame parser: the same verdict however the frame is cut into segments, a
// payload that lies inside the frame, and what it accepts can be built again.
//
// Input: two cuts (a byte each), a byte with the checksum states and whether we
// have an address, then the frame.

#include <algorithm>
#include <vector>

#include "dataplane/nic/frame.h"
#include "tests/fuzz/fuzz.h"

namespace optireduce::nic {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kPrefixBytes = 3;
// The frames in the corpus are for it.
constexpr LocalAddress kLocal = {.mac = {{0x02, 0, 0, 0, 0, 0x02}},
                                 .ip = Ipv4Address(0x0a000002),
                                 .first_port = 47000,
                                 .num_ports = 16};

Bytes PayloadOf(FrameSegments segments, const ParsedFrame& frame) {
  Bytes scratch(frame.payload_bytes);
  const auto payload = UdpPayload(segments, frame, scratch);
  FUZZ_CHECK(payload.size() == frame.payload_bytes);
  return Bytes(payload.begin(), payload.end());
}

void CheckSame(const ParsedFrame& a, const ParsedFrame& b) {
  FUZZ_CHECK(a.verdict == b.verdict);
  if (a.verdict == FrameVerdict::kUdp) {
    FUZZ_CHECK(a.source == b.source);
    FUZZ_CHECK(a.destination == b.destination);
    FUZZ_CHECK(a.payload_offset == b.payload_offset);
    FUZZ_CHECK(a.payload_bytes == b.payload_bytes);
  } else if (IsAccepted(a.verdict)) {
    FUZZ_CHECK(a.arp == b.arp);
  }
}

// What was accepted, built anew: parses to the same.
void CheckRebuilt(const ParsedFrame& frame, const Bytes& payload) {
  Bytes again(std::max(kUdpFrameHeaderBytes + payload.size(), kArpFrameBytes));
  const std::span<const uint8_t> segment(again);
  if (frame.verdict == FrameVerdict::kUdp) {
    std::copy(payload.begin(), payload.end(),
              again.begin() + kUdpFrameHeaderBytes);
    FUZZ_CHECK(BuildUdpHeaders(again, frame.source, frame.destination,
                               payload.size(), TxChecksum::kSoftware));
  } else {
    BuildArp(std::span(again).first<kArpFrameBytes>(), kBroadcastMac,
             frame.arp);
  }
  CheckSame(ParseFrame({&segment, 1}, {}, nullptr), frame);
}

void CheckFrame(size_t first_cut, size_t second_cut, const RxOffload& offload,
                const LocalAddress* local, const Bytes& frame) {
  const std::span<const uint8_t> whole(frame);
  const ParsedFrame parsed = ParseFrame({&whole, 1}, offload, local);
  if (parsed.verdict == FrameVerdict::kUdp) {
    FUZZ_CHECK(parsed.payload_offset <= frame.size());
    FUZZ_CHECK(parsed.payload_bytes <= frame.size() - parsed.payload_offset);
  }
  const Bytes payload = PayloadOf({&whole, 1}, parsed);
  if (IsAccepted(parsed.verdict)) CheckRebuilt(parsed, payload);

  first_cut = std::min(first_cut, frame.size());
  second_cut = std::clamp(second_cut, first_cut, frame.size());
  const Bytes a(frame.begin(), frame.begin() + first_cut);
  const Bytes b(frame.begin() + first_cut, frame.begin() + second_cut);
  const Bytes c(frame.begin() + second_cut, frame.end());
  const std::span<const uint8_t> segments[] = {a, b, c};
  const ParsedFrame in_pieces = ParseFrame(segments, offload, local);
  CheckSame(in_pieces, parsed);
  FUZZ_CHECK(PayloadOf(segments, in_pieces) == payload);
}

}  // namespace
}  // namespace optireduce::nic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace optireduce::nic;  // NOLINT(google-build-using-namespace)
  if (size < kPrefixBytes) return 0;
  const RxOffload offload = {.ip = static_cast<RxChecksum>(data[2] & 3),
                             .udp = static_cast<RxChecksum>(data[2] >> 2 & 3)};
  const LocalAddress* local = (data[2] & 16) != 0 ? &kLocal : nullptr;
  CheckFrame(data[0], data[1], offload, local,
             Bytes(data + kPrefixBytes, data + size));
  return 0;
}
