#include "client/optiperf/check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "gradcodec/accumulate.h"
#include "gradcodec/reduce.h"

namespace optireduce::optiperf {
namespace {

using gradcodec::Dtype;
using gradcodec::ReduceOp;

constexpr size_t kBlock = 4096;  // elements checked at a time
constexpr double kLargestSmooth = 64;

// How far an element of a complete result may be off, in parts of the largest.
// Contributions are exact in 16 bits, so that only the result is rounded.
double ToleranceOf(or_codec codec) {
  switch (codec) {
    case OR_CODEC_BFLOAT16:
      return 0x1p-8;
    case OR_CODEC_FLOAT16:
      return 0x1p-11;
    default:
      return 1e-5;
  }
}

bool Reduces(or_collective collective) {
  return collective == OR_ALL_REDUCE || collective == OR_REDUCE_SCATTER;
}

// Elements as double, for distances. Integers are only ever exact: 0 and 1 do.
void Widen(Dtype dtype, const void* elements, size_t n, double* out) {
  if (!gradcodec::IsFloating(dtype)) {
    std::fill_n(out, n, 0.0);
    return;
  }
  if (dtype == Dtype::kFloat64) {
    std::memcpy(out, elements, n * sizeof(double));
    return;
  }
  std::vector<float> wide(n);
  gradcodec::AccumulateFirst(dtype, elements, wide.data(), n);
  std::copy(wide.begin(), wide.end(), out);
}

class BlockChecker {
 public:
  explicit BlockChecker(const Checked& checked, const Claim& claim)
      : checked_(checked),
        claim_(claim),
        bytes_(gradcodec::SizeOf(checked.dtype)),
        complete_(
            checked.mode == OR_EXACT ||
            (claim.absent == 0 &&
             claim.contributions == checked.OutputElements() * checked.world)),
        search_(checked.dtype, checked.op,
                std::min(checked.world, ContributorSearch::kMaxWorld)),
        expected_(kBlock * bytes_) {
    const size_t ranks = Reduces(checked.collective) ? checked.world : 1;
    contributions_.resize(ranks * kBlock * bytes_);
  }

  void Check(uint64_t iteration, uint64_t first, size_t n, const void* output) {
    Expect(iteration, first, n);
    AddDistance(n, output);
    const auto* bytes = static_cast<const unsigned char*>(output);
    if (complete_ && checked_.codec == OR_CODEC_NONE) {
      if (std::memcmp(bytes, expected_.data(), n * bytes_) == 0) return;
      for (size_t i = 0; i < n; ++i) {
        verdict_.wrong += std::memcmp(bytes + i * bytes_,
                                      &expected_[i * bytes_], bytes_) != 0;
      }
    } else if (checked_.codec != OR_CODEC_NONE) {
      CheckCoded(n, output);
    } else {
      CheckPartial(n, bytes);
    }
  }

  Verdict Finish() {
    if (!complete_ && checked_.codec == OR_CODEC_NONE && !ClaimHolds()) {
      verdict_.wrong = checked_.OutputElements();
    }
    return verdict_;
  }

 private:
  unsigned char* Contribution(uint32_t rank) {
    return &contributions_[rank * kBlock * bytes_];
  }

  // expected_ = what a complete result has at [first, first + n) of the output.
  void Expect(uint64_t iteration, uint64_t first, size_t n) {
    switch (checked_.collective) {
      case OR_ALL_REDUCE:
        return ExpectReduced(iteration, first, n);
      case OR_REDUCE_SCATTER:
        return ExpectReduced(
            iteration, first + checked_.rank * checked_.OutputElements(), n);
      case OR_ALL_GATHER: {
        const uint64_t part = checked_.InputElements();
        for (size_t done = 0; done < n;) {
          const uint64_t at = first + done;
          const size_t piece = std::min<uint64_t>(n - done, part - at % part);
          FillPattern(checked_.pattern(), checked_.dtype,
                      static_cast<uint32_t>(at / part), iteration, at % part,
                      piece, &expected_[done * bytes_]);
          done += piece;
        }
        return;
      }
      default:
        FillPattern(checked_.pattern(), checked_.dtype, checked_.root,
                    iteration, first, n, expected_.data());
    }
  }

