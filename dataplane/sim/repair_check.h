// What ranks of a bounded op asked for and sent again, seen from outside the
// cores: within its budget, and never past the deadline.

#ifndef OPTIREDUCE_DATAPLANE_SIM_REPAIR_CHECK_H_
#define OPTIREDUCE_DATAPLANE_SIM_REPAIR_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/base/time.h"
#include "dataplane/core/types.h"
#include "dataplane/sim/packet_pool.h"

namespace optireduce::sim {

// Of contributions and results, in bytes of datagrams; and the questions for
// them.
struct RepairCounts {
  uint64_t first_bytes = 0;
  uint64_t repaired_bytes = 0;
  uint64_t questions = 0;

  RepairCounts& operator+=(const RepairCounts& other) {
    first_bytes += other.first_bytes;
    repaired_bytes += other.repaired_bytes;
    questions += other.questions;
    return *this;
  }
};

class RepairCheck {
 public:
  RepairCheck() = default;
  // `bucketed`: ranks make good to each other what they owe, without a limit.
  RepairCheck(size_t world, uint32_t payload_bytes, bool bucketed);

  // A core sends something. Returns what is wrong with that: it sends again
  // more than a quarter of what it sent before, and more than 16 packets; or it
  // asks for what could no longer be used.
  std::string OnSent(const Packet& packet, Timestamp now);
  // The op is over at the rank's trainer. It has asked and will ask for no
  // contributions after the bound of its own shard, and for no results after
  // the op's limit.
  std::string OnReported(core::Rank rank, Timestamp stage1_bound,
                         Timestamp limit);
  // Of all ranks.
  RepairCounts Sum() const;

 private:
  struct OfRank {
    RepairCounts sent;
    Timestamp asked_for_data;
    Timestamp asked_for_results;
    Timestamp stage1_bound = Timestamp::Never();
    Timestamp limit = Timestamp::Never();
  };

  std::string OnQuestion(const Packet& packet, Timestamp now);

  uint64_t largest_datagram_ = 0;
  bool bucketed_ = false;
  std::vector<OfRank> ranks_;
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_REPAIR_CHECK_H_
