// optireduced: the daemon that owns a host's data port and runs collectives for
// the trainers on it.

#include <gflags/gflags.h>
#include <glog/logging.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "control/command_line.h"
#include "control/config_loader.h"
#include "control/daemon.h"
#include "control/version.h"

namespace optireduce::control {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitConfiguration = 78;  // EX_CONFIG of sysexits.h

int FailConfiguration(const absl::Status& status) {
  fprintf(stderr, "optireduced: %s\n", std::string(status.message()).c_str());
  return kExitConfiguration;
}

int PrintConfig(const LoadedConfig& config) {
  for (const EffectiveValue& value : config.Effective()) {
    printf("%s = %s  # %s %s\n", value.key.c_str(), value.value.c_str(),
           Name(value.origin).c_str(), value.where.c_str());
  }
  return 0;
}

int Serve(const LoadedConfig& config) {
  Daemon daemon(config);
  const absl::Status status = daemon.Start();
  if (status.code() == absl::StatusCode::kCancelled) return 0;
  if (!status.ok()) {
    fprintf(stderr, "optireduced: %s\n", std::string(status.message()).c_str());
    return kExitFailure;
  }
  daemon.Run();
  return 0;
}

int Main(int argc, char** argv) {
  // Before any thread is started: all of them leave these to the control
  // thread. A closed standard error must not kill a daemon that logs.
  const sigset_t stop_signals = Daemon::StopSignals();
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  const auto command_line = ParseCommandLine(argc, argv);
  if (!command_line.ok()) return FailConfiguration(command_line.status());
  if (command_line->help) {
    fputs(HelpText().c_str(), stdout);
    return 0;
  }
  if (command_line->version) {
    printf("optireduced %s\n", kVersion);
    return 0;
  }
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  const auto sources = ReadSources(*command_line, environ);
  if (!sources.ok()) return FailConfiguration(sources.status());
  const auto config = LoadConfig(*sources);
  if (!config.ok()) return FailConfiguration(config.status());
  return command_line->check ? PrintConfig(*config) : Serve(*config);
}

}  // namespace
}  // namespace optireduce::control

int main(int argc, char** argv) {
  return optireduce::control::Main(argc, argv);
}
