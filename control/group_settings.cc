#include "control/group_settings.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "control/config_rules.h"
#include "control/config_value.h"
#include "proto/wire.h"

namespace optireduce::control {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

Duration Micros(uint64_t micros) {
  return Duration::Micros(static_cast<int64_t>(micros));
}

// The wishes, as if the configuration file had said so: then its rules apply.
config::DaemonConfig Overlay(const config::DaemonConfig& defaults,
                             const GroupSettings& wishes) {
  config::DaemonConfig merged = defaults;
  if (wishes.has_result_bound_us()) {
    merged.set_group_result_bound_us(wishes.result_bound_us());
    // The configured share is of the configured bound.
    merged.set_group_stage1_bound_us(0);
  }
  if (wishes.has_stage1_bound_us()) {
    merged.set_group_stage1_bound_us(wishes.stage1_bound_us());
  }
  if (wishes.has_result_bound_us() || wishes.has_stage1_bound_us()) {
    merged.set_group_adaptive_bounds(false);
    merged.set_group_slowest_rate_bps(0);
  }
  if (wishes.has_adaptive_bounds()) {
    merged.set_group_adaptive_bounds(wishes.adaptive_bounds());
  }
  if (wishes.has_slowest_rate_bps()) {
    merged.set_group_slowest_rate_bps(wishes.slowest_rate_bps());
  }
  if (wishes.has_early_wait_us()) {
    merged.set_group_early_wait_us(wishes.early_wait_us());
  }
  if (wishes.has_hard_limit_us()) {
    merged.set_group_hard_limit_us(wishes.hard_limit_us());
  }
  if (wishes.has_window()) merged.set_group_window(wishes.window());
  if (wishes.has_quorum_permille()) {
    merged.set_group_quorum_permille(wishes.quorum_permille());
  }
  if (wishes.has_fill() && wishes.fill() != FILL_DEFAULT) {
    merged.set_group_fill(wishes.fill() == FILL_OWN ? "own" : "zero");
  }
  if (wishes.has_formation_limit_us()) {
    merged.set_group_formation_limit_us(wishes.formation_limit_us());
  }
  if (wishes.has_heartbeat_us()) {
    merged.set_group_heartbeat_us(wishes.heartbeat_us());
  }
  if (wishes.has_suspect_after_us()) {
    merged.set_group_suspect_after_us(wishes.suspect_after_us());
  }
  if (wishes.has_dead_after_us()) {
    merged.set_group_dead_after_us(wishes.dead_after_us());
  }
  return merged;
}

absl::Status CheckMerged(const config::DaemonConfig& merged) {
  const auto& schema = *config::DaemonConfig::descriptor();
  for (int i = 0; i < schema.field_count(); ++i) {
    if (schema.field(i)->name().rfind("group_", 0) != 0) continue;
    absl::Status status = CheckValue(*schema.field(i), merged);
    if (!status.ok()) return status;
  }
  return CheckGroupRules(merged);
}

absl::Status CheckBudget(const std::string& name, uint64_t bytes,
                         uint64_t most) {
  if (bytes >= kMiB && bytes <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": ", bytes, " is not from ", kMiB, " to ", most,
                   " (max_total_group_mb)"));
}

}  // namespace

absl::StatusOr<GroupSettings> ResolveSettings(
    const config::DaemonConfig& defaults, uint32_t port_mtu,
    const GroupSettings& wishes) {
  const config::DaemonConfig merged = Overlay(defaults, wishes);
  absl::Status status = CheckMerged(merged);
  if (!status.ok()) return status;

  const uint64_t budget = wishes.has_memory_budget_bytes()
                              ? wishes.memory_budget_bytes()
                              : merged.group_memory_mb() * kMiB;
  const uint64_t owed = wishes.has_owed_budget_bytes()
                            ? wishes.owed_budget_bytes()
                            : merged.group_owed_mb() * kMiB;
  const uint64_t most = merged.max_total_group_mb() * kMiB;
  status = CheckBudget("memory_budget_bytes", budget, most);
  if (status.ok()) status = CheckBudget("owed_budget_bytes", owed, most);
  if (!status.ok()) return status;
  const uint32_t mtu = wishes.has_mtu() ? wishes.mtu() : port_mtu;
  if (mtu < wire::kMinMtu || mtu > port_mtu) {
    return absl::InvalidArgumentError(
        absl::StrCat("mtu: ", mtu, " is not from ", wire::kMinMtu, " to ",
                     port_mtu, " (this port's)"));
  }

  GroupSettings s;
  s.set_result_bound_us(merged.group_result_bound_us());
  const Duration stage1 =
      merged.group_stage1_bound_us() != 0
          ? Micros(merged.group_stage1_bound_us())
          : DefaultStage1Bound(Micros(merged.group_result_bound_us()));
  s.set_stage1_bound_us(static_cast<uint64_t>(stage1.nanos() / 1000));
  const Duration early_wait =
      merged.group_early_wait_us() != 0
          ? Micros(merged.group_early_wait_us())
          : DefaultEarlyWait(Micros(merged.group_result_bound_us()));
  s.set_early_wait_us(static_cast<uint64_t>(early_wait.nanos() / 1000));
  s.set_adaptive_bounds(merged.group_adaptive_bounds());
  s.set_slowest_rate_bps(merged.group_slowest_rate_bps());
  s.set_hard_limit_us(merged.group_hard_limit_us());
  s.set_window(merged.group_window());
  s.set_quorum_permille(merged.group_quorum_permille());
  s.set_memory_budget_bytes(budget);
  s.set_owed_budget_bytes(owed);
  s.set_fill(merged.group_fill() == "own" ? FILL_OWN : FILL_ZERO);
  s.set_mtu(mtu);
  s.set_formation_limit_us(merged.group_formation_limit_us());
  s.set_heartbeat_us(merged.group_heartbeat_us());
  s.set_suspect_after_us(merged.group_suspect_after_us());
  s.set_dead_after_us(merged.group_dead_after_us());
  return s;
}

core::GroupConfig ToGroupConfig(const GroupSettings& settings) {
  core::GroupConfig config;
  config.window = settings.window();
  config.quorum_permille = settings.quorum_permille();
  config.stage1_bound = Micros(settings.stage1_bound_us());
  config.result_bound = Micros(settings.result_bound_us());
  config.adaptive_bounds = settings.adaptive_bounds();
  config.slowest_rate_bps = settings.slowest_rate_bps();
  config.early_wait = Micros(settings.early_wait_us());
  config.hard_limit = Micros(settings.hard_limit_us());
  config.fill = settings.fill() == FILL_OWN ? core::FillPolicy::kOwn
                                            : core::FillPolicy::kZero;
  config.memory_budget = settings.memory_budget_bytes();
  config.ledger_budget = settings.owed_budget_bytes();
  config.formation_limit = Micros(settings.formation_limit_us());
  config.heartbeat = Micros(settings.heartbeat_us());
  config.suspect_after = Micros(settings.suspect_after_us());
  config.dead_after = Micros(settings.dead_after_us());
  return config;
}

}  // namespace optireduce::control
