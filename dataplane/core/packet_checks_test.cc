// Packet by packet: what one core takes from its peers and what it refuses.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "dataplane/core/plan.h"
#include "dataplane/core/testing.h"

namespace optireduce::core {
namespace {

using wire::PacketType;

constexpr size_t kWorld = 3;
constexpr uint32_t kTag = 0xABCD1234;  // TestNet's
constexpr uint32_t kPayload = 496;
constexpr uint64_t kChunk = kPayload / sizeof(float);
constexpr uint64_t kCount = kWorld * 2 * kChunk;
constexpr Duration kNanosecond = Duration::Nanos(1);

GroupConfig Settings() {
  GroupConfig config;
  config.payload_bytes = kPayload;
  config.stage1_bound = Duration::Millis(6);
  config.result_bound = Duration::Millis(10);
  config.adaptive_bounds = false;
  config.early_wait = Duration::Millis(1);
  config.memory_budget = 1 << 20;
  return config;
}

NetAddress AddressOf(uint16_t rank) {
  return NetAddress::FromIpv4(0x0A000001u + rank);
}

// Rank 0 of a formed group of three; the other two are the test.
class PacketChecksTest : public testing::Test {
 protected:
  explicit PacketChecksTest(const GroupConfig& config = Settings())
      : net_(kWorld, config) {
    net_.Run(Duration::Millis(50));
    net_.set_filter(
        [](const wire::Header&, Rank from, Rank) { return from == Rank(0); });
  }

  EngineCore& core() { return net_.core(0); }
  PeerStatus Peer(size_t rank) {
    return core().Status(net_.group(0)).peers[rank];
  }

  // A header that is right but for what the test changes.
  static wire::Header From(uint16_t rank, PacketType type, OpSeq seq = {}) {
    wire::Header header;
    header.type = type;
    header.tag = kTag;
    header.source = rank;
    header.op_seq = seq.value();
    return header;
  }
  static std::vector<uint8_t> Sealed(wire::Header header,
                                     const std::vector<uint8_t>& body) {
    std::vector<uint8_t> packet(wire::kHeaderBytes + body.size() +
                                wire::kCrcBytes);
    header.length = static_cast<uint16_t>(body.size());
    wire::EncodeHeader(header, packet.data());
    std::copy(body.begin(), body.end(), packet.begin() + wire::kHeaderBytes);
    wire::Seal(packet.data(), wire::kHeaderBytes + body.size());
    return packet;
  }

  Verdict Receive(const std::vector<uint8_t>& packet, NetAddress source,
                  Timestamp arrival, Timestamp now) {
    return core().OnPacket({source, 5000, false, packet}, arrival, now);
  }
  Verdict Receive(const wire::Header& header,
                  const std::vector<uint8_t>& body) {
    return Receive(Sealed(header, body), AddressOf(header.source), net_.now(),
                   net_.now());
  }

  Verdict Feedback(uint16_t rank, uint32_t open_upto, uint32_t done_upto) {
    wire::FeedbackBody feedback;
    feedback.watermarks = {open_upto, done_upto};
    std::vector<uint8_t> body(wire::kFeedbackFixedBytes);
    wire::EncodeFeedback(feedback, body.data());
    return Receive(From(rank, PacketType::kFeedback), body);
  }

  // Rank 0 submits; the clocks of a bounded op start when both others have
  // opened it.
  void Start(Mode mode, uint64_t count = kCount) {
    op_.count = count;
    op_.mode = mode;
    plan_ = ChunkPlan(op_, kWorld, kPayload, kTag, OpSeq(0));
    buffer_.assign(count, 1.0f);
    ASSERT_EQ(Submit(), SubmitResult::kAccepted);
    for (uint16_t rank : {1, 2}) {
      ASSERT_EQ(Feedback(rank, 1, 0), Verdict::kAccepted);
    }
  }
  SubmitResult Submit() {
    auto* bytes = reinterpret_cast<uint8_t*>(buffer_.data());
    return net_.Submit(0, op_, {bytes, bytes});
  }
  wire::Header DataFrom(uint16_t rank, uint32_t chunk) const {
    wire::Header header = From(rank, PacketType::kData);
    header.fingerprint = Fingerprint(op_);
    header.chunk = chunk;
    return header;
  }
  wire::Header ResultFrom(uint16_t rank, uint32_t local) const {
    wire::Header header = From(rank, PacketType::kResult);
    header.fingerprint = Fingerprint(op_);
    header.chunk = plan_.ChunkOf(Rank(rank), local).chunk;
    header.contributors = kWorld;
    return header;
  }
  uint32_t OwnChunk(uint32_t local) const {
    return plan_.ChunkOf(Rank(0), local).chunk;
  }