  void ExpectReduced(uint64_t iteration, uint64_t first, size_t n) {
    std::vector<const void*> sources;
    for (uint32_t rank = 0; rank < checked_.world; ++rank) {
      FillPattern(checked_.pattern(), checked_.dtype, rank, iteration, first, n,
                  Contribution(rank));
      sources.push_back(Contribution(rank));
    }
    // Smooth sums are exact, so that rank order is as good as any; and scaling
    // is the identity when nobody is missing.
    gradcodec::ReduceInRankOrder(checked_.dtype, checked_.op, sources.data(),
                                 sources.size(), checked_.world,
                                 expected_.data(), n);
  }

  void AddDistance(size_t n, const void* output) {
    std::vector<double> is(n);
    std::vector<double> should(n);
    Widen(checked_.dtype, output, n, is.data());
    Widen(checked_.dtype, expected_.data(), n, should.data());
    for (size_t i = 0; i < n; ++i) {
      verdict_.error += (is[i] - should[i]) * (is[i] - should[i]);
      verdict_.norm += should[i] * should[i];
    }
  }

  void CheckCoded(size_t n, const void* output) {
    std::vector<double> is(n);
    std::vector<double> should(n);
    Widen(checked_.dtype, output, n, is.data());
    Widen(checked_.dtype, expected_.data(), n, should.data());
    const double largest =
        kLargestSmooth * (checked_.op == ReduceOp::kSum ? checked_.world : 1);
    const double tolerance = ToleranceOf(checked_.codec) * largest;
    for (size_t i = 0; i < n; ++i) {
      const bool right = complete_ ? std::abs(is[i] - should[i]) <= tolerance
                                   : std::isfinite(is[i]);
      verdict_.wrong += !right;
    }
  }

  void CheckPartial(size_t n, const unsigned char* output) {
    // Contributions are whole numbers up to 64: exact as float.
    values_.resize(checked_.world * n);
    for (uint32_t rank = 0; rank < checked_.world; ++rank) {
      std::vector<double> wide(n);
      Widen(checked_.dtype, Contribution(rank), n, wide.data());
      for (size_t i = 0; i < n; ++i) {
        values_[i * checked_.world + rank] = static_cast<float>(wide[i]);
      }
    }
    static constexpr unsigned char kZero[8] = {};
    for (size_t i = 0; i < n; ++i) {
      const unsigned char* element = output + i * bytes_;
      const float* values = &values_[i * checked_.world];
      if (std::memcmp(element, kZero, bytes_) == 0) {
        ++absent_;
        search_.Skip();
      } else if (checked_.world <= ContributorSearch::kMaxWorld) {
        verdict_.wrong += !search_.Add(values, element);
      } else {
        verdict_.wrong += !IsBetween(values, element);
      }
    }
  }

  // Rounding keeps the order, so that the rounded bounds are bounds.
  bool IsBetween(const float* values, const unsigned char* element) const {
    const auto [least, largest] =
        std::minmax_element(values, values + checked_.world);
    double bounds[2];
    double is = 0;
    for (const int i : {0, 1}) {
      // As if all ranks had contributed the extreme.
      const float one = i == 0 ? *least : *largest;
      const double sum = static_cast<double>(one) * checked_.world;
      const float narrow = static_cast<float>(sum);
      unsigned char rounded[8];
      gradcodec::ScaleAndRound(checked_.dtype, checked_.op,
                               checked_.dtype == Dtype::kFloat64
                                   ? static_cast<const void*>(&sum)
                                   : &narrow,
                               checked_.world, checked_.world, rounded, 1);
      Widen(checked_.dtype, rounded, 1, &bounds[i]);
    }
    Widen(checked_.dtype, element, 1, &is);
    return bounds[0] <= is && is <= bounds[1];
  }

