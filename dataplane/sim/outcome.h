// What a run showed.

#ifndef OPTIREDUCE_DATAPLANE_SIM_OUTCOME_H_
#define OPTIREDUCE_DATAPLANE_SIM_OUTCOME_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/time.h"
#include "dataplane/core/drop.h"
#include "dataplane/core/engine_core.h"
#include "dataplane/core/report.h"
#include "dataplane/sim/coverage.h"
#include "dataplane/sim/fault.h"
#include "dataplane/sim/repair_check.h"

namespace optireduce::sim {

struct OpOutcome {
  // The last answer to the submit; nothing if it was never tried.
  std::optional<core::SubmitResult> submit;
  // Simulation time.
  Timestamp submitted_at = Timestamp::Never();
  Timestamp reported_at = Timestamp::Never();
  core::OpReport report;  // once reported
  std::vector<uint8_t> output;

  bool reported() const { return reported_at != Timestamp::Never(); }
};

struct RankOutcome {
  bool ready = false;      // kGroupReady
  bool failed = false;     // kGroupFailed
  bool peer_lost = false;  // kPeerLost
  bool released = false;   // kGroupReleased
  bool died = false;       // as the scenario wants
  std::vector<OpOutcome> ops;
};

struct HostOutcome {
  uint64_t delivered = 0;  // datagrams handed to the core
  std::array<uint64_t, core::kNumVerdicts> counters{};
};

struct Outcome {
  std::vector<std::vector<RankOutcome>> groups;  // by group and rank
  std::vector<HostOutcome> hosts;
  FaultCounts injected{};
  RepairCounts repairs;
  Coverage coverage;
  // Each a line that begins with the simulation time; empty if all is well.
  std::vector<std::string> violations;
  uint64_t trace_hash = 0;
  uint64_t events = 0;
  uint64_t sent = 0;  // datagrams, by cores
  Timestamp end;

  bool ok() const { return violations.empty(); }
};

// Collects violations; the first few tell the story.
class Violations {
 public:
  void Add(Timestamp now, const std::string& what);
  std::vector<std::string>& lines() { return lines_; }

 private:
  static constexpr size_t kMost = 20;
  std::vector<std::string> lines_;
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_OUTCOME_H_
