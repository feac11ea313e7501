#include "dataplane/core/config.h"

#include <array>

#include "dataplane/base/byte_order.h"
#include "dataplane/base/xxhash64.h"

namespace optireduce::core {

uint32_t SettingsHash(const GroupConfig& config) {
  const std::array<uint64_t, 15> settings = {
      config.payload_bytes,
      config.window,
      config.quorum_permille,
      static_cast<uint64_t>(config.stage1_bound.nanos()),
      static_cast<uint64_t>(config.result_bound.nanos()),
      config.adaptive_bounds,
      config.slowest_rate_bps,
      static_cast<uint64_t>(config.least_bound.nanos()),
      static_cast<uint64_t>(config.early_wait.nanos()),
      static_cast<uint64_t>(config.hard_limit.nanos()),
      static_cast<uint64_t>(config.fill),
      config.memory_budget,
      config.ledger_budget,
      config.congestion_control,
      config.incast,
  };
  std::array<uint8_t, 8 * settings.size()> bytes;
  for (size_t i = 0; i < settings.size(); ++i) {
    StoreLe64(&bytes[8 * i], settings[i]);
  }
  return static_cast<uint32_t>(Xxh64(bytes, 0));
}

}  // namespace optireduce::core
