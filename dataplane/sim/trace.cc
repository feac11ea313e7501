#include "dataplane/sim/trace.h"

#include <array>
#include <cinttypes>
#include <string_view>

#include "dataplane/base/byte_order.h"
#include "dataplane/base/xxhash64.h"

namespace optireduce::sim {

namespace {

// The trailer of a sealed packet covers all of it, a foreign one's first bytes.
uint32_t Seal(const Packet& packet) {
  if (packet.group == kForeignGroup) return LoadLe32(packet.buffer);
  return packet.length < wire::kCrcBytes
             ? packet.length
             : LoadLe32(packet.buffer + packet.length - wire::kCrcBytes);
}

uint64_t Path(const Packet& packet) {
  return uint64_t{packet.source.port} << 48 |
         uint64_t{packet.destination.port} << 32 |
         uint64_t{packet.source_host} << 16 | packet.destination_host;
}

uint64_t Content(const Packet& packet) {
  return uint64_t{packet.length} << 32 | Seal(packet);
}

uint64_t HashOf(std::string_view text) {
  return Xxh64({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

void Print(FILE* out, Timestamp now, const char* what, const Packet& packet) {
  const wire::Header& header = packet.header;
  std::fprintf(out,
               "%12.3f us  %-7s h%u>h%u type %u flags %02x rank %u to port %u "
               "op %u chunk %u c %u length %u origin %u",
               static_cast<double>(now.nanos()) / 1e3, what, packet.source_host,
               packet.destination_host, static_cast<unsigned>(header.type),
               header.flags, header.source, packet.destination.port,
               header.op_seq, header.chunk, header.contributors, packet.length,
               static_cast<unsigned>(packet.origin));
}

}  // namespace

void Trace::Mix(Kind kind, Timestamp now, uint64_t a, uint64_t b, uint64_t c) {
  std::array<uint8_t, 40> event;
  StoreLe64(event.data(), static_cast<uint64_t>(kind));
  StoreLe64(event.data() + 8, static_cast<uint64_t>(now.nanos()));
  StoreLe64(event.data() + 16, a);
  StoreLe64(event.data() + 24, b);
  StoreLe64(event.data() + 32, c);
  hash_ = Xxh64(event, hash_);
}

void Trace::Send(Timestamp now, const Packet& packet) {
  Mix(Kind::kSend, now, Path(packet), Content(packet), 0);
  if (out_ == nullptr) return;
  Print(out_, now, "send", packet);
  std::fputc('\n', out_);
}

void Trace::Lost(Timestamp now, const Packet& packet, const char* why) {
  Mix(Kind::kLost, now, Path(packet), Content(packet), HashOf(why));
  if (out_ == nullptr) return;
  Print(out_, now, "lost", packet);
  std::fprintf(out_, ": %s\n", why);
}

void Trace::Deliver(Timestamp now, const Packet& packet,
                    core::Verdict verdict) {
  Mix(Kind::kDeliver, now, Path(packet), Content(packet),
      static_cast<uint64_t>(verdict));
  if (out_ == nullptr) return;
  Print(out_, now, "deliver", packet);
  const std::string_view name = core::Name(verdict);
  std::fprintf(out_, ": %.*s\n", static_cast<int>(name.size()), name.data());
}

void Trace::Submit(Timestamp now, uint32_t group, core::Rank rank,
                   core::OpSeq op, core::SubmitResult result) {
  Mix(Kind::kSubmit, now, uint64_t{group} << 32 | rank.value(), op.value(),
      static_cast<uint64_t>(result));
  if (out_ == nullptr) return;
  std::fprintf(out_, "%12.3f us  submit  group %u rank %u op %u: %u\n",
               static_cast<double>(now.nanos()) / 1e3, group, rank.value(),
               op.value(), static_cast<unsigned>(result));
}

void Trace::Event(Timestamp now, uint32_t group, core::Rank rank,
                  const core::Event& event) {
  const core::OpReport& report = event.report;
  Mix(Kind::kEvent, now,
      uint64_t{group} << 32 | uint64_t{rank.value()} << 16 |
          static_cast<uint64_t>(event.kind) << 8 |
          static_cast<uint64_t>(report.status),
      uint64_t{report.op_seq.value()} << 32 | event.peer.value(),
      report.contributions << 20 ^ report.absent);
  if (out_ == nullptr) return;
  std::fprintf(out_,
               "%12.3f us  event   group %u rank %u kind %u peer %u op %u "
               "status %u cause %u absent %" PRIu64 " of %" PRIu64
               " contributions %" PRIu64 " min %u missing %zu\n",
               static_cast<double>(now.nanos()) / 1e3, group, rank.value(),
               static_cast<unsigned>(event.kind), event.peer.value(),
               report.op_seq.value(), static_cast<unsigned>(report.status),
               static_cast<unsigned>(report.cause), report.absent,
               report.elements, report.contributions, report.min_contributors,
               report.missing.Count());
}

void Trace::Note(Timestamp now, const char* what, uint32_t who) {
  Mix(Kind::kNote, now, who, HashOf(what), 0);
  if (out_ == nullptr) return;
  std::fprintf(out_, "%12.3f us  note    %s %u\n",
               static_cast<double>(now.nanos()) / 1e3, what, who);
}

}  // namespace optireduce::sim
