// N ranks in memory, no network: ledgers and accounts under random loss, late
// submits, hard limits, skipped steps, evictions, the death of a rank and
// changing loss scales. After every op, at every rank, what was applied, what
// is kept and what was forgiven must be the true sum.
//
// The owner's side (sum, freeze) is played here by the rules; who sends what
// when is drawn at random. In half of the runs all values are such that float32
// holds every intermediate exactly, and the sums must agree to the last bit.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <utility>
#include <vector>

#include "dataplane/base/rng.h"
#include "dataplane/core/ledger.h"
#include "dataplane/core/plan.h"
#include "gradcodec/accumulate.h"
#include "gradcodec/half.h"
#include "gradcodec/residual.h"
#include "gtest/gtest.h"

namespace optireduce::core {
namespace {

using gradcodec::Dtype;
using gradcodec::ReduceOp;
using Bytes = std::vector<uint8_t>;

constexpr uint32_t kTag = 7;
constexpr uint32_t kPayload = 16;
constexpr size_t kBuckets = 2;
constexpr size_t kWindow = 6;

struct Scenario {
  uint64_t seed = 0;
  size_t world = 4;
  size_t steps = 3;  // of one op per bucket, and a flush
  ReduceOp reduce_op = ReduceOp::kAvg;
  Dtype dtype = Dtype::kFloat32;
  Codec codec = Codec::kNone;  // of all ops but the flush
  bool exact = false;          // float32 holds everything
  double loss = 0.1;
  bool evicts = false;
  bool fails = false;
  bool kills = false;
  bool rescales = false;
  bool scarce = false;  // memory for little more than what is stored for good
  std::optional<size_t> skipped;  // step
};

Scenario Draw(uint64_t seed, bool exact) {
  Rng random(seed);
  Scenario scenario;
  scenario.seed = seed;
  scenario.exact = exact;
  scenario.steps = 2 + random.Below(3);
  scenario.loss = std::vector<double>{0, 0.05, 0.3, 0.6}[random.Below(4)];
  if (exact) {
    // Means are over 2 or 4, never over 3 or 5.
    scenario.world = std::vector<size_t>{2, 3, 5}[random.Below(3)];
    scenario.reduce_op = ReduceOp::kSum;
    if (scenario.world == 2 && random.Chance(0.5)) {
      scenario.reduce_op = ReduceOp::kAvg;
    }
  } else {
    scenario.world = 2 + random.Below(6);
    scenario.reduce_op = random.Chance(0.5) ? ReduceOp::kSum : ReduceOp::kAvg;
    scenario.dtype = std::vector<Dtype>{Dtype::kFloat32, Dtype::kFloat16,
                                        Dtype::kBfloat16}[random.Below(3)];
  }
  scenario.rescales = random.Chance(0.3);
  scenario.fails = random.Chance(0.4);
  switch (random.Below(5)) {
    case 0:
      scenario.skipped = random.Below(scenario.steps);
      break;
    case 1:
      scenario.evicts = true;
      break;
    case 2:
      scenario.kills = scenario.world >= 3;
      break;
    case 3:
      // What an error or a rounding owes is forgiven without a trace of where.
      scenario.scarce = scenario.dtype == Dtype::kFloat32;
      if (scenario.scarce) scenario.fails = false;
      break;
    default:
      break;
  }
  // Sums over five are scaled by 5/4, which no short type holds exactly.
  const bool may_narrow = scenario.dtype == Dtype::kFloat32 &&
                          !scenario.scarce && (!exact || scenario.world < 5);
  if (may_narrow && random.Chance(0.5)) {
    scenario.codec = random.Chance(0.5) ? Codec::kBfloat16 : Codec::kFloat16;
  }
  return scenario;
}

float Widen(Dtype dtype, const uint8_t* at) {
  if (dtype == Dtype::kFloat32) {
    float value;
    std::memcpy(&value, at, 4);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, at, 2);
  return dtype == Dtype::kFloat16 ? gradcodec::HalfToFloat(half)
                                  : gradcodec::Bfloat16ToFloat(half);
}

// An op as all ranks agree on it, and its results as they are in truth.
struct Frozen {
  Bytes result;
  std::vector<float> remainder;  // the owner's; zero where there is none
  uint16_t c = 0;
  bool imputed = false;
  std::set<size_t> summed;
};
struct GlobalOp {
  OpDescriptor descriptor;
  ChunkPlan plan;
  size_t bucket = 0;
  bool reliable = false;
  bool skip = false;
  double scale = 1;
  std::vector<std::optional<Frozen>> frozen;  // by chunk
};

// One rank's part of an op.
struct LocalOp {
  Account* account = nullptr;
  Bytes input, output;
  bool expired = false;
  bool closed = false;
  bool gone = false;  // released or evicted
  bool failed = false;
  std::vector<double> v;  // by element; empty: not submitted
  struct Chunk {
    std::map<size_t, Bytes> stash;  // as owner: by source
    std::optional<Frozen> result;   // as it came; `summed` unused
    Bytes sent;
    Placed placed = Placed::kNowhere;
    bool lost_v = false, lost_r = false;
    std::set<size_t> gone_votes;
  };
  std::vector<Chunk> chunks;
  bool submitted() const { return !v.empty(); }
  bool ended() const { return account != nullptr && account->has_ended(); }
};

struct RankState {
  std::unique_ptr<Ledger> ledger;
  size_t next = 0;   // op to submit
  size_t floor = 0;  // first op kept
  double scale[kBuckets] = {1, 1};
  bool alive = true;
  std::vector<LocalOp> ops;
  std::vector<double> applied[kBuckets];
};

class World {
 public:
  explicit World(const Scenario& scenario)
      : scenario_(scenario),
        random_(scenario.seed * 31 + 5),
        n_(scenario.world) {
    count_ = n_ * 5 + random_.Below(n_);
    const size_t ops = (scenario.steps + 1) * kBuckets;
    for (size_t op = 0; op < ops; ++op) ops_.push_back(MakeOp(op));
    for (auto& sum : true_) sum.resize(count_);
    for (size_t i = 0; i < n_; ++i) {
      RankState& rank = ranks_.emplace_back();
      LedgerConfig config;
      config.world = n_;
      config.self = Rank(static_cast<uint16_t>(i));
      config.payload_bytes = kPayload;
      config.budget = scenario.scarce ? ScarceBudget() : size_t{1} << 20;
      config.max_ops = ops;
      config.max_buckets = kBuckets;
      rank.ledger = std::make_unique<Ledger>(config);
      rank.ops.resize(ops);
      for (auto& sum : rank.applied) sum.resize(count_);
      for (size_t op = 0; op < ops; ++op) {
        rank.ops[op].chunks.resize(ops_[op].plan.chunk_limit());
      }
    }
  }

