#include "dataplane/sim/result_check.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gradcodec/accumulate.h"
#include "gradcodec/contribution.h"
#include "gradcodec/dtype.h"

namespace optireduce::sim {

namespace {

using core::ChunkInfo;
using core::Collective;
using core::Rank;

// Bounded, without a codec.
class BoundedCheck {
 public:
  BoundedCheck(const core::OpDescriptor& op, core::FillPolicy fill, Rank rank,
               std::span<const uint8_t> output, OpRun* run)
      : op_(op), fill_(fill), rank_(rank), output_(output), run_(run) {}

  std::string Run(const core::OpReport& report) {
    for (const ChunkInfo& info : run_->ledger.chunks()) {
      if (op_.collective == Collective::kReduceScatter && info.owner != rank_) {
        continue;
      }
      if (std::string wrong = CheckChunk(info); !wrong.empty()) {
        return absl::StrCat("chunk ", info.chunk, ": ", wrong);
      }
    }
    return CheckReport(report);
  }

 private:
  size_t world() const { return run_->inputs.size(); }
  size_t size() const { return gradcodec::SizeOf(op_.dtype); }

  // Where the chunk is in the output.
  const uint8_t* At(const ChunkInfo& info) const {
    const uint64_t first =
        op_.collective == Collective::kReduceScatter
            ? info.first - rank_.value() * (op_.count / world())
            : info.first;
    return output_.data() + first * size();
  }

  void Tally(const ChunkInfo& info, uint32_t contributors) {
    tally_.Add(info.elements, contributors);
    contributions_ += uint64_t{info.elements} * contributors;
  }

  // The result over all ranks is computed once for the whole op.
  bool EqualsFull(const ChunkInfo& info) {
    std::vector<uint8_t>& full = run_->full_result;
    if (full.empty()) {
      std::vector<Rank> all;
      for (size_t i = 0; i < world(); ++i) {
        all.emplace_back(static_cast<uint16_t>(i));
      }
      full = PartialResult(op_, run_->inputs, all, 0, op_.count);
    }
    return std::memcmp(At(info), full.data() + info.first * size(),
                       info.elements * size()) == 0;
  }

  bool Equals(const ChunkInfo& info, const std::vector<Rank>& contributors) {
    if (contributors.size() == world()) return EqualsFull(info);
    const std::vector<uint8_t> expected = PartialResult(
        op_, run_->inputs, contributors, info.first, info.elements);
    return std::memcmp(At(info), expected.data(), expected.size()) == 0;
  }

  // What stands where no result came.
  bool EqualsFill(const ChunkInfo& info) {
    std::vector<uint8_t> expected(info.elements * size(), 0);
    if (fill_ == core::FillPolicy::kOwn) {
      const Rank self[] = {rank_};
      expected =
          PartialResult(op_, run_->inputs, self, info.first, info.elements);
    }
    return std::memcmp(At(info), expected.data(), expected.size()) == 0;
  }

  std::vector<Rank> WithOwner(std::vector<Rank> accepted,
                              const ChunkInfo& info) {
    accepted.push_back(info.owner);
    std::sort(accepted.begin(), accepted.end());
    return accepted;
  }

  std::string CheckChunk(const ChunkInfo& info) {
    if (info.owner == rank_) return CheckOwnChunk(info);
    if (!run_->ledger.HasResult(rank_, info.chunk)) {
      Tally(info, 0);
      return EqualsFill(info) ? "" : "absent, but not as the fill policy says";
    }
    const uint16_t c = run_->ledger.Announced(info.chunk).value_or(0);
    std::vector<Rank> contributors = run_->ledger.Accepted(info.chunk);
    if (c == contributors.size() + 1) {
      contributors = WithOwner(std::move(contributors), info);
    }
    if (c != contributors.size()) {
      return absl::StrCat("c is ", c, ", its owner accepted ",
                          contributors.size());
    }
    Tally(info, c);
    return Equals(info, contributors)
               ? ""
               : absl::StrCat("not the result of its ", c, " contributors");
  }

  // The owner's part: whether its own contribution is in, or whether the chunk
  // was frozen in time at all, shows only in the value.
  std::string CheckOwnChunk(const ChunkInfo& info) {
    const std::vector<Rank> accepted = run_->ledger.Accepted(info.chunk);
    const std::vector<Rank> with_owner = WithOwner(accepted, info);
    const auto announced = run_->ledger.Announced(info.chunk);
    std::optional<size_t> used;
    if (Equals(info, with_owner) &&
        (!announced || *announced == with_owner.size())) {
      used = with_owner.size();
    } else if (!accepted.empty() && Equals(info, accepted)) {
      used = accepted.size();
    } else if (!EqualsFill(info)) {
      return absl::StrCat("own chunk: not the result of the ", accepted.size(),
                          " accepted, nor with the own");
    }
    Tally(info, static_cast<uint32_t>(used.value_or(0)));
    if (!used) return "";
    return run_->ledger.Settle(info.chunk, static_cast<uint16_t>(*used));
  }

  std::string CheckReport(const core::OpReport& report) const {
    if (report.elements != tally_.elements()) {
      return absl::StrCat("reports ", report.elements, " elements of ",
                          tally_.elements());
    }
    if (report.absent != tally_.absent()) {
      return absl::StrCat("reports ", report.absent, " absent elements, ",
                          tally_.absent(), " are");
    }
    if (report.contributions != contributions_) {
      return absl::StrCat("reports ", report.contributions,
                          " contributions of ", contributions_);
    }
    if (report.absent < report.elements &&
        report.min_contributors != tally_.k_min()) {
      return absl::StrCat("reports a least c of ", report.min_contributors,
                          ", it is ", tally_.k_min());
    }
    const bool complete = tally_.complete(static_cast<uint32_t>(world()));
    if (complete != (report.status == core::OpStatus::kComplete)) {
      return complete ? "reports partial, nothing is missing"
                      : "reports complete, something is missing";
    }
    return "";
  }

  const core::OpDescriptor& op_;
  core::FillPolicy fill_;
  Rank rank_;
  std::span<const uint8_t> output_;
  OpRun* run_;
  gradcodec::ContributionTally tally_;
  uint64_t contributions_ = 0;
};

std::string CheckExact(const core::OpDescriptor& op, Rank rank,
                       std::span<const uint8_t> output,
                       const core::OpReport& report, OpRun* run) {
  if (report.status != core::OpStatus::kComplete) return "exact, but partial";
  if (report.absent != 0 || report.Stage1Loss() != 0) {
    return "exact, but reports a loss";
  }
  if (op.collective == Collective::kAllReduce) {
    if (run->full_result.empty() && op.count > 0) {
      run->full_result = ExactResult(op, run->inputs, rank);
    }
    return std::ranges::equal(output, run->full_result)
               ? ""
               : "not the sum in rank order";
  }
  return std::ranges::equal(output, ExactResult(op, run->inputs, rank))
             ? ""
             : "not the exact result";
}

}  // namespace

std::string CheckResult(const core::OpDescriptor& op, core::FillPolicy fill,
                        Rank rank, std::span<const uint8_t> output,
                        const core::OpReport& report, OpRun* run) {
  if (op.mode == core::Mode::kExact) {
    return CheckExact(op, rank, output, report, run);
  }
  return BoundedCheck(op, fill, rank, output, run).Run(report);
}

}  // namespace optireduce::sim
