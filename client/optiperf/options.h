// What optiperf is asked to do.

#ifndef OPTIREDUCE_CLIENT_OPTIPERF_OPTIONS_H_
#define OPTIREDUCE_CLIENT_OPTIPERF_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "client/optireduce.h"
#include "gradcodec/dtype.h"

namespace optireduce::optiperf {

// How the ranks' times become one: the numbers of all_reduce_perf.
enum class Average { kRank0 = 0, kMean = 1, kMin = 2, kMax = 3 };

inline constexpr uint64_t kEveryIteration =
    std::numeric_limits<uint64_t>::max();

struct Options {
  // ---- what ----
  or_collective collective = OR_ALL_REDUCE;
  std::vector<gradcodec::Dtype> dtypes = {gradcodec::Dtype::kFloat32};
  std::vector<gradcodec::ReduceOp> ops = {gradcodec::ReduceOp::kSum};
  // 0: bounded where that exists, else exact.
  int32_t mode = 0;
  or_codec codec = OR_CODEC_NONE;
  uint32_t root = 0;
  uint64_t min_bytes = 32 << 20;
  uint64_t max_bytes = 32 << 20;
  uint64_t step_bytes = 1 << 20;
  uint64_t step_factor = 1;      // above 1: instead of step_bytes
  std::vector<uint64_t> counts;  // if any: instead of sizes
  uint64_t iterations = 20;
  uint64_t warmup = 5;
  uint64_t in_flight = 1;
  uint64_t checked = 1;  // iterations per row, the first ones
  Average average = Average::kMean;
  double soft_ms = 0;  // 0: the daemon's default
  double hard_ms = 0;

  // ---- who and where ----
  uint32_t rank = 0;
  uint32_t world = 1;
  std::string rendezvous;
  std::string name = "optiperf";
  std::string socket;  // empty: the library's default
  std::string json;    // empty: none
  bool help = false;
};

// Reads the flags, then what they leave open from MPI's variables. `lookup`
// returns a variable's value or nullptr. False: *error is one line for people.
bool ParseOptions(int argc, char** argv,
                  const std::function<const char*(const char*)>& lookup,
                  Options* options, std::string* error);

std::string Usage();

// The numbers of elements of one row each for a dtype, ascending by size.
std::vector<uint64_t> CountsFor(const Options& options, gradcodec::Dtype dtype);

// "float", "half", ...: the names that all_reduce_perf has for types.
std::string TypeName(gradcodec::Dtype dtype);
// "all_reduce", ...
std::string CollectiveName(or_collective collective);

}  // namespace optireduce::optiperf

#endif  // OPTIREDUCE_CLIENT_OPTIPERF_OPTIONS_H_