  bool ClaimHolds() const {
    if (absent_ != claim_.absent) return false;
    if (checked_.world > ContributorSearch::kMaxWorld) return true;
    // Where a run of elements ends, a few may be explained by both neighbours.
    const double found = static_cast<double>(search_.Contributions());
    const double claimed = static_cast<double>(claim_.contributions);
    const double all = static_cast<double>(checked_.OutputElements()) *
                       static_cast<double>(checked_.world);
    return std::abs(found - claimed) <=
           0.01 * all + 64.0 * static_cast<double>(checked_.world);
  }

  const Checked checked_;
  const Claim claim_;
  const size_t bytes_;  // of an element
  const bool complete_;
  ContributorSearch search_;
  std::vector<unsigned char> expected_;
  std::vector<unsigned char> contributions_;
  std::vector<float> values_;  // by element, then rank
  uint64_t absent_ = 0;
  Verdict verdict_;
};

}  // namespace

uint64_t Checked::InputElements() const {
  return collective == OR_ALL_GATHER ? count / world : count;
}

uint64_t Checked::OutputElements() const {
  return collective == OR_REDUCE_SCATTER ? count / world : count;
}

void Checked::FillInput(uint64_t iteration, void* input) const {
  FillPattern(pattern(), dtype, rank, iteration, 0, InputElements(), input);
}

Verdict CheckOutput(const Checked& checked, uint64_t iteration,
                    const void* output, const Claim& claim) {
  BlockChecker checker(checked, claim);
  const auto* bytes = static_cast<const unsigned char*>(output);
  const uint64_t elements = checked.OutputElements();
  for (uint64_t first = 0; first < elements; first += kBlock) {
    const size_t n = std::min<uint64_t>(kBlock, elements - first);
    checker.Check(iteration, first, n,
                  bytes + first * gradcodec::SizeOf(checked.dtype));
  }
  return checker.Finish();
}

ContributorSearch::ContributorSearch(Dtype dtype, ReduceOp op, uint32_t world)
    : dtype_(dtype), op_(op), world_(world) {
  for (uint32_t set = 1; set < uint32_t{1} << world; ++set) {
    sets_.push_back(set);
  }
  std::stable_sort(sets_.begin(), sets_.end(), [](uint32_t a, uint32_t b) {
    return std::popcount(a) > std::popcount(b);
  });
}

bool ContributorSearch::Add(const float* values, const void* output) {
  const auto explains = [&](uint32_t set) {
    return Explains(set, values, output);
  };
  if (candidates_.size() == 1 && explains(candidates_.front())) {
    ++run_;
    return true;
  }
  std::vector<uint32_t> left;
  std::copy_if(candidates_.begin(), candidates_.end(), std::back_inserter(left),
               explains);
  if (left.empty()) {
    EndRun();
    std::copy_if(sets_.begin(), sets_.end(), std::back_inserter(left),
                 explains);
  }
  candidates_ = std::move(left);
  run_ += !candidates_.empty();
  return !candidates_.empty();
}

void ContributorSearch::Skip() {
  EndRun();
  candidates_.clear();
}

uint64_t ContributorSearch::Contributions() const {
  const uint64_t each =
      candidates_.empty()
          ? 0
          : static_cast<uint64_t>(std::popcount(candidates_.front()));
  return contributions_ + run_ * each;
}

bool ContributorSearch::Explains(uint32_t set, const float* values,
                                 const void* output) const {
  float sum = 0;
  for (uint32_t rank = 0; rank < world_; ++rank) {
    if ((set >> rank & 1) != 0) sum += values[rank];
  }
  const double wide = sum;
  unsigned char result[8];
  gradcodec::ScaleAndRound(
      dtype_, op_,
      dtype_ == Dtype::kFloat64 ? static_cast<const void*>(&wide) : &sum,
      static_cast<uint32_t>(std::popcount(set)), world_, result, 1);
  return std::memcmp(result, output, gradcodec::SizeOf(dtype_)) == 0;
}

void ContributorSearch::EndRun() {
  contributions_ = Contributions();
  run_ = 0;
}

}  // namespace optireduce::optiperf
