// optisim: the deterministic simulator on the command line.

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataplane/sim/baseline/command.h"
#include "dataplane/sim/baseline/mse_command.h"
#include "dataplane/sim/calc.h"
#include "dataplane/sim/command_line.h"
#include "dataplane/sim/decode.h"
#include "dataplane/sim/random_scenario.h"
#include "dataplane/sim/scenario_json.h"
#include "dataplane/sim/seeds.h"
#include "dataplane/sim/simulation.h"
#include "dataplane/sim/systematic.h"

namespace optireduce::sim {
namespace {

enum ExitCode : int { kOk = 0, kFailure = 1, kUsage = 2 };

constexpr char kHelp[] =
    R"(optisim: runs the real protocol core in a simulated network.

  optisim run --seed S [--count K] [--trace]
      Random scenarios from seeds S .. S+K-1 (K: 1). A failing seed prints what
      was violated and the command that replays it. --trace: every datagram and
      event of one seed. `optisim --seed S` is the same.
  optisim run FILE [--trace]
      One scenario from JSON (-: standard input); its outcome as JSON. --trace: to
      standard error.
  optisim systematic [--case NAME] [--fault NAME] [--packet N] [--trace]
      Small runs in which each packet in turn is lost, duplicated or delayed.
  optisim coverage [--seed S] [--count K]
      Runs the systematic cases and K (2000) seeds from S (1) on; which pairs of
      op state and event, and which verdicts on packets, were reached. Fails
      below 95 % of the pairs, or if a verdict is missing.
  optisim baseline --algorithm ring|bcube|tree|nccl_like|ps|tar|tar2d|ours[,..]
      [--hosts N] [--bytes S] [--rate GBPS] [--mtu M] [--ops K] [--seed S]
      [--background none|tail15|tail30|FLOWS:PAUSE_US:BURST_US] [--loss P]
      [--share-cap X] [--congestion-control] [--incast I] [--period X] [--late X]
      [--jitter X] [--quorum PERMILLE] [--rate-change AFTER:FACTOR] [--jobs 1|2]
      [--json] [--samples FILE]
      Times of K (100) all-reduces of S (25 MiB) bytes on N (8) hosts at GBPS (10):
      the published algorithms over a reliable transport, and ours, all on the
      same network beside the same background traffic; goodputs in Gb/s. P: the
      share of all packets that is lost. Ours alone may be told to use a share of
      the line, to adapt its rates, how many ranks send to one host at a time, and
      to start ops a period apart, with rank 0 late with every 20th or every rank
      by up to a jitter, all in times of the bytes on an idle line; to start its
      clocks once a share of the ranks is there; that all cables change their rate
      by FACTOR after so many of these times; and that a second job of N hosts, of
      which host 0 is one, does the same. --samples: each time, a line of JSON for
      each algorithm.
  optisim mse --algorithm ring|tar|ps [--hosts N] [--drop P] [--ops K] [--seed S]
      [--samples FILE]
      How far averages are off if packets are dropped with the chance P (0.001)
      and nobody repeats them; K (100000) all-reduces of a packet for each shard.
  optisim calc NAME KEY=VALUE..
      The production pure functions; `optisim calc --help` lists them.
  optisim decode FILE.pcap [--split OFFSET,..]
      The parsers' verdict on every frame, one line of JSON each; --split: cut
      into segments at these offsets.

Exit status: 0 all is well; 1 a scenario violated something or a file cannot be
read; 2 usage.
)";

using Arguments = std::vector<std::string>;

int UsageError(const std::string& what) {
  std::fprintf(stderr, "optisim: %s\nTry: optisim --help\n", what.c_str());
  return kUsage;
}

// The whole file; nothing if it cannot be read.
std::optional<std::string> ReadFile(const std::string& path) {
  if (path == "-") {
    return std::string(std::istreambuf_iterator<char>(std::cin), {});
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

int TraceSeed(uint64_t seed) {
  RunOptions options;
  options.trace = stdout;
  const Outcome outcome = RunScenario(RandomScenario(seed), options);
  for (const std::string& line : outcome.violations) {
    std::printf("violated: %s\n", line.c_str());
  }
  std::printf("trace hash %016" PRIx64 "\n", outcome.trace_hash);
  return outcome.ok() ? kOk : kFailure;
}

int RunSeedsCommand(CommandLine* line) {
  const uint64_t seed = line->Number("seed", 1);
  const uint64_t count = line->Number("count", 1);
  if (!line->error().empty()) return UsageError(line->error());
  if (line->Has("trace") && count == 1) return TraceSeed(seed);
  const SeedsSummary summary = RunSeeds(seed, count, /*progress=*/true, stdout);
  PrintSummary(summary, stdout);
  return summary.failing.empty() ? kOk : kFailure;
}

int RunFile(const std::string& path, bool trace) {
  const std::optional<std::string> text = ReadFile(path);
  if (!text) {
    std::fprintf(stderr, "optisim: cannot read %s\n", path.c_str());
    return kFailure;
  }
  const auto scenario = ScenarioFromJson(*text);
  if (!scenario.ok()) {
    return UsageError(path + ": " + std::string(scenario.status().message()));
  }
  RunOptions options;
  options.keep_outputs = true;
  options.trace = trace ? stderr : nullptr;
  const Outcome outcome = RunScenario(*scenario, options);
  std::printf("%s\n", OutcomeToJson(*scenario, outcome).c_str());
  return outcome.ok() ? kOk : kFailure;
}

int Run(const Arguments& arguments) {
  CommandLine line(arguments, {"seed", "count"}, {"trace"});
  if (!line.error().empty()) return UsageError(line.error());
  if (line.words().size() == 1 && !line.Has("seed") && !line.Has("count")) {
    return RunFile(line.words()[0], line.Has("trace"));
  }
  if (!line.words().empty() || !line.Has("seed")) {
    return UsageError("run takes a file, or --seed");
  }
  return RunSeedsCommand(&line);
}

int Systematic(const Arguments& arguments) {
  CommandLine line(arguments, {"case", "fault", "packet"}, {"trace"});
  std::optional<uint64_t> packet;
  if (line.Has("packet")) packet = line.Number("packet", 0);
  if (!line.error().empty()) return UsageError(line.error());
  if (!line.words().empty()) return UsageError("systematic takes flags only");
  const auto text = [&line](const char* flag) -> std::optional<std::string> {
    if (!line.Has(flag)) return std::nullopt;
    return line.Text(flag, "");
  };
  const SystematicSummary summary =
      RunSystematic(text("case"), packet, text("fault"),
                    line.Has("trace") ? stdout : nullptr, stdout);
  if (summary.runs == 0) return UsageError("no such case or fault");
  std::printf("%" PRIu64 " cases, %" PRIu64 " runs, %" PRIu64 " failing\n",
              summary.cases, summary.runs, summary.failing);
  return summary.failing == 0 ? kOk : kFailure;
}

int CoverageCommand(const Arguments& arguments) {
  CommandLine line(arguments, {"seed", "count"}, {});
  const uint64_t seed = line.Number("seed", 1);
  const uint64_t count = line.Number("count", 2000);
  if (!line.error().empty()) return UsageError(line.error());
  if (!line.words().empty()) return UsageError("coverage takes flags only");
  const SystematicSummary systematic =
      RunSystematic(std::nullopt, std::nullopt, std::nullopt, nullptr, stdout);
  SeedsSummary seeds = RunSeeds(seed, count, /*progress=*/true, stdout);
  PrintSummary(seeds, stdout);
  seeds.coverage.Add(systematic.coverage);
  seeds.coverage.Print(stdout);
  return systematic.failing == 0 && seeds.failing.empty() &&
                 seeds.coverage.Suffices()
             ? kOk
             : kFailure;
}

int PrintResult(const absl::StatusOr<std::string>& text) {
  if (text.ok()) {
    std::fputs(text->c_str(), stdout);
    return kOk;
  }
  const std::string what(text.status().message());
  if (absl::IsInvalidArgument(text.status())) return UsageError(what);
  std::fprintf(stderr, "optisim: %s\n", what.c_str());
  return kFailure;
}

int Baseline(const Arguments& arguments) {
  const auto command = baseline::ParseCommand(arguments);
  if (!command.ok()) return PrintResult(command.status());
  return PrintResult(baseline::RunCommand(*command));
}

int Calc(const Arguments& arguments) {
  if (arguments.empty() || arguments[0] == "--help") {
    std::printf("optisim calc NAME KEY=VALUE..\n%s", CalculateHelp().c_str());
    return arguments.empty() ? kUsage : kOk;
  }
  const auto result =
      Calculate(arguments[0], {arguments.begin() + 1, arguments.end()});
  if (!result.ok()) return UsageError(std::string(result.status().message()));
  std::printf("%s\n", result->c_str());
  return kOk;
}

// "14,34,42"; nothing if it is not that.
std::optional<std::vector<uint64_t>> ParseOffsets(std::string text) {
  std::vector<uint64_t> offsets;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::optional<uint64_t> offset = ParseNumber(text.substr(0, comma));
    if (!offset) return std::nullopt;
    offsets.push_back(*offset);
    text = comma == std::string::npos ? "" : text.substr(comma + 1);
  }
  return offsets;
}

int Decode(const Arguments& arguments) {
  CommandLine line(arguments, {"split"}, {});
  if (!line.error().empty()) return UsageError(line.error());
  const auto split = ParseOffsets(line.Text("split", ""));
  if (!split) return UsageError("--split is not a list of offsets");
  if (line.words().size() != 1) return UsageError("decode takes one file");
  const std::optional<std::string> file = ReadFile(line.words()[0]);
  if (!file) {
    std::fprintf(stderr, "optisim: cannot read %s\n", line.words()[0].c_str());
    return kFailure;
  }
  const auto frames =
      ReadPcap({reinterpret_cast<const uint8_t*>(file->data()), file->size()});
  if (!frames.ok()) {
    std::fprintf(stderr, "optisim: %s: %s\n", line.words()[0].c_str(),
                 std::string(frames.status().message()).c_str());
    return kFailure;
  }
  for (const auto& frame : *frames) {
    std::printf("%s\n", DecodeFrame(frame, *split).c_str());
  }
  return kOk;
}

int Main(const Arguments& arguments) {
  if (arguments.empty()) return UsageError("a command is needed");
  const std::string& command = arguments[0];
  const Arguments rest(arguments.begin() + 1, arguments.end());
  const bool wants_help =
      command == "--help" || command == "help" ||
      (command != "calc" && !rest.empty() && rest[0] == "--help");
  if (wants_help) {
    std::fputs(kHelp, stdout);
    return kOk;
  }
  if (command == "run") return Run(rest);
  if (command.starts_with("--seed")) return Run(arguments);
  if (command == "systematic") return Systematic(rest);
  if (command == "coverage") return CoverageCommand(rest);
  if (command == "baseline") return Baseline(rest);
  if (command == "mse") return PrintResult(baseline::RunMse(rest));
  if (command == "calc") return Calc(rest);
  if (command == "decode") return Decode(rest);
  return UsageError("unknown command " + command);
}

}  // namespace
}  // namespace optireduce::sim

int main(int argc, char** argv) {
  return optireduce::sim::Main({argv + 1, argv + argc});
}
