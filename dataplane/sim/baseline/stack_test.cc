#include "dataplane/sim/baseline/stack.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "dataplane/base/rng.h"
#include "dataplane/sim/fault.h"
#include "dataplane/sim/trace.h"
#include "gtest/gtest.h"

namespace optireduce::sim::baseline {
namespace {

constexpr uint64_t kGigabit = 1'000'000'000;
constexpr uint32_t kMtu = 1500;
constexpr uint32_t kFull = SegmentBytes(kMtu);
// Of the line, what segments leave for the stream.
constexpr double kShare =
    static_cast<double>(kFull) / (kMtu - 28 + kWireOverhead);

// Drops `count` data segments after letting `skip` pass, inside its window.
class DropData : public Fault {
 public:
  DropData(Window window, uint64_t skip, uint64_t count)
      : Fault(window), skip_(skip), count_(count) {}

 private:
  void Act(const Packet& packet, Rng* /*rng*/, Treatment* treatment,
           FaultCounts* counts) override {
    if (Decode(packet.buffer).is_ack) return;
    const uint64_t place = place_++;
    if (place < skip_ || place - skip_ >= count_) return;
    treatment->drop = true;
    Count(FaultKind::kLoss, counts);
  }

  uint64_t skip_;
  uint64_t count_;
  uint64_t place_ = 0;
};

class StackTest : public testing::Test, public Listener {
 protected:
  void Build(size_t hosts, uint64_t rate_bps = kGigabit,
             uint64_t switch_queue_bytes = 512 << 10) {
    LinkSpec link;
    link.rate_bps = rate_bps;
    link.switch_queue_bytes = switch_queue_bytes;
    network_ =
        std::make_unique<Network>(&loop_, &pool_, &rng_, &trace_, &counts_,
                                  std::vector<LinkSpec>(hosts, link));
    stack_ = std::make_unique<Stack>(&loop_, &pool_, network_.get(), hosts,
                                     kMtu, TimeOnLine(kMtu, rate_bps));
  }

  // From now on, for so long.
  void Drop(Duration time, uint64_t skip, uint64_t count) {
    const Window window = {loop_.now(), loop_.now() + time};
    network_->AddFault(std::make_unique<DropData>(window, skip, count));
  }

  void OnDelivered(uint64_t message) override {
    delivered_.push_back({message, loop_.now()});
  }

  // Until nothing happens any more.
  void Run() {
    while (!loop_.empty()) loop_.RunNext();
    EXPECT_EQ(pool_.in_use(), 0u);
  }
  void RunFor(Duration time) {
    const Timestamp end = loop_.now() + time;
    while (!loop_.empty() && loop_.next_time() <= end) loop_.RunNext();
  }

  // How long one message takes on a flow that has been used before.
  Duration Send(FlowId flow, uint64_t bytes, uint64_t message) {
    const Timestamp begin = loop_.now();
    stack_->Write(flow, bytes, message);
    Run();
    EXPECT_EQ(delivered_.back().first, message);
    return delivered_.back().second - begin;
  }

