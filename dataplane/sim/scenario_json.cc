#include "dataplane/sim/scenario_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "dataplane/sim/inputs.h"
#include "dataplane/sim/json_object.h"
#include "dataplane/sim/names.h"

namespace optireduce::sim {

namespace {

using Json = nlohmann::json;

constexpr int64_t kU32 = UINT32_MAX;
constexpr int64_t kLeastRate = 1'000'000;  // of a link, bits per second
constexpr int64_t kGreatestRate = 1'000'000'000'000;

template <typename T>
T At(const std::vector<T>& values, size_t index, T otherwise) {
  return index < values.size() ? values[index] : otherwise;
}

class Reader {
 public:
  explicit Reader(const Json& document)
      : root_(document, "scenario", &error_) {}

  absl::StatusOr<Scenario> Read() {
    root_.Unsigned("seed", &scenario_.seed);
    int64_t world = 0;
    root_.Integer("world", 1, static_cast<int64_t>(wire::kMaxWorld), &world);
    if (world == 0) {
      root_.Fail("world", "is needed");
      return absl::InvalidArgumentError(error_);
    }
    group_.hosts.resize(static_cast<size_t>(world));
    ReadHosts();
    ReadGroup();
    ReadOps();
    ReadFaults();
    root_.Micros("give_up_us", &scenario_.give_up);
    root_.Finish();
    if (!error_.empty()) return absl::InvalidArgumentError(error_);
    scenario_.groups.push_back(std::move(group_));
    return std::move(scenario_);
  }

 private:
  size_t world() const { return group_.hosts.size(); }

  // ---- hosts

  void ReadHosts() {
    PlaceRanks();
    const auto hosts =
        1 + static_cast<size_t>(*std::ranges::max_element(group_.hosts));
    HostSpec host;
    root_.Child("link", [&](JsonObject* link) {
      link->Integer("rate_bps", kLeastRate, kGreatestRate, &host.link.rate_bps);
      link->Micros("delay_us", &host.link.delay);
      link->Integer("nic_queue_bytes", 16'384, kU32,
                    &host.link.nic_queue_bytes);
      link->Integer("switch_queue_bytes", 1'024, kU32,
                    &host.link.switch_queue_bytes);
      link->Integer("mark_above_bytes", 0, kU32, &host.link.mark_above_bytes);
    });
    root_.Micros("poll_interval_us", &host.poll_interval);
    root_.Bool("hardware_clock", &host.hardware_clock);
    root_.Integer("receive_ring", 1, kU32, &host.receive_ring);
    root_.Integer("pacer_bps", 0, 1'000'000'000'000, &host.pacer_bps);
    if (host.poll_interval <= Duration()) {
      root_.Fail("poll_interval_us", "is not more than 0");
    }
    scenario_.hosts.assign(hosts, host);
    ReadClocks();
  }

  // A number of hosts over which ranks are dealt in blocks, or the host of each
  // rank; absent: one host for each.
  void PlaceRanks() {
    const Json* const hosts = root_.Any("hosts");
    const size_t count = world();
    size_t in_block = 1;
    if (hosts != nullptr && hosts->is_number_unsigned()) {
      const auto number = hosts->get<size_t>();
      if (number < 1 || number > count) {
        root_.Fail("hosts", "is not from 1 to the world size");
      } else {
        in_block = (count + number - 1) / number;
      }
    }
    for (size_t rank = 0; rank < count; ++rank) {
      group_.hosts[rank] = static_cast<uint16_t>(rank / in_block);
    }
    if (hosts == nullptr || hosts->is_number_unsigned()) return;
    const bool fits =
        hosts->is_array() && hosts->size() == count &&
        std::ranges::all_of(*hosts, [count](const Json& host) {
          return host.is_number_unsigned() && host.get<size_t>() < count;
        });
    if (!fits) {
      root_.Fail("hosts", "is no number, and no list of a host for each rank");
      return;
    }
    for (size_t rank = 0; rank < count; ++rank) {
      group_.hosts[rank] = (*hosts)[rank].get<uint16_t>();
    }
  }

