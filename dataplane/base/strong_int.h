// Integers of different meaning (ranks, chunks, elements) as different types.

#ifndef OPTIREDUCE_DATAPLANE_BASE_STRONG_INT_H_
#define OPTIREDUCE_DATAPLANE_BASE_STRONG_INT_H_

#include <compare>
#include <cstddef>

namespace optireduce {

// `Tag` only makes the type distinct. Arithmetic is left out on purpose: the
// few places that compute with such a number say so with value().
template <class Tag, class T>
class StrongInt {
 public:
  using ValueType = T;

  constexpr StrongInt() = default;
  constexpr explicit StrongInt(T value) : value_(value) {}

  constexpr T value() const { return value_; }
  // For use as an index.
  constexpr size_t index() const { return static_cast<size_t>(value_); }

  constexpr StrongInt& operator++() {
    ++value_;
    return *this;
  }
  constexpr auto operator<=>(const StrongInt&) const = default;

 private:
  T value_{};
};

}  // namespace optireduce

#endif  // OPTIREDUCE_DATAPLANE_BASE_STRONG_INT_H_
