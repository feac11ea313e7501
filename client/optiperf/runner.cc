#include "client/optiperf/runner.h"

#include <string.h>
#include <time.h>

#include <algorithm>

namespace optireduce::optiperf {
namespace {

using gradcodec::Dtype;
using gradcodec::ReduceOp;

constexpr int64_t kProgressNs = OR_SECONDS(5);
constexpr int64_t kNanosPerMilli = 1'000'000;
// What the output holds before an operation that will be checked: an element
// that nobody writes shows.
constexpr int kPoison = 0xA5;
constexpr uint64_t kDefaultWindow = 16;
constexpr uint64_t kLargestWindow = 256;
// Figures, and what the allocator rounds up.
constexpr uint64_t kSpareBytes = 1 << 20;

int64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool Reduces(or_collective collective) {
  return collective == OR_ALL_REDUCE || collective == OR_REDUCE_SCATTER;
}

Checked CheckedOf(const Options& options, const Row& row) {
  Checked checked;
  checked.collective = options.collective;
  checked.op = row.op;
  checked.dtype = row.dtype;
  checked.mode = row.mode;
  checked.codec = options.codec;
  checked.root = options.root;
  checked.rank = options.rank;
  checked.world = options.world;
  checked.count = row.count;
  return checked;
}

// All ranks have the same output, and nothing is missing of it by right.
bool SharesOutput(or_collective collective) {
  return collective != OR_REDUCE_SCATTER;
}

}  // namespace

int Runner::Start() {
  uint64_t largest = 0;
  for (const Row& row : PlanRows()) largest = std::max(largest, row.bytes);
  or_connect_options connect;
  or_connect_options_init(&connect, sizeof(connect));
  if (!options_.socket.empty()) connect.socket_path = options_.socket.c_str();
  connect.client_name = "optiperf";
  connect.segment_bytes = 2 * options_.in_flight * (largest + 64) + kSpareBytes;
  int status = session_.Connect(&connect);
  if (status != OR_OK) return status;

  slots_.resize(options_.in_flight);
  for (Slot& slot : slots_) {
    slot.input = session_.Allocate<uint8_t>(largest);
    slot.output = session_.Allocate<uint8_t>(largest);
    if (!slot.input || !slot.output) return OR_ERR_NO_MEMORY;
  }
  own_figures_ = session_.Allocate<double>(kFigures);
  all_figures_ = session_.Allocate<double>(kFigures * options_.world);
  if (!own_figures_ || !all_figures_) return OR_ERR_NO_MEMORY;

  or_group_settings settings =
      Group::Settings(options_.rank, options_.world, options_.name.c_str());
  settings.soft_limit_ns =
      static_cast<int64_t>(options_.soft_ms * kNanosPerMilli);
  settings.hard_limit_ns =
      static_cast<int64_t>(options_.hard_ms * kNanosPerMilli);
  // The daemon's default also keeps results for ranks that are late.
  if (options_.in_flight >= kDefaultWindow) {
    settings.window = static_cast<uint32_t>(
        std::min(options_.in_flight + kDefaultWindow, kLargestWindow));
  }
  settings.formation_limit_ns = OR_SECONDS(60);
  // A world of one meets nobody: any directory does.
  const std::string directory =
      options_.rendezvous.empty() ? "/tmp" : options_.rendezvous;
  return group_.CreateInDirectory(session_, settings, directory.c_str());
}

std::vector<Row> Runner::PlanRows() const {
  std::vector<Row> rows;
  const bool reduces = Reduces(options_.collective);
  const std::vector<ReduceOp> none = {ReduceOp::kSum};
  for (const Dtype dtype : options_.dtypes) {
    for (const ReduceOp op : reduces ? options_.ops : none) {
      Row row;
      row.dtype = dtype;
      row.op = op;
      row.world = options_.world;
      row.root = options_.collective == OR_BROADCAST
                     ? static_cast<int32_t>(options_.root)
                     : -1;
      const bool bounded = reduces && gradcodec::IsSupported(dtype, op, true);
      row.mode = options_.mode != 0 ? static_cast<or_mode>(options_.mode)
                 : bounded          ? OR_BOUNDED
                                    : OR_EXACT;
      // Lists such as "all" have combinations that do not exist; a single one
      // that does not is for the daemon to refuse.
      const bool several = options_.dtypes.size() * options_.ops.size() > 1;
      if (several && reduces &&
          !gradcodec::IsSupported(dtype, op, row.mode == OR_BOUNDED)) {
        continue;
      }
      for (const uint64_t count : CountsFor(options_, dtype)) {
        row.count = count;
        row.bytes = count * gradcodec::SizeOf(dtype);
        rows.push_back(row);
      }
    }
  }
  return rows;
}

int Runner::Run(
    const std::function<void(const Row&)>& on_row,
    const std::function<void(const Row&, uint64_t done)>& on_progress) {
  for (Row& row : PlanRows()) {
    const int status = RunRow(&row, on_progress);
    if (status < 0) return status;
    on_row(row);
  }
  return Barrier();  // nobody leaves while others still need it
}

int Runner::RunRow(
    Row* row, const std::function<void(const Row&, uint64_t)>& on_progress) {
  const Checked checked = CheckedOf(options_, *row);
  const uint64_t total = options_.warmup + options_.iterations;
  Collector collector;
  for (Slot& slot : slots_) {
    checked.FillInput(0, slot.input.data());
  }
  int status = Barrier();
  int64_t started = 0;
  int64_t told = Now();
  for (uint64_t i = 0; i < total && status >= 0; ++i) {
    Slot& slot = slots_[i % slots_.size()];
    if (slot.busy) status = Finish(checked, &slot, &collector);
    if (i == options_.warmup) {
      started = Now();
      overhead_ns_ = 0;
    }
    if (status >= 0) status = SubmitNext(checked, i, &slot);
    if (Now() - told > kProgressNs) {
      told = Now();
      on_progress(*row, i);
    }
  }
  for (uint64_t i = total; i < total + slots_.size() && status >= 0; ++i) {
    Slot& slot = slots_[i % slots_.size()];
    if (slot.busy) status = Finish(checked, &slot, &collector);
  }
  if (status < 0) return status;
  const int64_t busy_ns = Now() - started - overhead_ns_;
  const double mean_us = static_cast<double>(busy_ns) / 1e3 /
                         static_cast<double>(options_.iterations);
  std::vector<RankFigures> all;
  status = Exchange(collector.Finish(mean_us), &all);
  if (status < 0) return status;
  row->checked = options_.checked > 0;
  Combine(all, options_.average, options_.collective, row);
  return OR_OK;
}

int Runner::SubmitNext(const Checked& checked, uint64_t iteration, Slot* slot) {
  if (IsChecked(iteration)) {
    const int64_t start = Now();
    checked.FillInput(iteration, slot->input.data());
    memset(slot->output.data(), kPoison,
           checked.OutputElements() * gradcodec::SizeOf(checked.dtype));
    overhead_ns_ += Now() - start;
  }
  or_operation operation;
  or_operation_init(&operation, sizeof(operation));
  operation.collective = checked.collective;
  operation.reduce_op = static_cast<int32_t>(checked.op);
  operation.dtype = static_cast<int32_t>(checked.dtype);
  operation.mode = checked.mode;
  operation.codec = checked.codec;
  operation.root = checked.root;
  operation.count = checked.count;
  operation.input = slot->input.data();
  operation.output = slot->output.data();
  slot->iteration = iteration;
  slot->submitted_ns = Now();
  const int status = group_.Submit(operation, &slot->op);
  slot->busy = status == OR_OK;
  return status;
}

int Runner::Finish(const Checked& checked, Slot* slot, Collector* collector) {
  or_report report;
  const int status = session_.Wait(slot->op, -1, &report);
  const int64_t ended = Now();
  slot->busy = false;
  if (status == OR_ERR_EXPIRED && checked.mode == OR_BOUNDED) {
    // So late that the others have forgotten it: all of it is missing here.
    if (IsMeasured(slot->iteration)) collector->AddExpired();
    return OR_OK;
  }
  if (status < 0) return status;
  if (IsMeasured(slot->iteration)) {
    collector->AddOperation(
        static_cast<double>(ended - slot->submitted_ns) / 1e3, report);
  }
  if (IsChecked(slot->iteration)) {
    const Verdict verdict =
        CheckOutput(checked, slot->iteration, slot->output.data(),
                    {report.absent, report.contributions});
    collector->AddCheck(verdict.wrong, verdict.error, verdict.norm);
    if (SharesOutput(checked.collective)) {
      collector->AddOutput(
          {slot->output.data(),
           checked.OutputElements() * gradcodec::SizeOf(checked.dtype)});
    }
    overhead_ns_ += Now() - ended;
  }
  return OR_OK;
}

int Runner::Barrier() {
  or_operation operation;
  or_operation_init(&operation, sizeof(operation));
  operation.collective = OR_BARRIER;
  operation.mode = OR_EXACT;
  or_op op = 0;
  const int status = group_.Submit(operation, &op);
  return status < 0 ? status : session_.Wait(op, -1, nullptr);
}

int Runner::Exchange(const RankFigures& figures,
                     std::vector<RankFigures>* all) {
  memcpy(own_figures_.data(), &figures, sizeof(figures));
  or_operation operation;
  or_operation_init(&operation, sizeof(operation));
  operation.collective = OR_ALL_GATHER;
  operation.dtype = OR_FLOAT64;
  operation.mode = OR_EXACT;
  operation.count = kFigures * options_.world;
  operation.input = own_figures_.data();
  operation.output = all_figures_.data();
  or_op op = 0;
  int status = group_.Submit(operation, &op);
  if (status >= 0) status = session_.Wait(op, -1, nullptr);
  if (status < 0) return status;
  all->resize(options_.world);
  for (uint32_t rank = 0; rank < options_.world; ++rank) {
    memcpy(static_cast<void*>(&(*all)[rank]),
           all_figures_.data() + rank * kFigures, sizeof(RankFigures));
  }
  return OR_OK;
}

}  // namespace optireduce::optiperf
