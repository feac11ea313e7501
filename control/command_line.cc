#include "control/command_line.h"

#include <errno.h>
#include <gflags/gflags.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "control/suggest.h"

namespace optireduce::control {
namespace {

// The daemon's own, besides the configuration's keys.
constexpr std::array kOwnFlags = {"config", "check", "help", "version"};
// Of the logging library, the ones that make sense for a log on standard error.
constexpr std::array kLoggingFlags = {"v", "vmodule", "minloglevel",
                                      "colorlogtostderr"};

template <class Names>
bool Contains(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

absl::Status Unknown(const std::string& name) {
  std::vector<std::string> known = ConfigKeys();
  known.insert(known.end(), kOwnFlags.begin(), kOwnFlags.end());
  known.insert(known.end(), kLoggingFlags.begin(), kLoggingFlags.end());
  return absl::InvalidArgumentError(
      absl::StrCat("flags: unknown flag \"--", name, "\"",
                   Suggestion(name, known, "--"), " (see --help)"));
}

class Parser {
 public:
  Parser(int argc, const char* const* argv)
      : arguments_(argv + 1, argv + argc) {}

  absl::StatusOr<CommandLine> Parse() {
    for (at_ = 0; at_ < arguments_.size(); ++at_) {
      const std::string& argument = arguments_[at_];
      if (argument.size() < 2 || argument[0] != '-') {
        return absl::InvalidArgumentError(absl::StrCat(
            "flags: \"", argument, "\" is no flag; flags begin with --"));
      }
      const size_t start = argument[1] == '-' ? 2 : 1;
      const size_t equals = argument.find('=');
      const std::string name = argument.substr(start, equals - start);
      std::optional<std::string> value;
      if (equals != std::string::npos) value = argument.substr(equals + 1);
      absl::Status status = Take(name, value);
      if (!status.ok()) return status;
    }
    return result_;
  }

 private:
  absl::Status Take(const std::string& name,
                    const std::optional<std::string>& value) {
    if (name == "check") return TakeSwitch(name, value, &result_.check);
    if (name == "help") return TakeSwitch(name, value, &result_.help);
    if (name == "version") return TakeSwitch(name, value, &result_.version);
    const bool logging = Contains(kLoggingFlags, name);
    if (!logging && name != "config" && !Contains(ConfigKeys(), name)) {
      return Unknown(name);
    }
    std::string text;
    absl::Status status = NextValue(name, value, &text);
    if (!status.ok()) return status;
    if (logging) return SetLoggingFlag(name, text);
    if (name == "config") {
      result_.config_file = text;
    } else {
      result_.keys.emplace_back(name, text);
    }
    return absl::OkStatus();
  }

  absl::Status TakeSwitch(const std::string& name,
                          const std::optional<std::string>& value,
                          bool* result) {
    if (value && *value != "true" && *value != "false") {
      return absl::InvalidArgumentError(absl::StrCat(
          "flags: --", name, ": \"", *value, "\" is not true or false"));
    }
    *result = value.value_or("true") == "true";
    return absl::OkStatus();
  }

  // What follows =, or the next argument.
  absl::Status NextValue(const std::string& name,
                         const std::optional<std::string>& value,
                         std::string* text) {
    if (value) {
      *text = *value;
      return absl::OkStatus();
    }
    if (at_ + 1 == arguments_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("flags: --", name, " needs a value"));
    }
    *text = arguments_[++at_];
    return absl::OkStatus();
  }

  static absl::Status SetLoggingFlag(const std::string& name,
                                     const std::string& text) {
    if (!gflags::SetCommandLineOption(name.c_str(), text.c_str()).empty()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("flags: --", name, ": \"", text, "\" is not accepted"));
  }

  const std::vector<std::string> arguments_;
  size_t at_ = 0;
  CommandLine result_;
};

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc,
                                             const char* const* argv) {
  return Parser(argc, argv).Parse();
}

absl::StatusOr<ConfigSources> ReadSources(const CommandLine& command_line,
                                          const char* const* environment) {
  ConfigSources sources;
  sources.flags = command_line.keys;
  for (; *environment != nullptr; ++environment) {
    sources.environment.emplace_back(*environment);
  }
  if (command_line.config_file.empty()) return sources;
  sources.file_name = command_line.config_file;
  errno = 0;
  std::ifstream file(sources.file_name);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file.is_open() || errno != 0) {
    return absl::NotFoundError(
        absl::StrCat("reading ", sources.file_name, ": ", strerror(errno)));
  }
  sources.file_text = text.str();
  return sources;
}

std::string HelpText() {
  std::string text =
      "optireduced: runs collectives for the trainers on this host.\n"
      "\n"
      "  optireduced [--config=FILE] [--KEY=VALUE ...]\n"
      "\n"
      "  --config=FILE  read the configuration from FILE (protobuf text "
      "format)\n"
      "  --check        check the configuration, print it, and end\n"
      "  --help         print this, and end\n"
      "  --version      print the version, and end\n"
      "  --v=N          log more; also --vmodule, --minloglevel\n"
      "\n"
      "Exit codes: 0 stopped by a signal, 1 failure, 78 configuration.\n"
      "\n"
      "Each key is a line of the file (KEY: VALUE), a flag, and an "
      "environment\n"
      "variable (OPTIREDUCE_KEY). Flags outweigh variables outweigh the "
      "file.\n";
  for (const std::string& key : ConfigKeys()) {
    absl::StrAppend(&text, "\n  ", key, "\n      ", DescribeKey(key), "\n");
  }
  return text;
}

}  // namespace optireduce::control
