#include "client/optiperf/options.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace optireduce::optiperf {
namespace {

using gradcodec::Dtype;
using gradcodec::ReduceOp;

struct Parsed {
  bool ok = false;
  Options options;
  std::string error;
};

Parsed Parse(std::vector<std::string> flags,
             std::map<std::string, std::string> variables = {}) {
  flags.insert(flags.begin(), "optiperf");
  std::vector<char*> argv;
  for (std::string& flag : flags) argv.push_back(flag.data());
  argv.push_back(nullptr);
  const auto lookup = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  Parsed parsed;
  parsed.ok = ParseOptions(static_cast<int>(flags.size()), argv.data(), lookup,
                           &parsed.options, &parsed.error);
  return parsed;
}

TEST(OptionsTest, TheFlagsOfAllReducePerf) {
  const Parsed p =
      Parse({"-b", "8", "-e", "128M", "-f", "2",    "-n", "100", "-w", "7",
             "-c", "1", "-o", "max",  "-d", "half", "-r", "0",   "-a", "3"});
  ASSERT_TRUE(p.ok) << p.error;
  EXPECT_EQ(p.options.min_bytes, 8u);
  EXPECT_EQ(p.options.max_bytes, 128u << 20);
  EXPECT_EQ(p.options.step_factor, 2u);
  EXPECT_EQ(p.options.iterations, 100u);
  EXPECT_EQ(p.options.warmup, 7u);
  EXPECT_EQ(p.options.checked, 1u);
  EXPECT_EQ(p.options.ops, std::vector{ReduceOp::kMax});
  EXPECT_EQ(p.options.dtypes, std::vector{Dtype::kFloat16});
  EXPECT_EQ(p.options.average, Average::kMax);
}

TEST(OptionsTest, Ours) {
  const Parsed p =
      Parse({"--collective=reduce_scatter", "--mode=exact", "--soft-ms=12.5",
             "--hard-ms", "2000", "--codec=float16", "--inflight=4",
             "--counts=0,1,1K", "--rank=1", "--world=3", "--rendezvous=/tmp/r",
             "--socket=/tmp/s", "--json=out", "-d", "all", "-o", "all"});
  ASSERT_TRUE(p.ok) << p.error;
  EXPECT_EQ(p.options.collective, OR_REDUCE_SCATTER);
  EXPECT_EQ(p.options.mode, OR_EXACT);
  EXPECT_EQ(p.options.soft_ms, 12.5);
  EXPECT_EQ(p.options.in_flight, 4u);
  EXPECT_EQ(p.options.counts, (std::vector<uint64_t>{0, 1, 1024}));
  EXPECT_EQ(p.options.dtypes.size(), 12u);
  EXPECT_EQ(p.options.ops.size(), 4u);
  EXPECT_EQ(p.options.rank, 1u);
  EXPECT_EQ(p.options.codec, OR_CODEC_FLOAT16);
}

TEST(OptionsTest, CheckTakesANumberOrNone) {
  EXPECT_EQ(Parse({}).options.checked, 1u);
  EXPECT_EQ(Parse({"--check"}).options.checked, kEveryIteration);
  EXPECT_EQ(Parse({"--check", "-n", "3"}).options.checked, kEveryIteration);
  EXPECT_EQ(Parse({"--check=5"}).options.checked, 5u);
  EXPECT_EQ(Parse({"--check", "5", "-n", "3"}).options.checked, 5u);
  EXPECT_EQ(Parse({"-c", "0"}).options.checked, 0u);
}

TEST(OptionsTest, RanksFromMpi) {
  const std::vector<std::string> flags = {"--rendezvous", "/tmp/r"};
  const std::vector<std::map<std::string, std::string>> environments = {
      {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
      {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}},
      {{"PMIX_RANK", "2"}, {"PMIX_SIZE", "4"}},
      {{"PMIX_RANK", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "9"}},
      {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}},
  };
  for (const auto& environment : environments) {
    const Parsed p = Parse(flags, environment);
    ASSERT_TRUE(p.ok) << p.error;
    EXPECT_EQ(p.options.rank, 2u);
    EXPECT_EQ(p.options.world, 4u);
  }
  // Flags win.
  EXPECT_EQ(Parse({"--rank=0", "--world=1"}, environments[0]).options.world,
            1u);
  EXPECT_FALSE(Parse(flags, {{"PMI_RANK", "x"}, {"PMI_SIZE", "4"}}).ok);
}