  void Run() {
    for (size_t turn = 0; turn < 400 * n_ && !Done(); ++turn) {
      Act(scenario_.loss);
      if (::testing::Test::HasFailure()) return;
    }
    for (size_t turn = 0; turn < 100000 && !Done(); ++turn) {
      Act(0);
      if (::testing::Test::HasFailure()) return;
    }
    ASSERT_TRUE(Done()) << "something is never settled";
    Audit();
    CheckEnd();
  }

  // By all ranks, for one reason.
  Forgiven ForgivenFrom(ForgivenFor reason) const {
    Forgiven sum;
    for (const RankState& rank : ranks_) {
      sum.contributions += rank.ledger->forgiven(reason).contributions;
      sum.results += rank.ledger->forgiven(reason).results;
    }
    return sum;
  }

 private:
  GlobalOp MakeOp(size_t number) {
    GlobalOp op;
    op.bucket = number % kBuckets;
    const size_t step = number / kBuckets;
    op.reliable = step == scenario_.steps;
    op.skip = scenario_.skipped == step;
    if (scenario_.rescales) {
      const int most = scenario_.exact ? 1 : 6;  // bits for them there must be
      op.scale = std::exp2(random_.Between(0, most));
    }
    op.descriptor.reduce_op = scenario_.reduce_op;
    op.descriptor.dtype = scenario_.dtype;
    op.descriptor.count = count_;
    op.descriptor.bucket = 100 + op.bucket;
    op.descriptor.step = step + 1;
    if (!op.reliable) op.descriptor.codec = scenario_.codec;
    op.plan = ChunkPlan(op.descriptor, n_, kPayload, kTag,
                        OpSeq(static_cast<uint32_t>(number)));
    op.frozen.resize(op.plan.chunk_limit());
    return op;
  }

  // For all accounts, and for fewer blocks than there may be to keep.
  size_t ScarceBudget() {
    const size_t chunks = ops_[0].plan.chunk_limit();
    const size_t table = ByteArena::Cost(chunks * 32);
    const size_t block = ByteArena::Cost(kPayload);
    return (kBuckets + kWindow) * table +
           (chunks + random_.Below(2 * chunks)) * block;
  }

  size_t ElementBytes() const { return gradcodec::SizeOf(scenario_.dtype); }
  // Of an op's packets.
  Dtype Wire(size_t op) const { return ops_[op].plan.wire_dtype(); }
  double OnWire(size_t op, const Bytes& payload, size_t k) const {
    return Widen(Wire(op), payload.data() + k * gradcodec::SizeOf(Wire(op)));
  }
  bool Lost(double loss) { return random_.Chance(loss); }
  LocalOp& Local(size_t rank, size_t op) { return ranks_[rank].ops[op]; }
  bool IsDead(size_t rank) const { return !ranks_[rank].alive; }
  // All others know of the death and have decided what becomes of its results.
  bool IsRemoved(size_t rank) const { return IsDead(rank); }

  size_t Submitted(size_t op) {
    size_t count = 0;
    for (RankState& rank : ranks_) count += rank.next > op ? 1 : 0;
    return count;
  }
  bool HasQuorum(size_t op) { return 4 * Submitted(op) >= 3 * n_; }

  bool IsSettled(size_t i, size_t op) {
    const LocalOp& local = Local(i, op);
    return local.expired || local.gone ||
           (local.account != nullptr && local.account->is_settled());
  }
  // Rule 22: an op is submitted as a flush only when all before are settled.
  bool MayFlush(size_t i) {
    for (size_t op = 0; op < ranks_[i].next; ++op) {
      if (!ops_[op].reliable && !IsSettled(i, op)) return false;
    }
    return true;
  }
  bool Done() {
    for (RankState& rank : ranks_) {
      if (rank.alive && rank.floor < ops_.size()) return false;
    }
    return true;
  }

