#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cinttypes>
#include <string>
#include <vector>

#include "client/optiperf/options.h"
#include "client/optiperf/output.h"
#include "client/optiperf/runner.h"

namespace optireduce::optiperf {
namespace {

enum Exit { kFine = 0, kFailed = 1, kBadUsage = 2, kUnreachable = 3 };

int Fail(const Options& options, int status) {
  fprintf(stderr, "optiperf: rank %u: %s: %s\n", options.rank,
          or_status_name(status), last_error());
  return status == OR_ERR_UNREACHABLE ? kUnreachable : kFailed;
}

bool WriteFile(const std::string& path, const std::string& text) {
  FILE* file = fopen(path.c_str(), "w");
  if (file == nullptr) return false;
  const bool written = fwrite(text.data(), 1, text.size(), file) == text.size();
  return fclose(file) == 0 && written;
}

int Measure(const Options& options) {
  const bool speaks = options.rank == 0;
  Runner runner(options);
  int status = runner.Start();
  if (status < 0) return Fail(options, status);
  if (speaks) fputs(FormatHeader(options).c_str(), stdout);
  std::vector<Row> rows;
  status = runner.Run(
      [&](const Row& row) {
        rows.push_back(row);
        if (speaks) fputs(FormatRow(row).c_str(), stdout);
        fflush(stdout);
      },
      [&](const Row& row, uint64_t done) {
        if (!speaks) return;
        fprintf(stderr,
                "optiperf: %" PRIu64 " bytes: %" PRIu64 " of %" PRIu64
                " operations\n",
                row.bytes, done, options.warmup + options.iterations);
      });
  if (status < 0) return Fail(options, status);
  bool wrong = false;
  for (const Row& row : rows) {
    wrong |= row.wrong > 0;
    // Bits that differ between ranks are wrong in exact mode, whatever they
    // are.
    wrong |= row.mode == OR_EXACT && !row.identical;
  }
  if (!speaks) return wrong ? kFailed : kFine;
  fputs(FormatFooter(rows).c_str(), stdout);
  if (!options.json.empty() && !WriteFile(options.json, FormatJson(rows))) {
    fprintf(stderr, "optiperf: writing %s failed\n", options.json.c_str());
    return kFailed;
  }
  return wrong ? kFailed : kFine;
}

int Main(int argc, char** argv) {
  Options options;
  std::string error;
  if (!ParseOptions(argc, argv, getenv, &options, &error)) {
    fprintf(stderr, "optiperf: %s (--help lists the flags)\n", error.c_str());
    return kBadUsage;
  }
  if (options.help) {
    fputs(Usage().c_str(), stdout);
    return kFine;
  }
  return Measure(options);
}

}  // namespace
}  // namespace optireduce::optiperf

int main(int argc, char** argv) {
  return optireduce::optiperf::Main(argc, argv);
}
