// One key of the configuration: its value as text, and what the schema says
// about it.

#ifndef OPTIREDUCE_CONTROL_CONFIG_VALUE_H_
#define OPTIREDUCE_CONTROL_CONFIG_VALUE_H_

#include <google/protobuf/descriptor.h>

#include <string>

#include "absl/status/status.h"
#include "proto/config.pb.h"

namespace optireduce::control {

// Sets a field from a flag's or a variable's text. Strict: whole decimal
// numbers in the range of their type, "true" or "false", lists with commas.
// Errors say what was found and what is expected, not where.
absl::Status SetFromText(const google::protobuf::FieldDescriptor& field,
                         const std::string& text,
                         config::DaemonConfig* message);

// The inverse.
std::string ToText(const google::protobuf::FieldDescriptor& field,
                   const config::DaemonConfig& message);

// Whether the value is one that the schema allows (range, choice).
absl::Status CheckValue(const google::protobuf::FieldDescriptor& field,
                        const config::DaemonConfig& message);

// "a number from 1 to 256, or 0".
std::string Expected(const google::protobuf::FieldDescriptor& field);

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_CONFIG_VALUE_H_
