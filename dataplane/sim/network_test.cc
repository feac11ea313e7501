#include "dataplane/sim/network.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace optireduce::sim {
namespace {

constexpr uint32_t kBody = 1000;
constexpr uint32_t kDatagram = wire::kHeaderBytes + kBody + wire::kCrcBytes;
constexpr uint64_t kOnWire = kDatagram + kWireOverhead;
// Of Gigabit(): 8 ns per byte.
constexpr Duration kTransmission = Duration::Nanos(8 * kOnWire);
constexpr Duration kDelay = Duration::Micros(3);

class Sink : public Receiver {
 public:
  explicit Sink(PacketPool* pool) : pool_(pool) {}
  void OnArrival(PacketPool::Ref ref) override {
    const Packet& packet = (*pool_)[ref];
    arrivals.push_back({packet.arrived.nanos(), packet.header.chunk});
    origins.push_back(packet.origin);
    wire::Header header;
    wire::WireError error = wire::DecodeHeader(packet.bytes(), &header);
    if (error == wire::WireError::kOk) error = wire::CheckCrc(packet.bytes());
    errors.push_back(error);
    tags.push_back(header.tag);
    pool_->Free(ref);
  }

  std::vector<std::pair<int64_t, uint32_t>> arrivals;  // time, chunk
  std::vector<Origin> origins;
  std::vector<wire::WireError> errors;
  std::vector<uint32_t> tags;

 private:
  PacketPool* pool_;
};

class ForeignSink : public Receiver {
 public:
  explicit ForeignSink(PacketPool* pool) : pool_(pool) {}
  void OnArrival(PacketPool::Ref ref) override {
    const uint8_t* const buffer = (*pool_)[ref].buffer;
    first_bytes.emplace_back(buffer, buffer + kForeignBytes);
    pool_->Free(ref);
  }

  std::vector<std::vector<uint8_t>> first_bytes;

 private:
  PacketPool* pool_;
};

class NetworkTest : public testing::Test {
 protected:
  static constexpr uint32_t kTag = 0x12345678;

  // Hosts with equal links; the last one's queue in the switch is `queue`.
  void Build(size_t hosts, LinkSpec link, uint64_t seed = 1) {
    rng_ = std::make_unique<Rng>(seed);
    network_ =
        std::make_unique<Network>(&loop_, &pool_, rng_.get(), &trace_, &counts_,
                                  std::vector<LinkSpec>(hosts, link));
    for (size_t i = 0; i < hosts; ++i) {
      sinks_.push_back(std::make_unique<Sink>(&pool_));
      network_->Attach(static_cast<uint16_t>(i), sinks_.back().get());
    }
  }

  void Send(uint16_t from, uint16_t to, uint32_t chunk, uint8_t flags = 0,
            wire::PacketType type = wire::PacketType::kData) {
    const PacketPool::Ref ref = pool_.Allocate();
    Packet& packet = pool_[ref];
    packet.source_host = from;
    packet.destination_host = to;
    packet.source_rank = core::Rank(from);
    packet.destination_rank = core::Rank(to);
    packet.source = {core::NetAddress::FromIpv4(0x0A000001u + from), 1000};
    packet.destination = {core::NetAddress::FromIpv4(0x0A000001u + to), 1000};
    packet.origin = Origin::kSent;
    packet.header = {};
    packet.header.type = type;
    packet.header.flags = flags;
    packet.header.tag = kTag;
    packet.header.source = from;
    packet.header.length = kBody;
    packet.header.chunk = chunk;
    wire::EncodeHeader(packet.header, packet.buffer);
    std::memset(packet.buffer + wire::kHeaderBytes, 0x3C, kBody);
    packet.length = static_cast<uint32_t>(
        wire::Seal(packet.buffer, wire::kHeaderBytes + kBody));
    network_->Send(ref);
  }
  void SendForeign(uint16_t from, uint16_t to, uint32_t length) {
    const PacketPool::Ref ref = pool_.Allocate();
    Packet& packet = pool_[ref];
    packet.source_host = from;
    packet.destination_host = to;
    packet.group = kForeignGroup;
    packet.length = length;
    std::memset(packet.buffer, 0x5A, kForeignBytes);
    network_->Send(ref);
  }
  void Run() {
    while (!loop_.empty()) loop_.RunNext();
  }
  uint64_t Counted(FaultKind kind) const {
    return counts_[static_cast<size_t>(kind)];
  }

