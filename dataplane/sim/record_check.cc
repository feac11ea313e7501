#include "dataplane/sim/record_check.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace optireduce::sim {
namespace {

using core::EndCause;
using core::Mode;
using core::OpRecord;
using core::OpReport;
using core::OpStatus;
using core::OwedRecord;
using core::StageRecord;

// What ranks are said to lack is what lacks. A rank of an exact op may have
// results behind a gap.
std::string CheckLacking(const OpRecord& record, const StageRecord& stage) {
  uint64_t packets = 0;
  for (const StageRecord::Lack& lack : stage.lacking()) {
    packets += lack.packets;
    if (lack.packets == 0 || lack.late > lack.packets) {
      return absl::StrCat("rank ", lack.rank.value(), " lacked ", lack.packets,
                          " packets, and ", lack.late, " came late");
    }
  }
  const uint64_t lacked = stage.due() - stage.came();
  const bool exact = record.descriptor.mode != Mode::kBounded;
  const bool all_named = stage.lacking().size() == stage.lacking_ranks();
  const bool good = packets == lacked || (exact && packets > lacked) ||
                    (!all_named && packets < lacked);
  return good ? ""
              : absl::StrCat(lacked, " packets lacked, but of ",
                             stage.lacking_ranks(), " ranks ", packets);
}

std::string CheckStage(const OpRecord& record, const StageRecord& stage) {
  if (stage.closed() == Timestamp::Never()) return "";
  if (stage.came() + stage.late() > stage.due()) {
    return absl::StrCat(stage.came(), " packets and ", stage.late(),
                        " late ones of ", stage.due());
  }
  if (stage.came() > 0 && stage.opened() == Timestamp::Never()) {
    return "it is not known when the first packet came";
  }
  return CheckLacking(record, stage);
}

std::string CheckOwed(const OpRecord& record) {
  const OwedRecord& owed = record.history.owed;
  const uint64_t elements = record.descriptor.count;
  const uint64_t contributions =
      owed.residual + owed.held + owed.forgiven_contributions;
  const uint64_t results =
      owed.in_place + owed.debt + owed.lacking + owed.forgiven_results;
  if (record.descriptor.bucket == 0 && !(owed == OwedRecord())) {
    return "owes without a bucket";
  }
  return contributions <= elements && results <= elements
             ? ""
             : absl::StrCat("owes ", contributions, " and ", results, " of ",
                            elements, " elements");
}

}  // namespace

std::string CheckRecord(const OpRecord& record) {
  for (const StageRecord& stage : record.history.stages) {
    if (std::string wrong = CheckStage(record, stage); !wrong.empty()) {
      return absl::StrCat("stage ", &stage - record.history.stages.data() + 1,
                          ": ", wrong);
    }
  }
  const StageRecord& last = record.history.stages[1];
  if (last.closed() != Timestamp::Never() && last.cause() == EndCause::kAllIn &&
      last.came() < last.due()) {
    return "ended with all in, but results lack";
  }
  return CheckOwed(record);
}

std::string CheckRecordOf(const OpRecord& record, const OpReport& report) {
  // It was given up before its submit.
  if (!record.has_ended() && report.status == OpStatus::kExpired) return "";
  if (!record.has_ended()) return "was reported, but is said to go on";
  if (record.report.status != report.status ||
      record.report.cause != report.cause ||
      record.report.closed != report.closed) {
    return "is said to have ended otherwise than it was reported";
  }
  const StageRecord& last = record.history.stages[1];
  const bool agrees =
      last.closed() == Timestamp::Never() ||
      (last.closed() == report.closed && last.cause() == report.cause);
  return agrees ? "" : "its last stage closed otherwise than the op";
}

}  // namespace optireduce::sim
