#include "dataplane/sim/baseline/mse_command.h"

#include <fstream>
#include <numeric>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "dataplane/sim/baseline/best_effort.h"
#include "dataplane/sim/baseline/samples.h"
#include "dataplane/sim/command_line.h"
#include "nlohmann/json.hpp"

namespace optireduce::sim::baseline {

namespace {

absl::StatusOr<BestEffortSpec> Parse(CommandLine* line) {
  BestEffortSpec spec;
  const std::string name = line->Text("algorithm", "tar");
  const std::optional<Algorithm> algorithm = FindAlgorithm(name);
  spec.hosts = line->Number("hosts", spec.hosts);
  spec.ops = line->Number("ops", spec.ops);
  spec.seed = line->Number("seed", spec.seed);
  const auto drop = ParseReal(line->Text("drop", "0.001"));
  if (!line->error().empty()) return absl::InvalidArgumentError(line->error());
  if (!line->words().empty()) {
    return absl::InvalidArgumentError("mse takes flags only");
  }
  if (name != "ring" && name != "tar" && name != "ps") {
    return absl::InvalidArgumentError("--algorithm: ring, tar or ps");
  }
  if (spec.hosts < 2 || spec.hosts > 1024) {
    return absl::InvalidArgumentError("--hosts: 2 to 1024");
  }
  if (!drop || !(*drop >= 0 && *drop <= 1)) {
    return absl::InvalidArgumentError("--drop: 0 to 1");
  }
  if (spec.ops == 0 || spec.ops % kBatches != 0) {
    return absl::InvalidArgumentError("--ops: a multiple of 100");
  }
  spec.algorithm = *algorithm;
  spec.drop = *drop;
  return spec;
}

std::string Line(const BestEffortSpec& spec, const BestEffortResult& result) {
  const nlohmann::json line = {{"algorithm", Name(spec.algorithm)},
                               {"hosts", spec.hosts},
                               {"drop", spec.drop},
                               {"ops", spec.ops},
                               {"seed", spec.seed},
                               {"dropped", result.dropped},
                               {"squared_error", result.squared_error},
                               {"trace_hash", Hex(result.trace_hash)}};
  return line.dump() + "\n";
}

}  // namespace

absl::StatusOr<std::string> RunMse(const std::vector<std::string>& arguments) {
  CommandLine line(
      arguments, {"algorithm", "hosts", "drop", "ops", "seed", "samples"}, {});
  const absl::StatusOr<BestEffortSpec> spec = Parse(&line);
  if (!spec.ok()) return spec.status();
  const BestEffortResult result = RunBestEffort(*spec);
  if (line.Has("samples")) {
    const std::string path = line.Text("samples", "");
    std::ofstream file(path);
    file << Line(*spec, result);
    file.close();
    if (!file) return absl::InternalError("cannot write " + path);
  }
  const double mean = std::accumulate(result.squared_error.begin(),
                                      result.squared_error.end(), 0.0) /
                      static_cast<double>(kBatches);
  return absl::StrFormat(
      "%s, %u hosts: mean squared error %.6g, %u packets dropped, trace hash "
      "%s\n",
      Name(spec->algorithm), spec->hosts, mean, result.dropped,
      Hex(result.trace_hash));
}

}  // namespace optireduce::sim::baseline
