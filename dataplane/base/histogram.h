// A histogram of uint64_t values with a bounded relative error.

#ifndef OPTIREDUCE_DATAPLANE_BASE_HISTOGRAM_H_
#define OPTIREDUCE_DATAPLANE_BASE_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace optireduce {

// Log-linear: each power of two is cut in 64 equal buckets, so a percentile is
// within 1 % of the recorded value (exact below 128). Takes every uint64_t, in
// whatever unit the caller chooses; about 30 KiB, fixed. Not thread-safe.
class Histogram {
 public:
  void Record(uint64_t value) {
    ++buckets_[BucketOf(value)];
    ++count_;
    sum_ += value;
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
  }

  uint64_t Count() const { return count_; }
  // Exact; 0 if nothing was recorded.
  uint64_t Min() const { return count_ == 0 ? 0 : min_; }
  uint64_t Max() const { return max_; }
  // Of the recorded values themselves; 0 if there are none.
  double Mean() const {
    return count_ == 0
               ? 0
               : static_cast<double>(sum_) / static_cast<double>(count_);
  }

  // The smallest recorded value that at least `percent` % of all values do not
  // exceed (nearest rank), to within 1 %; 0 if nothing was recorded. Percent 0
  // is Min() and 100 is Max(), exactly.
  uint64_t Percentile(double percent) const {
    if (count_ == 0) return 0;
    const uint64_t rank = RankOf(percent);
    if (rank == 1) return min_;
    if (rank == count_) return max_;
    uint64_t seen = 0;
    size_t bucket = 0;
    while ((seen += buckets_[bucket]) < rank) ++bucket;
    return std::clamp(MiddleOf(bucket), min_, max_);
  }

  // As if everything recorded in `other` had been recorded here too.
  void Merge(const Histogram& other) {
    for (size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    min_ = std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
  }

  void Reset() { *this = Histogram(); }

 private:
  static constexpr size_t kSubBits = 6;
  static constexpr size_t kPerOctave = size_t{1} << kSubBits;
  // Two octaves' worth of exact buckets, then one octave for each further bit.
  static constexpr size_t kBuckets = (64 - kSubBits + 1) * kPerOctave;

  // The bucket keeps the top kSubBits + 1 bits of the value.
  static constexpr size_t BucketOf(uint64_t value) {
    if (value < kPerOctave) return static_cast<size_t>(value);
    const size_t shift =
        static_cast<size_t>(std::bit_width(value)) - kSubBits - 1;
    return shift * kPerOctave + static_cast<size_t>(value >> shift);
  }
  static constexpr uint64_t MiddleOf(size_t bucket) {
    if (bucket < 2 * kPerOctave) return bucket;
    const size_t shift = bucket / kPerOctave - 1;
    const uint64_t low = uint64_t{bucket - shift * kPerOctave} << shift;
    return low + ((uint64_t{1} << shift) - 1) / 2;
  }
  uint64_t RankOf(double percent) const {
    const double rank = std::ceil(percent * static_cast<double>(count_) / 100);
    if (!(rank >= 1)) return 1;
    if (rank >= static_cast<double>(count_)) return count_;
    return static_cast<uint64_t>(rank);
  }

  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
  unsigned __int128 sum_ = 0;
  uint64_t min_ = UINT64_MAX;
  uint64_t max_ = 0;
};

}  // namespace optireduce

#endif  // OPTIREDUCE_DATAPLANE_BASE_HISTOGRAM_H_