  // ---- what happens

  void Act(double loss) {
    const size_t i = random_.Below(n_);
    RankState& rank = ranks_[i];
    if (!rank.alive) return;
    if (random_.Chance(0.15)) Submit(i, loss);
    if (scenario_.kills && !killed_ && random_.Chance(0.002)) Kill(i);
    if (!rank.alive) return;
    const size_t live = std::min(ops_.size(), rank.floor + kWindow);
    if (rank.floor < live) {
      const size_t op = rank.floor + random_.Below(live - rank.floor);
      const auto chunk =
          static_cast<uint32_t>(random_.Below(ops_[op].plan.chunk_limit()));
      switch (random_.Below(8)) {
        case 0:
        case 1:
          SendAllData(i, op, loss);
          break;
        case 2:
          FreezeIfDue(i, op, chunk, loss);
          break;
        case 3:
          AskAll(i, op, loss);
          break;
        case 4:
          EndIfDue(i, op);
          break;
        case 5:
          CloseIfDue(i, op);
          break;
        case 6:
          if (scenario_.evicts && random_.Chance(0.3)) Evict(i, loss);
          break;
        default:
          Free(i);
          break;
      }
    }
    if (++turns_ % 8 == 0) Audit();
  }

  void Submit(size_t i, double loss) {
    RankState& rank = ranks_[i];
    const size_t number = rank.next;
    if (number >= ops_.size() || number >= rank.floor + kWindow) return;
    GlobalOp& op = ops_[number];
    LocalOp& local = rank.ops[number];
    if (op.reliable && !MayFlush(i)) return;
    if (scenario_.skipped.has_value()) {  // its close must be what we say
      for (size_t k = 0; k < number - number % kBuckets; ++k) {
        if (!Local(i, k).closed && !Local(i, k).gone) return;
      }
    }
    if (local.gone) {  // evicted before it was submitted
      ++rank.next;
      local.expired = true;
      return;
    }
    for (size_t k = op.bucket; k < number; k += kBuckets) CloseFirst(i, k);
    std::vector<float> residual(count_), debt(count_);
    rank.ledger->Read(op.descriptor.bucket, residual.data(), debt.data());
    const std::vector<float> gradient = DrawGradient(op, &local);
    const uint8_t* input = InputOf(&local);
    Watch(i, [&] {
      local.account =
          rank.ledger->Open(op.descriptor, OpSeq(static_cast<uint32_t>(number)),
                            static_cast<float>(op.scale), input);
    });
    if (local.account == nullptr) {
      EXPECT_TRUE(scenario_.scarce);
      return;  // once more, later
    }
    ++rank.next;
    local.v.resize(count_);
    const auto factor = static_cast<float>(op.scale / rank.scale[op.bucket]);
    for (size_t k = 0; k < count_; ++k) {
      local.v[k] = gradient[k] + residual[k] * factor;
      if (!op.skip) true_[op.bucket][k] += gradient[k] / op.scale / PerRank();
    }
    rank.scale[op.bucket] = op.scale;
    // Rule 7: results that came before are taken, and their DATA is not sent.
    ForEachChunk(number, [&](const ChunkInfo& info) {
      LocalOp::Chunk& chunk = local.chunks[info.chunk];
      if (chunk.result.has_value()) Take(i, number, info, *chunk.result, false);
      if (removed_.has_value() && info.owner.index() == *removed_) {
        TakeDecision(i, number, info);
      }
    });
    SendAllData(i, number, loss);
  }

  // As the buffers' type holds it.
  std::vector<float> DrawGradient(const GlobalOp& op, LocalOp* local) {
    std::vector<float> gradient(count_);
    for (float& value : gradient) {
      if (op.reliable) break;
      value = scenario_.exact ? static_cast<float>(1 + random_.Below(60))
                              : static_cast<float>(random_.Unit() * 4 - 1) *
                                    static_cast<float>(op.scale);
    }
    local->input.resize(count_ * ElementBytes());
    local->output.assign(local->input.size(), 0xee);
    gradcodec::RoundToWire(scenario_.dtype, gradient.data(),
                           local->input.data(), count_);
    for (size_t k = 0; k < count_; ++k) {
      gradient[k] =
          Widen(scenario_.dtype, local->input.data() + k * ElementBytes());
    }
    return gradient;
  }

  // Half of the ops are in place.
  const uint8_t* InputOf(LocalOp* local) {
    if (random_.Chance(0.5)) return local->input.data();
    local->output = local->input;
    return local->output.data();
  }

  double PerRank() const {
    return scenario_.reduce_op == ReduceOp::kAvg ? static_cast<double>(n_) : 1;
  }

  template <typename F>
  void ForEachChunk(size_t op, F f) {
    for (uint32_t i = 0; i < ops_[op].plan.chunk_limit(); ++i) {
      const auto info = ops_[op].plan.Locate(i);
      if (info.has_value()) f(*info);
    }
  }

  void SendAllData(size_t i, size_t op, double loss) {
    LocalOp& local = Local(i, op);
    if (local.account == nullptr) return;
    ForEachChunk(op, [&](const ChunkInfo& info) {
      LocalOp::Chunk& chunk = local.chunks[info.chunk];
      if (!local.account->LacksResult(info.chunk)) return;
      Bytes packet(info.bytes);
      if (!local.account->Contribution(info, packet.data())) return;
      if (chunk.sent.empty()) chunk.sent = packet;
      EXPECT_EQ(packet, chunk.sent) << "a repeated contribution differs";
      const size_t owner = info.owner.index();
      if (owner != i && Lost(loss)) return;
      OnData(owner, op, info, i, packet, loss);
    });
  }

