// The bodies: which bytes are refused.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "proto/wire.h"
#include "proto/wire_testing.h"

namespace optireduce::wire {
namespace {

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

}  // namespace
}  // namespace optireduce::wire