  void ReadClocks() {
    const Json* const clocks = root_.Any("clock_start_ns");
    if (clocks == nullptr) return;
    for (size_t i = 0; i < scenario_.hosts.size(); ++i) {
      const Json* const clock =
          clocks->is_array() && i < clocks->size() ? &(*clocks)[i] : clocks;
      if (!clock->is_number_unsigned() ||
          clock->get<uint64_t>() > uint64_t{INT64_MAX / 2}) {
        root_.Fail("clock_start_ns", "is no time, and no list of them by host");
        return;
      }
      scenario_.hosts[i].clock_start = Duration::Nanos(clock->get<int64_t>());
    }
  }

  // ---- the group

  void ReadGroup() {
    core::GroupConfig& config = group_.config;
    config.tag = 1;
    config.memory_budget = size_t{16} << 20;
    root_.Integer("tag", 0, kU32, &config.tag);
    uint32_t first_op = 0;
    root_.Integer("first_op", 0, kU32, &first_op);
    config.first_op = core::OpSeq(first_op);
    root_.Bool("start_together", &group_.start_together);
    root_.Enum<Ending>("ending", EndingFrom, &group_.ending);
    root_.Integer("max_in_flight", 1, 1'000'000, &group_.max_in_flight);
    ReadDurations("join_us", &root_, &group_.join_after);
    root_.Micros("close_after_us", &group_.close_after);
    root_.ForEach("skipped_steps", [&](const Json& step, const std::string&) {
      if (!step.is_number_unsigned()) {
        root_.Fail("skipped_steps", "is no list of steps");
        return;
      }
      group_.skipped_steps.push_back(step.get<uint64_t>());
    });
    root_.Child("group", [&](JsonObject* group) { ReadConfig(group); });
  }