  EventLoop loop_;
  PacketPool pool_{2048};
  std::unique_ptr<Rng> rng_;
  Trace trace_;
  FaultCounts counts_{};
  std::unique_ptr<Network> network_;
  std::vector<std::unique_ptr<Sink>> sinks_;
};

LinkSpec Gigabit() {
  LinkSpec link;
  link.rate_bps = 1'000'000'000;
  link.delay = kDelay;
  link.nic_queue_bytes = 1 << 20;
  link.switch_queue_bytes = 1 << 20;
  return link;
}

TEST_F(NetworkTest, OnePacketTakesTwoTransmissionsAndTwoDelays) {
  Build(2, Gigabit());
  Send(0, 1, 7);
  Run();
  ASSERT_EQ(sinks_[1]->arrivals.size(), 1u);
  EXPECT_EQ(sinks_[1]->arrivals[0].first,
            ((kTransmission + kDelay) * 2).nanos());
  EXPECT_EQ(pool_.in_use(), 0u);
}

TEST_F(NetworkTest, AStreamArrivesInOrderAtTheRateOfTheLink) {
  Build(2, Gigabit());
  for (uint32_t i = 0; i < 100; ++i) Send(0, 1, i);
  Run();
  ASSERT_EQ(sinks_[1]->arrivals.size(), 100u);
  for (uint32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(sinks_[1]->arrivals[i].second, i);
    EXPECT_EQ(sinks_[1]->arrivals[i].first,
              (kTransmission * (i + 2) + kDelay * 2).nanos());
  }
}

TEST_F(NetworkTest, ThePortOfAFullQueueDropsTheNewest) {
  LinkSpec link = Gigabit();
  link.switch_queue_bytes = 10 * kOnWire;
  Build(4, link);
  // Three senders into one port: two thirds cannot pass.
  for (uint32_t i = 0; i < 60; ++i) {
    for (uint16_t from = 0; from < 3; ++from) Send(from, 3, i);
  }
  Run();
  EXPECT_EQ(sinks_[3]->arrivals.size() + Counted(FaultKind::kQueue), 180u);
  // What came while the senders sent, and the ten that waited at the end.
  EXPECT_NEAR(static_cast<double>(sinks_[3]->arrivals.size()), 70, 2);
  EXPECT_EQ(pool_.in_use(), 0u);
}

TEST_F(NetworkTest, TheNicSaysWhenItHasRoom) {
  LinkSpec link = Gigabit();
  link.nic_queue_bytes = 8 * kOnWire;
  Build(2, link);
  uint32_t sent = 0;
  EXPECT_EQ(network_->RoomFor(0, kDatagram), 8u);
  while (network_->RoomFor(0, kDatagram) > 0) Send(0, 1, sent++);
  EXPECT_EQ(sent, 8u);
  EXPECT_EQ(network_->RoomAt(0).nanos(), (kTransmission * 4).nanos());
}

TEST_F(NetworkTest, LossHitsItsShareAndNothingOutsideItsWindow) {
  Build(2, Gigabit());
  network_->AddFault(std::make_unique<Loss>(
      Window{Timestamp::FromNanos(0), Timestamp::FromNanos(1)}, 0.25));
  for (uint32_t i = 0; i < 4000; ++i) Send(0, 1, i);
  Run();
  const uint64_t lost = Counted(FaultKind::kLoss);
  EXPECT_NEAR(static_cast<double>(lost), 1000, 100);
  for (uint32_t i = 0; i < 100; ++i) Send(0, 1, i);
  Run();
  EXPECT_EQ(Counted(FaultKind::kLoss), lost);
}

TEST_F(NetworkTest, BurstsAreLongerThanIndependentLossOfTheSameShare) {
  Build(2, Gigabit());
  network_->AddFault(std::make_unique<BurstLoss>(Window{}, 2, 0.01, 0.1, 1.0));
  for (uint32_t i = 0; i < 20000; ++i) Send(0, 1, i);
  Run();
  const double lost = static_cast<double>(Counted(FaultKind::kBurst));
  EXPECT_NEAR(lost / 20000, 0.01 / 0.11, 0.02);
  uint32_t runs = 0;
  uint32_t expected = 0;
  for (const auto& [time, chunk] : sinks_[1]->arrivals) {
    if (chunk != expected) ++runs;
    expected = chunk + 1;
  }
  EXPECT_NEAR(lost / runs, 10, 2);
}

TEST_F(NetworkTest, TailLossTakesMarkedPacketsOfWholeStreams) {
  Build(3, Gigabit());
  network_->AddFault(std::make_unique<TailLoss>(Window{}, 99, 1000));
  for (uint32_t i = 0; i < 10; ++i) {
    Send(0, 1, i, i >= 6 ? wire::kFlagTail : 0);
  }
  Send(0, 1, 10, wire::kFlagTail | wire::kFlagRepair);
  Run();
  EXPECT_EQ(Counted(FaultKind::kTail), 4u);
  EXPECT_EQ(sinks_[1]->arrivals.size(), 7u);
}

TEST_F(NetworkTest, HalfOfTheStreamsLoseTheirTailsWholly) {
  Build(2, Gigabit());
  network_->AddFault(std::make_unique<TailLoss>(Window{}, 5, 500));
  for (uint32_t op = 0; op < 200; ++op) {
    const PacketPool::Ref ref = pool_.Allocate();
    Packet& packet = pool_[ref];
    packet.source_host = 0;
    packet.destination_host = 1;
    packet.length = 64;
    packet.header = {};
    packet.header.flags = wire::kFlagTail;
    packet.header.op_seq = op / 4;  // four packets of each stream
    packet.header.chunk = op / 4;
    network_->Send(ref);
  }
  Run();
  const uint64_t lost = Counted(FaultKind::kTail);
  EXPECT_EQ(lost % 4, 0u);
  EXPECT_NEAR(static_cast<double>(lost), 100, 40);
}

TEST_F(NetworkTest, CopiesAndReplaysArriveBesideTheOriginal) {
  Build(2, Gigabit());
  network_->AddFault(
      std::make_unique<Duplication>(Window{}, 1.0, Duration::Micros(50)));
  network_->AddFault(
      std::make_unique<Replay>(Window{}, 1.0, false, Duration::Millis(1)));
  network_->AddFault(
      std::make_unique<Replay>(Window{}, 1.0, true, Duration::Millis(1)));
  for (uint32_t i = 0; i < 50; ++i) Send(0, 1, i);
  Run();
  const auto& origins = sinks_[1]->origins;
  const auto count = [&](Origin origin) {
    return std::count(origins.begin(), origins.end(), origin);
  };
  EXPECT_EQ(count(Origin::kSent), 50);
  EXPECT_GE(count(Origin::kDuplicate), 50);
  EXPECT_LE(count(Origin::kDuplicate), 100);
  EXPECT_EQ(count(Origin::kReplay), 50);
  EXPECT_EQ(count(Origin::kForged), 50);
  for (size_t i = 0; i < origins.size(); ++i) {
    EXPECT_EQ(sinks_[1]->errors[i], wire::WireError::kOk);
    EXPECT_EQ(sinks_[1]->tags[i] == kTag, origins[i] != Origin::kForged);
  }
}

TEST_F(NetworkTest, ReorderingLetsLaterPacketsOvertake) {
  Build(2, Gigabit());
  network_->AddFault(
      std::make_unique<Reordering>(Window{}, 0.3, Duration::Millis(1)));
  for (uint32_t i = 0; i < 200; ++i) Send(0, 1, i);
  Run();
  auto arrivals = sinks_[1]->arrivals;
  ASSERT_EQ(arrivals.size(), 200u);
  EXPECT_TRUE(std::is_sorted(arrivals.begin(), arrivals.end()));  // by time
  EXPECT_FALSE(std::is_sorted(
      arrivals.begin(), arrivals.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; }));
}

