/* Prints size and field offsets of the ABI's structs, for optireduce_test.py.
 */

#include <stddef.h>
#include <stdio.h>

#include "client/optireduce.h"

#define SIZE(type) printf(#type " %zu\n", sizeof(type))
#define FIELD(type, field) \
  printf(#type "." #field " %zu\n", offsetof(type, field))

int main(void) {
  SIZE(or_connect_options);
  FIELD(or_connect_options, socket_path);
  FIELD(or_connect_options, client_name);
  FIELD(or_connect_options, segment_bytes);
  FIELD(or_connect_options, limit_ns);
  SIZE(or_group_settings);
  FIELD(or_group_settings, name);
  FIELD(or_group_settings, rank);
  FIELD(or_group_settings, world);
  FIELD(or_group_settings, soft_limit_ns);
  FIELD(or_group_settings, stage1_limit_ns);
  FIELD(or_group_settings, early_wait_ns);
  FIELD(or_group_settings, hard_limit_ns);
  FIELD(or_group_settings, quorum_permille);
  FIELD(or_group_settings, window);
  FIELD(or_group_settings, fill);
  FIELD(or_group_settings, mtu);
  FIELD(or_group_settings, memory_budget_bytes);
  FIELD(or_group_settings, heartbeat_ns);
  FIELD(or_group_settings, suspect_after_ns);
  FIELD(or_group_settings, dead_after_ns);
  FIELD(or_group_settings, formation_limit_ns);
  FIELD(or_group_settings, min_fraction);
  FIELD(or_group_settings, halt_after);
  FIELD(or_group_settings, owed_budget_bytes);
  SIZE(or_member);
  FIELD(or_member, data);
  SIZE(or_rendezvous);
  FIELD(or_rendezvous, directory);
  FIELD(or_rendezvous, name);
  SIZE(or_event);
  FIELD(or_event, kind);
  FIELD(or_event, rank);
  SIZE(or_operation);
  FIELD(or_operation, collective);
  FIELD(or_operation, reduce_op);
  FIELD(or_operation, dtype);
  FIELD(or_operation, mode);
  FIELD(or_operation, codec);
  FIELD(or_operation, root);
  FIELD(or_operation, count);
  FIELD(or_operation, input);
  FIELD(or_operation, output);
  FIELD(or_operation, bucket);
  FIELD(or_operation, step);
  FIELD(or_operation, soft_limit_ns);
  FIELD(or_operation, hard_limit_ns);
  FIELD(or_operation, loss_scale);
  SIZE(or_report);
  FIELD(or_report, status);
  FIELD(or_report, cause);
  FIELD(or_report, op_seq);
  FIELD(or_report, world);
  FIELD(or_report, elements);
  FIELD(or_report, absent);
  FIELD(or_report, contributions);
  FIELD(or_report, min_contributors);
  FIELD(or_report, missing_count);
  FIELD(or_report, missing);
  FIELD(or_report, stage1_loss);
  FIELD(or_report, stage2_loss);
  FIELD(or_report, missing_fraction);
  FIELD(or_report, quorum_ns);
  FIELD(or_report, deadline_ns);
  FIELD(or_report, duration_ns);
  FIELD(or_report, wall_late_ns);
  FIELD(or_report, decision_late_ns);
  FIELD(or_report, mismatch_rank);
  FIELD(or_report, step_open);
  FIELD(or_report, repaired);
  SIZE(or_sketch);
  FIELD(or_sketch, sums);
  SIZE(or_verdict);
  FIELD(or_verdict, step);
  FIELD(or_verdict, world);
  FIELD(or_verdict, bad_steps);
  FIELD(or_verdict, below_floor);
  FIELD(or_verdict, halt_advised);
  FIELD(or_verdict, min_fraction);
  FIELD(or_verdict, halt_after);
  FIELD(or_verdict, least_present_rank);
  FIELD(or_verdict, least_present);
  FIELD(or_verdict, absent);
  FIELD(or_verdict, lacking);
  FIELD(or_verdict, non_finite);
  FIELD(or_verdict, lacking_count);
  FIELD(or_verdict, non_finite_count);
  FIELD(or_verdict, divergence);
  FIELD(or_verdict, divergent_rank);
  FIELD(or_verdict, reserved);
  return 0;
}
