// Trainers that use one bucket after the other of a whole group, and know what
// they must have got in the end.

#ifndef OPTIREDUCE_DATAPLANE_CORE_BUCKET_TESTING_H_
#define OPTIREDUCE_DATAPLANE_CORE_BUCKET_TESTING_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/core/engine_core.h"
#include "dataplane/core/group_testing.h"
#include "dataplane/core/testing.h"

namespace optireduce::core {

inline OpDescriptor Bucketed(uint64_t count, uint64_t bucket, uint64_t step) {
  OpDescriptor op = AllReduce(count, Mode::kBounded, gradcodec::ReduceOp::kAvg);
  op.bucket = bucket;
  op.step = step;
  return op;
}

inline size_t Close(TestNet* net, size_t rank, uint64_t step,
                    StepOutcome outcome) {
  return net->core(rank).CloseStep(net->group(rank), step, outcome, net->now());
}

inline constexpr size_t kWorld = 4;
inline constexpr uint64_t kCount = 400;

// Trainers that submit one op after the other of one bucket, in place, and know
// what they must have got of it in the end.
class BucketNet {
 public:
  explicit BucketNet(const GroupConfig& settings = FastSettings())
      : net_(kWorld, settings) {
    FormOrDie(&net_, kWorld);
    for (auto& sum : applied_) sum.resize(kCount);
    truth_.resize(kCount);
  }

  TestNet& net() { return net_; }
  Buffers& buffers(size_t op) { return buffers_[op]; }

  // New buffers. Inputs are whole numbers without order.
  void Draw() {
    Buffers& values = buffers_.emplace_back(kWorld, kCount);
    for (size_t r = 0; r < kWorld; ++r) {
      for (size_t i = 0; i < kCount; ++i) {
        values.values[r][i] = static_cast<float>(8 * (++drawn_ * 7919 % 97));
      }
      inputs_.push_back(values.values[r]);
    }
  }
  // All but `absent` submit an op with new buffers.
  void Submit(const OpDescriptor& op, bool counts = true,
              std::optional<size_t> absent = {}) {
    Draw();
    for (size_t r = 0; r < kWorld; ++r) {
      if (absent == r) continue;
      SubmitOne(r, op, counts);
    }
  }
  // Of the newest op.
  SubmitResult SubmitOne(size_t rank, const OpDescriptor& op,
                         bool counts = true) {
    const std::vector<float>& input = inputs_[inputs_.size() - kWorld + rank];
    const SubmitResult result =
        net_.Submit(rank, op, buffers_.back().View(rank));
    if (counts && result == SubmitResult::kAccepted) {
      Add(input, 1.0 / kWorld, &truth_);
    }
    return result;
  }
  // The rank uses its output of an op as it is now.
  void Use(size_t rank, size_t op) {
    Add(buffers_[op].values[rank], 1, &applied_[rank]);
  }
  // By how much the rank's parameters differ from what they should be, once
  // residuals and debts are in; the most over all elements.
  double Difference(size_t rank, uint64_t bucket) {
    std::vector<double> sum = applied_[rank];
    std::vector<float> residual(kCount);
    std::vector<float> debt(kCount);
    for (size_t r = 0; r < kWorld; ++r) {
      if (!net_.core(r).ReadBucket(net_.group(r), bucket, residual.data(),
                                   debt.data())) {
        continue;
      }
      Add(residual, 1.0 / kWorld, &sum);
      if (r == rank) Add(debt, 1, &sum);
    }
    double most = 0;
    for (size_t i = 0; i < kCount; ++i) {
      most = std::max(most, std::fabs(sum[i] - truth_[i]));
    }
    return most;
  }
  // All of it, at every rank, and nothing was forgiven.
  bool IsConserved(uint64_t bucket) {
    for (size_t r = 0; r < kWorld; ++r) {
      if (Difference(r, bucket) > 1e-3 ||
          Status(r).forgiven != ForgivenCounts{}) {
        return false;
      }
    }
    return true;
  }
  GroupStatus Status(size_t rank) {
    return net_.core(rank).Status(net_.group(rank));
  }
  size_t CountEvents(size_t rank, EventKind kind) {
    return static_cast<size_t>(std::ranges::count_if(
        net_.events(rank),
        [kind](const Event& event) { return event.kind == kind; }));
  }
  void Lose(wire::PacketType type, size_t from, size_t to,
            bool repairs = false) {
    net_.set_filter([=](const wire::Header& header, Rank source, Rank target) {
      return header.type != type || source.index() != from ||
             target.index() != to ||
             (!repairs && (header.flags & wire::kFlagRepair) != 0);
    });
  }
  void LoseNothing() { net_.set_filter(nullptr); }

 private:
  template <typename T>
  static void Add(const std::vector<T>& values, double factor,
                  std::vector<double>* sum) {
    for (size_t i = 0; i < kCount; ++i) (*sum)[i] += values[i] * factor;
  }

  TestNet net_;
  std::vector<Buffers> buffers_;
  std::vector<std::vector<float>> inputs_;
  std::vector<double> applied_[kWorld];
  std::vector<double> truth_;
  uint64_t drawn_ = 0;
};

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_BUCKET_TESTING_H_
