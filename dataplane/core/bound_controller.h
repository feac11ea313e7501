// BoundController: how long a bounded op's stages may take, learned from the
// ops before it. One per group and rank.
//
// Ops are kept apart by size, in classes of powers of two. Of each class it
// knows the latest samples of both stages: from the quorum until all was in. A
// stage that its bound cut off has no such time; it is scaled up by what was
// missing, so that a bound can never hide that it is too short. A bound is the
// second largest of the latest samples, which no single outlier moves, and some
// headroom. The ceilings, which the configuration makes of the op's size, hold
// until there are enough samples, and are the most there ever is.
//
// A host whose processor is busy is late with everything now and then, too
// rarely to be seen in the samples. It measures that itself: its headroom is
// enough for its longest pause of late, and so is that of the ranks that wait
// for it, as the pause is part of what it advertises.
//
// Peers advertise the stage time that their own bound is made of. A receiver
// must not give up before an owner does, so its bound follows the slowest owner
// that is believable: no slower than twice the median. The median, smoothed, is
// also what the early timeout is a share of; the share grows when an early end
// left out packets that were on their way, and shrinks while it does not.
// Half of it is the grace of ranks that have not opened an op: so long the
// others' contributions take the whole line, and the wait costs nothing.
//
// No clock, no I/O. Fixed memory from construction. Any sample and any
// advertised value is allowed; all results are within the configuration. Not
// thread-safe.

#ifndef OPTIREDUCE_DATAPLANE_CORE_BOUND_CONTROLLER_H_
#define OPTIREDUCE_DATAPLANE_CORE_BOUND_CONTROLLER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/base/time.h"
#include "dataplane/core/config.h"
#include "dataplane/core/types.h"

namespace optireduce::core {

enum class Stage : uint8_t { kOne = 0, kTwo = 1 };

// What a stage of an op took.
struct StageSample {
  Duration took;      // from the quorum to the last arrival, or to the bound
  bool cut = false;   // its bound ended it, with something missing
  uint64_t due = 0;   // chunks that were due; of a cut stage more than 0
  uint64_t came = 0;  // those that came
  uint64_t on_their_way = 0;  // missing at an early end, yet perhaps not lost
};

// All from an op's quorum, but for `early_wait`.
struct Bounds {
  Duration stage1;      // the own shard is closed
  Duration result;      // the op is closed
  Duration send;        // the last owner that is believed closes its shard
  Duration early_wait;  // silence after which a stage may end early
  // Who has not opened the op by then is waited for no longer than he usually
  // needs; at most `stage1`.
  Duration grace;
};

// The most that bounds may be. User bounds are promises; of the configured ones
// an op of many bytes gets what these take on the slowest network, twice over
// for each stage, but no more than leaves half of the hard limit.
class Ceilings {
 public:
  explicit Ceilings(const GroupConfig& config);
  Bounds Of(uint64_t bytes) const;

 private:
  const Bounds least_;
  const Duration most_extra_;
  const uint64_t slowest_rate_bps_;  // 0: all sizes are alike
};

class BoundController {
 public:
  static constexpr size_t kClasses = 32;
  static constexpr size_t kSamples = 32;  // kept per class and stage
  // Fewer tell nothing yet.
  static constexpr size_t kWarmUp = 10;
  // An early wait is no shorter: packets overtake each other, and hosts pause.
  static constexpr Duration kLeastEarlyWait = Duration::Micros(200);
  // A shorter pause is in the samples; a longer one is a host that stands
  // still, which is a matter of liveness.
  static constexpr Duration kLeastPause = Duration::Millis(1);
  static constexpr Duration kMostPause = Duration::Millis(50);
  // Unit of advertised times.
  static constexpr Duration kTick = Duration::Micros(64);

  explicit BoundController(const GroupConfig& config);

  // Ops of 2^(n+11) to 2^(n+12) - 1 bytes are of class n, smaller ones of class
  // 0, larger ones of the last.
  static size_t ClassOf(uint64_t bytes);

  // For an op whose quorum is there now.
  Bounds BoundsOf(uint64_t bytes) const;

  // What to advertise with an op's data and results: the own stage-1 time and
  // pause in units of kTick, rounded up; 0 if it is not known yet.
  uint16_t Advertised(uint64_t bytes) const;
  // What a peer has advertised with such an op; `source` is not this rank.
  void OnAdvertised(uint64_t bytes, Rank source, uint16_t ticks);

  // A stage of an op is over. Stage 1: of the own shard.
  void OnStage(Stage stage, uint64_t bytes, const StageSample& sample);
  // A packet came after its stage had been ended early, and before its bound.
  void OnTooEarly(uint64_t bytes);
  // What was due here was done so much later, for want of a processor.
  void OnPause(Duration late);

 private:
  // The latest samples, a ring.
  struct History {
    std::array<Duration, kSamples> samples;
    uint32_t count = 0;  // of valid samples
    uint32_t next = 0;
    Duration reference;  // 0: not known yet
  };
  struct Class {
    std::array<History, 2> stages;
    Duration slowest_owner;  // its stage-1 time; 0: not known yet
    Duration base;           // tC; 0: not known yet
    uint32_t share = 0;      // x, per thousand of tC
    uint64_t due = 0;        // chunks, and those that an early end left out,
    uint64_t too_early = 0;  // since the share was last looked at
    double loss = 0;         // their smoothed ratio
  };

  const Class& At(uint64_t bytes) const { return classes_[ClassOf(bytes)]; }
  Class& At(uint64_t bytes) { return classes_[ClassOf(bytes)]; }
  uint16_t* TicksOf(size_t size_class) { return &ticks_[size_class * world_]; }
  // `most`: more than the largest bound says no more than it does.
  static void Add(History* history, const StageSample& sample, Duration most);
  Duration WithHeadroom(Duration reference) const;
  Duration Stage1Bound(Duration reference, Duration most) const;
  Duration EarlyWait(const Class& of, Duration most) const;
  Duration Grace(const Class& of, Duration stage1) const;
  void LearnFromPeers(size_t size_class);
  void AdaptShare(Class* of);

  const bool adaptive_;
  const Ceilings ceilings_;
  const Duration least_;
  const Duration least_early_wait_;
  const size_t world_;
  const size_t self_;
  std::array<Class, kClasses> classes_;
  Duration pause_;                // the longest of late, fading
  std::vector<uint16_t> ticks_;   // advertised, by class and rank; 0: unknown
  std::vector<uint16_t> sorted_;  // scratch, one per rank
};

}  // namespace optireduce::core

#endif  // OPTIREDUCE_DATAPLANE_CORE_BOUND_CONTROLLER_H_
