#include "dataplane/sim/systematic.h"

#include <cinttypes>

#include "absl/strings/str_cat.h"
#include "dataplane/sim/outcome.h"
#include "dataplane/sim/simulation.h"

namespace optireduce::sim {

namespace {

using core::Collective;
using core::Mode;

struct Kind {
  const char* name;
  Collective collective;
  Mode mode;
};
constexpr Kind kKinds[] = {
    {"all_reduce_bounded", Collective::kAllReduce, Mode::kBounded},
    {"all_reduce_exact", Collective::kAllReduce, Mode::kExact},
    {"reduce_scatter_bounded", Collective::kReduceScatter, Mode::kBounded},
    {"reduce_scatter", Collective::kReduceScatter, Mode::kExact},
    {"all_gather", Collective::kAllGather, Mode::kExact},
    {"broadcast", Collective::kBroadcast, Mode::kExact},
    {"barrier", Collective::kBarrier, Mode::kExact},
};

Scenario CaseOf(const Kind& kind, size_t world, Ending ending) {
  Scenario scenario;
  scenario.hosts.resize(world);
  GroupSpec group;
  core::GroupConfig& config = group.config;
  config.tag = 0x5157;
  config.payload_bytes = 496;
  config.window = 4;
  config.memory_budget = 1 << 20;
  config.first_op = core::OpSeq(UINT32_MAX);
  config.stage1_bound = Duration::Millis(3);
  config.result_bound = Duration::Millis(5);
  config.adaptive_bounds = false;
  config.early_wait = Duration::Micros(500);
  config.feedback_interval = Duration::Millis(1);
  config.nack_interval = Duration::Millis(1);
  config.heartbeat = Duration::Millis(20);
  config.suspect_after = Duration::Millis(80);
  config.dead_after = Duration::Millis(400);
  config.hard_limit = Duration::Millis(300);
  group.ending = ending;
  for (size_t rank = 0; rank < world; ++rank) {
    group.hosts.push_back(static_cast<uint16_t>(rank));
    scenario.hosts[rank].clock_start =
        Duration::Seconds(static_cast<int64_t>(7 * rank));
    scenario.hosts[rank].hardware_clock = rank % 2 == 0;
  }
  for (size_t i = 0; i < 3; ++i) {
    OpSpec op;
    op.descriptor.collective = kind.collective;
    op.descriptor.mode = kind.mode;
    // One and a half chunks in each shard.
    if (kind.collective != Collective::kBarrier) {
      op.descriptor.count = 186 * world;
    }
    if (kind.mode == Mode::kExact) op.inputs = InputKind::kBits;
    for (size_t rank = 0; rank < world; ++rank) {
      op.submit_after.push_back(
          Duration::Micros(static_cast<int64_t>(10 * (i + rank))));
    }
    group.ops.push_back(op);
  }
  scenario.groups.push_back(group);
  return scenario;
}

bool EndedWell(const OpOutcome& op, Mode mode) {
  if (!op.reported()) return false;
  const core::OpStatus status = op.report.status;
  return status == core::OpStatus::kComplete ||
         (mode == Mode::kBounded && status == core::OpStatus::kPartial);
}

void CheckEnds(const Scenario& scenario, Outcome* outcome) {
  const GroupSpec& group = scenario.groups[0];
  for (size_t rank = 0; rank < group.hosts.size(); ++rank) {
    for (size_t op = 0; op < group.ops.size(); ++op) {
      if (EndedWell(outcome->groups[0][rank].ops[op],
                    group.ops[op].descriptor.mode)) {
        continue;
      }
      outcome->violations.push_back(
          absl::StrCat("rank ", rank, " op ", op, ": did not end well"));
    }
  }
}

class Runner {
 public:
  Runner(FILE* trace, FILE* out) : trace_(trace), out_(out) {}

  void RunCase(const SystematicCase& small, std::optional<uint64_t> packet,
               const std::optional<std::string>& fault) {
    ++summary.cases;
    const uint64_t packets = RunScenario(small.scenario).sent;
    for (const SystematicFault& each : SystematicFaults(small.scenario)) {
      if (fault && *fault != each.name) continue;
      const uint64_t first = packet.value_or(0);
      const uint64_t last = packet ? *packet + 1 : packets;
      for (uint64_t i = first; i < last; ++i) RunOne(small, each, i);
    }
  }

  SystematicSummary summary;

 private:
  void RunOne(const SystematicCase& small, const SystematicFault& fault,
              uint64_t packet) {
    Scenario scenario = small.scenario;
    ScriptedFault script;
    script.action = fault.action;
    script.delay = fault.delay;
    script.skip = static_cast<uint32_t>(packet);
    script.times = 1;
    script.repairs = true;
    scenario.script.push_back(script);
    RunOptions options;
    options.trace = trace_;
    Outcome outcome = RunScenario(scenario, options);
    CheckEnds(scenario, &outcome);
    ++summary.runs;
    summary.coverage.Add(outcome.coverage);
    if (outcome.ok()) return;
    ++summary.failing;
    std::fprintf(out_,
                 "FAILED; to replay: optisim systematic --case %s --fault %s "
                 "--packet %" PRIu64 "\n",
                 small.name.c_str(), fault.name.c_str(), packet);
    for (const std::string& line : outcome.violations) {
      std::fprintf(out_, "  %s\n", line.c_str());
    }
  }

  FILE* trace_;
  FILE* out_;
};

}  // namespace

std::vector<SystematicCase> SystematicCases() {
  std::vector<SystematicCase> cases;
  for (size_t world = 2; world <= 3; ++world) {
    for (const Kind& kind : kKinds) {
      for (const Ending ending : {Ending::kDrain, Ending::kLeave}) {
        cases.push_back({absl::StrCat(kind.name, "_", world,
                                      ending == Ending::kLeave ? "_exit" : ""),
                         CaseOf(kind, world, ending)});
      }
    }
  }
  return cases;
}

std::vector<SystematicFault> SystematicFaults(const Scenario& scenario) {
  const core::GroupConfig& config = scenario.groups[0].config;
  const Duration past = Duration::Micros(150);
  return {
      {"drop", ScriptAction::kDrop, Duration()},
      {"duplicate", ScriptAction::kDuplicate, Duration()},
      {"replay", ScriptAction::kStale, config.result_bound * 2},
      {"delay_early", ScriptAction::kDelay, config.early_wait + past},
      {"delay_stage1", ScriptAction::kDelay, config.stage1_bound + past},
      {"delay_result", ScriptAction::kDelay, config.result_bound + past},
      {"delay_hard", ScriptAction::kDelay, config.hard_limit + past},
  };
}

SystematicSummary RunSystematic(const std::optional<std::string>& only_case,
                                std::optional<uint64_t> only_packet,
                                const std::optional<std::string>& only_fault,
                                FILE* trace, FILE* out) {
  Runner runner(trace, out);
  for (const SystematicCase& small : SystematicCases()) {
    if (only_case && *only_case != small.name) continue;
    runner.RunCase(small, only_packet, only_fault);
  }
  return runner.summary;
}

}  // namespace optireduce::sim