TEST(OptionsTest, RefusesWithTheOffence) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--modus=exact"}, "--modus=exact"},
      {{"--mode=Exact"}, "--mode=Exact"},
      {{"-d", "float8"}, "float8"},
      {{"--codec=half"}, "--codec=half"},
      {{"-o", "sum,prod"}, "sum,prod"},
      {{"-b", "1T"}, "1T"},
      {{"-b", "99999999999G"}, "99999999999G"},
      {{"-b", "2M", "-e", "1M"}, "-b is more than -e"},
      {{"-n", "0"}, "0"},
      {{"-n", "-3"}, "-3"},
      {{"-n"}, "-n needs a value"},
      {{"-a", "4"}, "4"},
      {{"--soft-ms=-1"}, "--soft-ms=-1"},
      {{"--soft-ms=nan"}, "--soft-ms=nan"},
      {{"--inflight=0"}, "--inflight=0"},
      {{"--counts=1,,2"}, "--counts=1,,2"},
      {{"--counts=4G"}, "--counts=4G"},
      {{"--rank=0"}, "go together"},
      {{"--rank=2", "--world=2", "--rendezvous=r"}, "rank 2 of world 2"},
      {{"--rank=0", "--world=2"}, "--rendezvous"},
      {{"-r", "1"}, "root 1"},
      {{"extra"}, "extra"},
  };
  for (const auto& [flags, words] : cases) {
    const Parsed p = Parse(flags);
    EXPECT_FALSE(p.ok) << words;
    EXPECT_NE(p.error.find(words), std::string::npos)
        << "\"" << p.error << "\" lacks \"" << words << "\"";
  }
}

TEST(OptionsTest, SizesBecomeCounts) {
  const auto counts = [](std::vector<std::string> flags, Dtype dtype) {
    return CountsFor(Parse(std::move(flags)).options, dtype);
  };
  EXPECT_EQ(counts({"-b", "8", "-e", "64", "-f", "2"}, Dtype::kFloat32),
            (std::vector<uint64_t>{2, 4, 8, 16}));
  EXPECT_EQ(counts({"-b", "8", "-e", "30", "-i", "8"}, Dtype::kFloat64),
            (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(counts({}, Dtype::kFloat32), std::vector<uint64_t>{8 << 20});
  EXPECT_EQ(counts({"-b", "0", "-e", "8", "-f", "2"}, Dtype::kInt8),
            std::vector<uint64_t>{0});
  EXPECT_EQ(counts({"--collective=barrier"}, Dtype::kInt8),
            std::vector<uint64_t>{0});
  EXPECT_EQ(counts({"--collective=all_gather", "--counts=0,2,3,10", "--rank=0",
                    "--world=3", "--rendezvous=r"},
                   Dtype::kInt8),
            (std::vector<uint64_t>{0, 0, 3, 9}));
}

TEST(OptionsTest, HelpNamesEveryFlag) {
  EXPECT_TRUE(Parse({"--help"}).options.help);
  const std::string usage = Usage();
  for (const char* flag :
       {"-b",           "-e",       "-i",           "-f",     "-n",
        "-w",           "-c",       "-o",           "-d",     "-r",
        "-a",           "--counts", "--collective", "--mode", "--soft-ms",
        "--hard-ms",    "--codec",  "--inflight",   "--rank", "--world",
        "--rendezvous", "--name",   "--socket",     "--json"}) {
    EXPECT_NE(usage.find(flag), std::string::npos) << flag;
  }
}

}  // namespace
}  // namespace optireduce::optiperf
