#include "control/optictl/explain.h"

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "control/optictl/table.h"

namespace optireduce::control {
namespace {

using Op = OpsReply::Op;
using Stage = OpsReply::Stage;
using Lack = OpsReply::Lack;

constexpr size_t kRanksInCell = 3;

// ---- figures ----------------------------------------------------------------

std::string Span(int64_t us) {
  const int64_t size = std::abs(us);
  if (size < 1000) return absl::StrCat(us, " us");
  const double value = static_cast<double>(us);
  return size < 1'000'000 ? absl::StrFormat("%.1f ms", value / 1e3)
                          : absl::StrFormat("%.2f s", value / 1e6);
}

// "3 packets", "1 packet"
std::string Count(uint64_t n, const std::string& what) {
  return absl::StrCat(n, " ", what, n == 1 ? "" : "s");
}

// "1.2 ms after the submit"
std::string AfterOf(int64_t us, const std::string& what) {
  if (us == 0) return absl::StrCat("with ", what);
  return absl::StrCat(Span(std::abs(us)), us < 0 ? " before " : " after ",
                      what);
}

std::string Percent(double share) {
  return absl::StrFormat("%.3g %%", 100 * share);
}

// ---- an op's facts ----------------------------------------------------------

bool HasEnded(const Op& op) {
  return op.status() != "in_flight" && op.status() != "not_submitted";
}

bool HasResult(const Op& op) {
  return op.status() == "complete" || op.status() == "partial";
}

bool IsRemembered(const Op& op) { return op.has_stage1(); }

// What times are told from: the submit, or if there was none when this host
// heard of the op.
int64_t Origin(const Op& op) { return static_cast<int64_t>(op.submitted_us()); }
const char* OriginName(const Op& op) {
  return op.has_submitted_us() ? "the submit" : "this host heard of it";
}
int64_t SinceOrigin(const Op& op, uint64_t us) {
  return static_cast<int64_t>(us) - Origin(op);
}

// When a rank began the op, if that is remembered.
const OpsReply::Opening* FindOpening(const Op& op, uint32_t rank) {
  for (const OpsReply::Opening& opening : op.last_openings()) {
    if (opening.rank() == rank) return &opening;
  }
  return nullptr;
}

// By how much a rank began the op after its quorum; 0 if it did not.
uint64_t BegunLate(const Op& op, const OpsReply::Opening* opening) {
  if (opening == nullptr || !op.has_quorum_us()) return 0;
  return opening->at_us() > op.quorum_us() ? opening->at_us() - op.quorum_us()
                                           : 0;
}

// ---- the table --------------------------------------------------------------

// "bound 60.0 ms 87/112"
std::string StageCell(const Op& op, const Stage& stage) {
  if (!stage.has_closed_us()) return "-";
  std::string text = absl::StrCat(stage.cause(), " ",
                                  Span(SinceOrigin(op, stage.closed_us())));
  if (stage.came() < stage.due()) {
    absl::StrAppend(&text, " ", stage.came(), "/", stage.due());
  }
  return text;
}

// "2 (1, +0.3 ms)", "3 (not begun)"
std::string LackText(const Op& op, const Stage& stage, const Lack& lack) {
  if (!lack.begun() && FindOpening(op, lack.rank()) == nullptr) {
    return absl::StrCat(lack.rank(), " (not begun)");
  }
  if (lack.late() < lack.packets()) {
    return absl::StrCat(lack.rank(), " (", lack.packets() - lack.late(),
                        ", lost)");
  }
  const auto late = static_cast<int64_t>(lack.last_late_us()) -
                    static_cast<int64_t>(stage.closed_us());
  return absl::StrCat(lack.rank(), " (", lack.packets(), ", ",
                      late < 0 ? "" : "+", Span(late), ")");
}

// Ranks that began late, and then those that lacked something besides.
std::string LateCell(const Op& op) {
  std::vector<std::string> texts;
  for (const OpsReply::Opening& opening : op.last_openings()) {
    const uint64_t late = BegunLate(op, &opening);
    if (late == 0) continue;
    texts.push_back(
        absl::StrCat(opening.rank(), " +", Span(static_cast<int64_t>(late))));
  }
  for (const Stage* stage : {&op.stage1(), &op.stage2()}) {
    for (const Lack& lack : stage->lacking()) {
      if (BegunLate(op, FindOpening(op, lack.rank())) > 0) continue;
      const std::string text = LackText(op, *stage, lack);
      if (texts.empty() || texts.back() != text) texts.push_back(text);
    }
  }
  if (texts.empty()) return "-";
  if (texts.size() > kRanksInCell) {
    const size_t more = texts.size() - kRanksInCell;
    texts.resize(kRanksInCell);
    texts.push_back(absl::StrCat("and ", more, " more"));
  }
  return absl::StrJoin(texts, "; ");
}

std::string SavedCell(const Op& op) {
  if (!IsRemembered(op) || !HasResult(op)) return "-";
  if (!op.has_saved_us()) return "unknown";
  return op.saved_us() == 0 ? "0" : Span(static_cast<int64_t>(op.saved_us()));
}

Row OpRow(const Op& op) {
  const std::string none = "-";
  const bool owes = op.has_owed();
  return {
      absl::StrCat(op.group()),
      absl::StrCat(op.op_seq()),
      op.bucket() == 0 ? none : absl::StrCat(op.bucket()),
      op.step() == 0 ? none : absl::StrCat(op.step()),
      op.status(),
      HasEnded(op) ? Span(static_cast<int64_t>(op.duration_us())) : none,
      StageCell(op, op.stage1()),
      StageCell(op, op.stage2()),
      HasResult(op) ? Percent(op.missing_fraction()) : none,
      LateCell(op),
      absl::StrCat(op.stage1().repaired() + op.stage2().repaired()),
      owes ? absl::StrCat(op.owed().residual()) : none,
      owes ? absl::StrCat(op.owed().debt()) : none,
      SavedCell(op),
  };
}

// ---- sentences --------------------------------------------------------------

std::string WhatItIs(const Op& op) {
  std::string text =
      absl::StrCat("Op ", op.op_seq(), " of group ", op.group(), ": ");
  if (!op.collective().empty()) {
    absl::StrAppend(&text, op.collective(), ", ", op.mode(), ", ");
  }
  absl::StrAppend(&text, Count(op.elements(), "element"));
  if (op.bucket() != 0) absl::StrAppend(&text, ", bucket ", op.bucket());
  if (op.step() != 0) absl::StrAppend(&text, ", step ", op.step());
  return absl::StrCat(text, ", ", Count(op.world(), "rank"), ".\n");
}

std::string HowItEnded(const Op& op) {
  const std::string took = Span(static_cast<int64_t>(op.duration_us()));
  if (op.status() == "in_flight") return "It is in flight.\n";
  if (op.status() == "not_submitted") {
    return "This host's trainer has not submitted it; its daemon serves the "
           "others.\n";
  }
  std::string text;
  if (op.status() == "complete") {
    text = absl::StrCat("It is complete, and took ", took, ".");
  } else if (op.status() == "partial") {
    text = absl::StrCat("It is partial, and took ", took, ": ",
                        Percent(op.missing_fraction()), " is missing, and ",
                        op.absent(), " of the result's elements are absent.");
  } else {
    text = absl::StrCat("It failed after ", took, ": ", op.status(), ".");
  }
  if (op.missing_size() > 0) {
    absl::StrAppend(&text, " Late, silent or in part: ",
                    op.missing_size() == 1 ? "rank " : "ranks ",
                    absl::StrJoin(op.missing(), ", "), ".");
  }
  if (op.wall_late_us() > 0) {
    absl::StrAppend(&text, " It ended ",
                    Span(static_cast<int64_t>(op.wall_late_us())),
                    " after its limit.");
  }
  return text + "\n";
}

std::string HowItBegan(const Op& op) {
  std::string text;
  if (op.submitted_us() > 0) {
    text = absl::StrCat("This host heard of it ", Span(Origin(op)),
                        " before its trainer submitted it. ");
  }
  if (!op.has_quorum_us()) {
    return absl::StrCat(text, op.openings(), " of ", op.world(),
                        " ranks have begun it: no quorum.\n");
  }
  absl::StrAppend(&text, "A quorum of ranks had begun it ",
                  AfterOf(SinceOrigin(op, op.quorum_us()), OriginName(op)));
  for (const OpsReply::Opening& opening : op.last_openings()) {
    if (opening.at_us() != op.quorum_us() ||
        op.quorum_us() <= op.submitted_us()) {
      continue;
    }
    absl::StrAppend(&text, ", when rank ", opening.rank(), " did");
    break;
  }
  text += ".\n";
  for (int i = op.last_openings_size() - 1; i >= 0; --i) {
    const uint64_t late = BegunLate(op, &op.last_openings(i));
    if (late == 0) continue;
    absl::StrAppend(&text, "Rank ", op.last_openings(i).rank(), " began it ",
                    Span(static_cast<int64_t>(late)), " after the quorum.\n");
  }
  return text;
}

std::string WhyItClosed(const Stage& stage) {
  if (stage.cause() == "all_in") return "with all in";
  if (stage.cause() == "early") return "early, when nothing more came";
  if (stage.cause() == "bound") return "at its bound";
  if (stage.cause() == "soft_limit") return "at the trainer's soft limit";
  if (stage.cause() == "late_submit") {
    return "at once, as its bound was over at the submit";
  }
  return "with the op's error";
}

std::string ExplainLack(const Stage& stage, const Lack& lack) {
  std::string text = absl::StrCat(
      "  Of rank ", lack.rank(),
      lack.begun() ? " " : ", which was not known to have begun the op, ",
      Count(lack.packets(), "packet"), " lacked:");
  const auto last = static_cast<int64_t>(lack.last_late_us()) -
                    static_cast<int64_t>(stage.closed_us());
  if (lack.late() == 0) return text + " never came.\n";
  const std::string when = AfterOf(last, "the close");
  if (lack.late() == lack.packets()) {
    return absl::StrCat(text, " the last came ", when, ".\n");
  }
  return absl::StrCat(text, " ", lack.late(), " came, the last ", when, ".\n");
}

std::string ExplainStage(const Op& op, const Stage& stage,
                         const std::string& name) {
  if (!stage.has_opened_us() && !stage.has_closed_us()) return "";
  std::string text = name;
  if (stage.has_opened_us()) {
    absl::StrAppend(&text, ": the first packet was in ",
                    AfterOf(SinceOrigin(op, stage.opened_us()), OriginName(op)),
                    ".");
  } else {
    text += ": no packet came.";
  }
  if (!stage.has_closed_us()) return text + " It is open.\n";
  absl::StrAppend(&text, " It closed ",
                  AfterOf(SinceOrigin(op, stage.closed_us()), OriginName(op)),
                  ", ", WhyItClosed(stage), ": ", stage.came(), " of ",
                  Count(stage.due(), "packet"), ".");
  if (stage.repaired() > 0) {
    absl::StrAppend(&text, " ", stage.repaired(),
                    " of them came only when sent again.");
  }
  text += "\n";
  for (const Lack& lack : stage.lacking()) {
    text += ExplainLack(stage, lack);
  }
  const uint32_t more =
      stage.lacking_ranks() - static_cast<uint32_t>(stage.lacking_size());
  if (more > 0)
    absl::StrAppend(&text, "  And ", Count(more, "more rank"), ".\n");
  return text;
}

std::string ExplainOwed(const OpsReply::Owed& owed) {
  std::string text;
  const auto add = [&text](uint64_t n, const std::string& what) {
    if (n > 0) absl::StrAppend(&text, Count(n, "element"), " ", what, "\n");
  };
  add(owed.residual(),
      "of this rank's contribution not summed: residual, to go with its next "
      "op of the bucket.");
  add(owed.held(),
      "of its contribution held, as nobody has said yet whether it was "
      "summed.");
  add(owed.in_place(), "of the result put in place after the end.");
  add(owed.debt(),
      "of the result came too late for that: debt, to come with a later op of "
      "the bucket.");
  add(owed.lacking(), "of the result still to come.");
  add(owed.forgiven_contributions(),
      "of its contribution given up, as nobody could answer for them.");
  add(owed.forgiven_results(),
      "of the result given up, as nobody could answer for them.");
  if (text.empty()) text = "Nothing of it became residual or debt.\n";
  if (owed.skipped()) text += "Its step was skipped: none of this is owed.\n";
  return text;
}

std::string ExplainSaved(const Op& op) {
  if (!HasResult(op)) return "";
  if (!op.has_saved_us()) {
    return "Time saved: unknown, as some packets never came.\n";
  }
  if (op.saved_us() == 0) {
    return "Time saved: none, as all its packets were here by its end.\n";
  }
  return absl::StrCat("Time saved: ", Span(static_cast<int64_t>(op.saved_us())),
                      ", until the last of its packets was here.\n");
}

std::string ExplainOp(const Op& op) {
  std::string text = absl::StrCat(WhatItIs(op), HowItEnded(op));
  if (!IsRemembered(op)) {
    return text + "The daemon remembers no more of it.\n";
  }
  absl::StrAppend(
      &text, HowItBegan(op),
      ExplainStage(op, op.stage1(), "Stage 1, contributions to its shard"),
      ExplainStage(op, op.stage2(), "Stage 2, results of all owners"));
  if (op.has_owed()) text += ExplainOwed(op.owed());
  return text + ExplainSaved(op);
}

}  // namespace

std::string OpsTable(const OpsReply& ops) {
  std::vector<Row> rows = {{"GROUP", "OP", "BUCKET", "STEP", "STATUS", "TOOK",
                            "STAGE1", "STAGE2", "MISSING", "LATE", "REPAIRED",
                            "RESIDUAL", "DEBT", "SAVED"}};
  for (const Op& op : ops.ops()) rows.push_back(OpRow(op));
  return Align(rows);
}

std::string ExplainOps(const OpsReply& ops) {
  std::vector<std::string> texts;
  for (const Op& op : ops.ops()) texts.push_back(ExplainOp(op));
  return absl::StrJoin(texts, "\n");
}

}  // namespace optireduce::control
