// The daemon's answers, for people and for programs.

#ifndef OPTIREDUCE_CONTROL_OPTICTL_RENDER_H_
#define OPTIREDUCE_CONTROL_OPTICTL_RENDER_H_

#include <string>

#include "proto/control.pb.h"

namespace optireduce::control {

// Both end with a newline. The reply holds an answer to one of optictl's
// questions.
std::string ToTable(const Reply& reply);
// An object; numbers are numbers, what is not set is null. Keys are the names
// of control.proto, and stay what they are.
std::string ToJson(const Reply& reply);

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_OPTICTL_RENDER_H_
