#include "dataplane/sim/ledger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "dataplane/base/xxhash64.h"

namespace optireduce::sim {

namespace {

std::string Where(const Packet& packet) {
  return absl::StrCat("op ", packet.header.op_seq, " chunk ",
                      packet.header.chunk, " from rank ",
                      packet.source_rank.value(), " to rank ",
                      packet.destination_rank.value());
}

bool HasAccounts(const core::OpDescriptor& op) {
  return op.collective == core::Collective::kReduceScatter &&
         op.mode == core::Mode::kBounded;
}

}  // namespace

Ledger::Ledger(const core::OpDescriptor& op, size_t world,
               uint32_t payload_bytes, uint32_t tag, core::OpSeq seq)
    : world_(world),
      chunks_per_account_(HasAccounts(op) ? payload_bytes * 8 : 0),
      plan_(op, world, payload_bytes, tag, seq),
      elements_(plan_.elements()),
      accounts_(plan_.chunk_limit()),
      data_accepted_(plan_.chunk_limit() * world),
      result_accepted_(plan_.chunk_limit() * world) {
  for (uint32_t chunk = 0; chunk < plan_.chunk_limit(); ++chunk) {
    if (const auto info = plan_.Locate(chunk)) chunks_.push_back(*info);
  }
}

std::string Ledger::CheckPlan() const {
  uint64_t next = 0;
  for (const core::ChunkInfo& info : chunks_) {
    if (info.first != next || info.elements == 0) {
      return absl::StrCat("chunk ", info.chunk, " begins at ", info.first,
                          ", not at ", next);
    }
    next += info.elements;
  }
  return next == elements_
             ? ""
             : absl::StrCat("chunks cover ", next, " of ", elements_);
}

std::string Ledger::OnResultSent(const Packet& packet) {
  const wire::Header& header = packet.header;
  const auto info = plan_.Locate(header.chunk);
  if (!info || info->owner != packet.source_rank) {
    return absl::StrCat(Where(packet), ": result of a chunk not owned");
  }
  ++results_sent_;
  if (chunks_per_account_ != 0) return OnAccountSent(packet, *info);
  if (header.length != info->bytes) {
    return absl::StrCat(Where(packet), ": result of ", header.length,
                        " bytes, not ", info->bytes);
  }
  Account& account = accounts_[header.chunk];
  if (account.known && account.contributors != header.contributors) {
    return absl::StrCat(Where(packet), ": c was ", account.contributors,
                        ", now ", header.contributors);
  }
  account.known = true;
  account.contributors = header.contributors;
  const uint64_t hash = Xxh64(wire::Body(packet.bytes(), header));
  if (account.seen_payload && account.payload_hash != hash) {
    return absl::StrCat(Where(packet), ": another result than before");
  }
  account.seen_payload = true;
  account.payload_hash = hash;
  return "";
}

std::string Ledger::OnAccountSent(const Packet& packet,
                                  const core::ChunkInfo& first) {
  const uint32_t chunks =
      std::min(chunks_per_account_, plan_.ChunksOf(first.owner) - first.local);
  const auto bits = wire::Body(packet.bytes(), packet.header);
  if (first.local % chunks_per_account_ != 0 ||
      bits.size() != (chunks + 7) / 8) {
    return absl::StrCat(Where(packet), ": no account of whole shards");
  }
  for (uint32_t i = 0; i < chunks; ++i) {
    const bool summed = (bits[i / 8] >> (i % 8) & 1) != 0;
    const uint32_t chunk = plan_.ChunkOf(first.owner, first.local + i).chunk;
    if (summed != data_accepted_[Bit(packet.destination_rank, chunk)]) {
      return absl::StrCat(Where(packet), ": a false account of chunk ", chunk);
    }
  }
  return "";
}

std::string Ledger::OnDataAccepted(const Packet& packet) {
  const auto info = plan_.Locate(packet.header.chunk);
  if (!info || info->owner != packet.destination_rank) {
    return absl::StrCat(Where(packet), ": accepted by a rank not its owner");
  }
  auto&& accepted =
      data_accepted_[Bit(packet.source_rank, packet.header.chunk)];
  if (accepted) return absl::StrCat(Where(packet), ": accepted twice");
  accepted = true;
  return "";
}

std::string Ledger::OnResultAccepted(const Packet& packet) {
  const auto info = plan_.Locate(packet.header.chunk);
  if (!info) return absl::StrCat(Where(packet), ": accepted, not in the plan");
  auto&& accepted =
      result_accepted_[Bit(packet.destination_rank, packet.header.chunk)];
  if (accepted) return absl::StrCat(Where(packet), ": result accepted twice");
  accepted = true;
  return "";
}

void Ledger::OnContributionsLost(core::Rank owner) {
  for (const core::ChunkInfo& info : chunks_) {
    if (info.owner != owner) continue;
    for (size_t i = 0; i < world_; ++i) {
      data_accepted_[Bit(core::Rank(static_cast<uint16_t>(i)), info.chunk)] =
          false;
    }
  }
}

bool Ledger::HasResult(core::Rank rank, uint32_t chunk) const {
  return result_accepted_[Bit(rank, chunk)];
}

std::vector<core::Rank> Ledger::Accepted(uint32_t chunk) const {
  std::vector<core::Rank> ranks;
  for (size_t i = 0; i < world_; ++i) {
    const core::Rank rank(static_cast<uint16_t>(i));
    if (data_accepted_[Bit(rank, chunk)]) ranks.push_back(rank);
  }
  return ranks;
}

std::optional<uint16_t> Ledger::Announced(uint32_t chunk) const {
  if (!accounts_[chunk].known) return std::nullopt;
  return accounts_[chunk].contributors;
}

std::string Ledger::Settle(uint32_t chunk, uint16_t contributors) {
  Account& account = accounts_[chunk];
  if (account.known && account.contributors != contributors) {
    return absl::StrCat("chunk ", chunk, ": the owner used c ", contributors,
                        " and sent c ", account.contributors);
  }
  account.known = true;
  account.contributors = contributors;
  return "";
}

}  // namespace optireduce::sim
