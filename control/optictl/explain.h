// Why ops took as long as they did and lack what they lack, for people.

#ifndef OPTIREDUCE_CONTROL_OPTICTL_EXPLAIN_H_
#define OPTIREDUCE_CONTROL_OPTICTL_EXPLAIN_H_

#include <string>

#include "proto/control.pb.h"

namespace optireduce::control {

// Both end with a newline, and are pure functions.

// A line for each op.
std::string OpsTable(const OpsReply& ops);
// A paragraph of sentences for each op.
std::string ExplainOps(const OpsReply& ops);

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_OPTICTL_EXPLAIN_H_
