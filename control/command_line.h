// The daemon's command line.

#ifndef OPTIREDUCE_CONTROL_COMMAND_LINE_H_
#define OPTIREDUCE_CONTROL_COMMAND_LINE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "control/config_loader.h"

namespace optireduce::control {

struct CommandLine {
  std::string config_file;  // empty: none
  bool check = false;
  bool help = false;
  bool version = false;
  // Configuration keys given as flags.
  std::vector<std::pair<std::string, std::string>> keys;
};

// Flags are --NAME=VALUE or --NAME VALUE. Those of the logging library are
// taken, too, and set. INVALID_ARGUMENT names what is unknown, with a
// suggestion.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

// What the configuration is made of. NOT_FOUND if the file cannot be read.
absl::StatusOr<ConfigSources> ReadSources(const CommandLine& command_line,
                                          const char* const* environment);

std::string HelpText();

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_COMMAND_LINE_H_
