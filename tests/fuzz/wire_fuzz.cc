// The wire decoders: whatever they accept, encoding it again gives the same
// bytes. So nothing is read that was not sent, no field is cut, and no two
// datagrams mean the same.
//
// Input: a byte that says what the rest is: 0 a datagram, else the packet type
// whose body it is (bodies are tried without a header too, as random changes
// rarely leave header.length right).

#include <algorithm>
#include <span>
#include <vector>

#include "proto/wire.h"
#include "tests/fuzz/fuzz.h"

namespace optireduce::wire {
namespace {

using Bytes = std::vector<uint8_t>;
using View = std::span<const uint8_t>;

bool Same(View a, View b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// `encode(body, out)` writes what `decode(bytes, &body)` read.
template <class Body, class Decode, class Encode>
void CheckBody(View bytes, const Decode& decode, const Encode& encode) {
  Body body;
  const WireError error = decode(bytes, &body);
  FUZZ_CHECK(error == WireError::kOk || error == WireError::kBadBody);
  if (error != WireError::kOk) return;
  Bytes again(bytes.size(), 0xee);
  FUZZ_CHECK(encode(body, again.data()) == bytes.size());
  FUZZ_CHECK(Same(again, bytes));
}

void CheckNackRanges(View bytes) {
  NackBody body;
  if (DecodeNack(bytes, &body) != WireError::kOk) return;
  FUZZ_CHECK(body.num_ranges <= NackBody::kMaxRanges);
  for (size_t i = 0; i < body.num_ranges; ++i) {
    const ChunkRange& range = body.ranges[i];
    FUZZ_CHECK(range.first + range.count > range.first);
  }
}

void CheckBodyOf(PacketType type, View bytes) {
  switch (type) {
    case PacketType::kOpen:
      return CheckBody<OpenBody>(bytes, DecodeOpen, EncodeOpen);
    case PacketType::kFeedback:
      return CheckBody<FeedbackBody>(bytes, DecodeFeedback, EncodeFeedback);
    case PacketType::kNack:
      CheckNackRanges(bytes);
      return CheckBody<NackBody>(bytes, DecodeNack, EncodeNack);
    case PacketType::kHello:
      return CheckBody<HelloBody>(bytes, DecodeHello, EncodeHello);
    case PacketType::kProbe:
      return CheckBody<ProbeBody>(
          bytes, DecodeProbe, [&bytes](const ProbeBody& body, uint8_t* out) {
            return EncodeProbe(body, bytes.size(), out);
          });
    case PacketType::kLeave:
      return CheckBody<LeaveBody>(bytes, DecodeLeave, EncodeLeave);
    case PacketType::kData:
    case PacketType::kResult:
    case PacketType::kGone:
      return;
  }
}

void CheckDatagram(View datagram) {
  Header header;
  if (DecodeHeader(datagram, &header) != WireError::kOk) return;
  Bytes again(datagram.size());
  EncodeHeader(header, again.data());
  const View body = Body(datagram, header);
  std::copy(body.begin(), body.end(), again.begin() + kHeaderBytes);
  FUZZ_CHECK(Seal(again.data(), kHeaderBytes + body.size()) == again.size());
  // The same datagram if its CRC is right, and different in the CRC alone
  // otherwise.
  const bool whole = CheckCrc(datagram) == WireError::kOk;
  FUZZ_CHECK(Same(again, datagram) == whole);
  FUZZ_CHECK(Same(View(again).first(again.size() - kCrcBytes),
                  datagram.first(datagram.size() - kCrcBytes)));
  CheckBodyOf(header.type, body);
}

}  // namespace
}  // namespace optireduce::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace optireduce::wire;  // NOLINT(google-build-using-namespace)
  if (size == 0) return 0;
  // A copy of its own, so that a sanitizer sees a read before it too.
  const Bytes rest(data + 1, data + size);
  if (data[0] == 0) {
    CheckDatagram(rest);
  } else {
    CheckBodyOf(static_cast<PacketType>(data[0]), rest);
  }
  return 0;
}
