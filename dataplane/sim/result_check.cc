#include "dataplane/sim/result_check.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dataplane/sim/codec_check.h"
#include "dataplane/sim/conservation.h"
#include "gradcodec/dtype.h"

namespace optireduce::sim {

namespace {

using core::ChunkInfo;
using core::Collective;
using core::Rank;

using Ranks = std::vector<Rank>;

// A bounded op at one rank: an all-reduce, or a reduce-scatter of which it gets
// its own shard.
class BoundedCheck {
 public:
  BoundedCheck(const core::OpDescriptor& op, const core::GroupConfig& config,
               Rank rank, std::span<const uint8_t> output, OpRun* run)
      : op_(op), config_(config), rank_(rank), output_(output), run_(run) {}

  std::string Run(const core::OpReport& report) {
    if (Conservation::IsWatched(op_, world())) return CheckBucketed(report);
    if (op_.codec == core::Codec::kHadamard) return CheckCoded(report);
    std::string wrong = CheckPlain();
    return wrong.empty() ? CheckReport(report) : wrong;
  }

 private:
  size_t world() const { return run_->inputs.size(); }
  size_t size() const { return gradcodec::SizeOf(op_.dtype); }

  bool IsOutput(const ChunkInfo& info) const {
    return op_.collective == Collective::kAllReduce || info.owner == rank_;
  }
  const uint8_t* OutputAt(const ChunkInfo& info) const {
    const size_t skipped = op_.collective == Collective::kAllReduce
                               ? 0
                               : rank_.index() * (op_.count / world());
    return output_.data() + (info.first - skipped) * size();
  }

  // ---- whose contributions are in a chunk

  Ranks WithOwner(const ChunkInfo& info) const {
    Ranks ranks = run_->ledger.Accepted(info.chunk);
    ranks.push_back(info.owner);
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }

  // The set that goes with a number of contributors: those whose data the owner
  // accepted, with the owner or without. Nothing if no such set fits.
  std::optional<Ranks> SetOf(const ChunkInfo& info, size_t contributors) const {
    Ranks accepted = run_->ledger.Accepted(info.chunk);
    if (contributors == accepted.size()) return accepted;
    if (contributors == accepted.size() + 1) return WithOwner(info);
    return std::nullopt;
  }

  std::string BadSet(const ChunkInfo& info, size_t contributors) const {
    return absl::StrCat("chunk ", info.chunk, ": c is ", contributors,
                        ", its owner accepted ",
                        run_->ledger.Accepted(info.chunk).size());
  }

  // At its owner a chunk's result comes in no packet.
  bool IsAbsent(const ChunkInfo& info) const {
    return info.owner != rank_ && !run_->ledger.HasResult(rank_, info.chunk);
  }

  // An element to which nobody contributed is absent, also if its owner said
  // so.
  void Tally(const ChunkInfo& info, size_t contributors) {
    account_.elements += info.elements;
    account_.contributions += uint64_t{info.elements} * contributors;
    if (contributors == 0) {
      account_.absent += info.elements;
    } else {
      account_.least = std::min(account_.least, contributors);
    }
  }

  // What stands where no result came.
  Ranks Fill() const {
    if (config_.fill == core::FillPolicy::kOwn) return {rank_};
    return {};
  }

  // ---- values, but for the Hadamard codec's: equal bit for bit

  bool Equals(const ChunkInfo& info, const Ranks& contributors) {
    const uint8_t* const at = OutputAt(info);
    if (contributors.size() == world()) {
      return std::memcmp(at, FullResult().data() + info.first * size(),
                         info.elements * size()) == 0;
    }
    const std::vector<uint8_t> expected = PartialResult(
        op_, run_->inputs, contributors, info.first, info.elements);
    return std::memcmp(at, expected.data(), expected.size()) == 0;
  }

  // Over all ranks; computed once for the whole op.
  const std::vector<uint8_t>& FullResult() {
    if (run_->full_result.empty()) {
      Ranks all;
      for (size_t i = 0; i < world(); ++i) {
        all.emplace_back(static_cast<uint16_t>(i));
      }
      run_->full_result = PartialResult(op_, run_->inputs, all, 0, op_.count);
    }
    return run_->full_result;
  }

