#include "client/verdict.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "dataplane/base/byte_order.h"

namespace optireduce::client {
namespace {

constexpr uint8_t kVersion = 1;
constexpr uint8_t kNonFinite = 1;
constexpr uint8_t kHasSketch = 2;
constexpr size_t kSketchOffset = 64;

using Sums = std::array<double, OR_SKETCH_SUMS>;

void AddRank(size_t rank, uint64_t (&bits)[OR_MAX_WORLD / 64],
             uint32_t* count) {
  bits[rank / 64] |= uint64_t{1} << (rank % 64);
  ++*count;
}

bool HaveSketches(std::span<const StepRecord> records) {
  return std::all_of(records.begin(), records.end(),
                     [](const StepRecord& r) { return r.sketch.has_value(); });
}

Sums MeanSketch(std::span<const StepRecord> records) {
  Sums mean{};
  for (const StepRecord& record : records) {
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += (*record.sketch)[i];
  }
  for (double& sum : mean) sum /= static_cast<double>(records.size());
  return mean;
}

// The length of `sketch` minus `mean`.
double Distance(const std::array<float, OR_SKETCH_SUMS>& sketch,
                const Sums& mean) {
  double squares = 0;
  for (size_t i = 0; i < mean.size(); ++i) {
    const double difference = static_cast<double>(sketch[i]) - mean[i];
    squares += difference * difference;
  }
  return std::sqrt(squares);
}

bool IsFinite(const std::array<float, OR_SKETCH_SUMS>& sketch) {
  return std::all_of(sketch.begin(), sketch.end(),
                     [](float sum) { return std::isfinite(sum); });
}

void JudgeDivergence(std::span<const StepRecord> records, or_verdict* verdict) {
  verdict->divergence = -1;
  if (!HaveSketches(records)) return;
  for (size_t rank = 0; rank < records.size(); ++rank) {
    if (IsFinite(*records[rank].sketch)) continue;
    verdict->divergence = std::numeric_limits<double>::infinity();
    verdict->divergent_rank = static_cast<uint32_t>(rank);
    return;
  }
  const Sums mean = MeanSketch(records);
  const double length = Distance({}, mean);
  verdict->divergence = 0;
  for (size_t rank = 0; rank < records.size(); ++rank) {
    const double distance = Distance(*records[rank].sketch, mean);
    // Parameters whose mean is zero differ by all that they have.
    const double share = distance == 0 ? 0 : distance / length;
    if (share > verdict->divergence) {
      verdict->divergence = share;
      verdict->divergent_rank = static_cast<uint32_t>(rank);
    }
  }
}

}  // namespace

void EncodeRecord(const StepRecord& record,
                  std::span<uint8_t, kRecordBytes> out) {
  std::fill(out.begin(), out.end(), uint8_t{0});
  uint8_t* const bytes = out.data();
  bytes[0] = kVersion;
  bytes[1] = static_cast<uint8_t>((record.account.non_finite ? kNonFinite : 0) |
                                  (record.sketch.has_value() ? kHasSketch : 0));
  StoreLe32(bytes + 4, record.bad_steps);
  StoreLe64(bytes + 8, record.step);
  StoreLe64(bytes + 16, std::bit_cast<uint64_t>(record.account.present));
  StoreLe64(bytes + 24, record.account.absent);
  StoreLe64(bytes + 32, std::bit_cast<uint64_t>(record.min_fraction));
  StoreLe32(bytes + 40, record.halt_after);
  if (!record.sketch.has_value()) return;
  for (size_t i = 0; i < OR_SKETCH_SUMS; ++i) {
    StoreLe32(bytes + kSketchOffset + 4 * i,
              std::bit_cast<uint32_t>((*record.sketch)[i]));
  }
}

std::optional<StepRecord> DecodeRecord(
    std::span<const uint8_t, kRecordBytes> in) {
  const uint8_t* const bytes = in.data();
  const uint8_t flags = bytes[1];
  if (bytes[0] != kVersion || (flags & ~(kNonFinite | kHasSketch)) != 0) {
    return std::nullopt;
  }
  StepRecord record;
  record.account.non_finite = (flags & kNonFinite) != 0;
  record.bad_steps = LoadLe32(bytes + 4);
  record.step = LoadLe64(bytes + 8);
  record.account.present = std::bit_cast<double>(LoadLe64(bytes + 16));
  record.account.absent = LoadLe64(bytes + 24);
  record.min_fraction = std::bit_cast<double>(LoadLe64(bytes + 32));
  record.halt_after = LoadLe32(bytes + 40);
  if ((flags & kHasSketch) == 0) return record;
  record.sketch.emplace();
  for (size_t i = 0; i < OR_SKETCH_SUMS; ++i) {
    (*record.sketch)[i] =
        std::bit_cast<float>(LoadLe32(bytes + kSketchOffset + 4 * i));
  }
  return record;
}

or_verdict Judge(std::span<const StepRecord> records) {
  or_verdict verdict{};
  verdict.struct_size = sizeof(verdict);
  verdict.step = records.front().step;
  verdict.world = static_cast<uint32_t>(records.size());
  verdict.halt_after = records.front().halt_after;
  verdict.least_present = records.front().account.present;
  uint32_t bad_before = 0;
  for (size_t rank = 0; rank < records.size(); ++rank) {
    const StepRecord& record = records[rank];
    const StepAccount& account = record.account;
    if (account.present < verdict.least_present) {
      verdict.least_present = account.present;
      verdict.least_present_rank = static_cast<uint32_t>(rank);
    }
    if (account.absent != 0) {
      AddRank(rank, verdict.lacking, &verdict.lacking_count);
    }
    if (account.non_finite) {
      AddRank(rank, verdict.non_finite, &verdict.non_finite_count);
    }
    verdict.absent += account.absent;
    verdict.min_fraction = std::max(verdict.min_fraction, record.min_fraction);
    verdict.halt_after = std::min(verdict.halt_after, record.halt_after);
    bad_before = std::max(bad_before, record.bad_steps);
  }
  verdict.below_floor = verdict.least_present < verdict.min_fraction ? 1 : 0;
  const bool is_bad = verdict.below_floor != 0 || verdict.non_finite_count != 0;
  verdict.bad_steps = is_bad ? bad_before + 1 : 0;
  verdict.halt_advised =
      is_bad && verdict.bad_steps >= verdict.halt_after ? 1 : 0;
  JudgeDivergence(records, &verdict);
  return verdict;
}

}  // namespace optireduce::client
