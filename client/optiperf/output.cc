#include "client/optiperf/output.h"

#include <stdio.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace optireduce::optiperf {
namespace {

const char* ModeName(or_mode mode) {
  return mode == OR_BOUNDED ? "bounded" : "exact";
}

std::string OpName(const Row& row) {
  return std::string(gradcodec::Name(row.op));
}

// At most 7 characters for what times there are.
std::string Time(double us) {
  char text[32];
  snprintf(text, sizeof(text), us < 10'000 ? "%.1f" : "%.0f", us);
  return text;
}

}  // namespace

std::string FormatHeader(const Options& options) {
  char text[1024];
  snprintf(text, sizeof(text),
           "# optiperf %s: %u ranks, %llu operations per row after %llu to "
           "warm up, %llu in flight\n"
           "#\n"
           "#       size         count      type   redop    root"
           "     time   algbw   busbw #wrong"
           "   loss%%   ddl%%     p50     p99   p99.9   relerr\n"
           "#        (B)    (elements)                          "
           "     (us)  (GB/s)  (GB/s)       "
           "                   (us)    (us)    (us)\n",
           CollectiveName(options.collective).c_str(), options.world,
           static_cast<unsigned long long>(options.iterations),
           static_cast<unsigned long long>(options.warmup),
           static_cast<unsigned long long>(options.in_flight));
  return text;
}

std::string FormatRow(const Row& row) {
  const std::string wrong = row.checked ? std::to_string(row.wrong) : "N/A";
  char relative_error[32] = "N/A";
  if (row.checked) {
    snprintf(relative_error, sizeof(relative_error), "%.2g",
             row.relative_error);
  }
  char text[512];
  snprintf(text, sizeof(text),
           "%12llu  %12llu  %8s  %6s  %6d  %7s  %6.2f  %6.2f %6s"
           "  %6.2f %6.1f %7s %7s %7s %8s\n",
           static_cast<unsigned long long>(row.bytes),
           static_cast<unsigned long long>(row.count),
           TypeName(row.dtype).c_str(), OpName(row).c_str(), row.root,
           Time(row.time_us).c_str(), row.algbw, row.busbw, wrong.c_str(),
           100 * row.missing, 100 * row.deadline, Time(row.p50_us).c_str(),
           Time(row.p99_us).c_str(), Time(row.p999_us).c_str(), relative_error);
  return text;
}

std::string FormatFooter(const std::vector<Row>& rows) {
  uint64_t wrong = 0;
  double busbw = 0;
  double goodput = 0;
  double tail = 0;
  uint64_t expired = 0;
  double decision_late = 0;
  double wall_late = 0;
  for (const Row& row : rows) {
    wrong += row.wrong;
    busbw += row.busbw;
    goodput += row.busbw * (1 - row.missing);
    tail += row.p50_us > 0 ? row.p99_us / row.p50_us : 1;
    expired += row.expired;
    decision_late = std::max(decision_late, row.decision_late_max_us);
    wall_late = std::max(wall_late, row.wall_late_max_us);
  }
  const double n = rows.empty() ? 1 : static_cast<double>(rows.size());
  char text[1024];
  snprintf(text, sizeof(text),
           "# Out of bounds values : %llu %s\n"
           "# Avg bus bandwidth    : %g\n"
           "# Avg goodput          : %g (bus bandwidth of what arrived)\n"
           "# Avg p99/p50          : %.2f\n"
           "# Expired operations   : %llu (submitted too late for any result; "
           "counted as lost)\n"
           "# Largest lateness     : %.1f us by the clock, %.1f us while the "
           "engine had a CPU\n",
           static_cast<unsigned long long>(wrong), wrong == 0 ? "OK" : "FAILED",
           busbw / n, goodput / n, tail / n,
           static_cast<unsigned long long>(expired), wall_late, decision_late);
  return text;
}

std::string FormatJson(const std::vector<Row>& rows) {
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    results.push_back({
        {"size", row.bytes},
        {"count", row.count},
        {"type", gradcodec::Name(row.dtype)},
        {"redop", OpName(row)},
        {"world", row.world},
        {"mode", ModeName(row.mode)},
        {"wrong", row.wrong},
        {"identical", row.identical},
        {"p50_us", row.p50_us},
        {"p99_us", row.p99_us},
        {"p999_us", row.p999_us},
        {"algbw_gbytes_per_s", row.algbw},
        {"busbw_gbytes_per_s", row.busbw},
        {"missing_fraction", row.missing},
        {"repaired_packets", row.repaired},
        {"decision_late_p100_us", row.decision_late_max_us},
        {"wall_late_p99_us", row.wall_late_p99_us},
    });
  }
  nlohmann::ordered_json document;
  document["results"] = std::move(results);
  return document.dump(1) + "\n";
}

}  // namespace optireduce::optiperf
