// The oracle for residuals and debts: what ranks put into a bucket is in their
// outputs, or still kept for a later one, or was forgiven by name.
//
//     applied + debt + (residuals of all ranks) / N + forgiven = true average
//
// A rank of a reduce-scatter gets its part only, and the rest of its outputs
// does not count.
//
// It is drawn up for each rank once all of them are through with their ops and
// nothing is on its way any more. What was forgiven is known by its number of
// elements only, so in as many the sums may differ.

#ifndef OPTIREDUCE_DATAPLANE_SIM_CONSERVATION_H_
#define OPTIREDUCE_DATAPLANE_SIM_CONSERVATION_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "dataplane/core/engine_core.h"
#include "dataplane/core/forgiven.h"
#include "dataplane/core/types.h"

namespace optireduce::sim {

class Conservation {
 public:
  explicit Conservation(size_t world) : world_(world), ranks_(world) {}

  // Whether core::Group keeps residuals and debts for such an op.
  static bool IsWatched(const core::OpDescriptor& op, size_t world);

  // The rank has used its output of the op; an empty one: it got none.
  void OnUsed(const core::OpDescriptor& op, core::Rank rank,
              std::span<const uint8_t> input, std::span<const uint8_t> output);
  // The rank has thrown its output away.
  void OnSkipped(const core::OpDescriptor& op, core::Rank rank);
  // Ops of this bucket mean different things, or ranks differ about it.
  void Ignore(uint64_t bucket) { buckets_[bucket].ignored = true; }

  // The rank has closed all its steps, and nothing is owed to it. Returns what
  // is wrong, if it is the last one.
  std::string OnSettled(core::Rank rank, core::GroupId group,
                        const core::EngineCore& core);

 private:
  struct Bucket {
    bool ignored = false;
    core::OpDescriptor op;  // the first
    size_t ops = 0;
    std::vector<double> scales;  // by rank: of its newest op
    std::vector<bool> flushed;   // by rank: by its newest op
    // By element, unscaled.
    std::vector<double> truth;                 // contributions of all ranks
    std::vector<double> magnitude;             // the same, absolute
    std::vector<double> residuals;             // of all ranks
    std::vector<std::vector<double>> outputs;  // by rank: applied, and debt
  };
  struct RankState {
    bool settled = false;
    core::Forgiven forgiven;
  };

  Bucket* Find(const core::OpDescriptor& op);
  std::string Check() const;
  // Where a rank's output of the op begins in the bucket.
  size_t FirstOf(const core::OpDescriptor& op, size_t rank) const;
  uint64_t Differences(const Bucket& bucket, size_t rank) const;

  size_t world_;
  std::map<uint64_t, Bucket> buckets_;
  std::vector<RankState> ranks_;
  size_t settled_ = 0;
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_CONSERVATION_H_
