#include "dataplane/sim/random_scenario.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "dataplane/base/rng.h"
#include "gradcodec/dtype.h"

namespace optireduce::sim {

namespace {

using core::Collective;
using core::Mode;
using gradcodec::Dtype;
using gradcodec::ReduceOp;

constexpr double kFaultless = 0.1;
constexpr double kEachFault = 0.42;
// Kinds that often find nothing to strike although they are there.
constexpr double kRareFault = 0.58;

// About how many chunk packets one op may take, so that a seed is a matter of
// milliseconds.
constexpr uint64_t kPacketsPerOp = 600;

template <typename T, size_t kSize>
const T& Pick(const std::array<T, kSize>& from, Rng* rng) {
  return from[rng->Below(kSize)];
}

Duration Between(Duration low, Duration high, Rng* rng) {
  return Duration::Nanos(rng->Between(low.nanos(), high.nanos()));
}

constexpr uint64_t kStepsSalt = 0x57e9'57e9'57e9'57e9u;
constexpr uint64_t kWaysSalt = 0xc0de'c0de'c0de'c0deu;
constexpr uint64_t kRatesSalt = 0x5ca1ab1e;

class Draw {
 public:
  explicit Draw(uint64_t seed)
      : rng_(seed),
        bounds_rng_(~seed),
        steps_rng_(seed ^ kStepsSalt),
        ways_rng_(seed ^ kWaysSalt),
        rates_rng_(seed ^ kRatesSalt) {
    scenario_.seed = seed;
  }

  Scenario Run() {
    scenario_.give_up = Duration::Seconds(60);
    DrawHosts();
    DrawGroups();
    if (!rng_.Chance(kFaultless)) DrawFaults();
    return scenario_;
  }

 private:
  bool Strikes(double chance = kEachFault) { return rng_.Chance(chance); }
  uint16_t AnyHost() {
    return static_cast<uint16_t>(rng_.Below(scenario_.hosts.size()));
  }

  // ---- hosts and links

  void DrawHosts() {
    world_ = rng_.LogUniform(2, 64);
    ranks_per_host_ = rng_.Chance(0.2) ? 1 + rng_.Below(4) : 1;
    const size_t hosts = (world_ + ranks_per_host_ - 1) / ranks_per_host_;
    static constexpr std::array<uint64_t, 4> kGigabits = {1, 10, 25, 100};
    const uint64_t rate = Pick(kGigabits, &rng_) * 1'000'000'000;
    const Duration delay =
        Between(Duration::Micros(1), Duration::Micros(20), &rng_);
    const bool paced = rng_.Chance(0.5);
    const uint64_t mark_above =
        rates_rng_.Chance(0.5) ? rates_rng_.LogUniform(4 << 10, 256 << 10) : 0;
    for (size_t i = 0; i < hosts; ++i) {
      HostSpec host;
      host.link.rate_bps = rng_.Chance(0.05) ? 1'000'000'000 : rate;
      host.link.delay = delay;
      host.link.nic_queue_bytes = 64 << 10;
      host.link.switch_queue_bytes = 4 << 20;
      host.link.mark_above_bytes = mark_above;
      host.poll_interval =
          Between(Duration::Micros(1), Duration::Micros(10), &rng_);
      host.hardware_clock = rng_.Chance(0.5);
      host.clock_start = Duration::Nanos(rng_.Between(0, int64_t{1} << 45));
      host.receive_ring = 8192;
      if (paced) host.pacer_bps = host.link.rate_bps;
      scenario_.hosts.push_back(host);
    }
  }

  // ---- groups

  void DrawGroups() {
    scenario_.groups.push_back(DrawGroup(world_));
    if (rng_.Chance(0.25)) {
      const size_t most = std::min<size_t>(world_, 8);
      scenario_.groups.push_back(DrawGroup(1 + rng_.Below(most)));
    }
    if (rng_.Chance(0.17)) {
      GroupSpec next = scenario_.groups[0];
      next.config.tag = DrawTag();
      next.next_epoch_of = 0;
      next.ops.resize(std::min<size_t>(next.ops.size(), 4));
      scenario_.groups.push_back(next);
    }
  }

  // Tags are unlike, and unlike each other's complements.
  uint32_t DrawTag() {
    const auto index = static_cast<uint32_t>(scenario_.groups.size());
    return (static_cast<uint32_t>(rng_.Next()) & 0x7ffffff0u) | index;
  }

