// Runs the rows: submits, waits, measures, checks, and lets the ranks compare.

#ifndef OPTIREDUCE_CLIENT_OPTIPERF_RUNNER_H_
#define OPTIREDUCE_CLIENT_OPTIPERF_RUNNER_H_

#include <functional>
#include <string>
#include <vector>

#include "client/optiperf/check.h"
#include "client/optiperf/options.h"
#include "client/optiperf/stats.h"
#include "client/optireduce.hpp"

namespace optireduce::optiperf {

class Runner {
 public:
  explicit Runner(const Options& options) : options_(options) {}

  // Connects, forms the group, allocates for the largest row. An or_status;
  // last_error() has the words.
  int Start();

  // All rows, in the same order at all ranks. on_row is called after each with
  // what all ranks saw; on_progress now and then within one.
  int Run(const std::function<void(const Row&)>& on_row,
          const std::function<void(const Row&, uint64_t done)>& on_progress);

 private:
  // A pair of buffers and the operation that uses it.
  struct Slot {
    Buffer<uint8_t> input;
    Buffer<uint8_t> output;
    or_op op = 0;
    bool busy = false;
    uint64_t iteration = 0;
    int64_t submitted_ns = 0;
  };

  std::vector<Row> PlanRows() const;
  int RunRow(Row* row,
             const std::function<void(const Row&, uint64_t)>& on_progress);
  int SubmitNext(const Checked& checked, uint64_t iteration, Slot* slot);
  int Finish(const Checked& checked, Slot* slot, Collector* collector);
  bool IsMeasured(uint64_t iteration) const {
    return iteration >= options_.warmup;
  }
  bool IsChecked(uint64_t iteration) const {
    return IsMeasured(iteration) &&
           iteration - options_.warmup < options_.checked;
  }
  int Barrier();
  int Exchange(const RankFigures& figures, std::vector<RankFigures>* all);

  const Options options_;
  Session session_;
  Group group_;
  std::vector<Slot> slots_;
  Buffer<double> own_figures_;
  Buffer<double> all_figures_;
  // Time spent on patterns and checks while a row ran.
  int64_t overhead_ns_ = 0;
};

}  // namespace optireduce::optiperf

#endif  // OPTIREDUCE_CLIENT_OPTIPERF_RUNNER_H_
