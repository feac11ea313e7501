#include "client/optiperf/options.h"

#include <getopt.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

namespace optireduce::optiperf {
namespace {

using gradcodec::Dtype;
using gradcodec::ReduceOp;
using Lookup = std::function<const char*(const char*)>;

// Flags without a letter.
enum LongFlag {
  kCollective = 1000,
  kMode,
  kSoftMs,
  kHardMs,
  kCodec,
  kInFlight,
  kCounts,
  kRank,
  kWorld,
  kRendezvous,
  kName,
  kSocket,
  kJson,
};

constexpr option kFlags[] = {
    {"minbytes", required_argument, nullptr, 'b'},
    {"maxbytes", required_argument, nullptr, 'e'},
    {"stepbytes", required_argument, nullptr, 'i'},
    {"stepfactor", required_argument, nullptr, 'f'},
    {"iters", required_argument, nullptr, 'n'},
    {"warmup_iters", required_argument, nullptr, 'w'},
    {"check", optional_argument, nullptr, 'c'},
    {"op", required_argument, nullptr, 'o'},
    {"datatype", required_argument, nullptr, 'd'},
    {"root", required_argument, nullptr, 'r'},
    {"average", required_argument, nullptr, 'a'},
    {"help", no_argument, nullptr, 'h'},
    {"collective", required_argument, nullptr, kCollective},
    {"mode", required_argument, nullptr, kMode},
    {"soft-ms", required_argument, nullptr, kSoftMs},
    {"hard-ms", required_argument, nullptr, kHardMs},
    {"codec", required_argument, nullptr, kCodec},
    {"inflight", required_argument, nullptr, kInFlight},
    {"counts", required_argument, nullptr, kCounts},
    {"rank", required_argument, nullptr, kRank},
    {"world", required_argument, nullptr, kWorld},
    {"rendezvous", required_argument, nullptr, kRendezvous},
    {"name", required_argument, nullptr, kName},
    {"socket", required_argument, nullptr, kSocket},
    {"json", required_argument, nullptr, kJson},
    {nullptr, 0, nullptr, 0},
};

template <class T>
using Choice = std::pair<std::string_view, T>;

// all_reduce_perf's names first, then ours.
constexpr Choice<Dtype> kDtypes[] = {
    {"int8", Dtype::kInt8},       {"uint8", Dtype::kUint8},
    {"int16", Dtype::kInt16},     {"uint16", Dtype::kUint16},
    {"int32", Dtype::kInt32},     {"uint32", Dtype::kUint32},
    {"int64", Dtype::kInt64},     {"uint64", Dtype::kUint64},
    {"half", Dtype::kFloat16},    {"float", Dtype::kFloat32},
    {"double", Dtype::kFloat64},  {"bfloat16", Dtype::kBfloat16},
    {"float16", Dtype::kFloat16}, {"float32", Dtype::kFloat32},
    {"float64", Dtype::kFloat64},
};
constexpr size_t kDistinctDtypes = 12;

constexpr Choice<ReduceOp> kOps[] = {
    {"sum", ReduceOp::kSum},
    {"max", ReduceOp::kMax},
    {"min", ReduceOp::kMin},
    {"avg", ReduceOp::kAvg},
};

constexpr Choice<or_collective> kCollectives[] = {
    {"all_reduce", OR_ALL_REDUCE}, {"reduce_scatter", OR_REDUCE_SCATTER},
    {"all_gather", OR_ALL_GATHER}, {"broadcast", OR_BROADCAST},
    {"barrier", OR_BARRIER},
};

constexpr Choice<or_codec> kCodecs[] = {
    {"none", OR_CODEC_NONE},
    {"hadamard", OR_CODEC_HADAMARD},
    {"bfloat16", OR_CODEC_BFLOAT16},
    {"float16", OR_CODEC_FLOAT16},
};

template <class T, size_t n>
std::optional<T> Choose(const Choice<T> (&choices)[n], std::string_view name) {
  for (const auto& [choice, value] : choices) {
    if (choice == name) return value;
  }
  return std::nullopt;
}

std::vector<std::string_view> Split(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

// A comma-separated list, or "all" for the first `all` choices.
template <class T, size_t n>
bool ChooseList(const Choice<T> (&choices)[n], size_t all,
                std::string_view text, std::vector<T>* values) {
  values->clear();
  if (text == "all") {
    for (size_t i = 0; i < all; ++i) values->push_back(choices[i].second);
    return true;
  }
  for (const std::string_view name : Split(text)) {
    const std::optional<T> value = Choose(choices, name);
    if (!value) return false;
    values->push_back(*value);
  }
  return true;
}

bool ParseNumber(std::string_view text, uint64_t* value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && stop == end;
}

// A number with a binary suffix K, M or G (or none).
bool ParseSize(std::string_view text, uint64_t* value) {
  int shift = 0;
  if (!text.empty()) {
    switch (text.back()) {
      case 'k':
      case 'K':
        shift = 10;
        break;
      case 'm':
      case 'M':
        shift = 20;
        break;
      case 'g':
      case 'G':
        shift = 30;
        break;
      default:
        break;
    }
  }
  if (shift != 0) text.remove_suffix(1);
  if (!ParseNumber(text, value) || *value > UINT64_MAX >> shift) return false;
  *value <<= shift;
  return true;
}

bool ParseMillis(const char* text, double* value) {
  char* end = nullptr;
  *value = strtod(text, &end);
  return end != text && *end == '\0' && std::isfinite(*value) && *value >= 0;
}

bool ParseRank(const char* text, uint32_t* value) {
  uint64_t number = 0;
  if (!ParseNumber(text, &number) || number > OR_MAX_WORLD) return false;
  *value = static_cast<uint32_t>(number);
  return true;
}

bool ParseCounts(std::string_view text, std::vector<uint64_t>* counts) {
  counts->clear();
  for (const std::string_view part : Split(text)) {
    uint64_t count = 0;
    if (!ParseSize(part, &count) || count > UINT32_MAX) return false;
    counts->push_back(count);
  }
  return true;
}

// `--check` alone means every iteration; a number may follow it after "=" or,
// as for all_reduce_perf, after a space.
bool ParseCheck(int argc, char** argv, Options* options) {
  const char* text = optarg;
  if (text == nullptr && optind < argc && argv[optind][0] >= '0' &&
      argv[optind][0] <= '9') {
    text = argv[optind++];
  }
  options->checked = kEveryIteration;
  return text == nullptr || ParseNumber(text, &options->checked);
}

bool ParseFlag(int flag, int argc, char** argv, Options* options) {
  uint64_t number = 0;
  switch (flag) {
    case 'b':
      return ParseSize(optarg, &options->min_bytes);
    case 'e':
      return ParseSize(optarg, &options->max_bytes);
    case 'i':
      return ParseSize(optarg, &options->step_bytes);
    case 'f':
      return ParseNumber(optarg, &options->step_factor) &&
             options->step_factor >= 1;
    case 'n':
      return ParseNumber(optarg, &options->iterations) &&
             options->iterations >= 1;
    case 'w':
      return ParseNumber(optarg, &options->warmup);
    case 'c':
      return ParseCheck(argc, argv, options);
    case 'o':
      return ChooseList(kOps, std::size(kOps), optarg, &options->ops);
    case 'd':
      return ChooseList(kDtypes, kDistinctDtypes, optarg, &options->dtypes);
    case 'r':
      return ParseRank(optarg, &options->root);
    case 'a':
      if (!ParseNumber(optarg, &number) || number > 3) return false;
      options->average = static_cast<Average>(number);
      return true;
    case 'h':
      options->help = true;
      return true;
    case kCollective: {
      const auto chosen = Choose(kCollectives, optarg);
      options->collective = chosen.value_or(OR_ALL_REDUCE);
      return chosen.has_value();
    }
    case kMode:
      options->mode = optarg == std::string_view("bounded") ? OR_BOUNDED
                      : optarg == std::string_view("exact") ? OR_EXACT
                                                            : 0;
      return options->mode != 0;
    case kSoftMs:
      return ParseMillis(optarg, &options->soft_ms);
    case kHardMs:
      return ParseMillis(optarg, &options->hard_ms);
    case kCodec: {
      const auto chosen = Choose(kCodecs, optarg);
      options->codec = chosen.value_or(OR_CODEC_NONE);
      return chosen.has_value();
    }
    case kInFlight:
      return ParseNumber(optarg, &options->in_flight) &&
             options->in_flight >= 1 && options->in_flight <= 256;
    case kCounts:
      return ParseCounts(optarg, &options->counts);
    case kRank:
      return ParseRank(optarg, &options->rank);
    case kWorld:
      return ParseRank(optarg, &options->world);
    case kRendezvous:
      options->rendezvous = optarg;
      return true;
    case kName:
      options->name = optarg;
      return true;
    case kSocket:
      options->socket = optarg;
      return true;
    case kJson:
      options->json = optarg;
      return true;
    default:
      return false;
  }
}

// The first of MPI's pairs of variables of which both are set.
bool FromEnvironment(const Lookup& lookup, Options* options,
                     std::string* error) {
  static constexpr std::pair<const char*, const char*> kPairs[] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"PMI_RANK", "PMI_SIZE"},
      {"PMIX_RANK", "PMIX_SIZE"},
      {"PMIX_RANK", "SLURM_NTASKS"},
      {"SLURM_PROCID", "SLURM_NTASKS"},
  };
  for (const auto& [rank_name, world_name] : kPairs) {
    const char* rank = lookup(rank_name);
    const char* world = lookup(world_name);
    if (rank == nullptr || world == nullptr) continue;
    if (ParseRank(rank, &options->rank) && ParseRank(world, &options->world)) {
      return true;
    }
    *error = std::string(rank_name) + "=" + rank + ", " + world_name + "=" +
             world + " are no rank and world";
    return false;
  }
  return true;
}

bool Validate(const Options& options, std::string* error) {
  if (options.world < 1 || options.rank >= options.world) {
    *error = "rank " + std::to_string(options.rank) + " of world " +
             std::to_string(options.world) + ": ranks are 0 to world - 1";
  } else if (options.world > 1 && options.rendezvous.empty()) {
    *error =
        "a world of several ranks needs --rendezvous DIR, a directory "
        "that all of them see";
  } else if (options.root >= options.world) {
    *error = "root " + std::to_string(options.root) + " is no rank";
  } else if (options.min_bytes > options.max_bytes) {
    *error = "-b is more than -e";
  } else if (options.step_factor == 1 && options.step_bytes == 0) {
    *error = "-i is 0";
  }
  return error->empty();
}

}  // namespace

