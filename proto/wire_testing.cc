#include "proto/wire_testing.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace optireduce::wire {

Bytes Sealed(Header header, const Bytes& body) {
  header.length = static_cast<uint16_t>(body.size());
  Bytes packet(kHeaderBytes + body.size() + kCrcBytes);
  EncodeHeader(header, packet.data());
  std::copy(body.begin(), body.end(), packet.begin() + kHeaderBytes);
  EXPECT_EQ(Seal(packet.data(), packet.size() - kCrcBytes), packet.size());
  return packet;
}

Bytes Encoded(const OpenBody& body) {
  Bytes out(kOpenBodyBytes);
  EXPECT_EQ(EncodeOpen(body, out.data()), out.size());
  return out;
}

Bytes Encoded(const FeedbackBody& body) {
  Bytes out(kFeedbackFixedBytes + kCreditBytes * body.num_credits);
  EXPECT_EQ(EncodeFeedback(body, out.data()), out.size());
  return out;
}

Bytes Encoded(const NackBody& body) {
  Bytes out(kNackFixedBytes + kRangeBytes * body.num_ranges);
  EXPECT_EQ(EncodeNack(body, out.data()), out.size());
  return out;
}

Bytes Encoded(const HelloBody& body) {
  Bytes out(kHelloBodyBytes);
  EXPECT_EQ(EncodeHello(body, out.data()), out.size());
  return out;
}

Bytes Encoded(const ProbeBody& body, size_t total) {
  Bytes out(total, 0xee);
  EXPECT_EQ(EncodeProbe(body, total, out.data()), total);
  return out;
}

Bytes Encoded(const LeaveBody& body) {
  Bytes out(kLeaveBodyBytes);
  EXPECT_EQ(EncodeLeave(body, out.data()), out.size());
  return out;
}

WireError Decode(const Bytes& bytes, OpenBody* body) {
  return DecodeOpen(bytes, body);
}
WireError Decode(const Bytes& bytes, FeedbackBody* body) {
  return DecodeFeedback(bytes, body);
}
WireError Decode(const Bytes& bytes, NackBody* body) {
  return DecodeNack(bytes, body);
}
WireError Decode(const Bytes& bytes, HelloBody* body) {
  return DecodeHello(bytes, body);
}
WireError Decode(const Bytes& bytes, ProbeBody* body) {
  return DecodeProbe(bytes, body);
}
WireError Decode(const Bytes& bytes, LeaveBody* body) {
  return DecodeLeave(bytes, body);
}

}  // namespace optireduce::wire
