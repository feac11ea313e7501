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
     "One line per op: how it ended, how long it took, when and why each "
     "stage\n"
     "closed (all_in, early, bound) and with how many of its packets, what is\n"
     "missing, who was late, what was sent again, what became residual and\n"
     "debt (elements), and how much time not waiting for the rest has saved.\n"
     "Times are from the submit. A rank is late by +TIME if it began the op "
     "so\n"
     "long after the quorum; (N, +TIME) means N packets that came so long "
     "after\n"
     "the close, (N, lost) that they never came.\n"
     "\n"
     "  --limit=N  the last N only\n"
     "  --group=G  ops of this group only\n"
     "  --op=N     tells the whole story of op number N\n",
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

// A number that only `ops` takes.
struct OpsFlag {
  const char* name;
  uint32_t least;
  void (*set)(OpsRequest* request, uint32_t number);
  std::string value;  // as given; empty: not
};

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
    const absl::Status status = FillOps();
    if (!status.ok()) return status;
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
    for (OpsFlag& ops_flag : ops_flags_) {
      if (name == ops_flag.name) {
        return TakeValue(flag, equals, &ops_flag.value);
      }
    }
    bool* const option = name == "json"      ? &options_.json
                         : name == "help"    ? &options_.help
                         : name == "version" ? &options_.version
                                             : nullptr;
    if (option == nullptr) {
      return Invalid(absl::StrCat("unknown flag \"--", name, "\"",
                                  Suggestion(name,
                                             {"socket", "limit", "group", "op",
                                              "json", "help", "version"},
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

  // Of those flags that only ops has.
  absl::Status FillOps() {
    for (const OpsFlag& flag : ops_flags_) {
      if (flag.value.empty()) continue;
      if (options_.command != "ops") {
        return Invalid(absl::StrCat(
            "--", flag.name, " goes with ops, not with ", options_.command));
      }
      uint32_t number = 0;
      const char* end = flag.value.data() + flag.value.size();
      const auto [stop, error] =
          std::from_chars(flag.value.data(), end, number);
      if (error != std::errc() || stop != end || number < flag.least) {
        return Invalid(absl::StrCat("--", flag.name, ": \"", flag.value,
                                    "\" is not a number from ", flag.least));
      }
      flag.set(options_.request.mutable_ops(), number);
    }
    return absl::OkStatus();
  }

  const std::vector<std::string>& arguments_;
  size_t at_ = 0;
  Options options_;
  OpsFlag ops_flags_[3] = {
      {"limit", 1, [](OpsRequest* r, uint32_t n) { r->set_limit(n); }, ""},
      {"group", 0, [](OpsRequest* r, uint32_t n) { r->set_group(n); }, ""},
      {"op", 0, [](OpsRequest* r, uint32_t n) { r->set_op(n); }, ""}};
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
