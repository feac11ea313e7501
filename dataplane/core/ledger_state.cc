// A ledger's state as bytes, and back. The format is in docs/ARCHITECTURE.md.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "dataplane/base/byte_order.h"
#include "dataplane/base/crc32c.h"
#include "dataplane/base/require.h"
#include "dataplane/core/ledger.h"

namespace optireduce::core {
namespace {

constexpr uint32_t kMagic = 0x534c524f;  // "ORLS"
constexpr uint16_t kVersion = 1;
constexpr size_t kHeaderBytes = 16;
constexpr size_t kBucketBytes = 32;
constexpr size_t kRunBytes = 12;
constexpr size_t kTrailerBytes = 4;

// Runs of elements that are not zero, one per stored chunk. They are read
// without the chunks that they were: another MTU cuts others.
struct Run {
  uint64_t first = 0;
  uint32_t elements = 0;
  const uint8_t* values = nullptr;

  size_t bytes() const { return kRunBytes + size_t{elements} * 4; }
};

struct Record {
  uint64_t key = 0;
  OpDescriptor op;
  float scale = 1;
  uint32_t residual_runs = 0;
  uint32_t debt_runs = 0;
};

float LoadFloat(const uint8_t* from) {
  return std::bit_cast<float>(LoadLe32(from));
}
void StoreFloat(uint8_t* to, float value) {
  StoreLe32(to, std::bit_cast<uint32_t>(value));
}

Run ReadRun(const uint8_t* at) {
  return {LoadLe64(at), LoadLe32(at + 8), at + kRunBytes};
}

Record ReadRecord(const uint8_t* at) {
  Record record;
  record.key = record.op.bucket = LoadLe64(at);
  record.op.count = LoadLe64(at + 8);
  record.op.dtype = static_cast<gradcodec::Dtype>(at[16]);
  record.op.reduce_op = static_cast<gradcodec::ReduceOp>(at[17]);
  record.scale = LoadFloat(at + 20);
  record.residual_runs = LoadLe32(at + 24);
  record.debt_runs = LoadLe32(at + 28);
  return record;
}

bool IsValid(const Record& record, const uint8_t* at) {
  return record.op.count <= kMaxCount && Ledger::Supports(record.op) &&
         Ledger::IsValidScale(record.scale) && at[18] == 0 && at[19] == 0;
}

// Takes `runs` runs off the front; false if they are not in order, in bounds
// and finite.
bool SkipRuns(std::span<const uint8_t>* data, uint32_t runs, uint64_t count) {
  uint64_t end = 0;
  for (; runs > 0; --runs) {
    if (data->size() < kRunBytes) return false;
    const Run run = ReadRun(data->data());
    if (run.elements == 0 || run.first < end || run.first > count ||
        run.elements > count - run.first || data->size() < run.bytes()) {
      return false;
    }
    for (uint32_t i = 0; i < run.elements; ++i) {
      if (!std::isfinite(LoadFloat(run.values + size_t{i} * 4))) return false;
    }
    end = run.first + run.elements;
    *data = data->subspan(run.bytes());
  }
  return true;
}

// All buckets between header and trailer, nothing after them.
bool AreValid(std::span<const uint8_t> data, uint32_t buckets) {
  for (; buckets > 0; --buckets) {
    if (data.size() < kBucketBytes) return false;
    const Record record = ReadRecord(data.data());
    if (!IsValid(record, data.data())) return false;
    data = data.subspan(kBucketBytes);
    if (!SkipRuns(&data, record.residual_runs, record.op.count) ||
        !SkipRuns(&data, record.debt_runs, record.op.count)) {
      return false;
    }
  }
  return data.empty();
}

const uint8_t* AfterRuns(const uint8_t* at, uint32_t runs) {
  for (; runs > 0; --runs) at += ReadRun(at).bytes();
  return at;
}

const uint8_t* NextRecord(const uint8_t* at) {
  const Record record = ReadRecord(at);
  return AfterRuns(at + kBucketBytes, record.residual_runs + record.debt_runs);
}

size_t RunsBytes(const Bucket& bucket, float* const* blocks) {
  size_t bytes = 0;
  for (uint32_t i = 0; i < bucket.plan.chunk_limit(); ++i) {
    if (blocks[i] == nullptr) continue;
    bytes += kRunBytes + size_t{bucket.plan.Locate(i)->elements} * 4;
  }
  return bytes;
}

// Returns how many.
uint32_t WriteRuns(const Bucket& bucket, float* const* blocks, uint8_t** at) {
  uint32_t runs = 0;
  for (uint32_t i = 0; i < bucket.plan.chunk_limit(); ++i) {
    if (blocks[i] == nullptr) continue;
    const ChunkInfo info = *bucket.plan.Locate(i);
    StoreLe64(*at, info.first);
    StoreLe32(*at + 8, info.elements);
    *at += kRunBytes;
    for (uint32_t k = 0; k < info.elements; ++k, *at += 4) {
      StoreFloat(*at, blocks[i][k]);
    }
    ++runs;
  }
  return runs;
}

}  // namespace

size_t Ledger::StateBytes() const {
  size_t bytes = kHeaderBytes + kTrailerBytes;
  for (const Bucket& bucket : buckets_) {
    if (bucket.key == 0 || IsEmpty(bucket)) continue;
    bytes += kBucketBytes + RunsBytes(bucket, bucket.residual) +
             RunsBytes(bucket, bucket.debt);
  }
  return bytes;
}

void Ledger::Export(std::span<uint8_t> out) const {
  Require(IsQuiet() && out.size() == StateBytes());
  uint8_t* at = out.data() + kHeaderBytes;
  uint32_t buckets = 0;
  for (const Bucket& bucket : buckets_) {
    if (bucket.key == 0 || IsEmpty(bucket)) continue;
    ++buckets;
    uint8_t* record = at;
    at += kBucketBytes;
    StoreLe64(record, bucket.key);
    StoreLe64(record + 8, bucket.count);
    record[16] = static_cast<uint8_t>(bucket.dtype);
    record[17] = static_cast<uint8_t>(bucket.reduce_op);
    StoreLe16(record + 18, 0);
    StoreFloat(record + 20, bucket.scale);
    StoreLe32(record + 24, WriteRuns(bucket, bucket.residual, &at));
    StoreLe32(record + 28, WriteRuns(bucket, bucket.debt, &at));
  }
  StoreLe32(out.data(), kMagic);
  StoreLe16(out.data() + 4, kVersion);
  StoreLe16(out.data() + 6, static_cast<uint16_t>(config_.world));
  StoreLe16(out.data() + 8, config_.self.value());
  StoreLe16(out.data() + 10, 0);
  StoreLe32(out.data() + 12, buckets);
  StoreLe32(at, Crc32c(out.first(out.size() - kTrailerBytes)));
}

ImportResult Ledger::Import(std::span<const uint8_t> state) {
  if (!IsQuiet()) return ImportResult::kNotQuiet;
  if (state.size() < kHeaderBytes + kTrailerBytes ||
      LoadLe32(state.data()) != kMagic) {
    return ImportResult::kDamaged;
  }
  const auto body = state.first(state.size() - kTrailerBytes);
  if (Crc32c(body) != LoadLe32(body.data() + body.size())) {
    return ImportResult::kDamaged;
  }
  if (LoadLe16(state.data() + 4) != kVersion) return ImportResult::kVersion;
  if (LoadLe16(state.data() + 6) != config_.world ||
      LoadLe16(state.data() + 8) != config_.self.value()) {
    return ImportResult::kOtherGroup;
  }
  uint32_t buckets = LoadLe32(state.data() + 12);
  if (LoadLe16(state.data() + 10) != 0 ||
      !AreValid(body.subspan(kHeaderBytes), buckets)) {
    return ImportResult::kDamaged;
  }
  ResetAll();
  const Forgiven before = forgiven(ForgivenFor::kNoMemory);
  for (const uint8_t* at = state.data() + kHeaderBytes; buckets > 0;
       --buckets, at = NextRecord(at)) {
    // One that makes room for the next was read in vain.
    if (!ImportBucket(at) || forgiven(ForgivenFor::kNoMemory) != before) {
      ResetAll();
      return ImportResult::kNoMemory;
    }
  }
  return ImportResult::kImported;
}

bool Ledger::ImportBucket(const uint8_t* at) {
  const Record record = ReadRecord(at);
  Bucket* bucket = FindOrMake(record.op);
  if (bucket == nullptr) return false;
  bucket->scale = record.scale;
  bucket->last_used = ++uses_;
  at += kBucketBytes;
  const uint32_t counts[] = {record.residual_runs, record.debt_runs};
  float** const stores[] = {bucket->residual, bucket->debt};
  for (size_t part = 0; part < 2; ++part) {
    uint32_t chunk = 0;
    for (uint32_t runs = counts[part]; runs > 0; --runs) {
      const Run run = ReadRun(at);
      at += run.bytes();
      // Runs and chunks both go up, so one pass finds them all.
      uint64_t done = 0;
      while (done < run.elements) {
        const uint64_t element = run.first + done;
        std::optional<ChunkInfo> info = bucket->plan.Locate(chunk);
        while (!info.has_value() || info->first + info->elements <= element) {
          info = bucket->plan.Locate(++chunk);
        }
        const uint64_t offset = element - info->first;
        const uint64_t n =
            std::min(info->elements - offset, run.elements - done);
        float*& block = stores[part][chunk];
        if (block == nullptr) {
          block = Allocate(info->elements);
          if (block == nullptr) return false;
          std::memset(block, 0, info->elements * sizeof(float));
        }
        for (uint64_t i = 0; i < n; ++i) {
          block[offset + i] = LoadFloat(run.values + (done + i) * 4);
        }
        done += n;
      }
    }
  }
  return true;
}

}  // namespace optireduce::core
