#include "dataplane/sim/conservation.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "dataplane/core/ledger.h"
#include "gradcodec/dtype.h"
#include "gradcodec/half.h"

namespace optireduce::sim {

namespace {

using gradcodec::Dtype;

double Element(Dtype dtype, const uint8_t* at, size_t i) {
  if (dtype == Dtype::kFloat32) {
    float value;
    std::memcpy(&value, at + 4 * i, 4);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, at + 2 * i, 2);
  return dtype == Dtype::kFloat16 ? gradcodec::HalfToFloat(half)
                                  : gradcodec::Bfloat16ToFloat(half);
}

// By how much a result may be rounded, relative to the sum.
double Rounding(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat16:
      return std::exp2(-11);
    case Dtype::kBfloat16:
      return std::exp2(-8);
    default:
      return std::exp2(-23);
  }
}

}  // namespace

bool Conservation::IsWatched(const core::OpDescriptor& op, size_t world) {
  return world > 1 && op.mode != core::Mode::kExact &&
         core::Ledger::Supports(op);
}

Conservation::Bucket* Conservation::Find(const core::OpDescriptor& op) {
  Bucket* bucket = &buckets_[op.bucket];
  if (bucket->truth.empty()) {
    bucket->op = op;
    bucket->truth.resize(op.count);
    bucket->magnitude.resize(op.count);
    bucket->residuals.resize(op.count);
    bucket->outputs.assign(world_, std::vector<double>(op.count));
    bucket->scales.assign(world_, 1);
    bucket->flushed.assign(world_, false);
  }
  const bool same_kind =
      bucket->op.collective == op.collective || op.mode == core::Mode::kFlush;
  if (bucket->op.count != op.count || bucket->op.dtype != op.dtype ||
      bucket->op.reduce_op != op.reduce_op || !same_kind) {
    bucket->ignored = true;
  }
  return bucket->ignored ? nullptr : bucket;
}

void Conservation::OnSkipped(const core::OpDescriptor& op, core::Rank rank) {
  Bucket* bucket = Find(op);
  if (bucket != nullptr) bucket->scales[rank.index()] = op.loss_scale;
}

void Conservation::OnUsed(const core::OpDescriptor& op, core::Rank rank,
                          std::span<const uint8_t> input,
                          std::span<const uint8_t> output) {
  Bucket* bucket = Find(op);
  if (bucket == nullptr) return;
  ++bucket->ops;
  bucket->scales[rank.index()] = op.loss_scale;
  bucket->flushed[rank.index()] =
      op.mode == core::Mode::kFlush && !output.empty();
  for (size_t i = 0; i < op.count; ++i) {
    const double gradient =
        Element(op.dtype, input.data(), i) / double{op.loss_scale};
    bucket->truth[i] += gradient;
    bucket->magnitude[i] += std::fabs(gradient);
  }
  std::vector<double>& applied = bucket->outputs[rank.index()];
  const size_t first = FirstOf(op, rank.index());
  for (size_t i = 0; i < output.size() / gradcodec::SizeOf(op.dtype); ++i) {
    applied[first + i] +=
        Element(op.dtype, output.data(), i) / double{op.loss_scale};
  }
}

size_t Conservation::FirstOf(const core::OpDescriptor& op, size_t rank) const {
  return op.collective == core::Collective::kReduceScatter
             ? rank * (op.count / world_)
             : 0;
}

std::string Conservation::OnSettled(core::Rank rank, core::GroupId group,
                                    const core::EngineCore& core) {
  RankState& state = ranks_[rank.index()];
  if (state.settled) return "";
  state.settled = true;
  const core::GroupStatus status = core.Status(group);
  for (const core::Forgiven& forgiven : status.forgiven) {
    state.forgiven.contributions += forgiven.contributions;
    state.forgiven.results += forgiven.results;
  }
  if (!status.ledger_quiet) return "a bucketed op is still open";
  for (auto& [key, bucket] : buckets_) {
    if (bucket.ignored) continue;
    std::vector<float> residual(bucket.op.count);
    std::vector<float> debt(bucket.op.count);
    if (!core.ReadBucket(group, key, residual.data(), debt.data())) continue;
    // A narrower type leaves what its rounding left.
    if (bucket.flushed[rank.index()] && bucket.op.dtype == Dtype::kFloat32 &&
        (std::ranges::count(residual, 0.0f) != std::ssize(residual) ||
         std::ranges::count(debt, 0.0f) != std::ssize(debt))) {
      return absl::StrCat("bucket ", key, " is not empty after its flush");
    }
    const double scale = bucket.scales[rank.index()];
    for (size_t i = 0; i < bucket.op.count; ++i) {
      bucket.residuals[i] += residual[i] / scale;
      bucket.outputs[rank.index()][i] += debt[i] / scale;
    }
  }
  return ++settled_ == world_ ? Check() : "";
}

std::string Conservation::Check() const {
  uint64_t contributions = 0;
  for (const RankState& rank : ranks_) {
    contributions += rank.forgiven.contributions;
  }
  for (size_t rank = 0; rank < world_; ++rank) {
    uint64_t differences = 0;
    for (const auto& [key, bucket] : buckets_) {
      if (!bucket.ignored) differences += Differences(bucket, rank);
    }
    const uint64_t allowed = contributions + ranks_[rank].forgiven.results;
    if (differences > allowed) {
      return absl::StrCat("rank ", rank, " has not got what all put in, in ",
                          differences,
                          " elements of its buckets; forgiven were ", allowed);
    }
  }
  return "";
}

uint64_t Conservation::Differences(const Bucket& bucket, size_t rank) const {
  const double share = bucket.op.reduce_op == gradcodec::ReduceOp::kSum
                           ? 1.0
                           : 1.0 / static_cast<double>(world_);
  const uint64_t roundings = 4 + 4 * bucket.ops / world_;
  const double slack =
      Rounding(bucket.op.dtype) * static_cast<double>(roundings);
  uint64_t differences = 0;
  const size_t first = FirstOf(bucket.op, rank);
  const size_t end = first + core::OutputBytes(bucket.op, world_) /
                                 gradcodec::SizeOf(bucket.op.dtype);
  for (size_t i = first; i < end; ++i) {
    const double got = bucket.outputs[rank][i] + share * bucket.residuals[i];
    if (std::fabs(got - share * bucket.truth[i]) >
        slack * share * bucket.magnitude[i]) {
      ++differences;
    }
  }
  return differences;
}

}  // namespace optireduce::sim