  void ReadConfig(JsonObject* group) {
    core::GroupConfig& config = group_.config;
    group->Integer("payload_bytes", 16, 16'384, &config.payload_bytes);
    group->Integer("window", 1, kU32, &config.window);
    group->Integer("quorum_permille", 1, 1000, &config.quorum_permille);
    group->Micros("stage1_bound_us", &config.stage1_bound);
    group->Micros("result_bound_us", &config.result_bound);
    group->Bool("adaptive_bounds", &config.adaptive_bounds);
    group->Integer("slowest_rate_bps", 0, INT64_MAX, &config.slowest_rate_bps);
    group->Micros("least_bound_us", &config.least_bound);
    group->Micros("early_wait_us", &config.early_wait);
    group->Micros("hard_limit_us", &config.hard_limit);
    group->Enum<core::FillPolicy>("fill", FillPolicyFrom, &config.fill);
    group->Integer("memory_budget", 1, INT64_MAX, &config.memory_budget);
    group->Integer("ledger_budget", 1, INT64_MAX, &config.ledger_budget);
    group->Bool("congestion_control", &config.congestion_control);
    group->Integer("share_cap_permille", 1, 1000, &config.share_cap_permille);
    group->Integer("incast", 0, kU32, &config.incast);
    group->Micros("formation_limit_us", &config.formation_limit);
    group->Micros("heartbeat_us", &config.heartbeat);
    group->Micros("suspect_after_us", &config.suspect_after);
    group->Micros("dead_after_us", &config.dead_after);
    group->Micros("feedback_interval_us", &config.feedback_interval);
    group->Micros("nack_interval_us", &config.nack_interval);
  }

  // One for all ranks, or a list by rank.
  void ReadDurations(const std::string& key, JsonObject* object,
                     std::vector<Duration>* to) {
    const Json* const value = object->Any(key);
    if (value == nullptr) return;
    to->clear();
    for (size_t rank = 0; rank < world(); ++rank) {
      const bool listed = value->is_array() && rank < value->size();
      const Json& micros = listed ? (*value)[rank] : *value;
      if (!micros.is_number()) {
        object->Fail(key, "is no time, and no list of times by rank");
        return;
      }
      to->push_back(FromMicros(micros.get<double>()));
    }
  }

  // ---- ops

  // What stands at the top holds for every op that does not say otherwise.
  // "ops" is a list of them, or how many there are.
  void ReadOps() {
    OpSpec common;
    ReadOp(&root_, &common);
    const Json* const ops = root_.Any("ops");
    if (ops == nullptr || ops->is_number_unsigned()) {
      const uint64_t count = ops == nullptr ? 1 : ops->get<uint64_t>();
      if (count > 100'000) root_.Fail("ops", "is more than 100000");
      if (error_.empty()) group_.ops.assign(count, common);
      return;
    }
    root_.ForEach("ops", [&](const Json& json, std::string path) {
      JsonObject object(json, std::move(path), &error_);
      OpSpec op = common;
      ReadOp(&object, &op);
      object.Finish();
      group_.ops.push_back(std::move(op));
    });
  }

  void ReadOp(JsonObject* object, OpSpec* spec) {
    core::OpDescriptor& op = spec->descriptor;
    object->Enum<core::Collective>("collective", CollectiveFrom,
                                   &op.collective);
    object->Enum<gradcodec::ReduceOp>("op", ReduceOpFrom, &op.reduce_op);
    object->Enum<gradcodec::Dtype>("dtype", DtypeFrom, &op.dtype);
    object->Enum<core::Mode>("mode", ModeFrom, &op.mode);
    object->Enum<core::Codec>("codec", CodecFrom, &op.codec);
    object->Unsigned("count", &op.count);
    uint16_t root = op.root.value();
    object->Integer("root", 0, UINT16_MAX, &root);
    op.root = core::Rank(root);
    object->Unsigned("bucket", &op.bucket);
    object->Unsigned("step", &op.step);
    double scale = op.loss_scale;
    object->Number("loss_scale", 0, 1e38, &scale);
    op.loss_scale = static_cast<float>(scale);
    object->Micros("soft_limit_us", &op.soft_limit);
    object->Micros("hard_limit_us", &op.hard_limit);
    ReadDurations("submit_us", object, &spec->submit_after);
    object->Bool("in_place", &spec->in_place);
    object->Integer("misalignment", 0, 255, &spec->misalignment);
    ReadInputs(object, spec);
    ReadByRank(object, spec);
  }

  // A kind, or for each rank a list of numbers ("0x..": their bits).
  void ReadInputs(JsonObject* object, OpSpec* spec) {
    const Json* const inputs = object->Any("inputs");
    if (inputs == nullptr) {
      if (object->Has("dtype") && spec->inputs == InputKind::kListed) {
        object->Fail("dtype", "differs, but inputs are listed for another");
      }
      return;
    }
    if (inputs->is_string()) {
      object->Enum<InputKind>("inputs", InputKindFrom, &spec->inputs);
      return;
    }
    if (!inputs->is_array() || inputs->size() != world()) {
      object->Fail("inputs", "is no kind, and no list for each rank");
      return;
    }
    spec->inputs = InputKind::kListed;
    spec->listed.clear();
    for (const Json& rank : *inputs) {
      std::vector<uint64_t>& bits = spec->listed.emplace_back();
      for (const Json& element : rank) {
        bits.push_back(ElementBits(element, spec->descriptor.dtype, object));
      }
    }
  }

  static uint64_t ElementBits(const Json& element, gradcodec::Dtype dtype,
                              JsonObject* object) {
    uint64_t bits = 0;
    if (element.is_number()) {
      StoreNumber(dtype, element.get<double>(),
                  reinterpret_cast<uint8_t*>(&bits));
    } else if (element.is_string()) {
      bits = std::strtoull(element.get<std::string>().c_str(), nullptr, 16);
    } else {
      object->Fail("inputs", "has an element that is no number and no bits");
    }
    return bits;
  }

  // Ranks that submit something else: {"1": {"count": 5, ...}, ...}.
  void ReadByRank(JsonObject* object, OpSpec* spec) {
    const Json* const by_rank = object->Any("by_rank");
    if (by_rank == nullptr) return;
    spec->by_rank.assign(world(), spec->descriptor);
    if (!by_rank->is_object()) {
      object->Fail("by_rank", "is not an object");
      return;
    }
    for (const auto& [key, value] : by_rank->items()) {
      const uint64_t rank = std::strtoull(key.c_str(), nullptr, 10);
      if (rank >= world()) {
        object->Fail("by_rank", "names a rank outside the world");
        return;
      }
      JsonObject other(value, "by_rank." + key, &error_);
      OpSpec one = *spec;
      one.by_rank.clear();
      ReadOp(&other, &one);
      other.Finish();
      spec->by_rank[rank] = one.descriptor;
    }
  }

  // ---- faults

  void ReadFaults() {
    root_.ForEach("faults", [&](const Json& json, std::string path) {
      JsonObject object(json, std::move(path), &error_);
      ReadFault(&object);
      object.Finish();
    });
    root_.Child("random", [&](JsonObject* random) { ReadRandom(random); });
    root_.ForEach("partitions", [&](const Json& json, std::string path) {
      JsonObject object(json, std::move(path), &error_);
      PartitionSpec partition;
      partition.window = ReadWindow(&object);
      partition.from_host = ReadHost("from_host", &object);
      partition.to_host = ReadHost("to_host", &object);
      object.Finish();
      scenario_.partitions.push_back(partition);
    });
    root_.ForEach("stalls", [&](const Json& json, std::string path) {
      JsonObject object(json, std::move(path), &error_);
      Stall stall;
      stall.host = ReadHost("host", &object);
      stall.window = ReadWindow(&object);
      object.Bool("whole_host", &stall.whole_host);
      object.Finish();
      scenario_.stalls.push_back(stall);
    });
    root_.ForEach("deaths", [&](const Json& json, std::string path) {
      JsonObject object(json, std::move(path), &error_);
      Death death;
      death.rank = core::Rank(ReadRank("rank", &object).value_or(0));
      object.Micros("at_us", &death.after);
      object.Bool("daemon", &death.daemon);
      object.Finish();
      scenario_.deaths.push_back(death);
    });
    root_.ForEach("background", [&](const Json& json, std::string path) {
      JsonObject object(json, std::move(path), &error_);
      Background background;
      background.host = ReadHost("host", &object);
      background.window = ReadWindow(&object);
      object.Integer("load_permille", 0, 1000, &background.load_permille);
      object.Integer("on_permille", 0, 1000, &background.on_permille);
      object.Finish();
      scenario_.backgrounds.push_back(background);
    });
    root_.ForEach("rate_changes", [&](const Json& json, std::string path) {
      JsonObject object(json, std::move(path), &error_);
      RateChange change;
      change.host = ReadHost("host", &object);
      object.Micros("at_us", &change.after);
      object.Integer("rate_bps", kLeastRate, kGreatestRate, &change.rate_bps);
      if (!object.Has("rate_bps")) object.Fail("rate_bps", "is needed");
      object.Finish();
      scenario_.rate_changes.push_back(change);
    });
  }

  Window ReadWindow(JsonObject* object) {
    Duration begin;
    Duration end = Duration::Infinite();
    object->Micros("begin_us", &begin);
    object->Micros("end_us", &end);
    Window window;
    window.begin = Timestamp() + begin;
    if (end != Duration::Infinite()) window.end = Timestamp() + end;
    return window;
  }

  uint16_t ReadHost(const std::string& key, JsonObject* object) {
    uint16_t host = 0;
    object->Integer(key, 0, static_cast<int64_t>(scenario_.hosts.size()) - 1,
                    &host);
    return host;
  }

  std::optional<uint16_t> ReadRank(const std::string& key, JsonObject* object) {
    uint16_t rank = 0;
    object->Integer(key, 0, static_cast<int64_t>(world()) - 1, &rank);
    if (!object->Has(key)) return std::nullopt;
    return rank;
  }

  static std::optional<uint32_t> ReadOptional(const std::string& key,
                                              JsonObject* object) {
    uint32_t value = 0;
    object->Integer(key, 0, kU32, &value);
    if (!object->Has(key)) return std::nullopt;
    return value;
  }

  void ReadFault(JsonObject* object) {
    ScriptedFault fault;
    fault.op = ReadOptional("op", object);
    fault.stage = ReadOptional("stage", object);
    if (fault.stage && *fault.stage != 1 && *fault.stage != 2) {
      object->Fail("stage", "is not 1 or 2");
    }
    fault.chunk = ReadOptional("chunk", object);
    fault.times = ReadOptional("times", object);
    if (const auto rank = ReadRank("source", object)) {
      fault.source = core::Rank(*rank);
    }
    if (const auto rank = ReadRank("destination", object)) {
      fault.destination = core::Rank(*rank);
    }
    if (object->Has("type")) {
      wire::PacketType type{};
      object->Enum<wire::PacketType>("type", PacketTypeFrom, &type);
      fault.type = type;
    } else if (!fault.stage) {
      object->Fail("stage", "or a type is needed");
    }
    object->Enum<ScriptAction>("action", ScriptActionFrom, &fault.action);
    object->Micros("delay_us", &fault.delay);
    object->Integer("length", 1, kU32, &fault.length);
    object->Integer("skip", 0, kU32, &fault.skip);
    object->Bool("repairs", &fault.repairs);
    scenario_.script.push_back(fault);
  }

  void ReadRandom(JsonObject* object) {
    RandomFaults& random = scenario_.random;
    random.window = ReadWindow(object);
    object->Number("loss", 0, 1, &random.loss);
    object->Number("burst_start", 0, 1, &random.burst_start);
    object->Number("burst_end", 0, 1, &random.burst_end);
    object->Number("burst_loss", 0, 1, &random.burst_loss);
    object->Integer("tail_permille", 0, 1000, &random.tail_permille);
    object->Number("duplicate", 0, 1, &random.duplicate);
    object->Number("reorder", 0, 1, &random.reorder);
    object->Micros("reorder_longest_us", &random.reorder_longest);
    object->Number("corrupt", 0, 1, &random.corrupt);
    object->Number("corrupt_flipped", 0, 1, &random.corrupt_flipped);
    object->Number("old_epoch", 0, 1, &random.old_epoch);
    object->Number("stale", 0, 1, &random.stale);
    object->Number("forged", 0, 1, &random.forged);
    object->Number("invented", 0, 1, &random.invented);
    object->Micros("replay_longest_us", &random.replay_longest);
  }

  std::string error_;
  JsonObject root_;
  Scenario scenario_;
  GroupSpec group_;
};

// ---- outcomes

using OrderedJson = nlohmann::ordered_json;

std::string Text(std::string_view name) { return std::string(name); }

// Null for never.
OrderedJson Micros(Timestamp at) {
  if (at == Timestamp::Never()) return nullptr;
  return static_cast<double>(at.nanos()) / 1e3;
}

std::vector<uint16_t> Members(const core::RankSet& set) {
  std::vector<uint16_t> ranks;
  for (uint16_t i = 0; i < wire::kMaxWorld; ++i) {
    if (set.Contains(core::Rank(i))) ranks.push_back(i);
  }
  return ranks;
}

// The bits of each element, in hex.
OrderedJson Values(std::span<const uint8_t> bytes, size_t size) {
  OrderedJson values = OrderedJson::array();
  for (size_t at = 0; at + size <= bytes.size(); at += size) {
    uint64_t bits = 0;
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at), size,
                reinterpret_cast<uint8_t*>(&bits));
    values.push_back(absl::StrFormat("%0*x", static_cast<int>(2 * size), bits));
  }
  return values;
}

OrderedJson OpJson(const core::OpDescriptor& descriptor, Duration clock_start,
                   const OpOutcome& outcome) {
  OrderedJson op;
  op["submit"] = outcome.submit ? Text(NameOf(*outcome.submit)) : Text("never");
  op["submitted_us"] = Micros(outcome.submitted_at);
  op["reported_us"] = Micros(outcome.reported_at);
  if (!outcome.reported()) return op;
  const core::OpReport& report = outcome.report;
  const auto simulated = [clock_start](Timestamp host) {
    return Micros(host == Timestamp::Never() ? host : host - clock_start);
  };
  op["op_seq"] = report.op_seq.value();
  op["status"] = Text(NameOf(report.status));
  op["cause"] = Text(NameOf(report.cause));
  op["elements"] = report.elements;
  op["absent"] = report.absent;
  op["contributions"] = report.contributions;
  op["min_contributors"] = report.min_contributors;
  op["stage1_loss"] = report.Stage1Loss();
  op["stage2_loss"] = report.Stage2Loss();
  op["missing"] = Members(report.missing);
  op["quorum_us"] = simulated(report.quorum);
  op["deadline_us"] = simulated(report.deadline);
  op["closed_us"] = simulated(report.closed);
  op["values"] = Values(outcome.output, gradcodec::SizeOf(descriptor.dtype));
  return op;
}

OrderedJson RankJson(const GroupSpec& group, size_t rank, Duration clock_start,
                     const RankOutcome& outcome) {
  OrderedJson json;
  json["rank"] = rank;
  json["ready"] = outcome.ready;
  json["failed"] = outcome.failed;
  json["peer_lost"] = outcome.peer_lost;
  json["released"] = outcome.released;
  json["ops"] = OrderedJson::array();
  for (size_t i = 0; i < outcome.ops.size(); ++i) {
    const OpSpec& spec = group.ops[i];
    const core::OpDescriptor& descriptor =
        spec.by_rank.empty() ? spec.descriptor : spec.by_rank[rank];
    json["ops"].push_back(OpJson(descriptor, clock_start, outcome.ops[i]));
  }
  return json;
}

OrderedJson CountersJson(const HostOutcome& host) {
  OrderedJson counters;
  for (size_t i = 0; i < host.counters.size(); ++i) {
    counters[Text(Name(static_cast<core::Verdict>(i)))] = host.counters[i];
  }
  return counters;
}

}  // namespace

absl::StatusOr<Scenario> ScenarioFromJson(const std::string& text) {
  const Json document = Json::parse(text, nullptr, /*allow_exceptions=*/false,
                                    /*ignore_comments=*/true);
  if (document.is_discarded()) {
    return absl::InvalidArgumentError("not JSON");
  }
  return Reader(document).Read();
}

std::string OutcomeToJson(const Scenario& scenario, const Outcome& outcome) {
  OrderedJson json;
  json["ok"] = outcome.ok();
  json["violations"] = outcome.violations;
  json["trace_hash"] = absl::StrFormat("%016x", outcome.trace_hash);
  json["seed"] = scenario.seed;
  json["end_us"] = Micros(outcome.end);
  json["ranks"] = OrderedJson::array();
  const GroupSpec& group = scenario.groups[0];
  for (size_t rank = 0; rank < group.hosts.size(); ++rank) {
    const HostSpec& host = scenario.hosts[group.hosts[rank]];
    json["ranks"].push_back(
        RankJson(group, rank, host.clock_start, outcome.groups[0][rank]));
  }
  json["hosts"] = OrderedJson::array();
  for (const HostOutcome& host : outcome.hosts) {
    OrderedJson entry;
    entry["delivered"] = host.delivered;
    entry["counters"] = CountersJson(host);
    json["hosts"].push_back(entry);
  }
  for (size_t i = 0; i < kNumFaultKinds; ++i) {
    json["injected"][Text(Name(static_cast<FaultKind>(i)))] =
        outcome.injected[i];
  }
  return json.dump(1);
}

}  // namespace optireduce::sim