TEST_F(NetworkTest, FlippedBitsReachTheCoreAndNeverPassItsCheck) {
  Build(2, Gigabit());
  network_->AddFault(std::make_unique<Corruption>(Window{}, 1.0, 0.5));
  for (uint32_t i = 0; i < 1000; ++i) Send(0, 1, i);
  Run();
  EXPECT_EQ(sinks_[1]->arrivals.size(), Counted(FaultKind::kFlipped));
  EXPECT_EQ(Counted(FaultKind::kFlipped) + Counted(FaultKind::kDiscarded),
            1000u);
  EXPECT_NEAR(static_cast<double>(Counted(FaultKind::kFlipped)), 500, 70);
  for (wire::WireError error : sinks_[1]->errors) {
    EXPECT_NE(error, wire::WireError::kOk);
  }
}

TEST_F(NetworkTest, APartitionCutsOneDirection) {
  Build(3, Gigabit());
  network_->AddFault(std::make_unique<Partition>(Window{}, 0, 1));
  Send(0, 1, 1);
  Send(1, 0, 2);
  Send(0, 2, 3);
  Run();
  EXPECT_EQ(sinks_[1]->arrivals.size(), 0u);
  EXPECT_EQ(sinks_[0]->arrivals.size(), 1u);
  EXPECT_EQ(sinks_[2]->arrivals.size(), 1u);
  EXPECT_EQ(Counted(FaultKind::kPartition), 1u);
}

