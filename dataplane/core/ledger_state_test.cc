// Saved residuals and debts: bytes out, bytes in, and bytes that are neither.

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "dataplane/base/byte_order.h"
#include "dataplane/base/crc32c.h"
#include "dataplane/core/ledger.h"
#include "dataplane/core/plan.h"
#include "gtest/gtest.h"

namespace optireduce::core {
namespace {

using Bytes = std::vector<uint8_t>;
using Floats = std::vector<float>;

constexpr size_t kWorld = 3;
constexpr size_t kCount = 15;  // three shards of 5 elements

LedgerConfig Config() {
  LedgerConfig config;
  config.world = kWorld;
  config.self = Rank(2);
  config.payload_bytes = 16;  // chunks of 4 elements and of 1
  config.budget = size_t{1} << 16;
  config.max_ops = 4;
  config.max_buckets = 4;
  return config;
}

OpDescriptor Descriptor(uint64_t bucket) {
  OpDescriptor op;
  op.reduce_op = gradcodec::ReduceOp::kAvg;
  op.count = kCount;
  op.bucket = bucket;
  return op;
}

// Leaves `residual` and `debt` in one chunk each of a bucket.
void Leave(Ledger* ledger, const OpDescriptor& op, float scale, float residual,
           float debt) {
  const Floats input(op.count, residual);
  Floats output(op.count);
  const auto* in = reinterpret_cast<const uint8_t*>(input.data());
  auto* out = reinterpret_cast<uint8_t*>(output.data());
  const ChunkPlan plan(op, kWorld, 16, 0, OpSeq());
  Account* account = ledger->Open(op, OpSeq(), scale, in);
  ASSERT_NE(account, nullptr);
  account->OnResult(*plan.Locate(0), {nullptr, 0, false, false}, out);
  account->Complete(out);
  account->CloseUsed();
  const Floats result(4, debt);
  account->OnResult(
      *plan.Locate(2),
      {reinterpret_cast<const uint8_t*>(result.data()), kWorld, true, true},
      nullptr);
  account->CloseUsed();
  account->Evict();
  ledger->Release(account);
}

Bytes Exported(const Ledger& ledger) {
  Bytes state(ledger.StateBytes());
  ledger.Export(state);
  return state;
}

// The checksum is right again: what is wrong is something else.
Bytes Sealed(Bytes state) {
  StoreLe32(state.data() + state.size() - 4,
            Crc32c(std::span(state).first(state.size() - 4)));
  return state;
}

struct Stored {
  Floats residual = Floats(kCount), debt = Floats(kCount);
};
Stored Read(const Ledger& ledger, uint64_t bucket) {
  Stored stored;
  EXPECT_TRUE(ledger.Read(bucket, stored.residual.data(), stored.debt.data()));
  return stored;
}

class LedgerStateTest : public ::testing::Test {
 protected:
  LedgerStateTest() {
    Leave(&ledger_, Descriptor(7), 1, 3, 5);
    Leave(&ledger_, Descriptor(9), 4, -2, 0.5f);
    state_ = Exported(ledger_);
  }
  Ledger ledger_{Config()};
  Bytes state_;
};

TEST_F(LedgerStateTest, ComesBackAsItWas) {
  Ledger other(Config());
  ASSERT_EQ(other.Import(state_), ImportResult::kImported);
  for (uint64_t bucket : {7, 9}) {
    EXPECT_EQ(Read(other, bucket).residual, Read(ledger_, bucket).residual);
    EXPECT_EQ(Read(other, bucket).debt, Read(ledger_, bucket).debt);
  }
  EXPECT_EQ(Read(other, 7).residual,
            (Floats{3, 3, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(Read(other, 7).debt,
            (Floats{0, 0, 0, 0, 0, 5, 5, 5, 5, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(Exported(other), state_);
}

TEST_F(LedgerStateTest, BelongsToTheLossScaleThatItWasSavedWith) {
  Ledger other(Config());
  ASSERT_EQ(other.Import(state_), ImportResult::kImported);
  const Floats input(kCount, 0);
  Account* account = other.Open(Descriptor(9), OpSeq(), 8,
                                reinterpret_cast<const uint8_t*>(input.data()));
  EXPECT_EQ(Read(other, 9).debt[5], 1) << "twice the scale of before";
  Floats packet(4);
  const ChunkPlan plan(Descriptor(9), kWorld, 16, 0, OpSeq());
  ASSERT_TRUE(account->Contribution(*plan.Locate(0),
                                    reinterpret_cast<uint8_t*>(packet.data())));
  EXPECT_EQ(packet[0], -4);
}

// Byte for byte: what is saved by one version is read by the next.
TEST_F(LedgerStateTest, HasTheDocumentedForm) {
  Ledger small(Config());
  Leave(&small, Descriptor(0x0102030405060708), 2, 1, -1);
  const Bytes expected = {
      'O', 'R', 'L', 'S', 1, 0, 3,   0,   2,  0, 0,   0,
      1,   0,   0,   0,  // header
      8,   7,   6,   5,   4, 3, 2,   1,   15, 0, 0,   0,
      0,   0,   0,   0,  // key, count
      1,   2,   0,   0,   0, 0, 0,   64,  1,  0, 0,   0,
      1,   0,   0,   0,                                   // types, scale, runs
      0,   0,   0,   0,   0, 0, 0,   0,   4,  0, 0,   0,  // residual
      0,   0,   128, 63,  0, 0, 128, 63,  0,  0, 128, 63,
      0,   0,   128, 63,                                  //
      5,   0,   0,   0,   0, 0, 0,   0,   4,  0, 0,   0,  // debt
      0,   0,   128, 191, 0, 0, 128, 191, 0,  0, 128, 191,
      0,   0,   128, 191};
  const Bytes state = Exported(small);
  EXPECT_EQ(Bytes(state.begin(), state.end() - 4), expected);
  EXPECT_EQ(LoadLe32(state.data() + state.size() - 4), Crc32c(expected));
}

TEST_F(LedgerStateTest, NothingStoredIsAHeaderAndAChecksum) {
  Ledger empty(Config());
  const Bytes state = Exported(empty);
  EXPECT_EQ(state.size(), 20u);
  // It replaces what is there.
  ASSERT_EQ(ledger_.Import(state), ImportResult::kImported);
  EXPECT_EQ(Exported(ledger_), state);
  EXPECT_EQ(ledger_.forgiven(ForgivenFor::kReset),
            (Forgiven{.contributions = 8, .results = 8}));
  EXPECT_EQ(ledger_.memory_used(), 0u);
}

// Another MTU cuts other chunks.
TEST_F(LedgerStateTest, DoesNotDependOnTheSizeOfPackets) {
  const Stored before = Read(ledger_, 7);
  for (uint32_t payload : {4, 8, 12, 64}) {
    LedgerConfig config = Config();
    config.payload_bytes = payload;
    Ledger other(config);
    ASSERT_EQ(other.Import(state_), ImportResult::kImported) << payload;
    EXPECT_EQ(Read(other, 7).residual, before.residual);
    EXPECT_EQ(Read(other, 7).debt, before.debt);
    // And back: single elements make up chunks again.
    Ledger again(Config());
    ASSERT_EQ(again.Import(Exported(other)), ImportResult::kImported);
    EXPECT_EQ(Read(again, 7).residual, before.residual);
  }
}

TEST_F(LedgerStateTest, EveryChangedByteIsNoticed) {
  Ledger other(Config());
  for (size_t i = 0; i < state_.size(); ++i) {
    for (uint8_t bit : {1, 128}) {
      Bytes damaged = state_;
      damaged[i] ^= bit;
      EXPECT_EQ(other.Import(damaged), ImportResult::kDamaged) << i;
    }
  }
  for (size_t size = 0; size < state_.size(); ++size) {
    const auto part = std::span(state_).first(size);
    EXPECT_EQ(other.Import(part), ImportResult::kDamaged) << size;
  }
  EXPECT_EQ(other.memory_used(), 0u);
}

TEST_F(LedgerStateTest, OtherVersionsAndGroupsAreRefused) {
  Bytes other = state_;
  other[4] = 2;
  EXPECT_EQ(ledger_.Import(Sealed(other)), ImportResult::kVersion);
  other = state_;
  other[6] = 4;
  EXPECT_EQ(ledger_.Import(Sealed(other)), ImportResult::kOtherGroup);
  other = state_;
  other[8] = 1;
  EXPECT_EQ(ledger_.Import(Sealed(other)), ImportResult::kOtherGroup);
  EXPECT_EQ(Exported(ledger_), state_) << "nothing has changed";
}

// The checksum proves nothing about who wrote it.
TEST_F(LedgerStateTest, WellSealedNonsenseIsRefused) {
  constexpr size_t kBucket = 16;
  constexpr size_t kRun = kBucket + 32;
  struct Lie {
    const char* name;
    size_t offset;
    Bytes bytes;
  };
  const Lie lies[] = {
      {"reserved", 10, {1}},
      {"more buckets", 12, {3}},
      {"fewer buckets", 12, {1}},
      {"endless buckets", 12, {255, 255, 255, 255}},
      {"no key", kBucket, {0}},
      {"no elements", kBucket + 8, {0}},
      {"too many elements", kBucket + 8, {0, 0, 0, 0, 1}},
      {"float64", kBucket + 16, {4}},
      {"no type", kBucket + 16, {99}},
      {"minimum", kBucket + 17, {3}},
      {"reserved in a bucket", kBucket + 18, {1}},
      {"scale of zero", kBucket + 20, {0, 0, 0, 0}},
      {"scale that is not a number", kBucket + 20, {0, 0, 192, 127}},
      {"more runs", kBucket + 24, {2}},
      {"endless runs", kBucket + 28, {255, 255, 255, 255}},
      {"past the end", kRun, {12}},
      {"far past the end", kRun, {0, 0, 0, 0, 0, 0, 0, 128}},
      {"empty run", kRun + 8, {0}},
      {"longer run", kRun + 8, {5}},
      {"endless run", kRun + 8, {255, 255, 255, 255}},
      {"infinity", kRun + 12, {0, 0, 128, 127}},
  };
  for (const Lie& lie : lies) {
    Bytes state = state_;
    std::memcpy(state.data() + lie.offset, lie.bytes.data(), lie.bytes.size());
    EXPECT_EQ(ledger_.Import(Sealed(state)), ImportResult::kDamaged)
        << lie.name;
  }
  EXPECT_EQ(Exported(ledger_), state_) << "nothing has changed";
}

TEST_F(LedgerStateTest, RunsOutOfOrderAreRefused) {
  // Two runs of one element each.
  Ledger small(Config());
  Leave(&small, Descriptor(1), 1, 1, 0);
  Bytes state = Exported(small);
  Bytes tail = {0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 128, 63};
  constexpr size_t kRun = 48;
  state.resize(kRun);
  state.insert(state.end(), tail.begin(), tail.end());
  state.insert(state.end(), tail.begin(), tail.end());
  state.resize(state.size() + 4);
  state[16 + 24] = 2;
  state[16 + 28] = 0;
  EXPECT_EQ(small.Import(Sealed(state)), ImportResult::kDamaged);
  state[kRun + 16] = 1;  // the second begins where the first ends
  EXPECT_EQ(small.Import(Sealed(state)), ImportResult::kImported);
  EXPECT_EQ(Read(small, 1).residual[1], 1);
}

TEST_F(LedgerStateTest, WaitsUntilOpsAreSettled) {
  const Floats input(kCount, 0);
  Account* account =
      ledger_.Open(Descriptor(7), OpSeq(1), 1,
                   reinterpret_cast<const uint8_t*>(input.data()));
  EXPECT_FALSE(ledger_.IsQuiet());
  EXPECT_EQ(ledger_.Import(state_), ImportResult::kNotQuiet);
  EXPECT_DEATH(Exported(ledger_), "");
  Floats output(kCount);
  account->Complete(reinterpret_cast<uint8_t*>(output.data()));
  EXPECT_FALSE(ledger_.IsQuiet());
  account->CloseUsed();
  account->Evict();
  EXPECT_TRUE(ledger_.IsQuiet()) << "settled, if not released";
  EXPECT_EQ(ledger_.Import(state_), ImportResult::kImported);
  ledger_.Release(account);
}

TEST_F(LedgerStateTest, WhatDoesNotFitLeavesNothing) {
  // Two buckets with a table for six chunks, four blocks of four elements.
  const size_t needed = 2 * ByteArena::Cost(12 * sizeof(void*)) +
                        4 * ByteArena::Cost(4 * sizeof(float));
  for (size_t budget = 0; budget < needed + 200; budget += 64) {
    LedgerConfig config = Config();
    config.budget = budget;
    Ledger other(config);
    if (budget >= needed) {
      EXPECT_EQ(other.Import(state_), ImportResult::kImported);
      EXPECT_EQ(Exported(other), state_);
    } else {
      EXPECT_EQ(other.Import(state_), ImportResult::kNoMemory) << budget;
      EXPECT_EQ(other.memory_used(), 0u);
    }
  }
  LedgerConfig config = Config();
  config.max_buckets = 1;
  Ledger other(config);
  EXPECT_EQ(other.Import(state_), ImportResult::kNoMemory);
  EXPECT_EQ(other.memory_used(), 0u);
}

}  // namespace
}  // namespace optireduce::core
