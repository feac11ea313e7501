#include "dataplane/sim/repair_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "dataplane/core/engine_core.h"
#include "proto/wire.h"

namespace optireduce::sim {

RepairCheck::RepairCheck(size_t world, uint32_t payload_bytes, bool bucketed)
    : largest_datagram_(core::MaxDatagramBytes(payload_bytes)),
      bucketed_(bucketed),
      ranks_(world) {}

std::string RepairCheck::OnSent(const Packet& packet, Timestamp now) {
  if (packet.header.type == wire::PacketType::kNack) {
    return OnQuestion(packet, now);
  }
  if (packet.header.type != wire::PacketType::kData &&
      packet.header.type != wire::PacketType::kResult) {
    return "";
  }
  RepairCounts& sent = ranks_[packet.source_rank.index()].sent;
  if ((packet.header.flags & wire::kFlagRepair) == 0) {
    sent.first_bytes += packet.length;
    return "";
  }
  sent.repaired_bytes += packet.length;
  if (bucketed_ || sent.repaired_bytes <= sent.first_bytes / 4 ||
      sent.repaired_bytes <= 16 * largest_datagram_) {
    return "";
  }
  return absl::StrCat("op ", packet.header.op_seq, ": rank ",
                      packet.source_rank.value(), " sent ", sent.repaired_bytes,
                      " bytes again, and ", sent.first_bytes,
                      " for the first time");
}

std::string RepairCheck::OnQuestion(const Packet& packet, Timestamp now) {
  wire::NackBody nack;
  if (wire::DecodeNack(wire::Body(packet.bytes(), packet.header), &nack) !=
      wire::WireError::kOk) {
    return "a malformed question";
  }
  OfRank& rank = ranks_[packet.source_rank.index()];
  const bool for_data = nack.kind == wire::NackKind::kData;
  if (!for_data && nack.kind != wire::NackKind::kResult) return "";
  ++rank.sent.questions;
  Timestamp& asked = for_data ? rank.asked_for_data : rank.asked_for_results;
  asked = std::max(asked, now);
  return asked <= (for_data ? rank.stage1_bound : rank.limit)
             ? ""
             : absl::StrCat("op ", packet.header.op_seq, ": rank ",
                            packet.source_rank.value(), " asks for ",
                            for_data ? "data" : "results",
                            " that it cannot use any more");
}

std::string RepairCheck::OnReported(core::Rank rank, Timestamp stage1_bound,
                                    Timestamp limit) {
  OfRank& of = ranks_[rank.index()];
  of.stage1_bound = stage1_bound;
  of.limit = bucketed_ ? Timestamp::Never() : limit;
  return of.asked_for_data <= stage1_bound && of.asked_for_results <= limit
             ? ""
             : "asked for repairs past its deadline";
}

RepairCounts RepairCheck::Sum() const {
  RepairCounts sum;
  for (const OfRank& rank : ranks_) sum += rank.sent;
  return sum;
}

}  // namespace optireduce::sim
