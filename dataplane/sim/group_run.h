// A group of a running simulation: what the simulator knows of all its ranks
// together, which no core does.

#ifndef OPTIREDUCE_DATAPLANE_SIM_GROUP_RUN_H_
#define OPTIREDUCE_DATAPLANE_SIM_GROUP_RUN_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dataplane/base/time.h"
#include "dataplane/core/types.h"
#include "dataplane/sim/codec_check.h"
#include "dataplane/sim/conservation.h"
#include "dataplane/sim/inputs.h"
#include "dataplane/sim/ledger.h"
#include "dataplane/sim/outcome.h"
#include "dataplane/sim/packet_pool.h"
#include "dataplane/sim/repair_check.h"
#include "dataplane/sim/scenario.h"

namespace optireduce::sim {

// Of host 0: 10.0.0.1. The others follow.
inline constexpr uint32_t kFirstAddress = 0x0A000001;

// One op of the group.
struct OpRun {
  core::OpSeq seq{};
  // All ranks submit the same thing.
  bool agreed = true;
  core::Mode mode{};
  // Of the descriptor that all agree on.
  Inputs inputs;
  Ledger ledger;
  RepairCheck repairs;
  // Some rank's op ended in an error: what it owes the others may never come.
  bool failed_somewhere = false;
  size_t reports = 0;  // see OnReported
  // Simulation time, in the order in which ranks submitted.
  std::vector<Timestamp> submits;
  // Lazily, from `inputs`: the result of an all-reduce without any loss, or
  // what an encoded one is compared with.
  std::vector<uint8_t> full_result;
  std::unique_ptr<CodecReference> codec;
};

class GroupRun {
 public:
  // `spec` and `violations` must outlive the object.
  GroupRun(const GroupSpec& spec, size_t index, uint64_t seed,
           Violations* violations);

  const GroupSpec& spec() const { return spec_; }
  size_t index() const { return index_; }
  size_t world() const { return spec_.hosts.size(); }
  uint32_t tag() const { return spec_.config.tag; }

  core::Endpoint EndpointOf(core::Rank rank) const;
  // Which rank listens there, if one does.
  std::optional<core::Rank> RankAt(const core::Endpoint& endpoint) const;
  core::GroupConfig ConfigOf(core::Rank rank) const;
  const core::OpDescriptor& DescriptorOf(size_t op, core::Rank rank) const;

  // When its ranks may join: at once, or when the epoch before it is over.
  Timestamp opens_at() const { return opens_at_; }
  void Open(Timestamp now) { opens_at_ = now; }
  // A rank is ready; the start of the group is when the last one is. True if
  // this is the last one.
  bool OnReady(Timestamp now);
  // What submit times count from at a rank that is ready at `ready`.
  Timestamp StartAt(Timestamp ready) const;
  // How long after that the last trainer submits; it may have been stopped.
  Duration last_submit_after() const { return last_submit_after_; }

  // A rank's submit of a place in the list of ops was accepted as `seq`.
  void OnSubmitted(size_t op, core::Rank rank, core::OpSeq seq, Timestamp now);
  // The op's state; made when it is first asked for.
  OpRun& Op(size_t op);
  // By number; null if no rank has submitted it.
  OpRun* Find(uint32_t op_seq);
  // The place in the list of ops of a number that Find knows.
  size_t PlaceOf(uint32_t op_seq) const {
    return places_[op_seq - spec_.config.first_op.value()];
  }

  // How many other bounded ops of the size of `run` some rank had submitted by
  // then, whatever their numbers: what it can have been learned from how long
  // such an op takes. Where ranks disagree, an op counts as of every size.
  size_t OthersLike(const OpRun& run, Timestamp by) const;

  void OnSent(const Packet& packet, Timestamp now);
  // Of all its bounded ops.
  RepairCounts Repairs() const;
  void OnAccepted(const Packet& packet, Timestamp now);
  // The rank gave up what it had accepted for its shard.
  void OnContributionsLost(core::Rank owner, core::OpSeq seq);

  // A rank has its report of a place in the list of ops, and no use for what
  // others put in; once none has, it is let go.
  void OnReported(size_t op);

  Conservation& conservation() { return conservation_; }
  // What has become of a step at all its ranks.
  core::StepOutcome OutcomeOf(uint64_t step) const {
    return std::ranges::count(spec_.skipped_steps, step) == 0
               ? core::StepOutcome::kUsed
               : core::StepOutcome::kSkipped;
  }

  // A rank has all its reports; it may leave once nothing is kept.
  void OnRankFinished(Timestamp now);
  // When the last rank had; Never before.
  Timestamp all_finished() const { return all_finished_; }
  // A rank leaves or dies that has not submitted the ops from `next_op` on.
  void OnRankLeaves(size_t next_op) {
    first_lacking_ = std::min(first_lacking_, next_op);
  }
  bool anyone_left() const { return first_lacking_ != SIZE_MAX; }
  // Whether one did that lacks the op, so that it can come to nothing.
  bool IsLacked(const OpRun& run) const {
    return PlaceOf(run.seq.value()) >= first_lacking_;
  }
  // A rank has left, and its daemon has forgotten it.
  void OnRankOver() { ++ranks_over_; }
  bool over() const { return ranks_over_ == world(); }

  // Of the scenario: whether ranks may really be out of reach for so long that
  // others may give them up, and how long any host of it stands still in all.
  bool may_be_cut() const { return may_be_cut_; }
  Duration longest_stall() const { return longest_stall_; }
  // No fault strikes from then on.
  Timestamp calm_from() const { return calm_from_; }
  void Expect(bool may_be_cut, Duration longest_stall, Timestamp calm_from);

 private:
  void Check(const std::string& complaint, Timestamp now);

  const GroupSpec& spec_;
  size_t index_;
  uint64_t seed_;
  Violations* violations_;
  Conservation conservation_;
  std::vector<std::optional<OpRun>> ops_;  // by place in the list
  std::vector<size_t> places_;             // by number since the first op
  Timestamp opens_at_;
  size_t ranks_ready_ = 0;
  Timestamp all_ready_ = Timestamp::Never();
  size_t ranks_finished_ = 0;
  Timestamp all_finished_ = Timestamp::Never();
  size_t first_lacking_ = SIZE_MAX;
  size_t ranks_over_ = 0;
  bool may_be_cut_ = false;
  Duration longest_stall_;
  Duration last_submit_after_;
  Timestamp calm_from_;
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_GROUP_RUN_H_
