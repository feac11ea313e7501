// What really happened to the contributions and results of one op, seen from
// outside the cores: which datagrams each of them accepted, and what owners
// said in their result packets.

#ifndef OPTIREDUCE_DATAPLANE_SIM_LEDGER_H_
#define OPTIREDUCE_DATAPLANE_SIM_LEDGER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/core/plan.h"
#include "dataplane/core/types.h"
#include "dataplane/sim/packet_pool.h"

namespace optireduce::sim {

class Ledger {
 public:
  Ledger() = default;
  Ledger(const core::OpDescriptor& op, size_t world, uint32_t payload_bytes,
         uint32_t tag, core::OpSeq seq);

  const core::ChunkPlan& plan() const { return plan_; }
  // All chunks, in the order of their numbers.
  const std::vector<core::ChunkInfo>& chunks() const { return chunks_; }
  // Empty, or what is wrong with the plan: its chunks must be disjoint and
  // cover everything.
  std::string CheckPlan() const;

  // A core sends a result packet. Returns what is wrong with it, or nothing:
  // a chunk is frozen once, so all its packets say the same; an account says
  // which of the receiver's contributions the sender has accepted.
  std::string OnResultSent(const Packet& packet);
  // A core accepted a contribution or a result. Returns what is wrong: each
  // counts once.
  std::string OnDataAccepted(const Packet& packet);
  std::string OnResultAccepted(const Packet& packet);
  // A core gave up what it had accepted for its shard.
  void OnContributionsLost(core::Rank owner);

  // Whether the rank's core accepted the chunk's result.
  bool HasResult(core::Rank rank, uint32_t chunk) const;
  // Ranks whose contribution the owner's core accepted, without the owner.
  std::vector<core::Rank> Accepted(uint32_t chunk) const;
  // What the owner's packets say of the contributors, if one was sent.
  std::optional<uint16_t> Announced(uint32_t chunk) const;
  // The owner's own result was found to have this many contributors: from now
  // on its packets must say so too.
  std::string Settle(uint32_t chunk, uint16_t contributors);

  // Result packets sent that were not repairs, and contributions accepted.
  uint64_t results_sent() const { return results_sent_; }

 private:
  struct Account {
    bool known = false;
    bool seen_payload = false;
    uint16_t contributors = 0;
    uint64_t payload_hash = 0;
  };

  std::string OnAccountSent(const Packet& packet, const core::ChunkInfo& first);

  size_t Bit(core::Rank rank, uint32_t chunk) const {
    return size_t{chunk} * world_ + rank.index();
  }

  size_t world_ = 0;
  // Of a bounded reduce-scatter: chunks that an account is about.
  uint32_t chunks_per_account_ = 0;
  core::ChunkPlan plan_;
  uint64_t elements_ = 0;
  std::vector<core::ChunkInfo> chunks_;
  std::vector<Account> accounts_;      // by chunk number
  std::vector<bool> data_accepted_;    // by chunk number and source
  std::vector<bool> result_accepted_;  // by chunk number and receiver
  uint64_t results_sent_ = 0;
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_LEDGER_H_
