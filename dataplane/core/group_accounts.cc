// Bounded reduce-scatters: what owners tell the other ranks in place of
// results.
//
// No result travels, so an owner that is through sends every rank an account:
// for as many of its chunks as a packet has bits, whether that rank's
// contribution was summed. It says that the owner needs nothing more, and it is
// what a rank books by. It is asked for and sent again like a result.

#include <algorithm>
#include <cstring>

#include "dataplane/core/group.h"

namespace optireduce::core {
namespace {

bool BitOf(std::span<const uint8_t> bits, uint32_t i) {
  return (bits[i / 8] >> (i % 8) & 1) != 0;
}

}  // namespace

// ---- the owner

void Group::QueueAccounts(Op* op) {
  const uint32_t accounts = op->RepliesOf(config_.self);
  for (uint32_t i = 0; i < accounts; ++i) QueueResult(op, i);
}

uint32_t Group::AccountBytes(const Op& op, const ChunkInfo& first) {
  return (op.ChunksFrom(first) + 7) / 8;
}

void Group::SendAccount(Op* op, Rank peer, uint32_t account, uint8_t flags,
                        TxDescriptor* out, Timestamp now) {
  const ChunkInfo first = op->ChunkOfReply(config_.self, account);
  wire::Header header = HeaderFor(wire::PacketType::kResult, now);
  header.op_seq = op->seq.value();
  header.fingerprint = op->fingerprint;
  header.chunk = first.chunk;
  header.length = static_cast<uint16_t>(AccountBytes(*op, first));
  header.flags = flags;
  header.timeout = Advertised(*op);
  uint8_t* const bits = out->buffer + wire::kHeaderBytes;
  std::memset(bits, 0, header.length);
  for (uint32_t i = 0; i < op->ChunksFrom(first); ++i) {
    const bool summed = op->reduction.HasArrived(first.local + i, peer);
    bits[i / 8] |= static_cast<uint8_t>((summed ? 1 : 0) << (i % 8));
  }
  Finish(header, peer, out, now);
  if ((flags & wire::kFlagRepair) == 0) op->repair_budget.OnFirst(out->length);
}

// ---- the others

// Of the owner's chunk `first`. Nothing is accepted that no owner would send.
Verdict Group::CheckAccount(const Op& op, const ChunkInfo& first,
                            std::span<const uint8_t> body) const {
  if (first.local % op.chunks_per_reply != 0) return Verdict::kBadChunk;
  if (body.size() != AccountBytes(op, first)) return Verdict::kBadChunkLength;
  const uint32_t chunks = op.ChunksFrom(first);
  for (uint32_t i = chunks; i < body.size() * 8; ++i) {
    if (BitOf(body, i)) return Verdict::kBadBody;
  }
  return Verdict::kAccepted;
}

Verdict Group::OnAccount(Rank source, const wire::Header& header,
                         std::span<const uint8_t> body, Timestamp arrival,
                         Op* op, Timestamp now) {
  const std::optional<ChunkInfo> first = op->plan.Locate(header.chunk);
  if (!first.has_value() || first->owner != source) return Verdict::kBadChunk;
  if (const Verdict verdict = CheckAccount(*op, *first, body);
      verdict != Verdict::kAccepted) {
    return verdict;
  }
  StartClocks(op, now);  // rule 3
  if (op->assembly.Has(first->chunk)) return Verdict::kDuplicate;
  NoteAdvertised(*op, source, header);
  if (op->is_reported() || arrival > op->close_bound) {
    NoteIfTooEarly(*op, header, arrival);
    return Verdict::kLate;
  }
  for (uint32_t i = 0; i < op->ChunksFrom(*first); ++i) {
    op->assembly.NoteAccount(op->plan.ChunkOf(source, first->local + i));
  }
  if (op->account != nullptr) TakeAccount(op, *first, body);
  op->last_result = arrival;
  if ((header.flags & wire::kFlagTail) != 0) {
    op->result_tails.Set(source.index());
  }
  op->closed_owners.Set(source.index());
  NoteStreamPacket(op, Stage::kTwo, header, first->local / op->chunks_per_reply,
                   now);
  NoteProgress(op, now);
  MaybeComplete(op, now);
  return Verdict::kAccepted;
}

// After the op's end, asked for or on its own.
Verdict Group::OnLateAccount(const ChunkInfo& first,
                             std::span<const uint8_t> body, Op* op,
                             Timestamp now) {
  if (const Verdict verdict = CheckAccount(*op, first, body);
      verdict != Verdict::kAccepted) {
    return verdict;
  }
  if (!LacksOf(*op, first)) return Verdict::kDuplicate;
  TakeAccount(op, first, body);
  op->debt_backoff = 1;
  OnOwedLess(op, now);
  return Verdict::kAccepted;
}

void Group::TakeAccount(Op* op, const ChunkInfo& first,
                        std::span<const uint8_t> body) {
  for (uint32_t i = 0; i < op->ChunksFrom(first); ++i) {
    op->account->OnAccount(op->plan.ChunkOf(first.owner, first.local + i),
                           BitOf(body, i));
  }
}

// What came before the submit is without this rank's contribution.
void Group::TakeEarlyAccounts(Op* op) {
  for (uint32_t chunk = 0; chunk < op->plan.chunk_limit(); ++chunk) {
    const std::optional<ChunkInfo> info = op->plan.Locate(chunk);
    if (!info.has_value() || IsSelf(info->owner)) continue;
    if (op->assembly.Has(chunk)) op->account->OnAccount(*info, false);
  }
}

}  // namespace optireduce::core
