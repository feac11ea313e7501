#include "dataplane/sim/baseline/command.h"

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "dataplane/sim/baseline/samples.h"
#include "dataplane/sim/command_line.h"
#include "nlohmann/json.hpp"

namespace optireduce::sim::baseline {

namespace {

constexpr char kNcclLike[] = "nccl_like";

struct Row {
  std::string algorithm;  // as asked for
  Algorithm ran{};
  ExperimentResult result;
  Summary summary;
};

std::vector<std::string> Split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// "5000-15000", in microseconds.
bool ParseRange(const std::string& text, Duration* low, Duration* high) {
  const std::vector<std::string> ends = Split(text, '-');
  if (ends.size() != 2) return false;
  const auto from = ParseNumber(ends[0]);
  const auto to = ParseNumber(ends[1]);
  if (!from || !to || *from == 0 || *to < *from || *to > 1'000'000'000) {
    return false;
  }
  *low = Duration::Micros(static_cast<int64_t>(*from));
  *high = Duration::Micros(static_cast<int64_t>(*to));
  return true;
}

// A preset's name, or "FLOWS:PAUSE_US:BURST_US", the last two ranges.
std::optional<BackgroundSpec> ParseBackground(const std::string& text) {
  if (auto preset = FindBackground(text)) return preset;
  const std::vector<std::string> fields = Split(text, ':');
  if (fields.size() != 3) return std::nullopt;
  BackgroundSpec spec;
  spec.name = text;
  const auto flows = ParseNumber(fields[0]);
  if (!flows || *flows == 0 || *flows > 1000 ||
      !ParseRange(fields[1], &spec.shortest_pause, &spec.longest_pause) ||
      !ParseRange(fields[2], &spec.shortest_burst, &spec.longest_burst)) {
    return std::nullopt;
  }
  spec.flows = static_cast<uint32_t>(*flows);
  return spec;
}

absl::Status Invalid(const std::string& what) {
  return absl::InvalidArgumentError(what);
}

absl::Status CheckSpec(const ExperimentSpec& spec) {
  if (spec.hosts < 2 || spec.hosts > 1024) return Invalid("--hosts: 2 to 1024");
  if (spec.bytes == 0 || spec.bytes % 4 != 0 ||
      spec.bytes > uint64_t{1} << 32) {
    return Invalid("--bytes: a multiple of 4 up to 4 GiB");
  }
  if (spec.mtu < 576 || spec.mtu > 9000) return Invalid("--mtu: 576 to 9000");
  if (spec.ops == 0 || spec.ops > 1'000'000) return Invalid("--ops: 1 to 10^6");
  if (spec.loss < 0 || spec.loss >= 1) return Invalid("--loss: 0 to below 1");
  if (!(spec.share_cap >= 0.01 && spec.share_cap <= 1)) {
    return Invalid("--share-cap: 0.01 to 1");
  }
  for (const double times : {spec.period, spec.late, spec.jitter}) {
    if (times >= 0 && times <= 1000) continue;
    return Invalid(
        "--period, --late, --jitter: 0 to 1000 times the bytes' own time");
  }
  if ((spec.late > 0 || spec.jitter > 0) && spec.period == 0) {
    return Invalid("--late and --jitter need --period");
  }
  if (spec.quorum_permille < 1 || spec.quorum_permille > 1000) {
    return Invalid("--quorum: 1 to 1000 thousandths");
  }
  if (spec.incast > 1023) return Invalid("--incast: 0 to 1023");
  if (spec.jobs < 1 || spec.jobs > 2) return Invalid("--jobs: 1 or 2");
  return absl::OkStatus();
}

// What baselines cannot do.
bool IsForOursAlone(const ExperimentSpec& spec) {
  return spec.share_cap < 1 || spec.period > 0 || spec.congestion_control ||
         spec.incast > 0 || spec.change_factor != 1 || spec.jobs > 1 ||
         spec.quorum_permille != ExperimentSpec().quorum_permille;
}

// "AFTER:FACTOR".
bool ParseChange(const std::string& text, ExperimentSpec* spec) {
  const std::vector<std::string> fields = Split(text, ':');
  if (fields.size() != 2) return false;
  const auto after = ParseReal(fields[0]);
  const auto factor = ParseReal(fields[1]);
  if (!after || !factor || !(*after > 0 && *after <= 1e6) ||
      !(*factor >= 0.01 && *factor <= 100)) {
    return false;
  }
  spec->change_after = *after;
  spec->change_factor = *factor;
  return true;
}

std::vector<std::string> OursAlone() {
  return {std::string(Name(Algorithm::kOurs))};
}

Row RunOne(const std::string& name, ExperimentSpec spec) {
  spec.algorithm = *FindAlgorithm(name);
  Row row;
  row.algorithm = name;
  row.ran = spec.algorithm;
  row.result = RunExperiment(spec);
  if (row.result.failure.empty()) row.summary = Summarize(spec, row.result);
  return row;
}

class Runner {
 public:
  explicit Runner(const ExperimentSpec& spec) : spec_(spec) {}