  void OnData(size_t owner, size_t op, const ChunkInfo& info, size_t source,
              const Bytes& packet, double loss) {
    if (IsDead(owner)) return;
    LocalOp::Chunk& chunk = Local(owner, op).chunks[info.chunk];
    if (Local(owner, op).gone || ops_[op].frozen[info.chunk].has_value()) {
      Answer(owner, op, info, source, false, loss);  // rule 6
      return;
    }
    chunk.stash.emplace(source, packet);
    bool all = true;
    for (size_t k = 0; k < n_; ++k) {
      all &= chunk.stash.contains(k) || IsRemoved(k);
    }
    if (all) Freeze(owner, op, info, loss);
  }

  void FreezeIfDue(size_t i, size_t op, uint32_t number, double loss) {
    const auto info = ops_[op].plan.Locate(number);
    if (!info.has_value() || info->owner.index() != i || ops_[op].reliable ||
        !HasQuorum(op) || ops_[op].frozen[number].has_value() ||
        Local(i, op).gone) {
      return;
    }
    Freeze(i, op, *info, loss);
  }

  // Rule 5.
  void Freeze(size_t owner, size_t op, const ChunkInfo& info, double loss) {
    LocalOp::Chunk& chunk = Local(owner, op).chunks[info.chunk];
    const size_t n = info.elements;
    std::vector<float> sum(n);
    Frozen frozen;
    for (const auto& [source, packet] : chunk.stash) {
      gradcodec::Accumulate(Wire(op), packet.data(), sum.data(), n);
      frozen.summed.insert(source);
    }
    frozen.c = static_cast<uint16_t>(frozen.summed.size());
    frozen.imputed = gradcodec::IsImputed(frozen.c, static_cast<uint32_t>(n_),
                                          removed_.has_value());
    frozen.result.resize(info.bytes);
    gradcodec::BucketedResult(Wire(op), scenario_.reduce_op, sum.data(),
                              frozen.c, static_cast<uint32_t>(n_),
                              frozen.imputed, frozen.result.data(), n);
    frozen.remainder.resize(n);
    // What rounding the result left is the owner's residual. A flush has none:
    // its rounding is part of the truth.
    if (!ops_[op].reliable && frozen.c > 0 && Wire(op) != Dtype::kFloat32) {
      frozen.remainder = sum;
      gradcodec::SubtractResult(Wire(op), scenario_.reduce_op,
                                frozen.result.data(), frozen.c,
                                static_cast<uint32_t>(n_), frozen.imputed,
                                frozen.remainder.data(), n);
    }
    for (size_t k = 0; k < n; ++k) {
      const double r = OnWire(op, frozen.result, k);
      double used = -frozen.remainder[k];
      for (const auto& [source, packet] : chunk.stash) {
        used += OnWire(op, packet, k);
      }
      const double missing = static_cast<double>(n_ - frozen.c);
      if (frozen.imputed) used += missing * Imputed(r);
      if (!ops_[op].skip) {
        true_[ops_[op].bucket][info.first + k] +=
            (r - used / PerRank()) / ops_[op].scale;
      }
      EXPECT_TRUE(!scenario_.exact || r == used / PerRank());
    }
    chunk.stash.clear();
    ops_[op].frozen[info.chunk] = frozen;
    for (size_t k = 0; k < n_; ++k) {
      if (k == owner || !Lost(loss)) Deliver(k, op, info, frozen, true);
    }
  }

  double Imputed(double result) const {
    return scenario_.reduce_op == ReduceOp::kSum
               ? static_cast<float>(static_cast<float>(result) /
                                    static_cast<float>(n_))
               : result;
  }

  // A result comes to a rank: from the owner, or from a holder.
  void Deliver(size_t i, size_t op, const ChunkInfo& info, const Frozen& frozen,
               bool from_owner) {
    LocalOp& local = Local(i, op);
    if (IsDead(i) || local.gone) return;
    LocalOp::Chunk& chunk = local.chunks[info.chunk];
    if (local.account == nullptr) {
      chunk.result = frozen;
      return;
    }
    std::optional<bool> included;
    if (from_owner) included = frozen.summed.contains(i);
    Take(i, op, info, frozen, included);
  }

  // Runs `change`, and notes what of this rank's was forgiven by it: of the
  // chunk that it is about, and for want of memory of any other.
  template <typename F>
  void Watch(size_t i, size_t op, const ChunkInfo& info, F change) {
    const Forgiven before = ForgivenBy(i);
    const uint64_t others = NoteForgiven(i, &info, op, change);
    const Forgiven after = ForgivenBy(i);
    LocalOp::Chunk& chunk = Local(i, op).chunks[info.chunk];
    chunk.lost_v |= after.contributions != before.contributions + others;
    chunk.lost_r |= after.results != before.results;
  }

  template <typename F>
  void Watch(size_t i, F change) {
    NoteForgiven(i, nullptr, 0, change);
  }

