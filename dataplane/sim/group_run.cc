#include "dataplane/sim/group_run.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "dataplane/core/bound_controller.h"

namespace optireduce::sim {

namespace {

constexpr uint16_t kFirstPort = 20'000;
constexpr uint16_t kPortsPerGroup = 1024;

// Of the size classes that bounds are learned for.
size_t SizeClass(const OpRun& run) {
  const core::ChunkPlan& plan = run.ledger.plan();
  return core::BoundController::ClassOf(plan.elements() * plan.element_bytes());
}

bool MayBeAlike(const OpRun& one, const OpRun& other) {
  return !one.agreed || !other.agreed ||
         (other.mode == core::Mode::kBounded &&
          SizeClass(one) == SizeClass(other));
}

}  // namespace

GroupRun::GroupRun(const GroupSpec& spec, size_t index, uint64_t seed,
                   Violations* violations)
    : spec_(spec),
      index_(index),
      seed_(seed),
      violations_(violations),
      conservation_(spec.hosts.size()),
      ops_(spec.ops.size()),
      opens_at_(spec.next_epoch_of ? Timestamp::Never() : Timestamp()) {
  for (const OpSpec& op : spec.ops) {
    for (const Duration after : op.submit_after) {
      last_submit_after_ = std::max(last_submit_after_, after);
    }
  }
}

core::Endpoint GroupRun::EndpointOf(core::Rank rank) const {
  const size_t place = spec_.next_epoch_of.value_or(index_);
  core::Endpoint endpoint;
  endpoint.address =
      core::NetAddress::FromIpv4(kFirstAddress + spec_.hosts[rank.index()]);
  endpoint.port =
      static_cast<uint16_t>(kFirstPort + place * kPortsPerGroup + rank.index());
  return endpoint;
}

std::optional<core::Rank> GroupRun::RankAt(
    const core::Endpoint& endpoint) const {
  const size_t place = spec_.next_epoch_of.value_or(index_);
  const size_t index = endpoint.port - (kFirstPort + place * kPortsPerGroup);
  if (index >= world()) return std::nullopt;
  const core::Rank rank(static_cast<uint16_t>(index));
  if (EndpointOf(rank) != endpoint) return std::nullopt;
  return rank;
}

core::GroupConfig GroupRun::ConfigOf(core::Rank rank) const {
  core::GroupConfig config = spec_.config;
  config.self = rank;
  config.members.clear();
  for (size_t i = 0; i < world(); ++i) {
    config.members.push_back(EndpointOf(core::Rank(static_cast<uint16_t>(i))));
  }
  return config;
}

const core::OpDescriptor& GroupRun::DescriptorOf(size_t op,
                                                 core::Rank rank) const {
  const OpSpec& spec = spec_.ops[op];
  return spec.by_rank.empty() ? spec.descriptor : spec.by_rank[rank.index()];
}

bool GroupRun::OnReady(Timestamp now) {
  if (++ranks_ready_ < world()) return false;
  all_ready_ = now;
  return true;
}

Timestamp GroupRun::StartAt(Timestamp ready) const {
  return spec_.start_together ? all_ready_ : ready;
}

OpRun& GroupRun::Op(size_t op) {
  std::optional<OpRun>& run = ops_[op];
  if (run) return *run;
  run.emplace();
  const OpSpec& spec = spec_.ops[op];
  run->mode = spec.descriptor.mode;
  for (size_t i = 0; i < world(); ++i) {
    const core::Rank rank(static_cast<uint16_t>(i));
    const core::OpDescriptor& descriptor = DescriptorOf(op, rank);
    core::OpDescriptor shared = descriptor;
    shared.soft_limit = spec.descriptor.soft_limit;
    shared.hard_limit = spec.descriptor.hard_limit;
    if (shared != spec.descriptor) run->agreed = false;
    run->inputs.push_back(
        MakeInput(spec, descriptor, rank, world(), seed_ + op * 0x10001));
  }
  return *run;
}

OpRun* GroupRun::Find(uint32_t op_seq) {
  const uint32_t number = op_seq - spec_.config.first_op.value();
  if (number >= places_.size()) return nullptr;
  return &Op(places_[number]);
}

void GroupRun::OnSubmitted(size_t op, core::Rank rank, core::OpSeq seq,
                           Timestamp now) {
  OpRun& run = Op(op);
  if (run.submits.empty()) {
    const core::OpSeq due =
        spec_.config.first_op.Plus(static_cast<uint32_t>(places_.size()));
    places_.push_back(op);
    run.seq = due;
    run.ledger = Ledger(spec_.ops[op].descriptor, world(),
                        spec_.config.payload_bytes, tag(), due);
    Check(run.ledger.CheckPlan(), now);
    run.repairs = RepairCheck(world(), spec_.config.payload_bytes,
                              spec_.ops[op].descriptor.bucket != 0);
  }
  if (seq != run.seq) {
    Check(absl::StrCat("rank ", rank.value(), " submits op ", seq.value(),
                       " where others have ", run.seq.value()),
          now);
  }
  run.submits.push_back(now);
}

size_t GroupRun::OthersLike(const OpRun& run, Timestamp by) const {
  return static_cast<size_t>(
      std::count_if(places_.begin(), places_.end(), [&](size_t place) {
        const OpRun& other = *ops_[place];
        return other.seq != run.seq && other.submits.front() <= by &&
               MayBeAlike(run, other);
      }));
}

void GroupRun::OnReported(size_t op) {
  OpRun& run = Op(op);
  if (++run.reports < world()) return;
  Inputs().swap(run.inputs);
  std::vector<uint8_t>().swap(run.full_result);
}

void GroupRun::OnSent(const Packet& packet, Timestamp now) {
  OpRun* const run = Find(packet.header.op_seq);
  if (run != nullptr && run->agreed && run->mode == core::Mode::kBounded) {
    Check(run->repairs.OnSent(packet, now), now);
  }
  if (packet.header.type != wire::PacketType::kResult) return;
  if (run == nullptr) {
    Check(absl::StrCat("a result of op ", packet.header.op_seq,
                       " that nobody submitted"),
          now);
  } else if (run->agreed) {
    Check(run->ledger.OnResultSent(packet), now);
  }
}

RepairCounts GroupRun::Repairs() const {
  RepairCounts sum;
  for (const std::optional<OpRun>& run : ops_) {
    if (run) sum += run->repairs.Sum();
  }
  return sum;
}

void GroupRun::OnAccepted(const Packet& packet, Timestamp now) {
  const wire::PacketType type = packet.header.type;
  if (type != wire::PacketType::kData && type != wire::PacketType::kResult) {
    return;
  }
  OpRun* const run = Find(packet.header.op_seq);
  if (run == nullptr || !run->agreed) return;
  Check(type == wire::PacketType::kData ? run->ledger.OnDataAccepted(packet)
                                        : run->ledger.OnResultAccepted(packet),
        now);
}

void GroupRun::OnContributionsLost(core::Rank owner, core::OpSeq seq) {
  OpRun* const run = Find(seq.value());
  if (run != nullptr && run->agreed) run->ledger.OnContributionsLost(owner);
}

void GroupRun::OnRankFinished(Timestamp now) {
  if (++ranks_finished_ == world()) all_finished_ = now;
}

void GroupRun::Expect(bool may_be_cut, Duration longest_stall,
                      Timestamp calm_from) {
  may_be_cut_ = may_be_cut;
  longest_stall_ = longest_stall;
  calm_from_ = calm_from;
}

void GroupRun::Check(const std::string& complaint, Timestamp now) {
  if (complaint.empty()) return;
  violations_->Add(now, absl::StrCat("group ", index_, ": ", complaint));
}

}  // namespace optireduce::sim
