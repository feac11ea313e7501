#include "dataplane/sim/report_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "dataplane/core/bound_controller.h"
#include "dataplane/core/plan.h"

namespace optireduce::sim {

namespace {

using core::EndCause;
using core::Mode;
using core::OpReport;
using core::OpStatus;

// How long news of a submit may take to reach everybody, loss included.
Duration NewsDelay(const core::GroupConfig& config) {
  return config.feedback_interval * 40 + Duration::Millis(20);
}

size_t Quorum(const core::GroupConfig& config, size_t world) {
  return (world * config.quorum_permille + 999) / 1000;
}

// A quorum that a report claims was really there at that time. Where ranks are
// gone that lack the op, an owner that has all others' contributions is content
// with less.
std::string CheckQuorum(const ReportContext& context, const OpReport& report,
                        const GroupRun& group, const OpRun& run) {
  if (report.quorum == Timestamp::Never() || group.IsLacked(run)) return "";
  const Timestamp at = context.clock.ToSimulation(report.quorum);
  const auto opened = static_cast<size_t>(
      std::upper_bound(run.submits.begin(), run.submits.end(), at) -
      run.submits.begin());
  const size_t needed = Quorum(context.config, group.world());
  return opened >= needed
             ? ""
             : absl::StrCat("claims a quorum at ", at.nanos(), " ns, when ",
                            opened, " of ", needed, " had submitted");
}

// What the size class of an op goes by.
uint64_t BytesOf(const core::OpDescriptor& op, const core::GroupConfig& config,
                 size_t world) {
  const core::ChunkPlan plan(op, world, config.payload_bytes, config.tag,
                             core::OpSeq());
  return plan.elements() * plan.element_bytes();
}

// The most that an op's bounds may be.
core::Bounds MostOf(const ReportContext& context, const GroupRun& group) {
  return core::Ceilings(context.config)
      .Of(BytesOf(context.op, context.config, group.world()));
}

// Once all ranks have submitted, the clocks must start, whatever was lost.
std::string CheckStarted(const ReportContext& context, const GroupRun& group,
                         const OpRun& run) {
  if (context.op.mode != Mode::kBounded || group.may_be_cut() ||
      run.submits.size() < group.world()) {
    return "";
  }
  const Timestamp all_in = run.submits.back();
  const Timestamp bound = all_in + MostOf(context, group).result +
                          NewsDelay(context.config) + group.longest_stall();
  return context.reported_at <= bound
             ? ""
             : "all ranks had submitted, and its clocks did not start";
}

// Once a rank has left, nobody who knows it submits any more, and the others
// have one bound's time to be heard of: too little where hosts stand still or
// are cut off for long.
bool IsAbandoned(const ReportContext& context, const GroupRun& group,
                 const OpRun& run) {
  return group.anyone_left() &&
         (run.submits.size() < group.world() ||
          group.longest_stall() * 2 > context.config.result_bound);
}

// How short a group's bounds may be.
Duration LeastResultBound(const core::GroupConfig& config) {
  return config.adaptive_bounds
             ? std::min(config.least_bound, config.stage1_bound)
             : config.result_bound;
}

// The bounds that a report claims are ones that its group may have: the
// ceilings, or shorter once it has seen ops enough. Those may be newer
// ones: an op whose quorum a cut hides is overtaken. Its bounds are set once
// its quorum is there and its descriptor known, which a submit makes it.
std::string CheckBounds(const ReportContext& context, const OpReport& report,
                        const GroupRun& group, const OpRun& run) {
  // Of a mismatch nobody knows whose op the bounds were for.
  if (report.status == OpStatus::kMismatch) return "";
  const core::GroupConfig& config = context.config;
  Duration least1;
  Duration least2;
  Duration most1;
  Duration most2;
  if (report.quorum != Timestamp::Never() &&
      context.op.mode == Mode::kBounded) {
    const core::Bounds most = MostOf(context, group);
    most1 = least1 = most.stage1;
    most2 = least2 = most.result;
    const Timestamp set =
        context.clock.ToSimulation(std::max(report.quorum, report.submitted));
    if (config.adaptive_bounds &&
        group.OthersLike(run, set) >= core::BoundController::kWarmUp) {
      least1 = least2 = LeastResultBound(config);
    }
  }
  const bool good =
      report.stage1_bound >= least1 && report.stage1_bound <= most1 &&
      report.result_bound >= least2 && report.result_bound <= most2 &&
      report.stage1_bound <= report.result_bound;
  return good ? ""
              : absl::StrCat("bounds of ", report.stage1_bound.micros(),
                             " and ", report.result_bound.micros(),
                             " us, which its group cannot have");
}

std::string CheckCause(const OpReport& report, Timestamp limit) {
  switch (report.cause) {
    case EndCause::kAllIn:
      return report.status == OpStatus::kComplete ||
                     report.status == OpStatus::kPartial
                 ? ""
                 : "an error, with everything in";
    case EndCause::kEarly:
      return "";
    case EndCause::kDeadline:
      return report.closed >= limit
                 ? ""
                 : absl::StrCat("ended by a deadline, ",
                                (limit - report.closed).micros(),
                                " us before it");
    case EndCause::kError:
      return report.status != OpStatus::kComplete &&
                     report.status != OpStatus::kPartial
                 ? ""
                 : "no error, but its cause says so";
  }
  return "unknown cause";
}

}  // namespace

Timestamp LimitOf(const core::GroupConfig& config, const core::OpDescriptor& op,
                  const OpReport& report) {
  const Duration hard =
      op.hard_limit > Duration() ? op.hard_limit : config.hard_limit;
  Timestamp limit = report.submitted + hard;
  if (op.mode != Mode::kBounded) return limit;
  if (op.soft_limit > Duration()) {
    limit = std::min(limit, report.submitted + op.soft_limit);
  }
  if (report.quorum != Timestamp::Never()) {
    limit = std::min(
        limit, std::max(report.submitted, report.quorum + report.result_bound));
  }
  return limit;
}

std::string CheckTimes(const ReportContext& context, const OpReport& report,
                       const GroupRun& group, const OpRun& run) {
  if (context.clock.ToSimulation(report.submitted) != context.submitted_at) {
    return "reports another submit time";
  }
  if (report.closed < report.submitted ||
      context.clock.ToSimulation(report.closed) > context.reported_at) {
    return "closed before its submit, or in the future";
  }
  if (std::string wrong = CheckBounds(context, report, group, run);
      !wrong.empty()) {
    return wrong;
  }
  const Timestamp limit = LimitOf(context.config, context.op, report);
  const Timestamp due = context.clock.ToSimulation(limit);
  if (context.reported_at > context.clock.LastPoll(due)) {
    return absl::StrCat("outlived its limit by ",
                        (context.reported_at - due).micros(), " us");
  }
  if (std::string wrong = CheckCause(report, limit); !wrong.empty()) {
    return wrong;
  }
  if (std::string wrong = CheckQuorum(context, report, group, run);
      !wrong.empty()) {
    return wrong;
  }
  return CheckStarted(context, group, run);
}

std::string CheckStatus(const ReportContext& context, const OpReport& report,
                        const GroupRun& group, const OpRun& run) {
  const Duration hard = context.op.hard_limit > Duration()
                            ? context.op.hard_limit
                            : context.config.hard_limit;
  const Timestamp hard_at = context.submitted_at + hard;
  switch (report.status) {
    case OpStatus::kComplete:
      if (report.missing.Count() > 0) return "complete, but names ranks";
      return run.agreed ? "" : "ranks disagree, and nobody noticed";
    case OpStatus::kPartial:
      if (context.op.mode != Mode::kBounded) return "exact, but partial";
      return run.agreed ? "" : "ranks disagree, and nobody noticed";
    case OpStatus::kHardLimit: {
      if (context.reported_at < hard_at) return "hard limit, too early";
      // Who came first may have given up before the last one came.
      const bool all_in_time =
          run.submits.size() == group.world() &&
          run.submits.back() < run.submits.front() + hard / 2;
      return all_in_time && !group.may_be_cut() && run.agreed &&
                     !run.failed_somewhere
                 ? "all ranks were there, and it ran into its hard limit"
                 : "";
    }
    case OpStatus::kPeerLost:
      if (report.missing.Count() == 0) return "peer lost, but names none";
      return group.may_be_cut() || group.IsLacked(run) ||
                     run.failed_somewhere || IsAbandoned(context, group, run)
                 ? ""
                 : "peer lost, but all are there";
    case OpStatus::kMismatch:
      return run.agreed ? "mismatch, but all agree" : "";
    case OpStatus::kExpired: {
      const bool late = run.submits.front() + LeastResultBound(context.config) <
                        context.submitted_at;
      // An exact op that others gave up may be gone there.
      const bool given_up =
          context.op.mode != Mode::kBounded && run.failed_somewhere;
      return late || given_up ? "" : "expired, but it was not late";
    }
    case OpStatus::kCancelled:
      return context.leaving ? "" : "cancelled, but nobody left";
  }
  return "unknown status";
}

std::string CheckQuestions(const ReportContext& context, const OpReport& report,
                           core::Rank rank, OpRun* run) {
  if (!run->agreed || context.op.mode != Mode::kBounded ||
      report.quorum == Timestamp::Never()) {
    return "";
  }
  return run->repairs.OnReported(
      rank, context.clock.ToSimulation(report.quorum + report.stage1_bound),
      context.clock.ToSimulation(LimitOf(context.config, context.op, report)));
}

}  // namespace optireduce::sim