  std::string CheckPlain() {
    for (const ChunkInfo& info : run_->ledger.chunks()) {
      if (!IsOutput(info)) continue;
      std::string wrong =
          info.owner == rank_ ? CheckOwnChunk(info) : CheckChunk(info);
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

  std::string CheckChunk(const ChunkInfo& info) {
    if (IsAbsent(info)) {
      Tally(info, 0);
      return Equals(info, Fill())
                 ? ""
                 : absl::StrCat("chunk ", info.chunk,
                                ": absent, but not as the fill policy says");
    }
    const size_t c = run_->ledger.Announced(info.chunk).value_or(0);
    const std::optional<Ranks> contributors = SetOf(info, c);
    if (!contributors) return BadSet(info, c);
    Tally(info, c);
    return Equals(info, *contributors)
               ? ""
               : absl::StrCat("chunk ", info.chunk, ": not the result of its ",
                              c, " contributors");
  }

  // Whether the owner's own contribution is in, or whether the chunk was frozen
  // in time at all, shows in the value; packets must say the same.
  std::string CheckOwnChunk(const ChunkInfo& info) {
    const Ranks accepted = run_->ledger.Accepted(info.chunk);
    const Ranks with_owner = WithOwner(info);
    const auto announced = run_->ledger.Announced(info.chunk);
    size_t used = 0;
    if (with_owner == Fill() && Equals(info, with_owner)) {
      // Frozen with the own input alone, or absent and filled with it: the
      // account says.
      own_or_fill_.push_back(info);
      return "";
    }
    if (announced.value_or(with_owner.size()) == with_owner.size() &&
        Equals(info, with_owner)) {
      used = with_owner.size();
    } else if (!accepted.empty() && Equals(info, accepted)) {
      used = accepted.size();
    } else if (!Equals(info, Fill()) && !Equals(info, {})) {
      return absl::StrCat("own chunk ", info.chunk, ": not the result of the ",
                          accepted.size(), " accepted, nor with the own");
    }
    Tally(info, used);
    return used == 0
               ? ""
               : run_->ledger.Settle(info.chunk, static_cast<uint16_t>(used));
  }

  // ---- values under the Hadamard codec: close

  // Own chunks whose packets have not gone yet leave open what is in them. The
  // own input goes in in the order of the own stream, so its first `own_in`
  // chunks have it; and either all chunks were frozen in time, or the complete
  // ones alone.
  struct OwnGuess {
    uint32_t own_in = 0;
    bool all_frozen = true;
  };

  std::string CheckCoded(const core::OpReport& report) {
    if (run_->codec == nullptr) {
      run_->codec = std::make_unique<CodecReference>(
          op_, run_->inputs,
          core::SignSeed(config_.tag, report.op_seq, op_.bucket));
    }
    const uint32_t own = run_->ledger.plan().ChunksOf(rank_);
    std::string wrong = CheckGuess({own, true}, report);
    for (uint32_t less = 0; less <= own && !wrong.empty(); ++less) {
      wrong = CheckGuess({own - less, false}, report);
      if (!wrong.empty()) wrong = CheckGuess({own - less, true}, report);
    }
    return wrong;
  }

  std::string CheckGuess(const OwnGuess& guess, const core::OpReport& report) {
    account_ = {};
    std::vector<CodedChunk> chunks;
    for (const ChunkInfo& info : run_->ledger.chunks()) {
      if (NeverCame(info, guess)) {
        Tally(info, 0);
        chunks.push_back({info, Fill()});
        continue;
      }
      const std::optional<Ranks> contributors = CodedSet(info, guess);
      if (!contributors) {
        return BadSet(info, run_->ledger.Announced(info.chunk).value_or(0));
      }
      Tally(info, contributors->size());
      chunks.push_back({info, *contributors});
    }
    if (!run_->codec->Fits(chunks, output_)) {
      return "not the decoded result of its contributors";
    }
    return CheckReport(report);
  }

  // Its place is filled. A result over nobody is none of these: it is 0.
  bool NeverCame(const ChunkInfo& info, const OwnGuess& guess) const {
    if (info.owner != rank_) return IsAbsent(info);
    return !run_->ledger.Announced(info.chunk) && !guess.all_frozen &&
           OwnSet(info, guess).size() < world();
  }

  std::optional<Ranks> CodedSet(const ChunkInfo& info,
                                const OwnGuess& guess) const {
    if (const auto announced = run_->ledger.Announced(info.chunk)) {
      return SetOf(info, *announced);
    }
    return OwnSet(info, guess);
  }

  Ranks OwnSet(const ChunkInfo& info, const OwnGuess& guess) const {
    const uint32_t chunks = run_->ledger.plan().ChunksOf(rank_);
    const uint32_t offset =
        core::StreamOffset(config_.tag, run_->seq, rank_, rank_, chunks);
    const uint32_t position = (info.local + chunks - offset) % chunks;
    return position < guess.own_in ? WithOwner(info)
                                   : run_->ledger.Accepted(info.chunk);
  }

  // ---- with residuals and debts: the account alone

  // What is in the values shows when all ranks are through (conservation.h).
  // Own chunks whose packets have not gone yet may hold anything.
  std::string CheckBucketed(const core::OpReport& report) {
    uint64_t open = 0;
    for (const ChunkInfo& info : run_->ledger.chunks()) {
      if (!IsOutput(info)) continue;
      const auto announced = run_->ledger.Announced(info.chunk);
      if (info.owner == rank_ && !announced) {
        open += info.elements;
        continue;
      }
      const size_t c = IsAbsent(info) ? 0 : announced.value_or(0);
      if (!IsAbsent(info) && !SetOf(info, c)) return BadSet(info, c);
      Tally(info, c);
    }
    if (open == 0) return CheckReport(report);
    const bool fits =
        report.elements == account_.elements + open &&
        report.absent >= account_.absent &&
        report.absent <= account_.absent + open &&
        report.contributions >= account_.contributions &&
        report.contributions <= account_.contributions + open * world();
    return fits ? "" : "reports more or less than came";
  }

  // ---- the account

  std::string CheckReport(const core::OpReport& report) {
    for (const ChunkInfo& info : own_or_fill_) {
      const bool absent = account_.absent + info.elements <= report.absent;
      Tally(info, absent ? 0 : 1);
    }
    if (report.elements != account_.elements) {
      return absl::StrCat("reports ", report.elements, " elements of ",
                          account_.elements);
    }
    if (report.absent != account_.absent) {
      return absl::StrCat("reports ", report.absent, " absent elements, ",
                          account_.absent, " are");
    }
    if (report.contributions != account_.contributions) {
      return absl::StrCat("reports ", report.contributions,
                          " contributions of ", account_.contributions);
    }
    if (report.absent < report.elements &&
        report.min_contributors != account_.least) {
      return absl::StrCat("reports a least c of ", report.min_contributors,
                          ", it is ", account_.least);
    }
    const bool complete = account_.contributions == account_.elements * world();
    if (complete != (report.status == core::OpStatus::kComplete)) {
      return complete ? "reports partial, nothing is missing"
                      : "reports complete, something is missing";
    }
    return "";
  }

  struct Account {
    uint64_t elements = 0;
    uint64_t absent = 0;
    uint64_t contributions = 0;
    size_t least = SIZE_MAX;  // contributors of an element, where not absent
  };

  const core::OpDescriptor& op_;
  const core::GroupConfig& config_;
  Rank rank_;
  std::span<const uint8_t> output_;
  OpRun* run_;
  Account account_;
  std::vector<ChunkInfo> own_or_fill_;
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

std::string CheckResult(const core::OpDescriptor& op,
                        const core::GroupConfig& config, Rank rank,
                        std::span<const uint8_t> output,
                        const core::OpReport& report, OpRun* run) {
  if (op.mode == core::Mode::kFlush) {
    const bool whole = report.status == core::OpStatus::kComplete &&
                       report.absent == 0 && report.Stage1Loss() == 0;
    return whole ? "" : "a flush, but not complete";
  }
  // A world of one gets its input back, bit for bit, in any mode and codec.
  if (op.mode == core::Mode::kExact || run->inputs.size() == 1) {
    return CheckExact(op, rank, output, report, run);
  }
  return BoundedCheck(op, config, rank, output, run).Run(report);
}

}  // namespace optireduce::sim
