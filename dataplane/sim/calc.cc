#include "dataplane/sim/calc.h"

#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "dataplane/base/serial.h"
#include "dataplane/core/pacer.h"
#include "dataplane/core/plan.h"
#include "dataplane/core/types.h"
#include "dataplane/sim/command_line.h"
#include "dataplane/sim/inputs.h"
#include "dataplane/sim/names.h"
#include "gradcodec/hadamard.h"
#include "proto/wire.h"

namespace optireduce::sim {

namespace {

using Json = nlohmann::ordered_json;

// key=value arguments; keeps the first error.
class Arguments {
 public:
  explicit Arguments(const std::vector<std::string>& arguments) {
    for (const std::string& argument : arguments) {
      const size_t equals = argument.find('=');
      if (equals == std::string::npos) {
        Fail(argument + " is not key=value");
      } else {
        values_[argument.substr(0, equals)] = argument.substr(equals + 1);
      }
    }
  }

  uint64_t Number(const std::string& key, uint64_t low, uint64_t high,
                  std::optional<uint64_t> otherwise = std::nullopt) {
    const std::optional<std::string> text = Take(key, otherwise.has_value());
    if (!text) return otherwise.value_or(low);
    const std::optional<uint64_t> number = ParseNumber(*text);
    if (!number || *number < low || *number > high) {
      Fail(key + " is not a whole number from " + std::to_string(low) + " to " +
           std::to_string(high));
      return low;
    }
    return *number;
  }

  std::string Text(const std::string& key, const std::string& otherwise) {
    return Take(key, true).value_or(otherwise);
  }

  template <typename T>
  T Enum(const std::string& key, T otherwise,
         std::optional<T> (*lookup)(const std::string&)) {
    const std::optional<std::string> text = Take(key, true);
    if (!text) return otherwise;
    const std::optional<T> value = lookup(*text);
    if (!value) Fail(key + " has no value " + *text);
    return value.value_or(otherwise);
  }

  void Fail(const std::string& what) {
    if (error_.empty()) error_ = what;
  }
  // The first error; what nobody asked for is one.
  std::string Finish() {
    if (!values_.empty()) Fail(values_.begin()->first + " means nothing here");
    return error_;
  }

 private:
  std::optional<std::string> Take(const std::string& key, bool optional) {
    const auto found = values_.find(key);
    if (found == values_.end()) {
      if (!optional) Fail(key + " is needed");
      return std::nullopt;
    }
    std::string text = found->second;
    values_.erase(found);
    return text;
  }

