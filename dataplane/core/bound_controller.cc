#include "dataplane/core/bound_controller.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace optireduce::core {
namespace {

// Smaller ops fit in a few packets and take alike.
constexpr int kSmallestClassBits = 12;

// Bounds are 7/5 of what stages take. With this a receiver's bound, which is an
// owner's and the time to send a shard again, is under twice that time.
constexpr int64_t kHeadroomTimes = 7;
constexpr int64_t kHeadroomOver = 5;

// A cut stage is taken to have needed at least and at most so many times its
// bound. Less than the first says little, as the last packets are the slowest,
// and would let the bound grow by its headroom alone; without the second an op
// of which nothing came would say that it takes for ever.
constexpr double kLeastCut = 1.5;
constexpr double kMostCut = 4;

// No owner is believed to be slower than so many times the median.
constexpr uint32_t kBelievable = 2;

// tC moves a quarter of the way to each new median.
constexpr int64_t kSmoothing = 4;

// x, per thousand of tC. It is to hold what early ends leave out between 0.01
// and 0.1 %. Averaged over some 32 ops: above the middle of that an op that
// left something out doubles x, below the band x falls by a sixteenth.
constexpr uint32_t kFirstShare = 100;
constexpr uint32_t kLeastShare = 10;
constexpr uint32_t kMostShare = 500;
constexpr uint32_t kShareStep = 16;
constexpr double kBandLow = 0.0001;
constexpr double kBandMiddle = 0.0004;
constexpr double kLossSmoothing = 32;

// The longest pause fades by this part of it with each op: hosts that are busy
// at all pause again within some hundred ops.
constexpr int64_t kPauseFading = 256;
// The headroom is at least so much of it.
constexpr int64_t kPauseTimes = 5;
constexpr int64_t kPauseOver = 4;

constexpr uint16_t kUnknown = std::numeric_limits<uint16_t>::max();

}  // namespace

Ceilings::Ceilings(const GroupConfig& config)
    : least_{config.stage1_bound, config.result_bound, config.stage1_bound,
             config.early_wait, config.stage1_bound},
      most_extra_(
          std::max(config.hard_limit / 2 - config.result_bound, Duration()) /
          4),
      slowest_rate_bps_(config.adaptive_bounds ? config.slowest_rate_bps : 0) {}

Bounds Ceilings::Of(uint64_t bytes) const {
  Bounds bounds = least_;
  if (slowest_rate_bps_ == 0) return bounds;
  const double on_the_line =
      8e9 * static_cast<double>(bytes) / static_cast<double>(slowest_rate_bps_);
  const Duration extra = Duration::Nanos(static_cast<int64_t>(
      std::min(on_the_line, static_cast<double>(most_extra_.nanos()))));
  bounds.stage1 = bounds.stage1 + extra * 2;
  bounds.send = bounds.grace = bounds.stage1;
  bounds.result = bounds.result + extra * 4;
  return bounds;
}

BoundController::BoundController(const GroupConfig& config)
    : adaptive_(config.adaptive_bounds),
      ceilings_(config),
      least_(std::min(config.least_bound, config.stage1_bound)),
      least_early_wait_(std::min(kLeastEarlyWait, config.early_wait)),
      world_(config.members.size()),
      self_(config.self.index()),
      ticks_(adaptive_ ? kClasses * world_ : 0),
      sorted_(adaptive_ ? world_ : 0) {
  for (Class& each : classes_) each.share = kFirstShare;
}

size_t BoundController::ClassOf(uint64_t bytes) {
  const int bits = std::bit_width(bytes);
  return std::min(static_cast<size_t>(std::max(bits - kSmallestClassBits, 0)),
                  kClasses - 1);
}

Bounds BoundController::BoundsOf(uint64_t bytes) const {
  const Bounds most = ceilings_.Of(bytes);
  if (!adaptive_) return most;
  Bounds bounds = most;
  const Class& of = At(bytes);
  bounds.early_wait = EarlyWait(of, most.early_wait);
  const Duration stage1 = of.stages[0].reference;
  if (stage1 != Duration()) bounds.stage1 = Stage1Bound(stage1, most.stage1);
  bounds.grace = Grace(of, bounds.stage1);
  if (of.slowest_owner != Duration()) {
    bounds.send =
        std::max(bounds.stage1, Stage1Bound(of.slowest_owner, most.stage1));
  }
  const Duration result = of.stages[1].reference;
  if (result == Duration()) return bounds;
  // A shard of which a contribution lacked until the owner's bound is sent only
  // then: half of what the op sends in all.
  const Duration after_last_owner =
      bounds.send + std::max(result / 2, least_ / 2);
  bounds.result =
      std::min(most.result, std::max(WithHeadroom(result), after_last_owner));
  return bounds;
}

Duration BoundController::WithHeadroom(Duration reference) const {
  return std::max(reference * kHeadroomTimes / kHeadroomOver,
                  reference + pause_ * kPauseTimes / kPauseOver);
}