  // Elements of contributions that nobody booked and that are held no more, but
  // for those of one chunk.
  template <typename F>
  uint64_t NoteForgiven(size_t i, const ChunkInfo* but, size_t but_op,
                        F change) {
    std::vector<std::pair<size_t, ChunkInfo>> held;
    for (size_t op = 0; op < ops_.size(); ++op) {
      LocalOp& local = Local(i, op);
      if (local.account == nullptr || local.gone) continue;
      ForEachChunk(op, [&](const ChunkInfo& info) {
        const bool same =
            but != nullptr && op == but_op && info.chunk == but->chunk;
        if (!same && local.account->LacksBooking(info.chunk)) {
          held.emplace_back(op, info);
        }
      });
    }
    change();
    uint64_t elements = 0;
    for (const auto& [op, info] : held) {
      LocalOp& local = Local(i, op);
      if (local.account->LacksBooking(info.chunk) || ops_[op].skip) continue;
      local.chunks[info.chunk].lost_v = true;
      elements += info.elements;
    }
    return elements;
  }

  Forgiven ForgivenBy(size_t i) {
    Forgiven sum;
    for (size_t reason = 0; reason < kForgivenReasons; ++reason) {
      const Forgiven& part =
          ranks_[i].ledger->forgiven(static_cast<ForgivenFor>(reason));
      sum.contributions += part.contributions;
      sum.results += part.results;
    }
    return sum;
  }

  void Take(size_t i, size_t op, const ChunkInfo& info, const Frozen& frozen,
            std::optional<bool> included) {
    LocalOp& local = Local(i, op);
    LocalOp::Chunk& chunk = local.chunks[info.chunk];
    ChunkResult result;
    result.payload = frozen.result.data();
    result.contributors = frozen.c;
    result.imputed = frozen.imputed;
    result.included = included;
    if (info.owner.index() == i && !frozen.remainder.empty()) {
      result.remainder = frozen.remainder.data();
    }
    const bool open = !local.ended() || (!local.closed && !local.failed);
    uint8_t* out = local.output.data() + info.first * ElementBytes();
    Watch(i, op, info, [&] {
      const Placed placed =
          local.account->OnResult(info, result, open ? out : nullptr);
      EXPECT_NE(placed, Placed::kConflict);
      if (placed == Placed::kOutput || placed == Placed::kDebt) {
        chunk.placed = placed;
      }
    });
    chunk.result = frozen;
  }

  void AskAll(size_t i, size_t op, double loss) {
    LocalOp& local = Local(i, op);
    if (local.account == nullptr || local.gone) return;
    Account& account = *local.account;
    for (uint32_t k = account.FindLacking(0);
         k < ops_[op].plan.chunk_limit() && !local.gone;
         k = account.FindLacking(k + 1)) {
      const ChunkInfo info = *ops_[op].plan.Locate(k);
      const size_t owner = info.owner.index();
      if (owner == i || Lost(loss)) continue;
      if (!IsDead(owner)) Answer(owner, op, info, i, false, loss);
      const bool ownerless =
          IsRemoved(owner) || local.chunks[k].gone_votes.contains(owner);
      const size_t other = random_.Below(n_);
      if ((account.has_ended() || ownerless) && other != owner && other != i &&
          !IsDead(other) && account.LacksResult(k)) {
        Answer(other, op, info, i, ownerless, loss);
      }
    }
  }

  // Rule 17.
  void Answer(size_t i, size_t op, const ChunkInfo& info, size_t asker,
              bool ownerless, double loss) {
    if (Lost(loss)) return;
    LocalOp& local = Local(i, op);
    const bool mine = info.owner.index() == i;
    const auto& frozen = ops_[op].frozen[info.chunk];
    if (local.gone) {
      if (mine && frozen->c == 0) {
        Deliver(asker, op, info, *frozen, true);
      } else {
        OnGone(asker, op, info, i);
      }
    } else if (mine) {
      if (frozen.has_value()) Deliver(asker, op, info, *frozen, true);
    } else if (local.chunks[info.chunk].result.has_value()) {
      Deliver(asker, op, info, *local.chunks[info.chunk].result, false);
    } else if (ownerless) {
      OnGone(asker, op, info, i);
    }
  }

  void OnGone(size_t i, size_t op, const ChunkInfo& info, size_t from) {
    LocalOp& local = Local(i, op);
    if (local.account == nullptr || local.gone) return;
    std::set<size_t>& votes = local.chunks[info.chunk].gone_votes;
    votes.insert(from);
    GiveUpIfHopeless(i, op, info);
  }

  // Rule 18.
  void GiveUpIfHopeless(size_t i, size_t op, const ChunkInfo& info) {
    LocalOp& local = Local(i, op);
    const size_t owner = info.owner.index();
    const std::set<size_t>& votes = local.chunks[info.chunk].gone_votes;
    if (!votes.contains(owner) && !IsRemoved(owner)) return;
    bool hopeless = true;
    for (size_t k = 0; k < n_; ++k) {
      hopeless &= k == i || IsDead(k) || votes.contains(k);
    }
    Watch(i, op, info, [&] {
      if (hopeless) {
        local.account->NoHolder(info);
      } else {
        local.account->OwnerGone(info);
      }
    });
  }

