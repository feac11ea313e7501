// Test helpers of the ledger: one op of a small bucket at one rank.

#ifndef OPTIREDUCE_DATAPLANE_CORE_LEDGER_TESTING_H_
#define OPTIREDUCE_DATAPLANE_CORE_LEDGER_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "dataplane/core/ledger.h"
#include "dataplane/core/plan.h"
#include "gradcodec/dtype.h"

namespace optireduce::core::ledger_testing {

using Floats = std::vector<float>;

inline constexpr size_t kWorld = 4;
inline constexpr uint64_t kBucket = 77;
inline constexpr size_t kCount = 16;  // 4 shards of one chunk of 4 elements
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline LedgerConfig Config() {
  LedgerConfig config;
  config.world = kWorld;
  config.payload_bytes = 16;
  config.budget = size_t{1} << 16;
  config.max_ops = 8;
  config.max_buckets = 4;
  return config;
}

inline OpDescriptor Descriptor() {
  OpDescriptor op;
  op.reduce_op = gradcodec::ReduceOp::kAvg;
  op.count = kCount;
  op.bucket = kBucket;
  return op;
}

// One op at rank 0: its buffers and its account. Chunks are 0..3, each with
// elements 4 i .. 4 i + 3.
class TestOp {
 public:
  TestOp(Ledger* ledger, uint32_t seq, float gradient, float scale = 1,
         OpDescriptor op = Descriptor())
      : input(op.count, gradient), output(op.count, 99) {
    plan = ChunkPlan(op, kWorld, 16, 1, OpSeq(seq));
    account = ledger->Open(op, OpSeq(seq), scale,
                           reinterpret_cast<const uint8_t*>(input.data()));
  }

  ChunkInfo Info(uint32_t chunk) const { return *plan.Locate(chunk); }
  uint8_t* Out(uint32_t chunk) {
    return reinterpret_cast<uint8_t*>(output.data() + Info(chunk).first);
  }
  Placed Result(uint32_t chunk, float value, uint16_t c, bool imputed,
                std::optional<bool> included) {
    const Floats payload(4, value);
    return account->OnResult(Info(chunk),
                             {reinterpret_cast<const uint8_t*>(payload.data()),
                              c, imputed, included},
                             Out(chunk));
  }
  // All contributions were summed.
  Placed Whole(uint32_t chunk, float value) {
    return Result(chunk, value, kWorld, true, true);
  }
  void WholeFrom(uint32_t first, float value) {
    for (uint32_t i = first; i < 4; ++i) Whole(i, value);
  }
  float Sent(uint32_t chunk) {
    Floats packet(4, -1);
    const bool any = account->Contribution(
        Info(chunk), reinterpret_cast<uint8_t*>(packet.data()));
    return any ? packet[0] : kNan;
  }
  void Complete() {
    account->Complete(reinterpret_cast<uint8_t*>(output.data()));
  }
  void Fail() { account->Fail(reinterpret_cast<uint8_t*>(output.data())); }
  float At(uint32_t chunk) const { return output[size_t{4} * chunk]; }

  Floats input, output;
  ChunkPlan plan;
  Account* account;
};

struct Stored {
  Floats residual = Floats(kCount), debt = Floats(kCount);
};
inline Stored StoredIn(const Ledger& ledger) {
  Stored stored;
  ledger.Read(kBucket, stored.residual.data(), stored.debt.data());
  return stored;
}
inline float Residual(const Ledger& ledger, uint32_t chunk) {
  return StoredIn(ledger).residual[size_t{4} * chunk];
}
inline float Debt(const Ledger& ledger, uint32_t chunk) {
  return StoredIn(ledger).debt[size_t{4} * chunk];
}

}  // namespace optireduce::core::ledger_testing

#endif  // OPTIREDUCE_DATAPLANE_CORE_LEDGER_TESTING_H_
