// Saved residuals and debts: any bytes are refused, or are a state that can be
// saved and read again as the same, and given up without leaving anything.
//
// Input: a byte for the size of packets, then the state without its checksum,
// which is put right here.

#include <cmath>
#include <vector>

#include "dataplane/base/byte_order.h"
#include "dataplane/base/crc32c.h"
#include "dataplane/core/ledger.h"
#include "tests/fuzz/fuzz.h"

namespace optireduce::core {
namespace {

using Bytes = std::vector<uint8_t>;

LedgerConfig Config(uint8_t packet) {
  LedgerConfig config;
  config.world = 3;
  config.self = Rank(2);
  config.payload_bytes = (packet % 16 + 1) * 4u;
  config.budget = size_t{1} << 15;
  config.max_ops = 1;
  config.max_buckets = 3;
  return config;
}

Bytes Exported(const Ledger& ledger) {
  Bytes state(ledger.StateBytes());
  ledger.Export(state);
  return state;
}

void CheckValues(const Ledger& ledger, uint64_t bucket, uint64_t count) {
  std::vector<float> residual(count), debt(count);
  if (!ledger.Read(bucket, residual.data(), debt.data())) return;
  for (uint64_t i = 0; i < count; ++i) {
    FUZZ_CHECK(std::isfinite(residual[i]) && std::isfinite(debt[i]));
  }
}

}  // namespace
}  // namespace optireduce::core

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace optireduce;        // NOLINT
  using namespace optireduce::core;  // NOLINT
  if (size == 0) return 0;
  Bytes state(data + 1, data + size);
  const uint32_t checksum = Crc32c(state);
  state.resize(state.size() + 4);
  StoreLe32(state.data() + state.size() - 4, checksum);

  Ledger ledger(Config(data[0]));
  if (ledger.Import(state) != ImportResult::kImported) {
    FUZZ_CHECK(ledger.memory_used() == 0);
    return 0;
  }
  if (LoadLe32(state.data() + 12) == 1) {
    CheckValues(ledger, LoadLe64(state.data() + 16),
                LoadLe64(state.data() + 24));
  }
  const Bytes saved = Exported(ledger);
  Ledger again(Config(data[0]));
  FUZZ_CHECK(again.Import(saved) == ImportResult::kImported);
  FUZZ_CHECK(Exported(again) == saved);
  ledger.ResetAll();
  FUZZ_CHECK(ledger.memory_used() == 0);
  return 0;
}
