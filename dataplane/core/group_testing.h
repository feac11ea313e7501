// What tests of whole groups share: quick settings, buffers, descriptors.

#ifndef OPTIREDUCE_DATAPLANE_CORE_GROUP_TESTING_H_
#define OPTIREDUCE_DATAPLANE_CORE_GROUP_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/base/require.h"
#include "dataplane/core/testing.h"

namespace optireduce::core {

inline constexpr uint32_t kPayload = 496;
inline constexpr uint64_t kChunk = kPayload / sizeof(float);

inline GroupConfig FastSettings() {
  GroupConfig config;
  config.payload_bytes = kPayload;
  config.stage1_bound = Duration::Millis(6);
  config.result_bound = Duration::Millis(10);
  config.adaptive_bounds = false;
  config.early_wait = Duration::Millis(1);
  config.hard_limit = Duration::Millis(500);
  config.memory_budget = 1 << 20;
  return config;
}

// One float buffer per rank, reduced in place.
struct Buffers {
  Buffers(size_t world, size_t count) : values(world) {
    for (size_t r = 0; r < world; ++r) {
      values[r].resize(count);
      for (size_t i = 0; i < count; ++i) {
        values[r][i] = static_cast<float>((r + 1) * 100 + i % 7);
      }
    }
  }
  BufferView View(size_t rank) {
    auto* bytes = reinterpret_cast<uint8_t*>(values[rank].data());
    return {bytes, bytes};
  }
  std::vector<std::vector<float>> values;
};

inline OpDescriptor AllReduce(
    uint64_t count, Mode mode,
    gradcodec::ReduceOp reduce_op = gradcodec::ReduceOp::kSum) {
  OpDescriptor op;
  op.count = count;
  op.mode = mode;
  op.reduce_op = reduce_op;
  return op;
}

inline void FormOrDie(TestNet* net, size_t world) {
  net->Run(Duration::Millis(50));
  for (size_t r = 0; r < world; ++r) {
    Require(!net->events(r).empty());
    Require(net->events(r).front().kind == EventKind::kGroupReady);
  }
}

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_GROUP_TESTING_H_
