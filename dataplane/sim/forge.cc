#include "dataplane/sim/fault.h"

namespace optireduce::sim {

namespace {

using wire::Header;
using wire::PacketType;

bool CarriesChunk(const Header& header) {
  return header.type == PacketType::kData || header.type == PacketType::kResult;
}

// Types whose op number the receiver looks up, and in which another number is
// no sensible statement (GONE would be believed, if it hit a live op).
bool NamesOp(const Header& header) {
  return CarriesChunk(header) || header.type == PacketType::kOpen ||
         header.type == PacketType::kNack;
}

bool HasFixedBody(const Header& header) {
  return header.type == PacketType::kOpen ||
         header.type == PacketType::kHello || header.type == PacketType::kLeave;
}

void Reseal(const Header& header, Packet* packet) {
  wire::EncodeHeader(header, packet->buffer);
  packet->length = static_cast<uint32_t>(
      wire::Seal(packet->buffer, wire::kHeaderBytes + header.length));
}

// Lies in the bytes, which the seal gives away or which are found before it.
bool ForgeBytes(Forgery forgery, Rng* rng, Packet* packet) {
  uint8_t* const bytes = packet->buffer;
  switch (forgery) {
    case Forgery::kCut:
      packet->length = static_cast<uint32_t>(rng->Below(packet->length));
      return true;
    case Forgery::kMagic:
      bytes[0] ^= static_cast<uint8_t>(1 + rng->Below(255));
      return true;
    case Forgery::kVersion:
      bytes[1] = wire::kVersion + 1;
      return true;
    case Forgery::kType:
      bytes[2] = static_cast<uint8_t>(
          rng->Between(static_cast<int64_t>(PacketType::kLeave) + 1, 255));
      return true;
    case Forgery::kFlags:
      bytes[3] |= 0x80;
      return true;
    case Forgery::kLength:
      bytes[10] ^= static_cast<uint8_t>(1 + rng->Below(255));
      return true;
    case Forgery::kSeal:
      bytes[packet->length - 1 - rng->Below(wire::kCrcBytes)] ^=
          static_cast<uint8_t>(1 << rng->Below(8));
      return true;
    default:
      return false;
  }
}

// Lies about who sends.
bool ForgeSource(Forgery forgery, Header* header, Packet* packet) {
  switch (forgery) {
    case Forgery::kRank:
      header->source = wire::kMaxWorld;
      return true;
    case Forgery::kAddress:
      packet->source.address = core::NetAddress::FromIpv4(0x0AFFFFFE);
      return true;
    case Forgery::kMirror:
      header->source = packet->destination_rank.value();
      packet->source = packet->destination;
      return true;
    default:
      return false;
  }
}

// Lies about what is sent.
bool ForgeContent(Forgery forgery, Rng* rng, Header* header) {
  switch (forgery) {
    case Forgery::kBody:
      if (!HasFixedBody(*header)) return false;
      --header->length;
      return true;
    case Forgery::kTag:
      header->tag ^= 1 + static_cast<uint32_t>(rng->Below(0xFFFF));
      return true;
    case Forgery::kOpBehind:
      if (!NamesOp(*header)) return false;
      header->op_seq -= 100'000;
      return true;
    case Forgery::kOpAhead:
      if (!NamesOp(*header)) return false;
      header->op_seq += 100'000;
      return true;
    case Forgery::kFingerprint:
      if (!CarriesChunk(*header)) return false;
      header->fingerprint ^= 1 + static_cast<uint32_t>(rng->Below(0xFFFF));
      return true;
    case Forgery::kChunk:
      if (!CarriesChunk(*header)) return false;
      header->chunk += 0x8000'0000;
      return true;
    case Forgery::kShortPayload:
      if (!CarriesChunk(*header) || header->length == 0) return false;
      --header->length;
      return true;
    default:
      return false;
  }
}

}  // namespace

bool Forge(Forgery forgery, Rng* rng, Packet* packet) {
  if (ForgeBytes(forgery, rng, packet)) return true;
  Header header = packet->header;
  if (!ForgeSource(forgery, &header, packet) &&
      !ForgeContent(forgery, rng, &header)) {
    return false;
  }
  Reseal(header, packet);
  return true;
}

bool ForgeResult(Packet* packet) {
  if (packet->header.length == 0) return false;
  packet->buffer[wire::kHeaderBytes + packet->header.length - 1] ^= 1;
  packet->origin = Origin::kForged;
  Reseal(packet->header, packet);
  return true;
}

}  // namespace optireduce::sim
