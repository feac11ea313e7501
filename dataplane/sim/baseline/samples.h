// The raw outcome of an experiment as one line of JSON, for whoever wants to
// compute something else from it, or the same again.

#ifndef OPTIREDUCE_DATAPLANE_SIM_BASELINE_SAMPLES_H_
#define OPTIREDUCE_DATAPLANE_SIM_BASELINE_SAMPLES_H_

#include <string>

#include "dataplane/sim/baseline/experiment.h"

namespace optireduce::sim::baseline {

// A trace hash, as it is printed everywhere.
std::string Hex(uint64_t number);

// An object, and a newline:
//   algorithm, hosts, bytes, rate_bps, mtu, ops, seed, loss, background,
//   share_cap, congestion_control, incast, period, late, jitter, change_after,
//   change_factor, jobs         the specification
//   ideal_ns                    IdealTime
//   settings                    what the group ran with, by the names of the
//                               daemon's configuration; kOurs only
//   took_ns, missing            a list for each op, in it a number for each
//                               rank; missing is empty for baselines
//   bound_ns                    the same; kOurs only
//   changed_at                  the first op after the change of rate; kOurs
//                               only
//   jobs_ended_ns               for each job, when each op was over at host 0;
//                               of two jobs
//   elapsed_ns, background_bytes, timeouts, trace_hash
std::string SamplesLine(const ExperimentSpec& spec,
                        const ExperimentResult& result);

}  // namespace optireduce::sim::baseline

#endif  // OPTIREDUCE_DATAPLANE_SIM_BASELINE_SAMPLES_H_
