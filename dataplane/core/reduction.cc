#include "dataplane/core/reduction.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "dataplane/core/ledger.h"
#include "gradcodec/accumulate.h"
#include "gradcodec/reduce.h"
#include "gradcodec/residual.h"
#include "proto/wire.h"

namespace optireduce::core {
namespace {

// What the stash of one exact op may take.
constexpr size_t kStashBytes = size_t{4} << 20;
constexpr uint32_t kMinWindow = 2;
constexpr uint32_t kMaxWindow = 256;

constexpr size_t Align(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Whether rounding a result loses what is to be kept of it.
bool KeepsRemainders(const OpDescriptor& op) {
  return op.mode == Mode::kBounded && Ledger::Supports(op) &&
         gradcodec::SizeOf(WireDtype(op)) < sizeof(float);
}

}  // namespace

// Offsets of the parts in the caller's memory.
struct Reduction::Layout {
  size_t values = 0;
  size_t results = 0;
  size_t stash = 0;
  size_t arrived = 0;
  size_t frozen = 0;
  size_t imputed = 0;
  size_t counts = 0;
  size_t total = 0;

  uint32_t accumulator_bytes = 0;
  uint32_t window = 1;
  uint32_t arrived_words = 0;

  Layout(const OpDescriptor& op, const ChunkPlan& plan, Rank self,
         size_t world) {
    const uint32_t chunks = plan.ChunksOf(self);
    const bool exact = op.mode != Mode::kBounded;
    const uint32_t chunk_bytes =
        plan.elements_per_chunk() * plan.element_bytes();
    accumulator_bytes =
        exact ? plan.element_bytes()
              : static_cast<uint32_t>(gradcodec::SizeOf(
                    gradcodec::AccumulatorType(plan.wire_dtype())));
    arrived_words = static_cast<uint32_t>(BitmapView::WordsFor(world));
    window =
        exact ? std::max(1u, std::min(chunks, CreditWindow(chunk_bytes, world)))
              : std::max(1u, chunks);
    results = Align(plan.ElementsOf(self) * accumulator_bytes);
    stash = results + (KeepsRemainders(op)
                           ? Align(plan.ElementsOf(self) * plan.element_bytes())
                           : 0);
    arrived = stash + (exact ? Align(size_t{window} * world * chunk_bytes) : 0);
    frozen = arrived + Align(size_t{window} * arrived_words * 8);
    imputed = frozen + Align(BitmapView::WordsFor(chunks) * 8);
    counts = imputed + Align(BitmapView::WordsFor(chunks) * 8);
    total = counts + Align(size_t{chunks} * 2);
  }
};

size_t Reduction::BytesNeeded(const OpDescriptor& op, const ChunkPlan& plan,
                              Rank self, size_t world) {
  return Layout(op, plan, self, world).total;
}

uint32_t Reduction::CreditWindow(uint32_t payload_bytes, size_t world) {
  return static_cast<uint32_t>(std::clamp<size_t>(
      kStashBytes / (payload_bytes * world), kMinWindow, kMaxWindow));
}

Reduction::Reduction(const OpDescriptor& op, const ChunkPlan& plan, Rank self,
                     size_t world, uint8_t* memory)
    : op_(op),
      dtype_(plan.wire_dtype()),
      self_(self),
      world_(static_cast<uint32_t>(world)),
      chunks_(plan.ChunksOf(self)),
      elements_(plan.ElementsOf(self)),
      elements_per_chunk_(plan.elements_per_chunk()),
      element_bytes_(plan.element_bytes()) {
  const Layout layout(op, plan, self, world);
  accumulator_bytes_ = layout.accumulator_bytes;
  window_ = layout.window;
  arrived_words_ = layout.arrived_words;
  values_ = memory;
  results_ = KeepsRemainders(op) ? memory + layout.results : nullptr;
  stash_ = memory + layout.stash;
  arrived_ = reinterpret_cast<uint64_t*>(memory + layout.arrived);
  counts_ = reinterpret_cast<uint16_t*>(memory + layout.counts);
  frozen_ = BitmapView({reinterpret_cast<uint64_t*>(memory + layout.frozen),
                        BitmapView::WordsFor(chunks_)},
                       chunks_);
  frozen_.ClearAll();
  imputed_ = BitmapView({reinterpret_cast<uint64_t*>(memory + layout.imputed),
                         BitmapView::WordsFor(chunks_)},
                        chunks_);
  imputed_.ClearAll();
  std::memset(arrived_, 0, size_t{window_} * arrived_words_ * 8);
  std::memset(counts_, 0, size_t{chunks_} * 2);
}

uint64_t* Reduction::ArrivedWords(uint32_t local) const {
  return arrived_ + size_t{Slot(local)} * arrived_words_;
}

uint32_t Reduction::ElementsOf(uint32_t local) const {
  return static_cast<uint32_t>(std::min<uint64_t>(
      elements_per_chunk_, elements_ - uint64_t{local} * elements_per_chunk_));
}

uint8_t* Reduction::StashEntry(uint32_t local, size_t rank) const {
  const size_t chunk_bytes = size_t{elements_per_chunk_} * element_bytes_;
  return stash_ + (size_t{Slot(local)} * world_ + rank) * chunk_bytes;
}

uint8_t* Reduction::Accumulator(uint32_t local) const {
  return values_ + uint64_t{local} * elements_per_chunk_ * accumulator_bytes_;
}

uint32_t Reduction::credit_limit() const {
  if (op_.mode == Mode::kBounded) return chunks_;
  return std::min(chunks_, prefix_ + window_);
}

bool Reduction::HasArrived(uint32_t local, Rank source) const {
  if (op_.mode != Mode::kBounded) {
    if (frozen_.Test(local)) return true;
    if (local >= credit_limit()) return false;
  }
  return BitmapView({ArrivedWords(local), arrived_words_}, world_)
      .Test(source.index());
}

Reduction::AddResult Reduction::Add(uint32_t local, Rank source,
                                    const uint8_t* payload) {
  if (frozen_.Test(local)) {
    // Bounded: the set is kept, so a contribution that came too late can be
    // told from one that came twice.
    return op_.mode != Mode::kBounded || HasArrived(local, source)
               ? AddResult::kDuplicate
               : AddResult::kFrozen;
  }
  if (local >= credit_limit()) return AddResult::kBeyondCredit;
  BitmapView arrived({ArrivedWords(local), arrived_words_}, world_);
  if (arrived.TestAndSet(source.index())) return AddResult::kDuplicate;
  const uint32_t elements = ElementsOf(local);
  if (op_.mode != Mode::kBounded) {
    if (source != self_) {
      std::memcpy(StashEntry(local, source.index()), payload,
                  size_t{elements} * element_bytes_);
    }
  } else if (counts_[local] == 0) {
    gradcodec::AccumulateFirst(dtype_, payload, Accumulator(local), elements);
  } else {
    gradcodec::Accumulate(dtype_, payload, Accumulator(local), elements);
  }
  ++counts_[local];
  return AddResult::kAdded;
}

void Reduction::ReduceBounded(uint32_t local) {
  // Through a copy: a narrower result would overlap its own accumulator.
  std::array<uint8_t, wire::kMaxMtu> result;
  const uint32_t elements = ElementsOf(local);
  gradcodec::ScaleAndRound(dtype_, op_.reduce_op, Accumulator(local),
                           counts_[local], world_, result.data(), elements);
  std::memcpy(Accumulator(local), result.data(),
              size_t{elements} * element_bytes_);
}

void Reduction::ReduceExact(uint32_t local, const uint8_t* own_input) {
  std::array<const void*, wire::kMaxWorld> sources;
  for (uint32_t rank = 0; rank < world_; ++rank) {
    sources[rank] = rank == self_.value() ? own_input : StashEntry(local, rank);
  }
  gradcodec::ReduceInRankOrder(dtype_, op_.reduce_op, sources.data(), world_,
                               world_, Accumulator(local), ElementsOf(local));
}

void Reduction::Freeze(uint32_t local, const uint8_t* own_input) {
  if (op_.mode != Mode::kBounded) {
    ReduceExact(local, own_input);
  } else {
    ReduceBounded(local);
  }
  NoteFrozen(local);
}

void Reduction::FreezeBucketed(uint32_t local, bool imputed) {
  if (results_ == nullptr) {
    gradcodec::BucketedResult(
        dtype_, op_.reduce_op,
        reinterpret_cast<const float*>(Accumulator(local)), counts_[local],
        world_, imputed, Accumulator(local), ElementsOf(local));
  } else {
    RoundBucketed(local, imputed);
  }
  if (imputed) imputed_.Set(local);
  NoteFrozen(local);
}

// A codec's result is limited to what its type can hold, like contributions
// are: the trainer's own type can hold more. Where they are one type, an
// infinity tells the trainer that its values are too large.
void Reduction::RoundBucketed(uint32_t local, bool imputed) {
  auto* const sum = reinterpret_cast<float*>(Accumulator(local));
  uint8_t* const result = ResultAt(local);
  const uint32_t elements = ElementsOf(local);
  const uint32_t contributors = counts_[local];
  if (IsNarrowing(op_.codec)) {
    std::array<float, wire::kMaxMtu / 2> wide;
    gradcodec::BucketedResult(gradcodec::Dtype::kFloat32, op_.reduce_op, sum,
                              contributors, world_, imputed, wide.data(),
                              elements);
    gradcodec::RoundToWire(dtype_, wide.data(), result, elements);
  } else {
    gradcodec::BucketedResult(dtype_, op_.reduce_op, sum, contributors, world_,
                              imputed, result, elements);
  }
  if (contributors == 0) return;
  gradcodec::SubtractResult(dtype_, op_.reduce_op, result, contributors, world_,
                            imputed, sum, elements);
}

void Reduction::NoteFrozen(uint32_t local) {
  frozen_.Set(local);
  ++frozen_count_;
  while (prefix_ < chunks_ && frozen_.Test(prefix_)) {
    // The slot of a chunk that leaves the window serves the one that enters.
    if (op_.mode != Mode::kBounded) {
      std::memset(ArrivedWords(prefix_), 0, size_t{arrived_words_} * 8);
    }
    ++prefix_;
  }
}

uint8_t* Reduction::ResultAt(uint32_t local) const {
  if (results_ == nullptr) return Accumulator(local);
  return results_ + uint64_t{local} * elements_per_chunk_ * element_bytes_;
}

std::span<const uint8_t> Reduction::Result(uint32_t local) const {
  return {ResultAt(local), size_t{ElementsOf(local)} * element_bytes_};
}

std::span<const float> Reduction::Remainder(uint32_t local) const {
  if (results_ == nullptr || counts_[local] == 0) return {};
  return {reinterpret_cast<const float*>(Accumulator(local)),
          ElementsOf(local)};
}

}  // namespace optireduce::core