  GroupSpec DrawGroup(size_t world) {
    GroupSpec group;
    for (size_t rank = 0; rank < world; ++rank) {
      group.hosts.push_back(static_cast<uint16_t>(rank / ranks_per_host_));
      group.join_after.push_back(
          Between(Duration(), Duration::Micros(500), &rng_));
    }
    DrawConfig(world, &group);
    group.start_together = rng_.Chance(0.7);
    group.max_in_flight = static_cast<uint32_t>(rng_.Between(3, 8));
    group.ending = rng_.Chance(0.5) ? Ending::kDrain : Ending::kLeave;
    const uint64_t ops = 3 + rng_.Below(world > 16 ? 2 : 6);
    for (uint64_t i = 0; i < ops; ++i) group.ops.push_back(DrawOp(world));
    if (world <= 3 && rng_.Chance(0.3)) {
      MakeLong(world, &group.ops[rng_.Below(ops)]);
    }
    if (rng_.Chance(0.25)) MakeMemoryScarce(&group);
    DrawSubmits(&group);
    if (group.config.adaptive_bounds && world <= 6) MakeSeries(&group);
    if (steps_rng_.Chance(0.45)) MakeSteps(world, &group);
    return group;
  }

  void DrawConfig(size_t world, GroupSpec* group) {
    core::GroupConfig& config = group->config;
    config.tag = DrawTag();
    config.first_op = core::OpSeq(DrawFirstOp());
    static constexpr std::array<uint32_t, 3> kPayloads = {496, 1424, 1424};
    config.payload_bytes = Pick(kPayloads, &rng_);
    config.max_buckets = 8;
    config.window = static_cast<uint32_t>(rng_.Between(3, 16));
    config.memory_budget = size_t{1 << 20} << rng_.Below(3);
    config.fill =
        rng_.Chance(0.15) ? core::FillPolicy::kOwn : core::FillPolicy::kZero;
    // Clocks run slower where more packets have to pass.
    const auto crowd = static_cast<int64_t>(1 + world / 8);
    config.stage1_bound =
        Between(Duration::Millis(2), Duration::Millis(8), &rng_) * crowd;
    config.result_bound =
        config.stage1_bound +
        Between(Duration::Millis(1), Duration::Millis(8), &rng_) * crowd;
    config.adaptive_bounds = bounds_rng_.Chance(0.5);
    if (bounds_rng_.Chance(0.3)) {
      config.slowest_rate_bps = bounds_rng_.Between(10'000'000, 1'000'000'000);
    }
    config.least_bound =
        Between(Duration::Micros(100), Duration::Millis(2), &bounds_rng_);
    config.early_wait =
        Between(Duration::Micros(200), Duration::Millis(2), &rng_);
    config.feedback_interval = Duration::Millis(1) * crowd;
    config.nack_interval = Duration::Micros(1500) * crowd;
    config.heartbeat = Duration::Millis(20) * crowd;
    config.suspect_after = config.heartbeat * 4;
    config.dead_after = config.heartbeat * 20;
    config.hard_limit = Duration::Millis(600) * crowd;
    config.formation_limit = Duration::Seconds(1) * crowd;
    DrawRates(world, &config);
  }

  void DrawRates(size_t world, core::GroupConfig* config) {
    const bool paced = scenario_.hosts[0].pacer_bps > 0;
    if (paced) config->congestion_control = rates_rng_.Chance(0.7);
    if (paced && rates_rng_.Chance(0.3)) {
      config->share_cap_permille =
          static_cast<uint32_t>(rates_rng_.Between(200, 1000));
    }
    if (rates_rng_.Chance(0.3)) {
      config->incast = static_cast<uint32_t>(rates_rng_.LogUniform(1, world));
    }
  }

  uint32_t DrawFirstOp() {
    const auto before = static_cast<uint32_t>(rng_.Below(8));
    if (rng_.Chance(0.35)) return 0u - before;
    if (rng_.Chance(0.25)) return 0x8000'0000u - before;
    return rng_.Chance(0.5) ? 0 : static_cast<uint32_t>(rng_.Next());
  }

  // ---- ops

  OpSpec DrawOp(size_t world) {
    OpSpec spec;
    core::OpDescriptor& op = spec.descriptor;
    DrawKind(world, &op);
    op.count = DrawCount(world, op);
    op.bucket = rng_.Chance(0.2) ? 1 + rng_.Below(3) : 0;
    op.step = op.bucket == 0 ? 0 : rng_.Below(3);
    spec.inputs =
        op.mode == Mode::kBounded ? InputKind::kSummable : InputKind::kBits;
    spec.in_place = rng_.Chance(0.6);
    if (rng_.Chance(0.4)) {
      spec.misalignment = static_cast<uint8_t>(rng_.Below(32));
    }
    return spec;
  }

  void DrawKind(size_t world, core::OpDescriptor* op) {
    const uint64_t kind = rng_.Below(100);
    op->collective = kind < 72   ? Collective::kAllReduce
                     : kind < 80 ? Collective::kReduceScatter
                     : kind < 87 ? Collective::kAllGather
                     : kind < 94 ? Collective::kBroadcast
                                 : Collective::kBarrier;
    const bool reduces = op->collective == Collective::kAllReduce ||
                         op->collective == Collective::kReduceScatter;
    const bool may_lose = op->collective == Collective::kAllReduce;
    op->mode = may_lose && rng_.Chance(0.65) ? Mode::kBounded : Mode::kExact;
    do {
      op->dtype = rng_.Chance(0.4) ? Dtype::kFloat32
                                   : static_cast<Dtype>(1 + rng_.Below(12));
      op->reduce_op = static_cast<ReduceOp>(1 + rng_.Below(4));
    } while (reduces && !gradcodec::IsSupported(op->dtype, op->reduce_op,
                                                op->mode == Mode::kBounded));
    if (!reduces) op->reduce_op = ReduceOp::kSum;
    if (op->mode == Mode::kBounded && gradcodec::SizeOf(op->dtype) <= 4 &&
        rng_.Chance(0.15)) {
      op->codec = core::Codec::kHadamard;
    }
    if (op->collective == Collective::kBroadcast) {
      op->root = core::Rank(static_cast<uint16_t>(rng_.Below(world)));
    }
    if (op->collective == Collective::kReduceScatter &&
        gradcodec::IsSupported(op->dtype, op->reduce_op, true) &&
        ways_rng_.Chance(0.6)) {
      op->mode = Mode::kBounded;
    }
    if (op->codec == core::Codec::kNone) DrawNarrowing(op);
  }

  // Half as many bytes, or not.
  void DrawNarrowing(core::OpDescriptor* op) {
    if (op->mode != Mode::kBounded || op->dtype != Dtype::kFloat32 ||
        op->collective != Collective::kAllReduce || !ways_rng_.Chance(0.3)) {
      return;
    }
    op->codec =
        ways_rng_.Chance(0.5) ? core::Codec::kBfloat16 : core::Codec::kFloat16;
  }

  uint64_t DrawCount(size_t world, const core::OpDescriptor& op) {
    if (op.collective == Collective::kBarrier) return 0;
    const uint64_t per_chunk = 496 / gradcodec::SizeOf(op.dtype);
    const uint64_t chunks = std::max<uint64_t>(1, kPacketsPerOp / (2 * world));
    uint64_t count = rng_.LogUniform(1, chunks * per_chunk);
    const uint64_t special = rng_.Below(20);
    if (special == 0) count = 0;
    if (special == 1) count = world - 1;
    if (special == 2) count = world;
    if (special == 3) count = world + 1;
    if (special == 4) count = rng_.Below(4);
    if (op.collective == Collective::kReduceScatter ||
        op.collective == Collective::kAllGather) {
      count = (count + world - 1) / world * world;
    }
    return count;
  }

  // Ops wait for room, push others out, or are refused.
  void MakeMemoryScarce(GroupSpec* group) {
    const size_t world = group->hosts.size();
    uint64_t largest = 0;
    for (const OpSpec& spec : group->ops) {
      const core::OpDescriptor& op = spec.descriptor;
      const uint64_t bytes = op.count * gradcodec::SizeOf(op.dtype);
      largest = std::max(largest, bytes + bytes / world * 2);
    }
    group->config.memory_budget =
        rng_.LogUniform(largest + (16 << 10), largest * 3 + (64 << 10));
  }

  // More chunks than an exact op's senders may run ahead.
  void MakeLong(size_t world, OpSpec* spec) {
    core::OpDescriptor& op = spec->descriptor;
    op = {};
    op.mode = Mode::kExact;
    op.dtype = Dtype::kUint8;
    if (rng_.Chance(0.5)) op.collective = Collective::kReduceScatter;
    op.count = world * 496 * static_cast<uint64_t>(rng_.Between(257, 300));
    spec->inputs = InputKind::kBits;
  }

  // The first three ops go out together; then the pace differs.
  void DrawSubmits(GroupSpec* group) {
    const size_t world = group->hosts.size();
    std::vector<Duration> at(world);
    for (size_t op = 0; op < group->ops.size(); ++op) {
      for (Duration& rank_at : at) {
        const Duration jitter =
            Between(Duration(), Duration::Micros(200), &rng_);
        rank_at = op < 3 ? std::max(rank_at, jitter) : rank_at + jitter * 5;
      }
      group->ops[op].submit_after = at;
      DrawLimits(group->config, &group->ops[op], world);
    }
  }

  // So many alike that bounds adapt to them.
  void MakeSeries(GroupSpec* group) {
    OpSpec op;
    op.descriptor.mode = Mode::kBounded;
    op.descriptor.count = bounds_rng_.LogUniform(100, 5000);
    op.inputs = InputKind::kSummable;
    op.submit_after = group->ops.back().submit_after;
    const Duration gap =
        Between(Duration::Micros(50), Duration::Millis(2), &bounds_rng_);
    const auto ops = static_cast<int>(bounds_rng_.Between(15, 30));
    for (int i = 0; i < ops; ++i) {
      for (Duration& at : op.submit_after) {
        at = at + Between(gap / 2, gap, &bounds_rng_);
      }
      group->ops.push_back(op);
    }
  }

  // A training in front of all else: steps of one op for each bucket.
  void MakeSteps(size_t world, GroupSpec* group) {
    Rng& rng = steps_rng_;
    std::vector<OpSpec> buckets(1 + rng.Below(3));
    for (size_t i = 0; i < buckets.size(); ++i) {
      buckets[i] = DrawBucket(world, 101 + i);
    }
    std::vector<Duration> at(world);
    std::vector<OpSpec> ops;
    const uint64_t steps = 2 + rng.Below(4);
    const bool rescales = rng.Chance(0.3);
    for (uint64_t step = 1; step <= steps; ++step) {
      const auto scale =
          static_cast<float>(1u << (rescales ? rng.Below(6) : 0));
      for (OpSpec op : buckets) {
        op.descriptor.step = 100 + step;
        op.descriptor.loss_scale = scale;
        for (Duration& rank_at : at) {
          rank_at = rank_at + Between(Duration(), Duration::Micros(300), &rng);
        }
        op.submit_after = at;
        ops.push_back(op);
      }
    }
    if (rng.Chance(0.5)) {
      for (OpSpec op : buckets) {
        op.descriptor.mode = Mode::kFlush;
        op.descriptor.collective = Collective::kAllReduce;
        op.descriptor.codec = core::Codec::kNone;
        op.descriptor.loss_scale = ops.back().descriptor.loss_scale;
        op.inputs = InputKind::kZero;
        op.in_place = true;
        op.submit_after = at;
        ops.push_back(op);
      }
    }
    if (rng.Chance(0.3)) {
      group->skipped_steps.push_back(101 + rng.Below(steps));
    }
    group->close_after = Between(Duration(), Duration::Millis(2), &rng);
    if (rng.Chance(0.7)) group->ending = Ending::kDrain;
    if (rng.Chance(0.2)) MakeLedgerScarce(buckets, group);
    for (OpSpec& op : group->ops) {
      for (size_t rank = 0; rank < world; ++rank) {
        op.submit_after[rank] = op.submit_after[rank] + at[rank];
      }
    }
    group->ops.insert(group->ops.begin(), ops.begin(), ops.end());
  }

  OpSpec DrawBucket(size_t world, uint64_t key) {
    static constexpr std::array<Dtype, 6> kTypes = {
        Dtype::kFloat32, Dtype::kFloat32,  Dtype::kFloat32,
        Dtype::kFloat32, Dtype::kBfloat16, Dtype::kFloat16};
    Rng& rng = steps_rng_;
    OpSpec spec;
    core::OpDescriptor& op = spec.descriptor;
    op.mode = Mode::kBounded;
    op.dtype = Pick(kTypes, &rng);
    op.reduce_op = rng.Chance(0.5) ? ReduceOp::kAvg : ReduceOp::kSum;
    op.bucket = key;
    const uint64_t chunks = std::max<uint64_t>(1, kPacketsPerOp / (4 * world));
    op.count = rng.LogUniform(1, chunks * 496 / gradcodec::SizeOf(op.dtype));
    DrawNarrowing(&op);
    if (ways_rng_.Chance(0.25)) {
      op.collective = Collective::kReduceScatter;
      op.codec = core::Codec::kNone;
      op.count = (op.count + world - 1) / world * world;
    }
    spec.inputs = InputKind::kSummable;
    spec.in_place = rng.Chance(0.6);
    return spec;
  }

  // Room for the accounts of a step and all that may be stored; what else there
  // is to hold goes without.
  static void MakeLedgerScarce(const std::vector<OpSpec>& buckets,
                               GroupSpec* group) {
    const size_t world = group->hosts.size();
    size_t bytes = 32 << 10;
    for (const OpSpec& spec : buckets) {
      const size_t per_chunk = group->config.payload_bytes /
                               gradcodec::SizeOf(spec.descriptor.dtype);
      const size_t chunks = spec.descriptor.count / per_chunk + 2 * world;
      bytes += chunks * 256 + spec.descriptor.count * 12;
    }
    group->config.ledger_budget = bytes;
  }

  // Limits bind a rank's own result only, so ranks may differ.
  void DrawLimits(const core::GroupConfig& config, OpSpec* op, size_t world) {
    if (op->descriptor.mode == Mode::kExact || !rng_.Chance(0.2)) return;
    op->by_rank.assign(world, op->descriptor);
    for (core::OpDescriptor& descriptor : op->by_rank) {
      if (rng_.Chance(0.5)) continue;
      descriptor.soft_limit =
          Between(Duration::Micros(100), config.result_bound * 2, &rng_);
    }
  }

  // ---- faults

  void DrawFaults() {
    const core::GroupConfig& config = scenario_.groups[0].config;
    // Past the ops' usual life, so that repairs suffer too.
    faults_end_ = Timestamp() + config.result_bound * 3;
    DrawPacketFaults(config);
    if (Strikes(kRareFault) && scenario_.hosts.size() > 1) {
      DrawPartition(config);
    }
    if (Strikes()) DrawStalls(false, Duration::Millis(6));
    if (Strikes()) DrawStalls(true, Duration::Millis(20));
    if (Strikes()) DrawTrainerStall(config);
    if (Strikes()) DrawDeath();
    if (Strikes()) DrawBackground();
    if (Strikes(kRareFault)) DrawShortQueues();
  }

  void DrawPacketFaults(const core::GroupConfig& config) {
    RandomFaults& random = scenario_.random;
    random.window.end = faults_end_;
    if (Strikes()) random.loss = Share(0.001, 0.2);
    if (Strikes()) {
      random.burst_start = Share(0.002, 0.02);
      random.burst_end = Share(0.05, 0.5);
    }
    if (Strikes(kRareFault)) {
      random.tail_permille = static_cast<uint32_t>(rng_.LogUniform(50, 500));
    }
    if (Strikes()) random.duplicate = Share(0.01, 0.3);
    if (Strikes()) random.reorder = Share(0.01, 0.3);
    if (Strikes()) {
      random.corrupt = Share(0.005, 0.1);
      random.corrupt_flipped = 0.7;
    }
    if (Strikes()) random.old_epoch = Share(0.005, 0.1);
    if (Strikes()) random.stale = Share(0.005, 0.1);
    if (Strikes()) random.forged = Share(0.01, 0.1);
    if (Strikes(kRareFault)) random.invented = Share(0.01, 0.1);
    random.reorder_longest =
        Between(Duration::Micros(50), config.result_bound, &rng_);
    random.replay_longest =
        Between(Duration::Millis(1), config.result_bound * 3, &rng_);
  }

  // Log-uniform, in steps of a thousandth.
  double Share(double low, double high) {
    const auto drawn =
        rng_.LogUniform(static_cast<uint64_t>(std::llround(low * 1000)),
                        static_cast<uint64_t>(std::llround(high * 1000)));
    return static_cast<double>(drawn) / 1000;
  }

  // Rather early than late: most ops live for a few milliseconds.
  Duration DrawMoment() {
    constexpr uint64_t kFirst = 300'000;
    const auto last =
        static_cast<uint64_t>((faults_end_ - Timestamp()).nanos());
    return Duration::Nanos(static_cast<int64_t>(rng_.LogUniform(kFirst, last)));
  }

  Window DrawWindow(Duration shortest, Duration longest) {
    Window window;
    window.begin = Timestamp() + DrawMoment();
    window.end = window.begin + Between(shortest, longest, &rng_);
    return window;
  }

  void DrawPartition(const core::GroupConfig& config) {
    PartitionSpec partition;
    const bool lasts = rng_.Chance(0.2);
    partition.window =
        DrawWindow(Duration::Millis(1),
                   lasts ? config.dead_after * 2 : config.result_bound);
    partition.from_host = AnyHost();
    do {
      partition.to_host = AnyHost();
    } while (partition.to_host == partition.from_host);
    scenario_.partitions.push_back(partition);
    if (rng_.Chance(0.3)) {
      std::swap(partition.from_host, partition.to_host);
      scenario_.partitions.push_back(partition);
    }
  }

  void DrawStalls(bool whole_host, Duration longest) {
    const uint64_t stalls = 1 + rng_.Below(3);
    for (uint64_t i = 0; i < stalls; ++i) {
      Stall stall;
      stall.host = AnyHost();
      stall.window = DrawWindow(Duration::Micros(100), longest);
      stall.whole_host = whole_host;
      scenario_.stalls.push_back(stall);
    }
  }

  // One rank is late from some op on.
  void DrawTrainerStall(const core::GroupConfig& config) {
    GroupSpec& group = scenario_.groups[rng_.Below(scenario_.groups.size())];
    const size_t rank = rng_.Below(group.hosts.size());
    const size_t first = rng_.Below(group.ops.size());
    // Some come when the others have given up.
    const Duration longest =
        rng_.Chance(0.2) ? config.hard_limit * 2 : config.result_bound * 3;
    const Duration late = Between(Duration::Millis(1), longest, &rng_);
    for (size_t op = first; op < group.ops.size(); ++op) {
      Duration& at = group.ops[op].submit_after[rank];
      at = at + late;
    }
    scenario_.trainer_stalls = 1;
  }

  void DrawDeath() {
    Death death;
    death.group = 0;
    death.rank = core::Rank(static_cast<uint16_t>(rng_.Below(world_)));
    death.after = DrawMoment();
    death.daemon = rng_.Chance(0.5);
    scenario_.deaths.push_back(death);
  }

  void DrawBackground() {
    const uint64_t ports = 1 + rng_.Below(2);
    for (uint64_t i = 0; i < ports; ++i) {
      Background background;
      background.host = AnyHost();
      background.window.end = faults_end_;
      background.load_permille = static_cast<uint32_t>(rng_.Between(200, 950));
      background.on_permille = static_cast<uint32_t>(rng_.Between(200, 900));
      scenario_.backgrounds.push_back(background);
    }
  }

  // Incast overflows the switch, or a slow poller's ring.
  void DrawShortQueues() {
    // One small packet from everybody fits, or nothing would ever work.
    const auto ring = static_cast<uint32_t>(2 * world_);
    for (HostSpec& host : scenario_.hosts) {
      host.link.switch_queue_bytes =
          std::max<uint64_t>(4 * 1024 << rng_.Below(4), 256 * world_);
      host.receive_ring = std::max<uint32_t>(16u << rng_.Below(5), ring);
    }
    scenario_.short_queues = true;
    // Two ranks alone would never fill one.
    Background neighbour;
    neighbour.host = AnyHost();
    neighbour.window.end = faults_end_;
    neighbour.load_permille = 950;
    neighbour.on_permille = 800;
    scenario_.backgrounds.push_back(neighbour);
  }

  Rng rng_;
  // Of their own, so that the rest is drawn as it was.
  Rng bounds_rng_;
  Rng steps_rng_;
  Rng ways_rng_;
  Rng rates_rng_;
  Scenario scenario_;
  size_t world_ = 0;
  size_t ranks_per_host_ = 1;
  Timestamp faults_end_;
};

}  // namespace

Scenario RandomScenario(uint64_t seed) { return Draw(seed).Run(); }

}  // namespace optireduce::sim