Duration BoundController::Stage1Bound(Duration reference, Duration most) const {
  return std::clamp(WithHeadroom(reference), least_, most);
}

Duration BoundController::EarlyWait(const Class& of, Duration most) const {
  if (of.base == Duration()) return most;
  return std::clamp(of.base * of.share / 1000, least_early_wait_, most);
}

// Contributions are half of what an op sends: they alone are through after half
// of the time in which they and the results take turns. Trainers of busy hosts
// wait for a processor as daemons do.
Duration BoundController::Grace(const Class& of, Duration stage1) const {
  if (of.base == Duration()) return stage1;
  return std::clamp(of.base / 2 + pause_, least_, stage1);
}

uint16_t BoundController::Advertised(uint64_t bytes) const {
  const Duration reference = At(bytes).stages[0].reference;
  if (reference == Duration()) return 0;
  const int64_t ticks =
      ((reference + pause_).nanos() - 1) / kTick.nanos() + 1;  // rounded up
  return static_cast<uint16_t>(std::min<int64_t>(ticks, kUnknown));
}

void BoundController::OnAdvertised(uint64_t bytes, Rank source,
                                   uint16_t ticks) {
  if (!adaptive_) return;
  TicksOf(ClassOf(bytes))[source.index()] = ticks;
}

void BoundController::OnStage(Stage stage, uint64_t bytes,
                              const StageSample& sample) {
  if (!adaptive_) return;
  const size_t size_class = ClassOf(bytes);
  Class& of = classes_[size_class];
  Add(&of.stages[static_cast<size_t>(stage)], sample,
      ceilings_.Of(bytes).result);
  of.too_early += sample.on_their_way;
  if (stage == Stage::kOne) {
    of.due += sample.due;  // as many as in stage 2
    TicksOf(size_class)[self_] = Advertised(bytes);
    LearnFromPeers(size_class);
  } else {
    pause_ = pause_ - pause_ / kPauseFading;
    AdaptShare(&of);
  }
}

void BoundController::OnTooEarly(uint64_t bytes) {
  if (adaptive_) ++At(bytes).too_early;
}

void BoundController::OnPause(Duration late) {
  if (late >= kLeastPause && late <= kMostPause) {
    pause_ = std::max(pause_, late);
  }
}

void BoundController::Add(History* history, const StageSample& sample,
                          Duration most) {
  Duration took = std::clamp(sample.took, Duration::Nanos(1), most);
  if (sample.cut) {
    const double factor =
        std::clamp(static_cast<double>(sample.due) /
                       static_cast<double>(std::max<uint64_t>(sample.came, 1)),
                   kLeastCut, kMostCut);
    took = Duration::Nanos(
        static_cast<int64_t>(static_cast<double>(took.nanos()) * factor));
  }
  history->samples[history->next] = took;
  history->next = (history->next + 1) % kSamples;
  history->count = std::min<uint32_t>(history->count + 1, kSamples);
  if (history->count < kWarmUp) return;
  Duration largest;
  Duration second;
  for (size_t i = 0; i < history->count; ++i) {
    const Duration each = history->samples[i];
    second = std::max(second, std::min(each, largest));
    largest = std::max(largest, each);
  }
  history->reference = second;
}

// The median and the slowest owner, of what is known of the ranks now.
void BoundController::LearnFromPeers(size_t size_class) {
  const uint16_t* const ticks = TicksOf(size_class);
  // Who does not know his own time yet has the largest bound.
  std::transform(ticks, ticks + world_, sorted_.begin(),
                 [](uint16_t each) { return each == 0 ? kUnknown : each; });
  const auto middle = sorted_.begin() + static_cast<ptrdiff_t>(world_ / 2);
  std::nth_element(sorted_.begin(), middle, sorted_.end());
  const uint16_t median = *middle;
  Class& of = classes_[size_class];
  if (median == kUnknown) {
    of.slowest_owner = Duration();
    return;
  }
  const uint32_t slowest = std::min<uint32_t>(
      *std::max_element(sorted_.begin(), sorted_.end()), median * kBelievable);
  of.slowest_owner = kTick * slowest;
  const Duration now = kTick * median;
  of.base =
      of.base == Duration() ? now : of.base + (now - of.base) / kSmoothing;
}

void BoundController::AdaptShare(Class* of) {
  if (of->due == 0) return;
  const double loss = std::min(
      1.0, static_cast<double>(of->too_early) / static_cast<double>(of->due));
  of->loss += (loss - of->loss) / kLossSmoothing;
  if (of->loss > kBandMiddle && of->too_early > 0) {
    of->share = std::min(of->share * 2, kMostShare);
  } else if (of->loss < kBandLow) {
    of->share =
        std::max(of->share - std::max(of->share / kShareStep, 1u), kLeastShare);
  }
  of->due = of->too_early = 0;
}

}  // namespace optireduce::core