  std::map<std::string, std::string> values_;
  std::string error_;
};

constexpr uint64_t kU32 = UINT32_MAX;

uint32_t Tag(Arguments* arguments) {
  return static_cast<uint32_t>(arguments->Number("tag", 0, kU32, 1));
}

core::OpSeq Seq(Arguments* arguments) {
  return core::OpSeq(
      static_cast<uint32_t>(arguments->Number("op", 0, kU32, 0)));
}

size_t World(Arguments* arguments) {
  return arguments->Number("world", 1, wire::kMaxWorld);
}

core::Rank RankOf(const std::string& key, Arguments* arguments) {
  return core::Rank(
      static_cast<uint16_t>(arguments->Number(key, 0, wire::kMaxWorld - 1)));
}

core::OpDescriptor Descriptor(Arguments* arguments) {
  core::OpDescriptor op;
  op.collective = arguments->Enum("collective", op.collective, CollectiveFrom);
  op.reduce_op = arguments->Enum("reduce_op", op.reduce_op, ReduceOpFrom);
  op.dtype = arguments->Enum("dtype", op.dtype, DtypeFrom);
  op.mode = arguments->Enum("mode", op.mode, ModeFrom);
  op.codec = arguments->Enum("codec", op.codec, CodecFrom);
  op.root = core::Rank(static_cast<uint16_t>(
      arguments->Number("root", 0, wire::kMaxWorld - 1, 0)));
  op.count = arguments->Number("count", 0, core::kMaxCount);
  op.bucket = arguments->Number("bucket", 0, UINT64_MAX, 0);
  op.step = arguments->Number("step", 0, UINT64_MAX, 0);
  return op;
}

uint32_t Payload(Arguments* arguments) {
  return static_cast<uint32_t>(arguments->Number(
      "payload", wire::kPayloadQuantum, wire::PayloadForMtu(wire::kMaxMtu),
      wire::PayloadForMtu(1500)));
}

Json ChunkJson(const core::ChunkInfo& info) {
  Json json;
  json["chunk"] = info.chunk;
  json["first"] = info.first;
  json["elements"] = info.elements;
  json["bytes"] = info.bytes;
  return json;
}

// Shards and chunks by owner. Chunks are listed while there are few.
Json Plan(Arguments* arguments) {
  constexpr uint32_t kMostListed = 10'000;
  const core::OpDescriptor op = Descriptor(arguments);
  const size_t world = World(arguments);
  const core::ChunkPlan plan(op, world, Payload(arguments), Tag(arguments),
                             Seq(arguments));
  Json json;
  json["rotation"] = plan.rotation();
  json["elements"] = plan.elements();
  json["elements_per_chunk"] = plan.elements_per_chunk();
  json["total_chunks"] = plan.total_chunks();
  json["owners"] = Json::array();
  for (size_t rank = 0; rank < world; ++rank) {
    const core::Rank owner(static_cast<uint16_t>(rank));
    Json shard;
    shard["owner"] = rank;
    shard["elements"] = plan.ElementsOf(owner);
    shard["chunks"] = plan.ChunksOf(owner);
    if (plan.total_chunks() <= kMostListed) {
      shard["list"] = Json::array();
      for (uint32_t local = 0; local < plan.ChunksOf(owner); ++local) {
        shard["list"].push_back(ChunkJson(plan.ChunkOf(owner, local)));
      }
    }
    json["owners"].push_back(shard);
  }
  return json;
}

Json Rotation(Arguments* arguments) {
  const size_t world = World(arguments);
  const uint32_t rotation =
      core::Rotation(Tag(arguments), Seq(arguments), world);
  Json json;
  json["rotation"] = rotation;
  json["owner_of_shard"] = Json::array();
  for (size_t shard = 0; shard < world; ++shard) {
    json["owner_of_shard"].push_back((shard + rotation) % world);
  }
  return json;
}

Json StreamOffset(Arguments* arguments) {
  const uint32_t tag = Tag(arguments);
  const core::OpSeq seq = Seq(arguments);
  const core::Rank from = RankOf("from", arguments);
  const core::Rank owner = RankOf("owner", arguments);
  const auto chunks =
      static_cast<uint32_t>(arguments->Number("chunks", 0, kU32));
  Json json;
  json["offset"] = core::StreamOffset(tag, seq, from, owner, chunks);
  json["tail_chunks"] = core::TailLength(chunks);
  return json;
}

Json PayloadForMtu(Arguments* arguments) {
  Json json;
  json["payload"] =
      wire::PayloadForMtu(arguments->Number("mtu", 0, UINT16_MAX));
  return json;
}

// What a token bucket that is empty at first grants to who takes all it can at
// every poll.
Json TokenBucket(Arguments* arguments) {
  const uint64_t rate = arguments->Number("rate_bps", 1, 1'000'000'000'000);
  const auto burst =
      static_cast<uint32_t>(arguments->Number("burst_bytes", 1, kU32, 65'536));
  const uint64_t poll = arguments->Number("poll_ns", 1, kU32, 10'000);
  const uint64_t time =
      arguments->Number("time_ns", 1, 1'000'000'000'000, 1'000'000);
  core::Pacer pacer(rate, burst);
  pacer.OnSent(static_cast<uint32_t>(pacer.Available(Timestamp())));
  uint64_t granted = 0;
  for (uint64_t now = poll; now <= time; now += poll) {
    const auto at = Timestamp::FromNanos(static_cast<int64_t>(now));
    const int64_t available = pacer.Available(at);
    if (available <= 0) continue;
    pacer.OnSent(static_cast<uint32_t>(available));
    granted += static_cast<uint64_t>(available);
  }
  Json json;
  json["granted_bytes"] = granted;
  return json;
}

Json Serial(Arguments* arguments) {
  const uint64_t bits = arguments->Number("bits", 16, 32, 32);
  if (bits != 16 && bits != 24 && bits != 32) {
    arguments->Fail("bits is 16, 24 or 32");
  }
  const uint64_t most = (uint64_t{1} << bits) - 1;
  const auto a = static_cast<uint32_t>(arguments->Number("a", 0, most));
  const auto b = static_cast<uint32_t>(arguments->Number("b", 0, most));
  Json json;
  if (bits == 16) {
    json["distance"] =
        SerialDistance(static_cast<uint16_t>(a), static_cast<uint16_t>(b));
    json["a_before_b"] =
        SerialLess(static_cast<uint16_t>(a), static_cast<uint16_t>(b));
  } else if (bits == 24) {
    json["distance"] = SerialDistance24(a, b);
    json["a_before_b"] = SerialLess24(a, b);
  } else {
    json["distance"] = SerialDistance(a, b);
    json["a_before_b"] = SerialLess(a, b);
  }
  return json;
}

Json Fingerprint(Arguments* arguments) {
  Json json;
  json["fingerprint"] = core::Fingerprint(Descriptor(arguments));
  return json;
}

// "off" for the plain transform.
gradcodec::Signs SignsFrom(Arguments* arguments) {
  const std::string text = arguments->Text("signs", "off");
  if (text == "off") return gradcodec::Signs::AllPositive();
  const std::optional<uint64_t> seed = ParseNumber(text);
  if (!seed) arguments->Fail("signs is neither off nor a seed");
  return gradcodec::Signs::FromSeed(seed.value_or(0));
}

std::vector<float> ValuesFrom(Arguments* arguments) {
  std::vector<float> values;
  std::string text = arguments->Text("values", "");
  while (!text.empty()) {
    const size_t comma = text.find(',');
    values.push_back(std::strtof(text.substr(0, comma).c_str(), nullptr));
    text = comma == std::string::npos ? "" : text.substr(comma + 1);
  }
  return values;
}

Json Hadamard(Arguments* arguments) {
  const gradcodec::Signs signs = SignsFrom(arguments);
  const std::vector<float> values = ValuesFrom(arguments);
  std::vector<float> coefficients(gradcodec::PaddedSize(values.size()));
  gradcodec::Encode(gradcodec::Dtype::kFloat32, signs, values.data(),
                    values.size(), coefficients.data());
  Json json;
  json["coefficients"] = coefficients;
  return json;
}

Json HadamardLayout(Arguments* arguments) {
  constexpr uint64_t kMostGroups = 1'000;
  const uint64_t count = arguments->Number("count", 0, core::kMaxCount);
  Json json;
  json["coefficients"] = gradcodec::PaddedSize(count);
  json["groups"] = Json::array();
  const uint64_t groups = std::min(kMostGroups, gradcodec::GroupCount(count));
  for (uint64_t i = 0; i < groups; ++i) {
    const gradcodec::HadamardGroup group = gradcodec::GroupAt(count, i);
    Json entry;
    entry["first"] = group.first;
    entry["elements"] = group.elements;
    entry["blocks"] = group.blocks;
    entry["block_size"] = group.block_size;
    json["groups"].push_back(entry);
  }
  return json;
}

// The signs of an op, one bit for each element.
Json Signs(Arguments* arguments) {
  const uint64_t seed =
      core::SignSeed(Tag(arguments), Seq(arguments),
                     arguments->Number("bucket", 0, UINT64_MAX, 0));
  const uint64_t words = arguments->Number("words", 1, 10'000, 1);
  const auto signs = gradcodec::Signs::FromSeed(seed);
  Json json;
  json["seed"] = seed;
  json["words"] = Json::array();
  for (uint64_t i = 0; i < words; ++i) json["words"].push_back(signs.Word(i));
  return json;
}

struct Function {
  Json (*run)(Arguments*);
  const char* help;
};

const std::map<std::string, Function>& Functions() {
  static const auto* const functions = new std::map<std::string, Function>{
      {"fingerprint",
       {Fingerprint,
        "count= [collective= reduce_op= dtype= mode= codec= root= "
        "bucket= step=]"}},
      {"hadamard", {Hadamard, "values=1,2,3 [signs=off|SEED]"}},
      {"hadamard_layout", {HadamardLayout, "count="}},
      {"payload", {PayloadForMtu, "mtu="}},
      {"plan", {Plan, "count= world= [payload= tag= op= and as fingerprint]"}},
      {"rotation", {Rotation, "world= [tag= op=]"}},
      {"serial", {Serial, "a= b= [bits=16|24|32]"}},
      {"signs", {Signs, "[tag= op= bucket= words=]"}},
      {"stream_offset", {StreamOffset, "from= owner= chunks= [tag= op=]"}},
      {"token_bucket",
       {TokenBucket, "rate_bps= [burst_bytes= poll_ns= time_ns=]"}},
  };
  return *functions;
}

}  // namespace

absl::StatusOr<std::string> Calculate(
    const std::string& name, const std::vector<std::string>& arguments) {
  const auto found = Functions().find(name);
  if (found == Functions().end()) {
    return absl::InvalidArgumentError("no function " + name);
  }
  Arguments parsed(arguments);
  const Json result = found->second.run(&parsed);
  if (const std::string error = parsed.Finish(); !error.empty()) {
    return absl::InvalidArgumentError(name + ": " + error);
  }
  return result.dump(1);
}

std::string CalculateHelp() {
  std::string help;
  for (const auto& [name, function] : Functions()) {
    help += "  " + name + " " + function.help + "\n";
  }
  return help;
}

}  // namespace optireduce::sim