  void EndIfDue(size_t i, size_t op) {
    LocalOp& local = Local(i, op);
    if (local.account == nullptr || local.gone || local.ended()) return;
    Account& account = *local.account;
    if (scenario_.fails && !ops_[op].reliable && random_.Chance(0.1)) {
      Watch(i, [&] { account.Fail(local.output.data()); });
      local.failed = true;
    } else if (account.has_all_results() ||
               (!ops_[op].reliable && HasQuorum(op) && random_.Chance(0.5))) {
      Watch(i, [&] { account.Complete(local.output.data()); });
    } else {
      return;
    }
    Audit();
  }

  void CloseIfDue(size_t i, size_t op) {
    LocalOp& local = Local(i, op);
    if (local.account == nullptr || local.gone || local.closed) return;
    // Sometimes before the op's end; a skip only for all of the step.
    if (!local.ended() &&
        (scenario_.skipped.has_value() || random_.Chance(0.9))) {
      return;
    }
    if (ops_[op].skip) {
      local.account->CloseSkipped();
    } else {
      local.account->CloseUsed();
    }
    local.closed = true;
    Audit();
  }

  // The next submit of a bucket closes its earlier ops. The ledger does it by
  // itself; here it is done before the residual is read.
  void CloseFirst(size_t i, size_t op) {
    LocalOp& local = Local(i, op);
    if (local.account == nullptr || local.closed) return;
    local.account->CloseUsed();
    local.closed = true;
  }

  // Rule 20.
  void Free(size_t i) {
    RankState& rank = ranks_[i];
    while (rank.floor < ops_.size()) {
      for (size_t k = 0; k < n_; ++k) {
        if (ranks_[k].alive && !IsSettled(k, rank.floor)) return;
      }
      Retire(i, rank.floor++);
    }
  }

  void Retire(size_t i, size_t op) {
    LocalOp& local = Local(i, op);
    if (local.account != nullptr && !local.gone) {
      if (local.ended() && !local.failed && !ops_[op].skip) {
        AddOutput(local, op, &ranks_[i].applied[ops_[op].bucket]);
      }
      ranks_[i].ledger->Release(local.account);
      local.account = nullptr;
    }
    local.gone = true;
  }

  // Rule 21.
  void Evict(size_t i, double loss) {
    RankState& rank = ranks_[i];
    const size_t op = rank.floor;
    if (op >= ops_.size() || ops_[op].reliable || !HasQuorum(op)) return;
    LocalOp& local = Local(i, op);
    if (local.gone) return;
    if (local.account != nullptr && !local.ended()) return;
    ForEachChunk(op, [&](const ChunkInfo& info) {
      if (info.owner.index() != i || ops_[op].frozen[info.chunk]) return;
      local.chunks[info.chunk].stash.clear();
      Freeze(i, op, info, loss);
    });
    if (local.account != nullptr) {
      ForEachChunk(op, [&](const ChunkInfo& info) {
        local.chunks[info.chunk].lost_v |=
            local.account->LacksBooking(info.chunk);
        local.chunks[info.chunk].lost_r |=
            local.account->LacksResult(info.chunk);
      });
      local.account->CloseUsed();
      local.account->Evict();
      local.closed = true;
      EXPECT_TRUE(local.account->is_settled());
    }
    Retire(i, op);
    ++rank.floor;
    Audit();
  }

  // Rule 23, report and decision in one.
  void Kill(size_t dead) {
    killed_ = true;
    ranks_[dead].alive = false;
    removed_ = dead;
    for (size_t op = 0; op < ops_.size(); ++op) {
      ForEachChunk(op, [&](const ChunkInfo& info) {
        if (info.owner.index() != dead) return;
        bool held = false;
        for (size_t i = 0; i < n_; ++i) {
          held |= i != dead && !Local(i, op).gone &&
                  Local(i, op).chunks[info.chunk].result.has_value();
        }
        auto& frozen = ops_[op].frozen[info.chunk];
        bool anybody = false;  // still keeps the op
        for (size_t i = 0; i < n_; ++i) {
          anybody |= i != dead && !Local(i, op).gone;
        }
        if (!held && anybody) Void(op, info, &frozen);
        for (size_t i = 0; i < n_; ++i) {
          if (i != dead && Local(i, op).account != nullptr) {
            TakeDecision(i, op, info);
          }
        }
      });
      // A chunk may be whole now.
      ForEachChunk(op, [&](const ChunkInfo& info) {
        const size_t owner = info.owner.index();
        if (owner == dead || Local(owner, op).gone ||
            ops_[op].frozen[info.chunk]) {
          return;
        }
        for (size_t k = 0; k < n_; ++k) {
          if (k != dead &&
              !Local(owner, op).chunks[info.chunk].stash.contains(k)) {
            return;
          }
        }
        Freeze(owner, op, info, 0);
      });
    }
    Audit();
  }

