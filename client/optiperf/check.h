// Is a result right? Computed anew from what every rank contributed.

#ifndef OPTIREDUCE_CLIENT_OPTIPERF_CHECK_H_
#define OPTIREDUCE_CLIENT_OPTIPERF_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/optiperf/pattern.h"
#include "client/optireduce.h"
#include "gradcodec/dtype.h"

namespace optireduce::optiperf {

// The operation whose results are checked, at one rank.
struct Checked {
  or_collective collective = OR_ALL_REDUCE;
  gradcodec::ReduceOp op = gradcodec::ReduceOp::kSum;
  gradcodec::Dtype dtype = gradcodec::Dtype::kFloat32;
  or_mode mode = OR_EXACT;
  or_codec codec = OR_CODEC_NONE;
  uint32_t root = 0;
  uint32_t rank = 0;
  uint32_t world = 1;
  uint64_t count = 0;

  uint64_t InputElements() const;
  uint64_t OutputElements() const;
  Pattern pattern() const {
    return mode == OR_EXACT ? Pattern::kRough : Pattern::kSmooth;
  }
  // Writes this rank's input of an iteration.
  void FillInput(uint64_t iteration, void* input) const;
};

// What a bounded operation's report says of its elements.
struct Claim {
  uint64_t absent = 0;
  uint64_t contributions = 0;
};

struct Verdict {
  uint64_t wrong = 0;  // elements
  // Squared distance from the complete result, and its squared norm.
  double error = 0;
  double norm = 0;
};

// What "wrong" means is in optiperf's --help. `claim` is for bounded mode.
Verdict CheckOutput(const Checked& checked, uint64_t iteration,
                    const void* output, const Claim& claim);

// Finds out, element by element, whose contributions a bounded result has: a
// chunk's elements all have the same, so a few of them tell. For world up to
// kMaxWorld.
class ContributorSearch {
 public:
  static constexpr uint32_t kMaxWorld = 12;

  ContributorSearch(gradcodec::Dtype dtype, gradcodec::ReduceOp op,
                    uint32_t world);

  // The next element: `values` are what the ranks contributed, `output` is the
  // result. False if no set of contributors explains it.
  bool Add(const float* values, const void* output);
  // The element was absent: another chunk begins.
  void Skip();
  // Contributors, added up over the elements that were explained. Where several
  // sets explain a run of elements, the largest counts.
  uint64_t Contributions() const;

 private:
  bool Explains(uint32_t set, const float* values, const void* output) const;
  void EndRun();

  gradcodec::Dtype dtype_;
  gradcodec::ReduceOp op_;
  uint32_t world_;
  std::vector<uint32_t> sets_;        // all, largest first
  std::vector<uint32_t> candidates_;  // that explain the whole run
  uint64_t run_ = 0;                  // elements
  uint64_t contributions_ = 0;        // of the runs before
};

}  // namespace optireduce::optiperf

#endif  // OPTIREDUCE_CLIENT_OPTIPERF_CHECK_H_
