// Random packets. A failure prints its seed, which is also in the case's name.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "dataplane/base/rng.h"
#include "proto/wire.h"
#include "proto/wire_testing.h"

namespace optireduce::wire {
namespace {

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
                         ::testing::Range<uint64_t>(1, 17),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace optireduce::wire
