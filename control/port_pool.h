// The UDP ports that ranks on this host receive on.

#ifndef OPTIREDUCE_CONTROL_PORT_POOL_H_
#define OPTIREDUCE_CONTROL_PORT_POOL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace optireduce::control {

// Not thread-safe.
class PortPool {
 public:
  // Ports [first, first + count).
  PortPool(uint16_t first, size_t count) : first_(first), used_(count) {}

  // A port that is free; the one that has been free for long, so that what is
  // still on its way to the last owner finds nobody. Nothing: all are used.
  std::optional<uint16_t> Take();
  // `port` came from Take().
  void Release(uint16_t port);
  size_t in_use() const { return in_use_; }

 private:
  const uint16_t first_;
  std::vector<bool> used_;
  size_t next_ = 0;
  size_t in_use_ = 0;
};

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_PORT_POOL_H_
