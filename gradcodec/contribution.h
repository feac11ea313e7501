// How much of a result is there: the figures that every operation reports, from
// the contributors of its chunks.
#ifndef OPTIREDUCE_GRADCODEC_CONTRIBUTION_H_
#define OPTIREDUCE_GRADCODEC_CONTRIBUTION_H_

#include <algorithm>
#include <cstdint>

namespace optireduce::gradcodec {

// Adds up chunks; a value type without hidden state. Not thread-safe. Counts
// elements, contributors and their product exactly: an operation has below 2^32
// elements and fewer than 2^16 ranks.
class ContributionTally {
 public:
  // `elements` elements whose value has `contributors` contributions. With 0
  // contributors they are absent at this rank.
  constexpr void Add(uint64_t elements, uint32_t contributors) {
    if (elements == 0) return;
    elements_ += elements;
    if (contributors == 0) return;
    const bool first = present_ == 0;
    present_ += elements;
    contributions_ += elements * contributors;
    k_min_ = first ? contributors : std::min(k_min_, contributors);
  }

  constexpr uint64_t elements() const { return elements_; }
  constexpr uint64_t absent() const { return elements_ - present_; }
  // Summed over the elements that are not absent.
  constexpr uint64_t contributions() const { return contributions_; }

  // Least and mean number of contributors of the elements that are not absent;
  // 0 if there are none.
  constexpr uint32_t k_min() const { return k_min_; }
  constexpr double k_mean() const { return Share(contributions_, present_); }

  // Share of the contributions lost in stage 1, in a group of `world` ranks
  // (not 0), over the elements that are not absent; 0 if there are none.
  constexpr double stage1_loss(uint32_t world) const {
    return Share(present_ * world - contributions_, present_ * world);
  }

  // Share of absent elements; 0 for an operation without elements.
  constexpr double stage2_loss() const { return Share(absent(), elements_); }

  // (1 - stage 1 loss) * (1 - stage 2 loss): what BELOW_FLOOR compares.
  constexpr double share_present(uint32_t world) const {
    return (1 - stage1_loss(world)) * (1 - stage2_loss());
  }

  // Neither stage lost anything. Decided in integers, not by the shares.
  constexpr bool complete(uint32_t world) const {
    return contributions_ == elements_ * world;
  }

 private:
  static constexpr double Share(uint64_t part, uint64_t whole) {
    return whole == 0 ? 0.0
                      : static_cast<double>(part) / static_cast<double>(whole);
  }

  uint64_t elements_ = 0;
  uint64_t present_ = 0;
  uint64_t contributions_ = 0;
  uint32_t k_min_ = 0;
};

}  // namespace optireduce::gradcodec

#endif  // OPTIREDUCE_GRADCODEC_CONTRIBUTION_H_