TEST_F(NetworkTest, BackgroundTrafficTakesItsShareOfAPort) {
  Build(2, Gigabit());
  Background background;
  background.host = 1;
  background.window.end = Timestamp::FromNanos(2'000'000);
  background.load_permille = 500;
  background.on_permille = 1000;
  network_->AddBackground(background);
  for (uint32_t i = 0; i < 100; ++i) Send(0, 1, i);
  Run();
  ASSERT_EQ(sinks_[1]->arrivals.size(), 100u);
  const double alone = 8.0 * kOnWire * 101 + 6000;
  EXPECT_GT(static_cast<double>(sinks_[1]->arrivals.back().first), 1.3 * alone);
  EXPECT_LT(static_cast<double>(sinks_[1]->arrivals.back().first), 1.6 * alone);
}

TEST_F(NetworkTest, RanksOfOneHostTalkThroughMemory) {
  Build(1, Gigabit());
  Send(0, 0, 1);
  Run();
  ASSERT_EQ(sinks_[0]->arrivals.size(), 1u);
  EXPECT_EQ(sinks_[0]->arrivals[0].first, 1000);
}

TEST_F(NetworkTest, NoForgeryKeepsThePacketGood) {
  Build(2, Gigabit());
  network_->AddFault(
      std::make_unique<Forger>(Window{}, 1.0, Duration::Micros(10)));
  for (uint32_t i = 0; i < 500; ++i) {
    Send(0, 1, i, 0,
         i % 2 == 0 ? wire::PacketType::kResult : wire::PacketType::kOpen);
  }
  Run();
  const auto& origins = sinks_[1]->origins;
  EXPECT_EQ(static_cast<uint64_t>(
                std::count(origins.begin(), origins.end(), Origin::kForged)),
            Counted(FaultKind::kForged));
  EXPECT_GT(Counted(FaultKind::kForged), 300u);
}

// Longer than the bytes that are kept of it.
TEST_F(NetworkTest, ForeignPacketsGoToTheirOwnReceiverWhole) {
  Build(2, Gigabit());
  ForeignSink foreign(&pool_);
  network_->AttachForeign(&foreign);
  network_->AddFault(std::make_unique<Replay>(Window(), 1.0, false, kDelay));
  network_->AddFault(std::make_unique<Forger>(Window(), 1.0, kDelay));
  network_->AddFault(std::make_unique<Replay>(Window(), 1.0, true, kDelay));
  SendForeign(0, 1, 60'000);
  EXPECT_EQ(network_->EmptyAt(0).nanos(),
            int64_t{8} * (60'000 + kWireOverhead));
  Run();
  EXPECT_TRUE(sinks_[1]->arrivals.empty());
  // It and its stale copy; nobody can forge it.
  ASSERT_EQ(foreign.first_bytes.size(), 2u);
  for (const auto& bytes : foreign.first_bytes) {
    EXPECT_TRUE(
        std::ranges::all_of(bytes, [](uint8_t b) { return b == 0x5A; }));
  }
  EXPECT_EQ(pool_.in_use(), 0u);
}

TEST_F(NetworkTest, CorruptForeignPacketsAreDiscarded) {
  Build(2, Gigabit());
  ForeignSink foreign(&pool_);
  network_->AttachForeign(&foreign);
  network_->AddFault(std::make_unique<Corruption>(Window(), 1.0, 1.0));
  SendForeign(0, 1, 1000);
  Run();
  EXPECT_TRUE(foreign.first_bytes.empty());
  EXPECT_EQ(Counted(FaultKind::kDiscarded), 1u);
  EXPECT_EQ(pool_.in_use(), 0u);
}

TEST_F(NetworkTest, EqualSeedsGiveEqualHashes) {
  const auto hash_of = [](uint64_t seed) {
    EventLoop loop;
    PacketPool pool(2048);
    Rng rng(seed);
    Trace trace;
    FaultCounts counts{};
    Network network(&loop, &pool, &rng, &trace, &counts,
                    std::vector<LinkSpec>(2, Gigabit()));
    Sink sink(&pool);
    network.Attach(1, &sink);
    network.AddFault(std::make_unique<Loss>(Window{}, 0.5));
    for (uint32_t i = 0; i < 64; ++i) {
      const PacketPool::Ref ref = pool.Allocate();
      pool[ref].source_host = 0;
      pool[ref].destination_host = 1;
      pool[ref].length = 100;
      std::memset(pool[ref].buffer, static_cast<int>(i), 100);
      network.Send(ref);
    }
    while (!loop.empty()) loop.RunNext();
    return trace.hash();
  };
  EXPECT_EQ(hash_of(1), hash_of(1));
  EXPECT_NE(hash_of(1), hash_of(2));
}

}  // namespace
}  // namespace optireduce::sim
