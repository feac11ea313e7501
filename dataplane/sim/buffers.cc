#include "dataplane/sim/buffers.h"

#include <algorithm>

namespace optireduce::sim {

OpBuffers::OpBuffers(std::span<const uint8_t> input, size_t output_bytes,
                     bool in_place, uint8_t misalignment)
    : input_(input.begin(), input.end()),
      in_place_(in_place && input.size() == output_bytes),
      output_bytes_(output_bytes) {
  input_at_ = kGuardBytes + misalignment;
  output_at_ = in_place_ ? input_at_ : input_at_ + input.size() + kGuardBytes;
  memory_.assign(output_at_ + output_bytes + kGuardBytes, kGuard);
  std::copy(input.begin(), input.end(), memory_.begin() + input_at_);
}

core::BufferView OpBuffers::view() {
  // Nothing may be read or written through a pointer to no bytes.
  core::BufferView view;
  if (!input_.empty()) view.input = memory_.data() + input_at_;
  if (output_bytes_ > 0) view.output = memory_.data() + output_at_;
  return view;
}

bool OpBuffers::IsGuard(size_t begin, size_t end) const {
  return std::all_of(memory_.begin() + begin, memory_.begin() + end,
                     [](uint8_t byte) { return byte == kGuard; });
}

std::string OpBuffers::CheckGuards() const {
  if (!IsGuard(0, input_at_)) return "written in front of the input";
  if (!in_place_) {
    if (!IsGuard(input_at_ + input_.size(), output_at_)) {
      return "written between input and output";
    }
    if (!std::equal(input_.begin(), input_.end(),
                    memory_.begin() + input_at_)) {
      return "written to the input";
    }
  }
  if (!IsGuard(output_at_ + output_bytes_, memory_.size())) {
    return "written behind the output";
  }
  return "";
}

void OpBuffers::Overwrite() {
  std::fill(memory_.begin(), memory_.end(), kOverwritten);
}

std::string OpBuffers::CheckOverwritten() const {
  const bool untouched =
      std::all_of(memory_.begin(), memory_.end(),
                  [](uint8_t byte) { return byte == kOverwritten; });
  return untouched ? "" : "written to after the report";
}

}  // namespace optireduce::sim
