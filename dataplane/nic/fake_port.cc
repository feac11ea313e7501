#include "dataplane/nic/fake_port.h"

#include <algorithm>
#include <utility>

namespace optireduce::nic {

void FakeWire::Deliver(Datagram datagram) {
  if (filter_ && !filter_(datagram)) return;
  const auto port = ports_.find(datagram.destination.ip.value());
  if (port != ports_.end()) port->second->Arrive(std::move(datagram));
}

FakePort::FakePort(FakeWire* wire, const Options& options)
    : wire_(wire), options_(options) {
  info_.name = "fake";
  info_.driver = "fake";
  info_.ip = options.ip;
  info_.mtu = options.mtu;
  wire_->ports_[options.ip.value()] = this;
}

FakePort::~FakePort() { wire_->ports_.erase(options_.ip.value()); }

void FakePort::Arrive(FakeWire::Datagram datagram) {
  if (away_) return;
  if (received_.size() >= options_.queue_frames) {
    counters_.Increment(Count::kRxOverflow);
    return;
  }
  received_.push_back(std::move(datagram));
}

RxResult FakePort::Receive(std::span<RxDatagram> out, Timestamp /*now*/) {
  RxResult result;
  while (result.datagrams < out.size() && !received_.empty()) {
    auto* frame = new FakeWire::Datagram(std::move(received_.front()));
    received_.pop_front();
    RxDatagram& datagram = out[result.datagrams++];
    datagram = {};
    datagram.source = frame->source;
    datagram.destination_port = frame->destination.port;
    datagram.payload = frame->payload;
    if (options_.stamps_arrivals) datagram.arrival = frame->sent;
    datagram.frame = frame;
  }
  held_ += result.datagrams;
  counters_.Increment(Count::kRx, result.datagrams);
  result.more = result.datagrams == out.size();
  return result;
}

void FakePort::Release(std::span<const RxDatagram> datagrams) {
  for (const RxDatagram& datagram : datagrams) {
    delete static_cast<FakeWire::Datagram*>(datagram.frame);
  }
  held_ -= datagrams.size();
}

size_t FakePort::Lend(std::span<TxDatagram> out) {
  const size_t taken =
      std::min(backlog_.size() + lent_, options_.backlog_frames);
  const size_t count = std::min(
      {out.size(), options_.backlog_frames - taken, options_.buffers - lent_});
  for (size_t i = 0; i < count; ++i) {
    auto* buffer = new std::vector<uint8_t>(max_payload());
    out[i] = {};
    out[i].buffer = *buffer;
    out[i].frame = buffer;
  }
  lent_ += count;
  return count;
}

void FakePort::GiveBack(std::span<const TxDatagram> datagrams) {
  for (const TxDatagram& datagram : datagrams) {
    delete static_cast<std::vector<uint8_t>*>(datagram.frame);
  }
  lent_ -= datagrams.size();
}

void FakePort::Send(std::span<const TxDatagram> datagrams, Timestamp now) {
  for (const TxDatagram& datagram : datagrams) {
    if (silent_.contains(datagram.destination.ip)) {
      counters_.Increment(Count::kTxUnresolved);
      continue;
    }
    const auto payload = datagram.buffer.first(datagram.length);
    backlog_.push_back({.source = {options_.ip, datagram.source_port},
                        .destination = datagram.destination,
                        .sent = now,
                        .payload = {payload.begin(), payload.end()}});
  }
  GiveBack(datagrams);
  Flush();
}

void FakePort::Flush() {
  if (refuses_transmit_) return;
  while (!backlog_.empty()) {
    counters_.Increment(away_ ? Count::kTxAway : Count::kTx);
    if (!away_) wire_->Deliver(std::move(backlog_.front()));
    backlog_.pop_front();
  }
}

void FakePort::Tick(Timestamp now) {
  Flush();
  next_tick_ =
      backlog_.empty() ? Timestamp::Never() : now + Duration::Micros(200);
}

void FakePort::AppendCounters(std::vector<NamedCounter>* out) const {
  out->push_back({"rx_frames", counters_.Get(Count::kRx)});
  out->push_back({"rx_overflow", counters_.Get(Count::kRxOverflow)});
  out->push_back({"tx_frames", counters_.Get(Count::kTx)});
  out->push_back({"tx_unresolved", counters_.Get(Count::kTxUnresolved)});
  out->push_back({"tx_away", counters_.Get(Count::kTxAway)});
}

}  // namespace optireduce::nic
