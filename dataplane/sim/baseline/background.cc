#include "dataplane/sim/baseline/background.h"

#include "dataplane/base/require.h"

namespace optireduce::sim::baseline {

namespace {

// More than any burst can send.
constexpr uint64_t kEndless = uint64_t{1} << 50;

BackgroundSpec Preset(const std::string& name, uint32_t flows, int64_t pause_ms,
                      int64_t longest_pause_ms, int64_t burst_ms,
                      int64_t longest_burst_ms) {
  return {name,
          flows,
          Duration::Millis(pause_ms),
          Duration::Millis(longest_pause_ms),
          Duration::Millis(burst_ms),
          Duration::Millis(longest_burst_ms)};
}

Duration Draw(Duration shortest, Duration longest, Rng* rng) {
  return Duration::Nanos(rng->Between(shortest.nanos(), longest.nanos()));
}

}  // namespace

double BackgroundSpec::OfferedLoad() const {
  if (flows == 0) return 0;
  const double on = (shortest_burst + longest_burst).seconds();
  const double off = (shortest_pause + longest_pause).seconds();
  return on / (on + off);
}

std::optional<BackgroundSpec> FindBackground(const std::string& name) {
  if (name == "none") return BackgroundSpec();
  if (name == "tail15") return Preset(name, 1, 150, 450, 30, 90);
  if (name == "tail30") return Preset(name, 5, 300, 900, 50, 150);
  return std::nullopt;
}

BackgroundTraffic::BackgroundTraffic(const BackgroundSpec& spec, uint64_t seed,
                                     size_t hosts, EventLoop* loop,
                                     Stack* stack)
    : spec_(spec), loop_(loop), stack_(stack) {
  Require(hosts >= 2);
  Rng seeds(seed);
  for (size_t i = 0; i < hosts; ++i) sources_.emplace_back(seeds.Next());
}

// The first pause begins anywhere.
void BackgroundTraffic::Start() {
  if (spec_.flows == 0) return;
  for (size_t host = 0; host < sources_.size(); ++host) {
    const Duration pause =
        Draw(Duration(), spec_.longest_pause, &sources_[host].rng);
    loop_->At(loop_->now() + pause, this, kBegin, host);
  }
}

uint64_t BackgroundTraffic::Received() const {
  uint64_t received = received_;
  for (const Source& source : sources_) {
    for (const FlowId flow : source.flows) received += stack_->Received(flow);
  }
  return received;
}

void BackgroundTraffic::OnEvent(uint32_t code, uint64_t argument) {
  const auto host = static_cast<uint16_t>(argument);
  code == kBegin ? Begin(host) : End(host);
}

void BackgroundTraffic::Begin(uint16_t host) {
  Source& source = sources_[host];
  const uint64_t place = source.rng.Below(sources_.size() - 1);
  const auto target = static_cast<uint16_t>(place + (place >= host ? 1 : 0));
  const Duration length =
      Draw(spec_.shortest_burst, spec_.longest_burst, &source.rng);
  ++bursts_;
  for (uint32_t i = 0; i < spec_.flows; ++i) {
    source.flows.push_back(stack_->Open(host, target, nullptr));
    stack_->Write(source.flows.back(), kEndless, 0);
  }
  loop_->At(loop_->now() + length, this, kEnd, host);
}

void BackgroundTraffic::End(uint16_t host) {
  Source& source = sources_[host];
  for (const FlowId flow : source.flows) {
    received_ += stack_->Received(flow);
    stack_->Close(flow);
  }
  source.flows.clear();
  const Duration pause =
      Draw(spec_.shortest_pause, spec_.longest_pause, &source.rng);
  loop_->At(loop_->now() + pause, this, kBegin, host);
}

}  // namespace optireduce::sim::baseline