  // What nobody holds never was. What the dead rank had given to it, and has
  // no more, is lost with that rank.
  void Void(size_t op, const ChunkInfo& info, std::optional<Frozen>* frozen) {
    if (frozen->has_value()) {  // take its rounding out of the truth again
      for (size_t k = 0; k < info.elements; ++k) {
        const double r = OnWire(op, (*frozen)->result, k);
        double used = -(*frozen)->remainder[k];
        for (size_t i : (*frozen)->summed) {
          used += OnWire(op, Local(i, op).chunks[info.chunk].sent, k);
        }
        const double missing = static_cast<double>(n_ - (*frozen)->c);
        if ((*frozen)->imputed) used += missing * Imputed(r);
        true_[ops_[op].bucket][info.first + k] -=
            (r - used / PerRank()) / ops_[op].scale;
      }
    }
    const LocalOp& dead = Local(*removed_, op);
    const bool booked = dead.gone || (dead.account != nullptr && dead.closed &&
                                      !dead.account->LacksBooking(info.chunk));
    for (size_t k = 0; k < info.elements && booked && dead.submitted(); ++k) {
      const double kept = Pending(*removed_, op, info, k);
      true_[ops_[op].bucket][info.first + k] -=
          (dead.v[info.first + k] - kept) / ops_[op].scale / PerRank();
    }
    *frozen = Frozen{Bytes(info.bytes), {}, 0, false, {}};
  }

  void TakeDecision(size_t i, size_t op, const ChunkInfo& info) {
    const auto& frozen = ops_[op].frozen[info.chunk];
    if (!frozen.has_value() || Local(i, op).gone) return;
    if (frozen->c == 0) {
      Take(i, op, info, *frozen, false);
    } else {
      GiveUpIfHopeless(i, op, info);
    }
  }

  // ---- the account of all

  void AddOutput(const LocalOp& local, size_t op, std::vector<double>* sum) {
    for (size_t k = 0; k < count_; ++k) {
      (*sum)[k] +=
          Widen(scenario_.dtype, local.output.data() + k * ElementBytes()) /
          ops_[op].scale;
    }
  }

  // What rank i still has to give of op, by the truth.
  double Pending(size_t i, size_t op, const ChunkInfo& info, size_t k) {
    const LocalOp& local = Local(i, op);
    const auto& frozen = ops_[op].frozen[info.chunk];
    double v = local.submitted() ? local.v[info.first + k] : 0;
    if (!frozen.has_value()) return v;
    if (info.owner.index() == i && !frozen->remainder.empty()) {
      v += frozen->remainder[k];
    }
    if (frozen->summed.contains(i)) {
      return v - OnWire(op, local.chunks[info.chunk].sent, k);
    }
    if (!frozen->imputed) return v;
    return v - Imputed(OnWire(op, frozen->result, k));
  }

  bool IsMidSkip() {
    if (!scenario_.skipped.has_value()) return false;
    for (size_t op = 0; op < ops_.size(); ++op) {
      if (!ops_[op].skip) continue;
      for (size_t i = 0; i < n_; ++i) {
        const LocalOp& local = Local(i, op);
        if (local.submitted() && !local.closed && !local.gone) return true;
      }
    }
    return false;
  }

  void Audit() {
    if (IsMidSkip()) return;
    std::vector<double> owed[kBuckets];
    for (auto& sum : owed) sum.resize(count_);
    std::vector<std::vector<double>> debts[kBuckets];
    for (size_t i = 0; i < n_; ++i) {
      for (size_t b = 0; b < kBuckets; ++b) {
        std::vector<float> residual(count_), debt(count_);
        ranks_[i].ledger->Read(100 + b, residual.data(), debt.data());
        auto& mine = debts[b].emplace_back(count_);
        for (size_t k = 0; k < count_; ++k) {
          owed[b][k] += residual[k] / ranks_[i].scale[b];
          mine[k] = debt[k] / ranks_[i].scale[b];
        }
      }
      AddOwed(i, owed);
    }
    for (size_t i = 0; i < n_; ++i) {
      if (!ranks_[i].alive) continue;
      for (size_t b = 0; b < kBuckets; ++b) {
        std::vector<double> got = ranks_[i].applied[b];
        AddComing(i, b, &got);
        for (size_t k = 0; k < count_; ++k) {
          got[k] += debts[b][i][k] + owed[b][k] / PerRank();
          Compare(got[k], true_[b][k], i, b, k);
        }
        if (::testing::Test::HasFailure()) return;
      }
    }
  }

  void Compare(double got, double expected, size_t rank, size_t bucket,
               size_t element) {
    const double tolerance =
        scenario_.exact ? 0 : 2e-5 * (1 + std::abs(expected));
    EXPECT_LE(std::abs(got - expected), tolerance)
        << "seed " << scenario_.seed << " rank " << rank << " bucket " << bucket
        << " element " << element << ": " << got << " is not " << expected;
  }

  // Contributions that are held, wait for a step's close, or were forgiven.
  void AddOwed(size_t i, std::vector<double>* owed) {
    for (size_t op = 0; op < ops_.size(); ++op) {
      LocalOp& local = Local(i, op);
      if (ops_[op].skip) continue;  // not mid-skip: nothing of it counts
      ForEachChunk(op, [&](const ChunkInfo& info) {
        const LocalOp::Chunk& chunk = local.chunks[info.chunk];
        const bool live = local.account != nullptr && !local.gone;
        const bool kept =
            live && (local.account->LacksBooking(info.chunk) || !local.closed);
        // Of an op that it never submitted a rank still owes what was imputed.
        if (!kept && !chunk.lost_v && local.submitted()) return;
        for (size_t k = 0; k < info.elements; ++k) {
          owed[ops_[op].bucket][info.first + k] +=
              Pending(i, op, info, k) / ops_[op].scale;
        }
      });
    }
  }

