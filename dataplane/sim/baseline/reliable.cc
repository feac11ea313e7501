#include "dataplane/sim/baseline/reliable.h"

#include <memory>
#include <vector>

#include "dataplane/base/rng.h"
#include "dataplane/sim/baseline/collective.h"
#include "dataplane/sim/baseline/stack.h"
#include "dataplane/sim/event_loop.h"
#include "dataplane/sim/fault.h"
#include "dataplane/sim/network.h"
#include "dataplane/sim/trace.h"

namespace optireduce::sim::baseline {

namespace {

// Nothing takes so long but by a mistake.
constexpr Duration kGiveUp = Duration::Seconds(100'000);

// The network, its hosts' kernels, the load and the ranks.
class Run : public Actor {
 public:
  explicit Run(const ExperimentSpec& spec)
      : spec_(spec),
        pool_(kForeignBytes),
        rng_(spec.seed),
        network_(&loop_, &pool_, &rng_, &trace_, &faults_, Links(spec)),
        stack_(&loop_, &pool_, &network_, spec.hosts, spec.mtu,
               TimeOnLine(spec.mtu, spec.rate_bps)),
        background_(spec.background, spec.seed, spec.hosts, &loop_, &stack_),
        collective_(ScheduleOf(spec), kWarmUpOps + spec.ops, &loop_, &stack_) {}

  ExperimentResult Go() {
    if (spec_.loss > 0) {
      network_.AddFault(std::make_unique<Loss>(Window(), spec_.loss));
    }
    background_.Start();
    loop_.At(Timestamp() + kWarmUp, this, 0);
    while (!loop_.empty() && !collective_.over() &&
           loop_.now() < Timestamp() + kGiveUp) {
      loop_.RunNext();
    }
    ExperimentResult result;
    if (!collective_.over()) result.failure = "ops are not over";
    for (size_t op = kWarmUpOps; op < kWarmUpOps + spec_.ops; ++op) {
      for (size_t rank = 0; rank < spec_.hosts; ++rank) {
        result.samples.push_back(collective_.Took(op, rank));
      }
    }
    result.elapsed = loop_.now() - Timestamp();
    result.background_bytes = background_.Received();
    result.transport = stack_.Totals();
    result.trace_hash = trace_.hash();
    return result;
  }

  void OnEvent(uint32_t /*code*/, uint64_t /*argument*/) override {
    collective_.Start();
  }

 private:
  static std::vector<LinkSpec> Links(const ExperimentSpec& spec) {
    LinkSpec link;
    link.rate_bps = spec.rate_bps;
    return std::vector<LinkSpec>(spec.hosts, link);
  }

  const ExperimentSpec& spec_;
  EventLoop loop_;
  PacketPool pool_;
  Rng rng_;
  Trace trace_;
  FaultCounts faults_{};
  Network network_;
  Stack stack_;
  BackgroundTraffic background_;
  Collective collective_;
};

}  // namespace

Schedule ScheduleOf(const ExperimentSpec& spec) {
  switch (spec.algorithm) {
    case Algorithm::kRing:
      return Ring(spec.hosts, spec.bytes);
    case Algorithm::kBCube:
      return BCube(spec.hosts, spec.bytes);
    case Algorithm::kTree:
      return DoubleTree(spec.hosts, spec.bytes);
    case Algorithm::kParameterServer:
      return ParameterServer(spec.hosts, spec.bytes);
    case Algorithm::kTranspose:
      return Transpose(spec.hosts, spec.bytes);
    case Algorithm::kTranspose2D:
      return Transpose2D(spec.hosts, spec.bytes);
    case Algorithm::kOurs:
      break;
  }
  return {};
}

ExperimentResult RunReliable(const ExperimentSpec& spec) {
  return Run(spec).Go();
}

}  // namespace optireduce::sim::baseline
