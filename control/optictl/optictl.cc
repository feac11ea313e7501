// optictl: asks the daemon of this host what it is and does.

#include <stdio.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "control/optictl/ask.h"
#include "control/optictl/explain.h"
#include "control/optictl/options.h"
#include "control/optictl/render.h"
#include "control/version.h"
#include "proto/config.pb.h"

namespace optireduce::control {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr int kExitUnreachable = 3;

constexpr Duration kAnswerLimit = Duration::Seconds(5);

std::string DefaultSocket() {
  const char* variable = getenv("OPTIREDUCE_SOCKET");
  if (variable != nullptr && *variable != '\0') return variable;
  return config::DaemonConfig().socket();
}

int Print(const std::string& text) {
  const bool written = fputs(text.c_str(), stdout) >= 0 && fflush(stdout) == 0;
  return written ? 0 : kExitFailure;
}

int Main(const std::vector<std::string>& arguments) {
  const auto options = ParseOptions(arguments, DefaultSocket());
  if (!options.ok()) {
    fprintf(stderr, "optictl: %s (see optictl --help)\n",
            std::string(options.status().message()).c_str());
    return kExitUsage;
  }
  if (options->help) return Print(HelpText(options->command));
  if (options->version) {
    return Print(std::string("optictl ") + kVersion + "\n");
  }
  const auto reply = AskDaemon(options->socket, options->request, kAnswerLimit);
  if (!reply.ok()) {
    fprintf(stderr, "optictl: %s\n",
            std::string(reply.status().message()).c_str());
    return reply.status().code() == absl::StatusCode::kUnavailable
               ? kExitUnreachable
               : kExitFailure;
  }
  if (options->json) return Print(ToJson(*reply));
  if (!options->request.ops().has_op()) return Print(ToTable(*reply));
  if (reply->ops().ops().empty()) {
    fprintf(stderr, "optictl: the daemon remembers no such op\n");
    return kExitFailure;
  }
  return Print(ExplainOps(reply->ops()));
}

}  // namespace
}  // namespace optireduce::control

int main(int argc, char** argv) {
  return optireduce::control::Main({argv + 1, argv + argc});
}
