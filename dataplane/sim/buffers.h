// A trainer's memory for one op, with guards around it.

#ifndef OPTIREDUCE_DATAPLANE_SIM_BUFFERS_H_
#define OPTIREDUCE_DATAPLANE_SIM_BUFFERS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dataplane/core/types.h"

namespace optireduce::sim {

// guard | input | guard | output | guard, or guard | both | guard in place.
// Between submit and report the output may change and nothing else; before and
// after, nothing at all.
class OpBuffers {
 public:
  // Copies the input. Only buffers of one size can be in place.
  OpBuffers(std::span<const uint8_t> input, size_t output_bytes, bool in_place,
            uint8_t misalignment);

  core::BufferView view();
  std::span<const uint8_t> output() const {
    return {memory_.data() + output_at_, output_bytes_};
  }

  // Empty, or what was written that must not be.
  std::string CheckGuards() const;
  // The trainer uses the memory for something else.
  void Overwrite();
  // After Overwrite: nobody has touched it.
  std::string CheckOverwritten() const;

 private:
  static constexpr size_t kGuardBytes = 64;
  static constexpr uint8_t kGuard = 0xC3;
  static constexpr uint8_t kOverwritten = 0xA5;

  bool IsGuard(size_t begin, size_t end) const;

  std::vector<uint8_t> memory_;
  std::vector<uint8_t> input_;  // as it was
  bool in_place_;
  size_t input_at_ = 0;
  size_t output_at_ = 0;
  size_t output_bytes_ = 0;
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_BUFFERS_H_