bool ParseOptions(int argc, char** argv, const Lookup& lookup, Options* options,
                  std::string* error) {
  error->clear();
  bool has_rank = false;
  bool has_world = false;
  optind = 0;  // glibc: start anew
  opterr = 0;
  int flag = 0;
  while ((flag = getopt_long(argc, argv, ":b:e:i:f:n:w:c:o:d:r:a:h", kFlags,
                             nullptr)) != -1) {
    has_rank |= flag == kRank;
    has_world |= flag == kWorld;
    if (flag == '?' || flag == ':') {
      *error = std::string(argv[optind - 1]) +
               (flag == ':' ? " needs a value" : " is no flag");
      return false;
    }
    if (!ParseFlag(flag, argc, argv, options)) {
      *error = std::string(argv[optind - 1]) + " is no value here";
      return false;
    }
  }
  if (optind < argc) {
    *error = std::string(argv[optind]) + " is no flag";
    return false;
  }
  if (options->help) return true;
  if (has_rank != has_world) {
    *error = "--rank and --world go together";
    return false;
  }
  if (!has_rank && !FromEnvironment(lookup, options, error)) return false;
  return Validate(*options, error);
}

std::string Usage() {
  return R"(optiperf: how fast, and how complete, collectives over optireduced are.

Start it once per rank, each on its host or with its host's --socket.

What is measured
  -b, --minbytes SIZE     least size (32M); K, M, G are binary
  -e, --maxbytes SIZE     largest size (32M)
  -i, --stepbytes SIZE    from one size to the next (1M), or
  -f, --stepfactor N      ... times N
      --counts LIST       numbers of elements instead: 0,1,1000,1M
  -n, --iters N           operations per row (20)
  -w, --warmup_iters N    before them, not counted (5)
  -c, --check [N]         check the results of the first N operations of each
                          row (1); without N of all; 0: of none
  -o, --op LIST           sum, avg, min, max, or all (sum)
  -d, --datatype LIST     int8 uint8 int16 uint16 int32 uint32 int64 uint64
                          half float double bfloat16, or all (float)
  -r, --root RANK         of a broadcast (0)
  -a, --average N         times shown are rank 0's (0), the ranks' mean (1),
                          least (2) or largest (3) (1)
      --collective NAME   all_reduce, reduce_scatter, all_gather, broadcast,
                          barrier (all_reduce)
      --mode MODE         bounded or exact (bounded where there is such a mode)
      --soft-ms MS        soft deadline of the group (the daemon's)
      --hard-ms MS        hard limit of the group (the daemon's)
      --codec NAME        none, hadamard, or for float on half as many bytes
                          bfloat16 or float16 (none)
      --inflight N        operations in flight, 1 to 256 (1)

Who and where
      --rank R --world N  else from OMPI_COMM_WORLD_RANK and _SIZE, PMI_RANK and
                          PMI_SIZE, PMIX_RANK, SLURM_PROCID and SLURM_NTASKS
      --rendezvous DIR    where the ranks meet; all of them must see it
      --name NAME         of the group, if several meet in DIR at a time
      --socket PATH       the daemon's control socket
      --json FILE         rank 0 writes the results there

Columns
  time      mean time of an operation, us; with several in flight: per operation
  algbw     size / time, GB/s (1e9)
  busbw     algbw * 2(n-1)/n for all_reduce, (n-1)/n for reduce_scatter and
            all_gather. Counts what was asked for, not what arrived
  #wrong    elements of checked results, on all ranks, that are not right.
            exact: not bit for bit what a sum in rank order gives.
            bounded: not the exact result over any set of contributors (worlds
            up to 12; beyond that: not between the least and the largest
            contribution), or zero though the report calls it present. A report
            whose numbers of absent elements and of contributions do not agree
            with the elements makes all of them wrong. With a codec only
            complete results are checked, to 1e-5 of the largest element
            (bfloat16: 1/256, float16: 1/2048)
  loss%     share of all contributions and results that did not arrive in time
  ddl%      share of operations that were ended by their deadline
  p50 ...   percentiles of the time of an operation, us
  relerr    of checked results: distance from the complete result over its norm

Exit status: 0, 1 something was wrong or failed, 2 usage, 3 no daemon.
)";
}

std::vector<uint64_t> CountsFor(const Options& options, Dtype dtype) {
  if (options.collective == OR_BARRIER) return {0};
  std::vector<uint64_t> counts = options.counts;
  if (counts.empty()) {
    const uint64_t element = gradcodec::SizeOf(dtype);
    uint64_t bytes = options.min_bytes;
    while (true) {
      counts.push_back(bytes / element);
      uint64_t next = 0;
      const bool overflows =
          options.step_factor > 1
              ? __builtin_mul_overflow(bytes, options.step_factor, &next)
              : __builtin_add_overflow(bytes, options.step_bytes, &next);
      if (overflows || next > options.max_bytes || next == bytes) break;
      bytes = next;
    }
  }
  if (options.collective == OR_REDUCE_SCATTER ||
      options.collective == OR_ALL_GATHER) {
    for (uint64_t& count : counts) count -= count % options.world;
  }
  return counts;
}

std::string TypeName(Dtype dtype) {
  for (const auto& [name, value] : kDtypes) {
    if (value == dtype) return std::string(name);
  }
  return "unknown";
}

std::string CollectiveName(or_collective collective) {
  for (const auto& [name, value] : kCollectives) {
    if (value == collective) return std::string(name);
  }
  return "unknown";
}

}  // namespace optireduce::optiperf
