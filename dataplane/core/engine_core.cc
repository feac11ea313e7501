#include "dataplane/core/engine_core.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "dataplane/core/group.h"

namespace optireduce::core {
namespace {

uint64_t Key(uint32_t tag, uint16_t port) { return uint64_t{tag} << 16 | port; }

Verdict VerdictOf(wire::WireError error) {
  switch (error) {
    case wire::WireError::kOk:
      return Verdict::kAccepted;
    case wire::WireError::kTruncated:
      return Verdict::kTruncated;
    case wire::WireError::kBadMagic:
      return Verdict::kBadMagic;
    case wire::WireError::kBadVersion:
      return Verdict::kBadVersion;
    case wire::WireError::kUnknownType:
      return Verdict::kUnknownType;
    case wire::WireError::kReservedFlag:
      return Verdict::kReservedFlag;
    case wire::WireError::kBadLength:
      return Verdict::kBadLength;
    case wire::WireError::kBadCrc:
      return Verdict::kBadCrc;
    case wire::WireError::kBadBody:
      return Verdict::kBadBody;
  }
  return Verdict::kBadBody;
}

absl::Status Refusal(absl::StatusCode code, const std::string& why) {
  // Abseil asserts that no string exceeds half the address space, by a function
  // that prints. With a bound in sight the compiler sees that this one cannot.
  // For the same reason it is not Abseil that puts the text together.
  constexpr size_t kLongest = 1000;
  return absl::Status(
      code, absl::string_view(why.data(), std::min(why.size(), kLongest)));
}

absl::Status Invalid(const std::string& why) {
  return Refusal(absl::StatusCode::kInvalidArgument, why);
}

absl::Status Validate(const GroupConfig& config) {
  const size_t world = config.members.size();
  if (world < 1 || world > wire::kMaxWorld) {
    return Invalid("a group has 1 to " + std::to_string(wire::kMaxWorld) +
                   " members, not " + std::to_string(world));
  }
  if (config.self.index() >= world) {
    return Invalid("rank " + std::to_string(config.self.value()) +
                   " is not below the world size " + std::to_string(world));
  }
  if (config.window < 1 || config.window > 256) {
    return Invalid("window is 1 to 256 ops, not " +
                   std::to_string(config.window));
  }
  const size_t least = wire::PayloadForMtu(wire::kMinMtu);
  const size_t most = wire::PayloadForMtu(wire::kMaxMtu);
  if (config.payload_bytes < least || config.payload_bytes > most ||
      config.payload_bytes % wire::kPayloadQuantum != 0) {
    return Invalid("payload_bytes is " + std::to_string(least) + " to " +
                   std::to_string(most) + " in steps of " +
                   std::to_string(wire::kPayloadQuantum) + ", not " +
                   std::to_string(config.payload_bytes));
  }
  if (config.max_buckets < 1) return Invalid("max_buckets is at least 1");
  if (config.quorum_permille < 1 || config.quorum_permille > 1000) {
    return Invalid("quorum_permille is 1 to 1000, not " +
                   std::to_string(config.quorum_permille));
  }
  if (config.stage1_bound <= Duration() ||
      config.stage1_bound > config.result_bound ||
      config.result_bound > config.hard_limit) {
    return Invalid("0 < stage1_bound <= result_bound <= hard_limit is needed");
  }
  if (config.least_bound <= Duration() || config.early_wait <= Duration() ||
      config.heartbeat <= Duration() ||
      config.feedback_interval <= Duration() ||
      config.nack_interval <= Duration()) {
    return Invalid(
        "least_bound, early_wait, heartbeat, feedback_interval and "
        "nack_interval are more "
        "than zero");
  }
  if (config.heartbeat >= config.suspect_after ||
      config.suspect_after >= config.dead_after) {
    return Invalid("heartbeat < suspect_after < dead_after is needed");
  }
  return absl::OkStatus();
}

absl::Status ValidateRates(const GroupConfig& config, uint64_t line_bps) {
  const uint32_t share = config.share_cap_permille;
  if (share < 1 || share > 1000) {
    return Invalid("share_cap_permille is 1 to 1000, not " +
                   std::to_string(share));
  }
  if (line_bps == 0 && (config.congestion_control || share < 1000)) {
    return Invalid(
        "congestion_control and a share_cap_permille under 1000 need the "
        "engine's rate_bps");
  }
  return absl::OkStatus();
}

}  // namespace

EngineCore::EngineCore(const EngineConfig& config)
    : pacer_(config.rate_bps, config.burst_bytes) {}

EngineCore::~EngineCore() = default;

Group* EngineCore::Find(GroupId group) const {
  for (const auto& candidate : groups_) {
    if (candidate->id() == group) return candidate.get();
  }
  return nullptr;
}

absl::StatusOr<GroupId> EngineCore::AddGroup(const GroupConfig& config,
                                             Timestamp now) {
  if (absl::Status status = Validate(config); !status.ok()) return status;
  if (absl::Status status = ValidateRates(config, pacer_.rate_bps());
      !status.ok()) {
    return status;
  }
  const uint64_t key =
      Key(config.tag, config.members[config.self.index()].port);
  if (by_tag_and_port_.contains(key)) {
    return Refusal(absl::StatusCode::kAlreadyExists,
                   "rank " + std::to_string(config.self.value()) +
                       " of this formation is on this engine already");
  }
  const GroupId id(next_group_id_++);
  auto group = std::make_unique<Group>(id, config, pacer_.rate_bps(),
                                       &transitions_, now);
  if (!group->memory_ok()) {
    return Refusal(absl::StatusCode::kResourceExhausted,
                   "no memory for a group's budgets of " +
                       std::to_string(config.memory_budget) + " and " +
                       std::to_string(config.ledger_budget) + " bytes");
  }
  by_tag_and_port_[key] = group.get();
  groups_.push_back(std::move(group));
  return id;
}

void EngineCore::Leave(GroupId group, wire::LeaveReason reason, Timestamp now) {
  if (Group* found = Find(group); found != nullptr) found->Leave(reason, now);
}

void EngineCore::RemoveGroup(GroupId group) {
  Group* found = Find(group);
  if (found == nullptr) return;
  const GroupConfig& config = found->config();
  by_tag_and_port_.erase(
      Key(config.tag, config.members[config.self.index()].port));
  std::erase_if(groups_, [&](const auto& each) { return each.get() == found; });
  next_to_send_ = 0;
}

// Cheap checks first; state changes only after all of them.
Verdict EngineCore::Receive(const PacketView& packet, Timestamp arrival,
                            Timestamp now) {
  wire::Header header;
  if (const wire::WireError error = wire::DecodeHeader(packet.bytes, &header);
      error != wire::WireError::kOk) {
    return VerdictOf(error);
  }
  const auto found =
      by_tag_and_port_.find(Key(header.tag, packet.destination_port));
  if (found == by_tag_and_port_.end()) return Verdict::kUnknownTag;
  Group& group = *found->second;
  if (const Verdict verdict = group.CheckSource(header, packet.source);
      verdict != Verdict::kAccepted) {
    return verdict;
  }
  if (wire::CheckCrc(packet.bytes) != wire::WireError::kOk) {
    return Verdict::kBadCrc;
  }
  return group.OnPacket(header, wire::Body(packet.bytes, header),
                        packet.ecn_marked, std::min(arrival, now), now);
}

Verdict EngineCore::OnPacket(const PacketView& packet, Timestamp arrival,
                             Timestamp now) {
  last_now_ = std::max(last_now_, now);
  const Verdict verdict = Receive(packet, arrival, last_now_);
  counters_.Increment(verdict);
  return verdict;
}

SubmitResult EngineCore::Submit(GroupId group, const OpDescriptor& op,
                                BufferView buffers, Timestamp now,
                                OpSeq* op_seq) {
  last_now_ = std::max(last_now_, now);
  Group* found = Find(group);
  if (found == nullptr) return SubmitResult::kLeft;
  return found->Submit(op, buffers, last_now_, op_seq);
}

size_t EngineCore::CloseStep(GroupId group, uint64_t step, StepOutcome outcome,
                             Timestamp now) {
  last_now_ = std::max(last_now_, now);
  Group* found = Find(group);
  return found == nullptr ? 0 : found->CloseStep(step, outcome, last_now_);
}

void EngineCore::Advance(Timestamp now) {
  last_now_ = std::max(last_now_, now);
  for (const auto& group : groups_) group->Advance(last_now_);
}

size_t EngineCore::PollTx(std::span<TxDescriptor> out, Timestamp now) {
  last_now_ = std::max(last_now_, now);
  size_t filled = 0;
  size_t idle = 0;  // groups in a row with nothing to send
  while (filled < out.size() && idle < groups_.size() &&
         pacer_.MaySend(last_now_)) {
    Group& group = *groups_[next_to_send_];
    next_to_send_ = (next_to_send_ + 1) % groups_.size();
    if (!group.NextPacket(&out[filled], last_now_)) {
      ++idle;
      continue;
    }
    idle = 0;
    pacer_.OnSent(out[filled].length + kEncapsulationBytes);
    ++filled;
  }
  return filled;
}

Timestamp EngineCore::NextWakeup() const {
  Timestamp next = Timestamp::Never();
  for (const auto& group : groups_) {
    next = std::min(next, group->next_due());
    const Timestamp packet = group->NextPacketAt(last_now_);
    if (packet == Timestamp::Never()) continue;
    next = std::min(next, std::max(packet, pacer_.NextSend(last_now_)));
  }
  return next;
}

bool EngineCore::PopEvent(Event* event) {
  for (const auto& group : groups_) {
    if (group->PopEvent(event)) return true;
  }
  return false;
}

GroupStatus EngineCore::Status(GroupId group) const {
  const Group* found = Find(group);
  return found == nullptr ? GroupStatus{} : found->Status();
}

std::vector<OpRecord> EngineCore::Records(GroupId group) const {
  const Group* found = Find(group);
  if (found == nullptr) return {};
  std::vector<OpRecord> records(found->max_records());
  records.resize(found->ReadRecords(records));
  return records;
}

bool EngineCore::ReadBucket(GroupId group, uint64_t bucket, float* residual,
                            float* debt) const {
  const Group* found = Find(group);
  return found != nullptr && found->ledger().Read(bucket, residual, debt);
}

size_t EngineCore::MaxStateBytes(GroupId group) const {
  const Group* found = Find(group);
  return found == nullptr ? 0 : found->config().ledger_budget;
}

size_t EngineCore::StateBytes(GroupId group) const {
  const Group* found = Find(group);
  return found == nullptr ? 0 : found->ledger().StateBytes();
}

bool EngineCore::ExportState(GroupId group, std::span<uint8_t> out) const {
  const Group* found = Find(group);
  if (found == nullptr || !found->ledger().IsQuiet()) return false;
  found->ledger().Export(out);
  return true;
}

ImportResult EngineCore::ImportState(GroupId group,
                                     std::span<const uint8_t> state) {
  Group* found = Find(group);
  return found == nullptr ? ImportResult::kOtherGroup
                          : found->ImportState(state);
}

std::vector<GroupId> EngineCore::Groups() const {
  std::vector<GroupId> ids;
  for (const auto& group : groups_) ids.push_back(group->id());
  return ids;
}

}  // namespace optireduce::core