  // A question for all that there can be.
  Verdict Question(uint16_t rank, wire::NackKind kind) {
    wire::NackBody nack;
    nack.kind = kind;
    nack.num_ranges = 1;
    nack.ranges[0] = {0, UINT32_MAX};
    std::vector<uint8_t> body(wire::kNackFixedBytes + wire::kRangeBytes);
    wire::EncodeNack(nack, body.data());
    return Receive(From(rank, PacketType::kNack), body);
  }

  // Those of a type that have all of these flags.
  static ptrdiff_t Count(const std::vector<wire::Header>& headers,
                         PacketType type, uint8_t flags) {
    return std::count_if(
        headers.begin(), headers.end(), [&](const wire::Header& header) {
          return header.type == type && (header.flags & flags) == flags;
        });
  }

  // The headers of all that rank 0 sends now.
  std::vector<wire::Header> Sent() {
    std::array<uint8_t, 2048> buffer;
    TxDescriptor out;
    out.buffer = buffer.data();
    out.capacity = buffer.size();
    std::vector<wire::Header> headers;
    while (core().PollTx({&out, 1}, net_.now()) == 1) {
      wire::DecodeHeader({out.buffer, out.length}, &headers.emplace_back());
    }
    return headers;
  }

  TestNet net_;
  OpDescriptor op_;
  ChunkPlan plan_;
  std::vector<float> buffer_;
  const std::vector<uint8_t> full_ = std::vector<uint8_t>(kPayload);
};

TEST_F(PacketChecksTest, OnlyAMemberOfThisFormationIsHeard) {
  std::vector<uint8_t> hello(wire::kHelloBodyBytes);
  wire::EncodeHello({}, hello.data());
  wire::Header header = From(1, PacketType::kHello);
  EXPECT_EQ(Receive(header, hello), Verdict::kAccepted);
  header.tag = kTag + 1;
  EXPECT_EQ(Receive(header, hello), Verdict::kUnknownTag);
  header.tag = kTag;
  header.source = kWorld;
  EXPECT_EQ(Receive(header, hello), Verdict::kUnknownSource);
  header.source = 0;
  EXPECT_EQ(Receive(header, hello), Verdict::kOwnSource);
  header.source = 1;
  EXPECT_EQ(
      Receive(Sealed(header, hello), AddressOf(2), net_.now(), net_.now()),
      Verdict::kUnknownSource)
      << "rank 1 does not live there";
}

TEST_F(PacketChecksTest, ADamagedPacketChangesNothing) {
  std::vector<uint8_t> packet = Sealed(From(1, PacketType::kFeedback), {});
  const uint64_t before = Peer(1).packets_received;
  for (size_t bit = size_t{8} * 24; bit < 8 * packet.size(); ++bit) {
    packet[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_EQ(Receive(packet, AddressOf(1), net_.now(), net_.now()),
              Verdict::kBadCrc);
    packet[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
  }
  EXPECT_EQ(Peer(1).packets_received, before);
}

TEST_F(PacketChecksTest, ADeadRankIsNotHeardAgain) {
  net_.Run(Settings().dead_after + Duration::Millis(100));
  EXPECT_TRUE(Peer(1).lost);
  EXPECT_EQ(Feedback(1, 0, 0), Verdict::kRemovedSource);
}

TEST_F(PacketChecksTest, ADeadRankEndsExactOpsThatItHadOpened) {
  Start(Mode::kExact);
  net_.Run(Settings().dead_after + Duration::Millis(100));
  const OpReport* report = net_.report(0, OpSeq(0));
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->status, OpStatus::kPeerLost);
  EXPECT_TRUE(report->missing.Contains(Rank(1)));
}

// Who was not scheduled has heard nobody: that is not the others' silence.
TEST_F(PacketChecksTest, AnOwnPauseIsNobodysDeath) {
  core().Advance(net_.now() + Settings().dead_after * 2);
  EXPECT_FALSE(Peer(1).lost);
  EXPECT_FALSE(Peer(1).suspect);
}

TEST_F(PacketChecksTest, WatermarksOnlyRise) {
  Feedback(1, 5, 3);
  EXPECT_EQ(Peer(1).open_upto, OpSeq(5));
  EXPECT_EQ(Peer(1).done_upto, OpSeq(3));
  Feedback(1, 4, 2);
  EXPECT_EQ(Peer(1).open_upto, OpSeq(5));
  EXPECT_EQ(Peer(1).done_upto, OpSeq(3));
}

TEST_F(PacketChecksTest, DataMustFitTheOpAndItsPlan) {
  Start(Mode::kBounded);
  wire::Header header = DataFrom(1, OwnChunk(0));
  ++header.fingerprint;
  EXPECT_EQ(Receive(header, full_), Verdict::kFingerprint);
  header = DataFrom(1, plan_.ChunkOf(Rank(2), 0).chunk);
  EXPECT_EQ(Receive(header, full_), Verdict::kBadChunk) << "of rank 2";
  header = DataFrom(1, plan_.chunk_limit());
  EXPECT_EQ(Receive(header, full_), Verdict::kBadChunk);
  header = DataFrom(1, OwnChunk(0));
  for (size_t bytes : {kPayload - 4, kPayload + 4}) {
    EXPECT_EQ(Receive(header, std::vector<uint8_t>(bytes)),
              Verdict::kBadChunkLength);
  }
  header.op_seq = Settings().window;
  EXPECT_EQ(Receive(header, full_), Verdict::kBeyondWindow);
  header.op_seq = 0;
  EXPECT_EQ(Receive(header, full_), Verdict::kAccepted);
  EXPECT_EQ(Receive(header, full_), Verdict::kDuplicate);
}

TEST_F(PacketChecksTest, ResultsComeFromTheirOwner) {
  Start(Mode::kBounded);
  wire::Header header = ResultFrom(2, 0);
  header.source = 1;
  EXPECT_EQ(Receive(header, full_), Verdict::kBadChunk);
  header = ResultFrom(1, 0);
  header.contributors = kWorld + 1;
  EXPECT_EQ(Receive(header, full_), Verdict::kBadBody);
  header.contributors = kWorld;
  EXPECT_EQ(Receive(header, std::vector<uint8_t>(kPayload - 4)),
            Verdict::kBadChunkLength);
  EXPECT_EQ(Receive(header, full_), Verdict::kAccepted);
  EXPECT_EQ(Receive(header, full_), Verdict::kDuplicate);
}

TEST_F(PacketChecksTest, AccountsAreThoseThatAnOwnerSends) {
  op_.collective = Collective::kReduceScatter;
  Start(Mode::kBounded);
  const wire::Header header = ResultFrom(1, 0);
  const std::vector<uint8_t> both = {3};
  EXPECT_EQ(Receive(ResultFrom(1, 1), both), Verdict::kBadChunk);
  wire::Header other = header;
  other.source = 2;
  EXPECT_EQ(Receive(other, both), Verdict::kBadChunk);
  EXPECT_EQ(Receive(header, {3, 0}), Verdict::kBadChunkLength);
  EXPECT_EQ(Receive(header, {}), Verdict::kBadChunkLength);
  EXPECT_EQ(Receive(header, {7}), Verdict::kBadBody) << "it has two chunks";
  EXPECT_EQ(Receive(header, both), Verdict::kAccepted);
  EXPECT_EQ(Receive(header, both), Verdict::kDuplicate);
}

// No trainer may submit such an op, so no peer can have.
TEST_F(PacketChecksTest, AnOpThatNobodyMaySubmitIsNotOpened) {
  wire::OpenBody open;
  open.watermarks = {1, 0};
  open.collective = static_cast<uint8_t>(Collective::kAllReduce);
  open.reduce_op = static_cast<uint8_t>(gradcodec::ReduceOp::kSum);
  open.mode = static_cast<uint8_t>(Mode::kBounded);
  open.count = kCount;
  const auto receive = [&](gradcodec::Dtype dtype, Codec codec) {
    open.dtype = static_cast<uint8_t>(dtype);
    open.codec = static_cast<uint8_t>(codec);
    std::vector<uint8_t> body(wire::kOpenBodyBytes);
    wire::EncodeOpen(open, body.data());
    return Receive(From(1, PacketType::kOpen), body);
  };
  EXPECT_EQ(receive(gradcodec::Dtype::kInt8, Codec::kNone), Verdict::kBadBody);
  EXPECT_EQ(receive(gradcodec::Dtype::kFloat64, Codec::kHadamard),
            Verdict::kBadBody);
  EXPECT_EQ(receive(gradcodec::Dtype::kFloat16, Codec::kBfloat16),
            Verdict::kBadBody);
  EXPECT_EQ(receive(gradcodec::Dtype::kFloat32, static_cast<Codec>(4)),
            Verdict::kBadBody);
  EXPECT_EQ(receive(gradcodec::Dtype::kFloat32, Codec::kBfloat16),
            Verdict::kAccepted);
}

// A host that was held up finds packets and expired timers at once: when they
// arrived decides.
TEST_F(PacketChecksTest, DataIsLateByItsArrival) {
  Start(Mode::kBounded);
  const Timestamp bound = net_.now() + Settings().stage1_bound;
  const Timestamp seen = bound + Duration::Millis(1);
  EXPECT_EQ(Receive(Sealed(DataFrom(1, OwnChunk(0)), full_), AddressOf(1),
                    bound, seen),
            Verdict::kAccepted);
  EXPECT_EQ(Receive(Sealed(DataFrom(2, OwnChunk(0)), full_), AddressOf(2),
                    bound + kNanosecond, seen),
            Verdict::kLate);
}

TEST_F(PacketChecksTest, ResultsAreLateByTheirArrival) {
  Start(Mode::kBounded);
  const Timestamp bound = net_.now() + Settings().result_bound;
  const Timestamp seen = bound + Duration::Millis(1);
  EXPECT_EQ(Receive(Sealed(ResultFrom(1, 0), full_), AddressOf(1), bound, seen),
            Verdict::kAccepted);
  EXPECT_EQ(Receive(Sealed(ResultFrom(1, 1), full_), AddressOf(1),
                    bound + kNanosecond, seen),
            Verdict::kLate);
}

// The daemon's duty as an owner outlasts the trainer's wait.
TEST_F(PacketChecksTest, NothingIsWrittenAfterTheReport) {
  op_.soft_limit = Duration::Millis(2);
  Start(Mode::kBounded);
  net_.Run(Duration::Millis(3));
  ASSERT_NE(net_.report(0, OpSeq(0)), nullptr);
  const std::vector<float> reported = buffer_;
  for (uint32_t local : {0, 1}) {
    for (uint16_t rank : {1, 2}) {
      EXPECT_EQ(Receive(DataFrom(rank, OwnChunk(local)), full_),
                Verdict::kAccepted);
      EXPECT_EQ(Receive(ResultFrom(rank, local), full_), Verdict::kLate);
    }
  }
  net_.Run(Duration::Millis(20));
  EXPECT_EQ(buffer_, reported);
}

class LongBoundsTest : public PacketChecksTest {
 protected:
  static GroupConfig LongBounds() {
    GroupConfig config = Settings();
    config.stage1_bound = Duration::Millis(60);
    config.result_bound = Duration::Millis(100);
    return config;
  }
  LongBoundsTest() : PacketChecksTest(LongBounds()) {}
};

// Who pauses has not ended; who has sent its tail has, whatever was lost, once
// it was asked for it twice.
TEST_F(LongBoundsTest, StageOneEndsEarlyAfterTheTails) {
  Start(Mode::kBounded);
  size_t results = 0;  // of chunk 0, which lacks rank 2's contribution
  net_.set_filter([&](const wire::Header& header, Rank from, Rank to) {
    results += header.type == PacketType::kResult && to == Rank(1) &&
               header.chunk == OwnChunk(0) && header.contributors == 2;
    return from == Rank(0);
  });
  Receive(DataFrom(1, OwnChunk(0)), full_);
  net_.Run(Duration::Millis(3));
  EXPECT_EQ(results, 0u);
  for (uint16_t rank : {1, 2}) {
    wire::Header last = DataFrom(rank, OwnChunk(1));
    last.flags = wire::kFlagTail;
    Receive(last, full_);
  }
  net_.Run(Duration::Millis(2));
  EXPECT_EQ(results, 0u);
  net_.Run(Duration::Millis(2));
  EXPECT_EQ(results, 1u);
}

TEST_F(PacketChecksTest, TheLastPacketsOfAStreamAreMarked) {
  Start(Mode::kBounded, kWorld * kChunk * 600);
  size_t data = 0;
  size_t tails = 0;
  for (const wire::Header& header : Sent()) {
    if (header.type != PacketType::kData) continue;
    ++data;
    tails += (header.flags & wire::kFlagTail) != 0;
    if (tails == 0) {
      EXPECT_LE(data, 2u * (600 - TailLength(600)));
    }
  }
  EXPECT_EQ(data, 2u * 600);
  EXPECT_EQ(tails, 2u * TailLength(600));
}

// Two of these ops are more than the group's memory.
TEST_F(PacketChecksTest, AnExactOpIsKeptWhileOthersMayNeedIt) {
  constexpr uint32_t kChunks = 320;
  Start(Mode::kExact, kWorld * kChunk * kChunks);
  Sent();
  for (uint32_t local = 0; local < kChunks; ++local) {
    for (uint16_t rank : {1, 2}) {
      Receive(DataFrom(rank, OwnChunk(local)), full_);
      ASSERT_EQ(Receive(ResultFrom(rank, local), full_), Verdict::kAccepted);
    }
    Sent();
  }
  net_.Run(Duration());
  ASSERT_NE(net_.report(0, OpSeq(0)), nullptr);
  ASSERT_EQ(net_.report(0, OpSeq(0))->status, OpStatus::kComplete);
  EXPECT_EQ(Submit(), SubmitResult::kMemoryFull);
  Feedback(1, 1, 1);
  EXPECT_EQ(Submit(), SubmitResult::kMemoryFull) << "rank 2 is not done";
  Feedback(2, 1, 1);
  EXPECT_EQ(Submit(), SubmitResult::kAccepted);
}

TEST_F(PacketChecksTest, ANackGetsWhatTheShardHasAndNoMore) {
  // One rank has a chunk more than the others.
  Start(Mode::kExact, kWorld * kChunk + 1);
  uint16_t peer = plan_.ChunksOf(Rank(1)) == 1 ? 1 : 2;
  ASSERT_EQ(plan_.ChunksOf(Rank(peer)), 1u);
  Sent();  // the scatter
  EXPECT_EQ(Question(peer, wire::NackKind::kData), Verdict::kAccepted);
  EXPECT_EQ(Count(Sent(), PacketType::kData, 0), 1);
}

// What has not been sent yet comes by itself.
TEST_F(PacketChecksTest, ContributionsLeaveAgainOnlyIfTheyHaveLeft) {
  Start(Mode::kBounded);
  EXPECT_EQ(Question(1, wire::NackKind::kData), Verdict::kAccepted);
  std::vector<wire::Header> sent = Sent();
  EXPECT_EQ(Count(sent, PacketType::kData, 0), 4);
  EXPECT_EQ(Count(sent, PacketType::kData, wire::kFlagRepair), 0);
  EXPECT_EQ(Question(1, wire::NackKind::kData), Verdict::kAccepted);
  sent = Sent();
  EXPECT_EQ(Count(sent, PacketType::kData, wire::kFlagRepair), 2);
  EXPECT_EQ(Count(sent, PacketType::kData, 0), 2);
}

TEST_F(PacketChecksTest, ResultsLeaveAgainOnlyIfTheyHaveLeft) {
  Start(Mode::kBounded);
  Sent();
  const auto ask = [this] {
    EXPECT_EQ(Question(1, wire::NackKind::kResult), Verdict::kAccepted);
    return Count(Sent(), PacketType::kResult, wire::kFlagRepair);
  };
  EXPECT_EQ(ask(), 0);  // not reduced
  for (uint16_t rank : {1, 2}) Receive(DataFrom(rank, OwnChunk(1)), full_);
  EXPECT_EQ(ask(), 0);  // this is when it leaves
  EXPECT_EQ(ask(), 1);
}

// A reduce-scatter ends only when the others have said that they have reduced
// all of their shards.
TEST_F(PacketChecksTest, OnlyAPossibleCreditCounts) {
  op_.collective = Collective::kReduceScatter;
  Start(Mode::kExact);
  for (uint32_t local : {0, 1}) {
    for (uint16_t rank : {1, 2}) {
      Receive(DataFrom(rank, OwnChunk(local)), full_);
    }
  }
  Sent();
  const auto credit = [&](uint16_t rank, uint32_t prefix) {
    wire::FeedbackBody feedback;
    feedback.watermarks = {1, 0};
    feedback.num_credits = 1;
    feedback.credits[0] = {0, prefix};
    std::vector<uint8_t> body(wire::kFeedbackFixedBytes + wire::kCreditBytes);
    wire::EncodeFeedback(feedback, body.data());
    Receive(From(rank, PacketType::kFeedback), body);
    net_.Run(Duration());
  };
  credit(1, 2);
  credit(2, 3);
  EXPECT_EQ(net_.report(0, OpSeq(0)), nullptr) << "its shard has 2 chunks";
  credit(1, 1);  // an older one
  credit(2, 2);
  ASSERT_NE(net_.report(0, OpSeq(0)), nullptr);
  EXPECT_EQ(net_.report(0, OpSeq(0))->status, OpStatus::kComplete);
}

// What rank 0 of two is told at the formation limit, if all that rank 1 ever
// says is this Hello.
Event FormedWith(uint32_t settings_hash) {
  GroupConfig config = Settings();
  config.tag = kTag;
  config.members = {{AddressOf(0), 5000}, {AddressOf(1), 5001}};
  EngineCore core{EngineConfig{}};
  EXPECT_TRUE(core.AddGroup(config, Timestamp()).ok());
  wire::Header header;
  header.type = PacketType::kHello;
  header.tag = kTag;
  header.source = 1;
  header.length = wire::kHelloBodyBytes;
  wire::HelloBody hello;
  hello.settings_hash = settings_hash;
  constexpr size_t kBytes = wire::kHeaderBytes + wire::kHelloBodyBytes;
  std::array<uint8_t, kBytes + wire::kCrcBytes> packet;
  wire::EncodeHeader(header, packet.data());
  wire::EncodeHello(hello, packet.data() + wire::kHeaderBytes);
  wire::Seal(packet.data(), kBytes);
  EXPECT_EQ(core.OnPacket({AddressOf(1), 5000, false, packet}, Timestamp(),
                          Timestamp()),
            Verdict::kAccepted);
  core.Advance(Timestamp() + config.formation_limit);
  Event event;
  EXPECT_TRUE(core.PopEvent(&event));
  return event;
}

TEST(FormationTest, ARankWithOtherSettingsIsNamed) {
  const Event event = FormedWith(SettingsHash(Settings()) + 1);
  EXPECT_EQ(event.kind, EventKind::kGroupFailed);
  EXPECT_TRUE(event.disagree.Contains(Rank(1)));
}

TEST(FormationTest, AHelloDoesNotProveThePath) {
  const Event event = FormedWith(SettingsHash(Settings()));
  EXPECT_EQ(event.kind, EventKind::kGroupFailed);
  EXPECT_TRUE(event.narrow.Contains(Rank(1)));
}

TEST(SettingsTest, EverySharedSettingCounts) {
  const GroupConfig base;
  std::vector<GroupConfig> others(14, base);
  others[0].payload_bytes += 16;
  others[1].window += 1;
  others[2].quorum_permille += 1;
  others[3].stage1_bound = base.stage1_bound + kNanosecond;
  others[4].result_bound = base.result_bound + kNanosecond;
  others[5].early_wait = base.early_wait + kNanosecond;
  others[6].hard_limit = base.hard_limit + kNanosecond;
  others[7].fill = FillPolicy::kOwn;
  others[8].memory_budget += 1;
  others[9].adaptive_bounds = false;
  others[10].least_bound = base.least_bound + kNanosecond;
  others[11].ledger_budget += 1;
  others[12].congestion_control = true;
  others[13].incast = 1;
  for (const GroupConfig& config : others) {
    EXPECT_NE(SettingsHash(config), SettingsHash(base));
  }
  GroupConfig local = base;
  local.self = Rank(1);
  local.heartbeat = Duration::Millis(7);
  local.share_cap_permille = 500;
  EXPECT_EQ(SettingsHash(local), SettingsHash(base));
}

}  // namespace
}  // namespace optireduce::core