  // Each algorithm runs once.
  const Row& Get(const std::string& name) {
    const auto found = rows_.find(name);
    if (found != rows_.end()) return found->second;
    if (name != kNcclLike) {
      return rows_.emplace(name, RunOne(name, spec_)).first->second;
    }
    const Row& ring = Get("ring");
    const Row& tree = Get("tree");
    Row better = tree.summary.mean < ring.summary.mean ? tree : ring;
    better.algorithm = kNcclLike;
    return rows_.emplace(name, std::move(better)).first->second;
  }

 private:
  ExperimentSpec spec_;
  std::map<std::string, Row> rows_;
};

nlohmann::json RowToJson(const Row& row) {
  const Summary& summary = row.summary;
  const SenderCounters& transport = row.result.transport;
  return {{"algorithm", row.algorithm},
          {"mean_us", summary.mean.micros()},
          {"p50_us", summary.p50.micros()},
          {"p99_us", summary.p99.micros()},
          {"p99_over_p50", summary.p99_over_p50},
          {"goodput_gbps", summary.goodput_bps / 1e9},
          {"background_gbps", summary.background_bps / 1e9},
          {"missing", summary.missing},
          {"repaired", summary.repaired},
          {"questions", row.result.repairs.questions},
          {"segments", transport.segments},
          {"retransmitted", transport.retransmitted},
          {"probes", transport.probes},
          {"timeouts", transport.timeouts},
          {"trace_hash", Hex(row.result.trace_hash)}};
}

std::string ToJson(const Command& command, const std::vector<Row>& rows) {
  const ExperimentSpec& spec = command.spec;
  nlohmann::json json = {
      {"hosts", spec.hosts},
      {"bytes", spec.bytes},
      {"rate_gbps", static_cast<double>(spec.rate_bps) / 1e9},
      {"mtu", spec.mtu},
      {"ops", spec.ops},
      {"seed", spec.seed},
      {"background", spec.background.name},
      {"offered_load", spec.background.OfferedLoad()},
      {"rows", nlohmann::json::array()}};
  for (const Row& row : rows) json["rows"].push_back(RowToJson(row));
  return json.dump(2) + "\n";
}

std::string ToTable(const std::vector<Row>& rows) {
  std::string table =
      "algorithm     mean us      p50 us      p99 us  p99/p50  goodput  "
      "others  missing  repaired  timeouts  trace hash\n";
  for (const Row& row : rows) {
    const Summary& summary = row.summary;
    char line[200];
    std::snprintf(
        line, sizeof(line),
        "%-9s %11.1f %11.1f %11.1f %8.2f %8.3f %7.3f %8.5f %9.5f %9" PRIu64
        "  %s\n",
        row.algorithm.c_str(), summary.mean.micros(), summary.p50.micros(),
        summary.p99.micros(), summary.p99_over_p50, summary.goodput_bps / 1e9,
        summary.background_bps / 1e9, summary.missing, summary.repaired,
        row.result.transport.timeouts, Hex(row.result.trace_hash).c_str());
    table += line;
  }
  return table;
}

absl::Status WriteSamples(const Command& command,
                          const std::vector<Row>& rows) {
  std::ofstream file(command.samples);
  for (const Row& row : rows) {
    ExperimentSpec spec = command.spec;
    spec.algorithm = row.ran;
    file << SamplesLine(spec, row.result);
  }
  file.close();
  if (!file) return absl::InternalError("cannot write " + command.samples);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Command> ParseCommand(
    const std::vector<std::string>& arguments) {
  CommandLine line(
      arguments,
      {"algorithm", "hosts", "bytes", "rate", "mtu", "ops", "seed",
       "background", "loss", "share-cap", "incast", "period", "late", "jitter",
       "quorum", "rate-change", "jobs", "samples"},
      {"congestion-control", "json"});
  Command command;
  ExperimentSpec& spec = command.spec;
  spec.hosts = line.Number("hosts", spec.hosts);
  spec.bytes = line.Number("bytes", spec.bytes);
  const uint64_t mtu = line.Number("mtu", spec.mtu);
  spec.ops = line.Number("ops", spec.ops);
  const uint64_t quorum = line.Number("quorum", spec.quorum_permille);
  spec.seed = line.Number("seed", spec.seed);
  spec.congestion_control = line.Has("congestion-control");
  spec.incast = static_cast<uint32_t>(
      std::min<uint64_t>(line.Number("incast", spec.incast), UINT32_MAX));
  spec.jobs = static_cast<uint32_t>(
      std::min<uint64_t>(line.Number("jobs", spec.jobs), UINT32_MAX));
  command.json = line.Has("json");
  command.samples = line.Text("samples", "");
  if (!line.error().empty()) return Invalid(line.error());
  if (!line.words().empty()) return Invalid("baseline takes flags only");
  if (!line.Has("algorithm")) return Invalid("--algorithm is needed");
  command.algorithms = Split(line.Text("algorithm", ""), ',');
  for (const std::string& name : command.algorithms) {
    if (name != kNcclLike && !FindAlgorithm(name)) {
      return Invalid("unknown algorithm " + name);
    }
  }
  double gbps = 10;
  for (const auto& [flag, value] : {std::pair{"rate", &gbps},
                                    {"loss", &spec.loss},
                                    {"share-cap", &spec.share_cap},
                                    {"period", &spec.period},
                                    {"late", &spec.late},
                                    {"jitter", &spec.jitter}}) {
    if (!line.Has(flag)) continue;
    const auto number = ParseReal(line.Text(flag, ""));
    if (!number) return Invalid(std::string("--") + flag + " is not a number");
    *value = *number;
  }
  if (!(gbps >= 0.001 && gbps <= 400)) {
    return Invalid("--rate: 0.001 to 400 Gb/s");
  }
  spec.rate_bps = static_cast<uint64_t>(gbps * 1e9);
  if (line.Has("rate-change") &&
      !ParseChange(line.Text("rate-change", ""), &spec)) {
    return Invalid("--rate-change: AFTER:FACTOR, up to 10^6 and 0.01 to 100");
  }
  spec.mtu = static_cast<uint32_t>(std::min<uint64_t>(mtu, UINT32_MAX));
  spec.quorum_permille =
      static_cast<uint32_t>(std::min<uint64_t>(quorum, UINT32_MAX));
  const auto background = ParseBackground(line.Text("background", "none"));
  if (!background) return Invalid("unknown background");
  spec.background = *background;
  if (const absl::Status status = CheckSpec(spec); !status.ok()) return status;
  if (IsForOursAlone(spec) && command.algorithms != OursAlone()) {
    return Invalid(
        "--share-cap, --congestion-control, --incast, --period, --quorum, "
        "--rate-change and --jobs go with ours alone");
  }
  return command;
}

absl::StatusOr<std::string> RunCommand(const Command& command) {
  Runner runner(command.spec);
  std::vector<Row> rows;
  for (const std::string& name : command.algorithms) {
    rows.push_back(runner.Get(name));
    if (!rows.back().result.failure.empty()) {
      return absl::InternalError(name + ": " + rows.back().result.failure);
    }
  }
  if (!command.samples.empty()) {
    const absl::Status status = WriteSamples(command, rows);
    if (!status.ok()) return status;
  }
  return command.json ? ToJson(command, rows) : ToTable(rows);
}

}  // namespace optireduce::sim::baseline
