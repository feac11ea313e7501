#include "control/optictl/options.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "control/suggest.h"

namespace optireduce::control {
namespace {

struct Command {
  const char* name;
  const char* summary;
  const char* help;
  void (*fill)(Request* request);
};

constexpr Command kCommands[] = {
    {"status", "what the daemon is, and whether it is well",
     "Version, port, address, number of sessions and groups, and notes on "
     "what\n"
     "the daemon found: fallbacks in force, next hops that do not answer.\n",
     [](Request* r) { r->mutable_status(); }},
    {"groups", "the groups that trainers on this host are in",
     "One line per group: whose it is, its rank and world, the tag that names\n"
     "this formation on the wire, the next op's number, memory in use.\n",
     [](Request* r) { r->mutable_groups(); }},
    {"peers", "the other ranks of these groups",
     "One line per rank: where it is, whether it is healthy, suspect (silent)\n"
     "or lost, when it was last heard, and how far it has come.\n",
     [](Request* r) { r->mutable_peers(); }},
    {"ops", "the ops that ended last, newest first",
     "One line per op: how it ended and why, how long it took, what was\n"
     "missing, and by how much it was late. --limit=N shows the last N only.\n",
     [](Request* r) { r->mutable_ops(); }},
    {"stats", "every counter",
     "Of the port, the engine, the protocol core and the sessions. Counters\n"
     "whose names end in _ns are times.\n",
     [](Request* r) { r->mutable_stats(); }},
    {"config", "the configuration in force",
     "Every key with its value and where it comes from: the default, the\n"
     "file and line, the environment variable, or the flag.\n",
     [](Request* r) { r->mutable_config(); }},
};

std::vector<std::string> CommandNames() {
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  return names;
}

const Command* FindCommand(const std::string& name) {
  const auto* it =
      std::find_if(std::begin(kCommands), std::end(kCommands),
                   [&name](const Command& c) { return name == c.name; });
  return it == std::end(kCommands) ? nullptr : it;
}

absl::Status Invalid(const std::string& text) {
  return absl::InvalidArgumentError(text);
}

class Parser {
 public:
  Parser(const std::vector<std::string>& arguments,
         const std::string& default_socket)
      : arguments_(arguments) {
    options_.socket = default_socket;
  }

  absl::StatusOr<Options> Parse() {
    for (at_ = 0; at_ < arguments_.size(); ++at_) {
      const std::string& argument = arguments_[at_];
      const absl::Status status = argument.rfind("--", 0) == 0
                                      ? TakeFlag(argument.substr(2))
                                      : TakeCommand(argument);
      if (!status.ok()) return status;
    }
    if (options_.help || options_.version) return options_;
    if (options_.command.empty()) return Invalid("no command is given");
    if (!limit_.empty()) {
      if (options_.command != "ops") {
        return Invalid(
            absl::StrCat("--limit goes with ops, not with ", options_.command));
      }
      uint32_t limit = 0;
      const char* end = limit_.data() + limit_.size();
      const auto [stop, error] = std::from_chars(limit_.data(), end, limit);
      if (error != std::errc() || stop != end || limit == 0) {
        return Invalid(
            absl::StrCat("--limit: \"", limit_, "\" is not a number from 1"));
      }
      options_.request.mutable_ops()->set_limit(limit);
    }
    return options_;
  }

 private:
  absl::Status TakeCommand(const std::string& name) {
    if (!options_.command.empty()) {
      return Invalid(absl::StrCat("\"", name, "\" is one command too many"));
    }
    const Command* command = FindCommand(name);
    if (command == nullptr) {
      return Invalid(absl::StrCat("unknown command \"", name, "\"",
                                  Suggestion(name, CommandNames())));
    }
    options_.command = name;
    options_.request.set_id(1);
    command->fill(&options_.request);
    return absl::OkStatus();
  }

  absl::Status TakeFlag(const std::string& flag) {
    const size_t equals = flag.find('=');
    const std::string name = flag.substr(0, equals);
    if (name == "socket") return TakeValue(flag, equals, &options_.socket);
    if (name == "limit") return TakeValue(flag, equals, &limit_);
    bool* const option = name == "json"      ? &options_.json
                         : name == "help"    ? &options_.help
                         : name == "version" ? &options_.version
                                             : nullptr;
    if (option == nullptr) {
      return Invalid(absl::StrCat(
          "unknown flag \"--", name, "\"",
          Suggestion(name, {"socket", "limit", "json", "help", "version"},
                     "--")));
    }
    if (equals != std::string::npos) {
      return Invalid(absl::StrCat("--", name, " takes no value"));
    }
    *option = true;
    return absl::OkStatus();
  }

  // What follows =, or the next argument; not empty.
  absl::Status TakeValue(const std::string& flag, size_t equals,
                         std::string* value) {
    if (equals != std::string::npos) {
      *value = flag.substr(equals + 1);
    } else if (at_ + 1 < arguments_.size()) {
      *value = arguments_[++at_];
    } else {
      value->clear();
    }
    if (!value->empty()) return absl::OkStatus();
    return Invalid(
        absl::StrCat("--", flag.substr(0, equals), " needs a value"));
  }

  const std::vector<std::string>& arguments_;
  size_t at_ = 0;
  Options options_;
  std::string limit_;
};

}  // namespace

absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& arguments,
                                     const std::string& default_socket) {
  return Parser(arguments, default_socket).Parse();
}

std::string HelpText(const std::string& command) {
  constexpr char kFlags[] =
      "\n"
      "  --json         JSON instead of a table\n"
      "  --socket=PATH  the daemon's control socket; else $OPTIREDUCE_SOCKET,\n"
      "                 else /run/optireduce/control.sock\n"
      "\n"
      "Exit codes: 0 ok, 1 failure, 2 usage, 3 daemon unreachable,\n"
      "78 configuration.\n";
  if (const Command* found = FindCommand(command)) {
    return absl::StrCat("optictl ", command, ": ", found->summary, "\n\n",
                        found->help, kFlags);
  }
  std::string text =
      "optictl: asks the optireduced of this host.\n"
      "\n"
      "  optictl COMMAND [--json] [--socket=PATH]\n"
      "  optictl COMMAND --help\n"
      "\n";
  for (const Command& c : kCommands) {
    absl::StrAppend(&text, "  ", c.name,
                    std::string(15 - std::string(c.name).size(), ' '),
                    c.summary, "\n");
  }
  return text + kFlags;
}

}  // namespace optireduce::control
