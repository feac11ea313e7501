#include "control/port_pool.h"

#include <cassert>

namespace optireduce::control {

std::optional<uint16_t> PortPool::Take() {
  if (in_use_ == used_.size()) return std::nullopt;
  while (used_[next_]) next_ = (next_ + 1) % used_.size();
  used_[next_] = true;
  ++in_use_;
  const auto port = static_cast<uint16_t>(first_ + next_);
  next_ = (next_ + 1) % used_.size();
  return port;
}

void PortPool::Release(uint16_t port) {
  const size_t index = size_t{port} - first_;
  assert(index < used_.size() && used_[index]);
  used_[index] = false;
  --in_use_;
}

}  // namespace optireduce::control
