// Test helpers of gradcodec: misaligned buffers with guard bytes, typed access.
#ifndef OPTIREDUCE_GRADCODEC_TESTING_H_
#define OPTIREDUCE_GRADCODEC_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace optireduce::gradcodec::testing {

// Offsets from a 64-byte boundary: aligned, odd, and 16-but-not-32.
inline constexpr size_t kOffsets[] = {0, 1, 2, 3, 16};
inline constexpr size_t kSizes[] = {0,  1,   2,   3,    4,    7,    15,
                                    63, 255, 256, 1000, 1024, 1025, 4099};

// `count` elements of T that begin `offset` bytes after a 64-byte boundary,
// between bytes that nobody may write.
template <typename T>
class Misaligned {
 public:
  Misaligned(size_t offset, size_t count)
      : count_(count), bytes_(kGuard + 64 + count * sizeof(T) + kGuard, kMark) {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data()) + kGuard;
    start_ = kGuard + (64 - address % 64) % 64 + offset % 64;
  }
  Misaligned(size_t offset, const std::vector<T>& values)
      : Misaligned(offset, values.size()) {
    if (!values.empty()) {
      std::memcpy(data(), values.data(), values.size() * sizeof(T));
    }
  }
  Misaligned(Misaligned&&) noexcept = default;

  void* data() { return bytes_.data() + start_; }
  const void* data() const { return bytes_.data() + start_; }

  std::vector<T> values() const {
    std::vector<T> out(count_);
    if (count_ != 0) std::memcpy(out.data(), data(), count_ * sizeof(T));
    return out;
  }

  bool GuardsIntact() const {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      const bool inside = i >= start_ && i < start_ + count_ * sizeof(T);
      if (!inside && bytes_[i] != kMark) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr unsigned char kMark = 0xa5;

  size_t count_;
  size_t start_ = 0;
  std::vector<unsigned char> bytes_;
};

}  // namespace optireduce::gradcodec::testing

#endif  // OPTIREDUCE_GRADCODEC_TESTING_H_