  EventLoop loop_;
  PacketPool pool_{kForeignBytes};
  Rng rng_{1};
  Trace trace_;
  FaultCounts counts_{};
  std::unique_ptr<Network> network_;
  std::unique_ptr<Stack> stack_;
  std::vector<std::pair<uint64_t, Timestamp>> delivered_;
};

TEST_F(StackTest, DeliversMessagesInOrderAtTheLineRate) {
  Build(2);
  const FlowId flow = stack_->Open(0, 1, this);
  Send(flow, 1 << 20, 1);
  const uint64_t bytes = 10 << 20;
  const Duration took = Send(flow, bytes, 2);
  const double ideal = static_cast<double>(bytes) * 8 / kGigabit / kShare;
  EXPECT_NEAR(took.seconds(), ideal, ideal * 0.01);
  stack_->Write(flow, 10, 3);
  stack_->Write(flow, 5000, 4);
  Run();
  ASSERT_EQ(delivered_.size(), 4u);
  EXPECT_EQ(delivered_[2].first, 3u);
  EXPECT_EQ(delivered_[3].first, 4u);
  EXPECT_EQ(stack_->Received(flow), (1u << 20) + bytes + 5010);
  EXPECT_EQ(stack_->Totals().retransmitted, 0u);
}

TEST_F(StackTest, FlowsOfAHostShareItsLine) {
  Build(4);
  std::vector<FlowId> flows;
  for (uint16_t to = 1; to < 4; ++to) {
    flows.push_back(stack_->Open(0, to, nullptr));
    stack_->Write(flows.back(), 1 << 30, 0);
  }
  RunFor(Duration::Millis(100));
  const double third = 0.1 * kGigabit / 8 * kShare / 3;
  for (const FlowId flow : flows) {
    EXPECT_NEAR(static_cast<double>(stack_->Received(flow)), third,
                third * 0.02);
  }
}

TEST_F(StackTest, SendersToOneHostShareItsLineAfterLosses) {
  Build(4, kGigabit, 64 << 10);
  std::vector<FlowId> flows;
  for (uint16_t from = 1; from < 4; ++from) {
    flows.push_back(stack_->Open(from, 0, nullptr));
    stack_->Write(flows.back(), 1 << 30, 0);
  }
  RunFor(Duration::Seconds(2));
  double sum = 0;
  for (const FlowId flow : flows) {
    const auto received = static_cast<double>(stack_->Received(flow));
    sum += received;
    EXPECT_GT(received, 2.0 * kGigabit / 8 * kShare / 3 * 0.5);
  }
  EXPECT_GT(stack_->Totals().retransmitted, 0u);
  EXPECT_GT(sum, 2.0 * kGigabit / 8 * kShare * 0.93);
}

// Half of the NIC's queue stays free for a neighbour, as of other software.
TEST_F(StackTest, KeepsToItsPartOfTheNic) {
  Build(3);
  const FlowId flow = stack_->Open(0, 1, nullptr);
  stack_->Write(flow, 1 << 30, 0);
  const uint64_t slots = network_->RoomFor(0, kMtu - 28);
  for (int i = 0; i < 1000; ++i) {
    loop_.RunNext();
    EXPECT_GE(network_->RoomFor(0, kMtu - 28), slots / 2 - 1);
  }
}

TEST_F(StackTest, ALostTailCostsAProbeNotATimeout) {
  Build(2);
  const FlowId flow = stack_->Open(0, 1, this);
  Send(flow, 1 << 20, 1);
  const Duration quiet = Send(flow, uint64_t{50} * kFull, 2);
  Drop(Duration::Seconds(1), 49, 1);
  const Duration took = Send(flow, uint64_t{50} * kFull, 3);
  EXPECT_GT(took, quiet + Sender::kProbeSlack);
  EXPECT_LT(took, quiet + Sender::kProbeSlack + Duration::Millis(3));
  EXPECT_EQ(stack_->Totals().probes, 1u);
  EXPECT_EQ(stack_->Totals().timeouts, 0u);
}

TEST_F(StackTest, AWholeLostWindowCostsTheTimeoutOf200Milliseconds) {
  Build(2);
  const FlowId flow = stack_->Open(0, 1, this);
  Send(flow, 1 << 20, 1);
  const Duration quiet = Send(flow, uint64_t{50} * kFull, 2);
  // And its probe.
  Drop(Duration::Millis(100), 0, UINT64_MAX);
  const Duration took = Send(flow, uint64_t{50} * kFull, 3);
  EXPECT_GT(took, Duration::Millis(200));
  EXPECT_LT(took, quiet + Duration::Millis(205));
  EXPECT_EQ(stack_->Totals().timeouts, 1u);
}

TEST_F(StackTest, AClosedFlowIsSilent) {
  Build(2);
  const FlowId flow = stack_->Open(0, 1, this);
  stack_->Write(flow, 1 << 30, 1);
  RunFor(Duration::Millis(10));
  stack_->Close(flow);
  const Timestamp closed = loop_.now();
  Run();
  EXPECT_TRUE(delivered_.empty());
  // But for what was in the queues and timers that come to nothing.
  EXPECT_LT(loop_.now() - closed, Sender::kFirstTimeout * 2);
}

TEST_F(StackTest, RandomLossDelaysButLosesNothing) {
  Build(2);
  network_->AddFault(std::make_unique<Loss>(Window(), 0.05));
  const FlowId flow = stack_->Open(0, 1, this);
  Send(flow, 4 << 20, 1);
  EXPECT_EQ(stack_->Received(flow), 4u << 20);
  const SenderCounters totals = stack_->Totals();
  EXPECT_GT(totals.retransmitted, 50u);
  // Hardly anything is sent again without need.
  EXPECT_LT(static_cast<double>(totals.retransmitted),
            static_cast<double>(totals.segments) * 0.08);
}

TEST_F(StackTest, CorruptSegmentsAreLostNotDelivered) {
  Build(2);
  network_->AddFault(std::make_unique<Corruption>(Window(), 0.1, 1.0));
  const FlowId flow = stack_->Open(0, 1, this);
  Send(flow, 1 << 20, 1);
  EXPECT_EQ(stack_->Received(flow), 1u << 20);
  EXPECT_GT(stack_->Totals().retransmitted, 0u);
}

}  // namespace
}  // namespace optireduce::sim::baseline
