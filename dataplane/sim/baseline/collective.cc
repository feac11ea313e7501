#include "dataplane/sim/baseline/collective.h"

#include <utility>

namespace optireduce::sim::baseline {

Collective::Collective(Schedule schedule, size_t ops, EventLoop* loop,
                       Stack* stack)
    : schedule_(std::move(schedule)),
      loop_(loop),
      stack_(stack),
      sends_(schedule_.world),
      behind_(schedule_.transfers.size()),
      times_(ops, std::vector<Times>(schedule_.world)),
      submitted_(schedule_.world, 0) {
  fresh_.missing.resize(schedule_.world);
  fresh_.ranks_left = schedule_.world;
  for (uint32_t i = 0; i < schedule_.transfers.size(); ++i) {
    const Transfer& transfer = schedule_.transfers[i];
    fresh_.waits.push_back(static_cast<uint32_t>(transfer.after.size()) + 1);
    ++fresh_.missing[transfer.to];
    sends_[transfer.from].push_back(i);
    for (const uint32_t before : transfer.after) behind_[before].push_back(i);
  }
}

void Collective::Start() {
  for (size_t rank = 0; rank < schedule_.world; ++rank) Submit(0, rank);
}

Collective::Progress& Collective::ProgressOf(size_t op) {
  return running_.try_emplace(op, fresh_).first->second;
}

void Collective::Submit(size_t op, size_t rank) {
  times_[op][rank].submitted = loop_->now();
  ++submitted_[rank];
  const bool has_all = ProgressOf(op).missing[rank] == 0;
  for (const uint32_t transfer : sends_[rank]) Satisfy(op, transfer);
  if (has_all) Finish(op, rank);
}

void Collective::Satisfy(size_t op, uint32_t place) {
  if (--ProgressOf(op).waits[place] > 0) return;
  const Transfer& transfer = schedule_.transfers[place];
  stack_->Write(FlowOf(transfer), transfer.bytes, uint64_t{op} << 32 | place);
}

void Collective::OnDelivered(uint64_t message) {
  const size_t op = message >> 32;
  const auto place = static_cast<uint32_t>(message);
  const size_t rank = schedule_.transfers[place].to;
  Progress& progress = ProgressOf(op);
  const bool has_all = --progress.missing[rank] == 0;
  for (const uint32_t transfer : behind_[place]) Satisfy(op, transfer);
  // It may be here before the rank itself has submitted.
  if (has_all && op < submitted_[rank]) Finish(op, rank);
}

void Collective::Finish(size_t op, size_t rank) {
  Times& times = times_[op][rank];
  times.took = loop_->now() - times.submitted;
  ++finished_;
  if (--ProgressOf(op).ranks_left == 0) running_.erase(op);
  if (op + 1 < times_.size()) Submit(op + 1, rank);
}

FlowId Collective::FlowOf(const Transfer& transfer) {
  const auto key =
      std::make_tuple(transfer.from, transfer.to, transfer.channel);
  const auto found = flows_.find(key);
  if (found != flows_.end()) return found->second;
  const FlowId flow = stack_->Open(transfer.from, transfer.to, this);
  flows_.emplace(key, flow);
  return flow;
}

}  // namespace optireduce::sim::baseline