  // Results that are in an output not read yet, on their way, or forgiven.
  void AddComing(size_t i, size_t bucket, std::vector<double>* got) {
    for (size_t op = bucket; op < ops_.size(); op += kBuckets) {
      LocalOp& local = Local(i, op);
      if (ops_[op].skip) continue;
      const bool live = local.account != nullptr && !local.gone;
      if (live && local.ended() && !local.failed) AddOutput(local, op, got);
      ForEachChunk(op, [&](const ChunkInfo& info) {
        const auto& frozen = ops_[op].frozen[info.chunk];
        if (!frozen.has_value()) return;
        const LocalOp::Chunk& chunk = local.chunks[info.chunk];
        const bool taken = chunk.placed != Placed::kNowhere;
        const bool counted = local.failed ? taken && local.closed
                             : live       ? taken && local.ended()
                                          : taken;
        if (counted && !chunk.lost_r) return;
        for (size_t k = 0; k < info.elements; ++k) {
          (*got)[info.first + k] +=
              OnWire(op, frozen->result, k) / ops_[op].scale;
        }
      });
    }
  }

  // After the flush nothing is kept by anybody (to half precision: nearly).
  void CheckEnd() {
    bool any_lost = false;
    for (RankState& rank : ranks_) {
      for (const LocalOp& local : rank.ops) {
        for (const auto& chunk : local.chunks) {
          any_lost |= chunk.lost_v || chunk.lost_r;
        }
        any_lost |= local.expired;
      }
    }
    EXPECT_TRUE(!any_lost || scenario_.evicts || scenario_.kills ||
                scenario_.scarce)
        << "forgiven without cause";
    for (size_t i = 0; i < n_; ++i) {
      RankState& rank = ranks_[i];
      if (!rank.alive) continue;
      EXPECT_TRUE(rank.ledger->IsQuiet());
      for (size_t b = 0; b < kBuckets; ++b) {
        std::vector<float> residual(count_), debt(count_);
        rank.ledger->Read(100 + b, residual.data(), debt.data());
        if (scenario_.dtype == Dtype::kFloat32 && !killed_) {
          EXPECT_EQ(residual, std::vector<float>(count_)) << "after the flush";
          EXPECT_EQ(debt, std::vector<float>(count_)) << "after the flush";
        }
        if (any_lost || killed_ || scenario_.dtype != Dtype::kFloat32) continue;
        for (size_t k = 0; k < count_; ++k) {
          Compare(rank.applied[b][k], true_[b][k], i, b, k);
        }
      }
    }
  }

  const Scenario scenario_;
  Rng random_;
  const size_t n_;
  uint64_t count_ = 0;
  std::vector<GlobalOp> ops_;
  std::vector<RankState> ranks_;
  std::vector<double> true_[kBuckets];
  std::optional<size_t> removed_;
  bool killed_ = false;
  size_t turns_ = 0;
};

std::ostream& operator<<(std::ostream& out, const Scenario& scenario) {
  out << "seed " << scenario.seed << ": " << scenario.world << " ranks, "
      << scenario.steps << " steps, " << gradcodec::Name(scenario.dtype)
      << ", codec " << static_cast<int>(scenario.codec) << ", "
      << gradcodec::Name(scenario.reduce_op) << ", loss " << scenario.loss;
  if (scenario.evicts) out << ", evictions";
  if (scenario.fails) out << ", hard limits";
  if (scenario.kills) out << ", a death";
  if (scenario.rescales) out << ", loss scales";
  if (scenario.scarce) out << ", scarce memory";
  if (scenario.skipped.has_value()) out << ", skips step " << *scenario.skipped;
  return out;
}

class ConservationTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(ConservationTest, ExactInFloat32) {
  const Scenario scenario = Draw(GetParam(), true);
  SCOPED_TRACE(::testing::Message() << scenario);
  World(scenario).Run();
}

TEST_P(ConservationTest, AllTypesWithinRounding) {
  const Scenario scenario = Draw(GetParam(), false);
  SCOPED_TRACE(::testing::Message() << scenario);
  World(scenario).Run();
}

// The runs above would prove little if nothing happened in them.
TEST(ConservationScenariosTest, ForgiveForEveryReason) {
  uint64_t owner_gone = 0, no_holder = 0, no_memory = 0;
  Forgiven evicted;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    World world(Draw(seed, true));
    world.Run();
    owner_gone += world.ForgivenFrom(ForgivenFor::kOwnerGone).contributions;
    no_holder += world.ForgivenFrom(ForgivenFor::kNoHolder).results;
    no_memory += world.ForgivenFrom(ForgivenFor::kNoMemory).contributions;
    evicted.contributions +=
        world.ForgivenFrom(ForgivenFor::kEvicted).contributions;
    evicted.results += world.ForgivenFrom(ForgivenFor::kEvicted).results;
    EXPECT_EQ(world.ForgivenFrom(ForgivenFor::kNonFinite), Forgiven());
    EXPECT_EQ(world.ForgivenFrom(ForgivenFor::kReset), Forgiven());
  }
  EXPECT_GT(owner_gone, 10u);
  EXPECT_GT(no_holder, 10u);
  EXPECT_GT(no_memory, 100u);
  EXPECT_GT(evicted.contributions, 100u);
  EXPECT_GT(evicted.results, 100u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ConservationTest,
                         ::testing::Range<uint64_t>(0, 200));

}  // namespace
}  // namespace optireduce::core
