// optictl's command line.

#ifndef OPTIREDUCE_CONTROL_OPTICTL_OPTIONS_H_
#define OPTIREDUCE_CONTROL_OPTICTL_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/control.pb.h"

namespace optireduce::control {

struct Options {
  std::string command;  // empty: help or version only
  std::string socket;
  bool json = false;
  bool help = false;
  bool version = false;
  Request request;
};

// `default_socket` holds if --socket is not given. INVALID_ARGUMENT for
// anything unknown, with a suggestion.
absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& arguments,
                                     const std::string& default_socket);

// About one command; about all if it is empty.
std::string HelpText(const std::string& command);

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_OPTICTL_OPTIONS_H_
