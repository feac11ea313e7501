// What the tests of the wire format share: bodies to bytes and back.

#ifndef OPTIREDUCE_PROTO_WIRE_TESTING_H_
#define OPTIREDUCE_PROTO_WIRE_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/wire.h"

namespace optireduce::wire {

using Bytes = std::vector<uint8_t>;

// A whole packet; `length` of the header is that of the body.
Bytes Sealed(Header header, const Bytes& body);

Bytes Encoded(const OpenBody& body);
Bytes Encoded(const FeedbackBody& body);
Bytes Encoded(const NackBody& body);
Bytes Encoded(const HelloBody& body);
// `total`: of the padded body.
Bytes Encoded(const ProbeBody& body, size_t total);
Bytes Encoded(const LeaveBody& body);

WireError Decode(const Bytes& bytes, OpenBody* body);
WireError Decode(const Bytes& bytes, FeedbackBody* body);
WireError Decode(const Bytes& bytes, NackBody* body);
WireError Decode(const Bytes& bytes, HelloBody* body);
WireError Decode(const Bytes& bytes, ProbeBody* body);
WireError Decode(const Bytes& bytes, LeaveBody* body);

template <class Body>
WireError DecodeError(const Bytes& bytes) {
  Body body;
  return Decode(bytes, &body);
}

}  // namespace optireduce::wire

#endif  // OPTIREDUCE_PROTO_WIRE_TESTING_H_
