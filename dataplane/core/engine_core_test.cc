// The protocol's main ways, rank by rank and packet by packet. Random networks
// are the simulator's business.

#include "dataplane/core/engine_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "dataplane/base/rng.h"
#include "dataplane/core/group_testing.h"
#include "dataplane/core/plan.h"
#include "dataplane/core/reduction.h"
#include "dataplane/core/testing.h"

namespace optireduce::core {
namespace {

using wire::PacketType;

class ModeTest : public testing::TestWithParam<Mode> {};

TEST_P(ModeTest, SumsWhatEveryRankHas) {
  for (size_t world : {1, 2, 3, 4, 5, 7, 8}) {
    for (uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{3},
                           uint64_t{1000}, uint64_t{5001}}) {
      TestNet net(world, FastSettings());
      FormOrDie(&net, world);
      Buffers buffers(world, count);
      for (size_t r = 0; r < world; ++r) {
        ASSERT_EQ(net.Submit(r, AllReduce(count, GetParam()), buffers.View(r)),
                  SubmitResult::kAccepted);
      }
      net.Run(Duration::Millis(3));
      for (size_t r = 0; r < world; ++r) {
        const OpReport* report = net.report(r, OpSeq(0));
        ASSERT_NE(report, nullptr)
            << world << " ranks, " << count << ", rank " << r;
        EXPECT_EQ(report->status, OpStatus::kComplete);
        EXPECT_EQ(report->contributions, count * world);
        for (size_t i = 0; i < count; ++i) {
          const size_t sum = world * (world + 1) / 2 * 100 + world * (i % 7);
          ASSERT_EQ(buffers.values[r][i], static_cast<float>(sum)) << i;
        }
      }
      // Everything is given back once all know that all are done.
      net.Run(Duration::Millis(100));
      for (size_t r = 0; r < world; ++r) {
        const GroupStatus status = net.core(r).Status(net.group(r));
        EXPECT_EQ(status.memory_used, 0u);
        EXPECT_EQ(status.ops_kept, 0u);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, ModeTest,
                         testing::Values(Mode::kBounded, Mode::kExact));

TEST(BoundedTest, DividesByTheContributorsOfEachChunk) {
  TestNet net(4, FastSettings());
  FormOrDie(&net, 4);
  Buffers buffers(4, 400);
  for (auto& values : buffers.values) {
    std::fill(values.begin(), values.end(), 3.0f);
  }
  // Rank 2's contributions to rank 1 are lost.
  net.set_filter([](const wire::Header& header, Rank from, Rank to) {
    return !(header.type == PacketType::kData && from == Rank(2) &&
             to == Rank(1));
  });
  for (size_t r = 0; r < 4; ++r) {
    net.Submit(r, AllReduce(400, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Millis(20));
  for (size_t r = 0; r < 4; ++r) {
    const OpReport* report = net.report(r, OpSeq(0));
    ASSERT_NE(report, nullptr);
    EXPECT_EQ(report->status, OpStatus::kPartial);
    EXPECT_EQ(report->absent, 0u);
    EXPECT_EQ(report->min_contributors, 3);
    EXPECT_DOUBLE_EQ(report->Stage1Loss(), 100.0 / 1600);
    // SUM is scaled by N / c: all hold the same, so 4 times it everywhere.
    for (float value : buffers.values[r]) ASSERT_EQ(value, 12.0f);
  }
}

TEST(BoundedTest, AbsentChunksAreZeroAndCounted) {
  TestNet net(4, FastSettings());
  FormOrDie(&net, 4);
  Buffers buffers(4, 400);
  net.set_filter([](const wire::Header& header, Rank from, Rank to) {
    return !(header.type == PacketType::kResult && from == Rank(3) &&
             to == Rank(1));
  });
  for (size_t r = 0; r < 4; ++r) {
    net.Submit(r, AllReduce(400, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Millis(20));
  const OpReport* report = net.report(1, OpSeq(0));
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->status, OpStatus::kPartial);
  EXPECT_EQ(report->absent, 100u);
  EXPECT_EQ(report->min_contributors, 4);
  EXPECT_TRUE(report->missing.Contains(Rank(3)));
  EXPECT_EQ(report->missing.Count(), 1u);
  EXPECT_EQ(
      std::count(buffers.values[1].begin(), buffers.values[1].end(), 0.0f),
      100);
  EXPECT_EQ(net.report(0, OpSeq(0))->status, OpStatus::kComplete);
}

TEST(BoundedTest, ALateRankHoldsNobodyAndCatchesUp) {
  TestNet net(4, FastSettings());
  FormOrDie(&net, 4);
  Buffers buffers(4, 400);
  for (size_t r = 0; r < 3; ++r) {
    net.Submit(r, AllReduce(400, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Millis(11));
  for (size_t r = 0; r < 3; ++r) {
    const OpReport* report = net.report(r, OpSeq(0));
    ASSERT_NE(report, nullptr);
    EXPECT_EQ(report->status, OpStatus::kPartial);
    EXPECT_EQ(report->absent, 0u) << "its daemon serves its shard";
    EXPECT_EQ(report->min_contributors, 3);
    EXPECT_TRUE(report->missing.Contains(Rank(3)));
    EXPECT_LE(report->closed - report->submitted, Duration::Micros(10'100));
  }
  net.Run(Duration::Millis(200));
  net.Submit(3, AllReduce(400, Mode::kBounded), buffers.View(3));
  net.Run(Duration::Nanos(0));
  const OpReport* report = net.report(3, OpSeq(0));
  ASSERT_NE(report, nullptr) << "a late submit completes at once";
  EXPECT_EQ(report->absent, 0u);
  EXPECT_EQ(buffers.values[3], buffers.values[0]);
}

TEST(BoundedTest, OneEarlyRankClosesNobodysOp) {
  TestNet net(8, FastSettings());
  FormOrDie(&net, 8);
  Buffers buffers(8, 800);
  net.Submit(0, AllReduce(800, Mode::kBounded), buffers.View(0));
  net.Run(Duration::Millis(400));
  EXPECT_EQ(net.report(0, OpSeq(0)), nullptr);
  for (size_t r = 1; r < 8; ++r) {
    net.Submit(r, AllReduce(800, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Millis(20));
  for (size_t r = 0; r < 8; ++r) {
    ASSERT_NE(net.report(r, OpSeq(0)), nullptr);
    EXPECT_EQ(net.report(r, OpSeq(0))->status, OpStatus::kComplete);
  }
}

TEST(BoundedTest, AQuorumIsRoundedUp) {
  TestNet net(5, FastSettings());
  FormOrDie(&net, 5);
  Buffers buffers(5, 500);
  for (size_t r = 0; r < 3; ++r) {  // 3.75 of five are needed
    net.Submit(r, AllReduce(500, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Millis(400));
  EXPECT_EQ(net.report(0, OpSeq(0)), nullptr);
  net.Submit(3, AllReduce(500, Mode::kBounded), buffers.View(3));
  net.Run(Duration::Millis(11));
  for (size_t r = 0; r < 4; ++r) {
    ASSERT_NE(net.report(r, OpSeq(0)), nullptr);
    EXPECT_EQ(net.report(r, OpSeq(0))->min_contributors, 4);
  }
}

TEST(BoundedTest, TheCallersLimitBindsTheCallerOnly) {
  TestNet net(3, FastSettings());
  FormOrDie(&net, 3);
  Buffers buffers(3, 300);
  net.set_filter([](const wire::Header& header, Rank from, Rank) {
    return header.type != PacketType::kResult || from != Rank(2);
  });
  for (size_t r = 0; r < 3; ++r) {
    OpDescriptor op = AllReduce(300, Mode::kBounded);
    if (r == 0) op.soft_limit = Duration::Millis(2);
    net.Submit(r, op, buffers.View(r));
  }
  const Timestamp start = net.now();
  net.Run(Duration::Millis(20));
  const OpReport* own = net.report(0, OpSeq(0));
  ASSERT_NE(own, nullptr);
  EXPECT_EQ(own->status, OpStatus::kPartial);
  EXPECT_EQ(own->cause, EndCause::kDeadline);
  EXPECT_EQ(own->closed, start + Duration::Millis(2));
  const OpReport* other = net.report(1, OpSeq(0));
  ASSERT_NE(other, nullptr);
  EXPECT_GT(other->closed, start + Duration::Millis(9));
}

// The first OPEN of every rank is lost, and with it nothing else.
TEST(BoundedTest, ALostOpenCostsNoData) {
  TestNet net(4, FastSettings());
  FormOrDie(&net, 4);
  Buffers buffers(4, 400);
  std::map<std::pair<Rank, Rank>, int> opens;
  net.set_filter([&](const wire::Header& header, Rank from, Rank to) {
    return header.type != PacketType::kOpen || ++opens[{from, to}] > 1;
  });
  net.Submit(0, AllReduce(400, Mode::kBounded), buffers.View(0));
  net.Run(Duration::Micros(15));  // all of its data is there, no question yet
  for (size_t r = 1; r < 4; ++r) {
    net.Submit(r, AllReduce(400, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Millis(20));
  for (size_t r = 0; r < 4; ++r) {
    ASSERT_NE(net.report(r, OpSeq(0)), nullptr);
    EXPECT_EQ(net.report(r, OpSeq(0))->status, OpStatus::kComplete);
  }
}

TEST(BoundedTest, WhoHasOpenedGetsOneOpen) {
  TestNet net(4, FastSettings());
  FormOrDie(&net, 4);
  Buffers buffers(4, 400);
  std::map<std::pair<Rank, Rank>, int> opens;
  net.set_filter([&](const wire::Header& header, Rank from, Rank to) {
    if (header.type == PacketType::kOpen) ++opens[{from, to}];
    return true;
  });
  for (size_t r = 0; r < 4; ++r) {
    net.Submit(r, AllReduce(400, Mode::kBounded), buffers.View(r));
    net.Run(Duration::Micros(100));
  }
  for (uint16_t r = 0; r < 4; ++r) {
    for (uint16_t to = 0; to < 4; ++to) {
      if (r == to) continue;
      EXPECT_EQ((opens[{Rank(r), Rank(to)}]), r < to ? 2 : 1) << r << to;
    }
  }
}

// An op without loss, so that ranks know how far they are from each other.
void RunOneOp(TestNet* net, size_t world) {
  Buffers buffers(world, world * kChunk);
  for (size_t r = 0; r < world; ++r) {
    net->Submit(r, AllReduce(world * kChunk, Mode::kBounded), buffers.View(r));
  }
  net->Run(Duration::Millis(20));
}

// One contribution is lost, each time that it is sent, so that its owner sends
// its last result only when it has waited for it in vain; the others wait for
// that result.
TEST(BoundedTest, AnEarlyEndLeavesTimeForWhatOwnersWaitedFor) {
  TestNet net(4, FastSettings());
  FormOrDie(&net, 4);
  const uint64_t count = 4 * kChunk * 20;
  Buffers buffers(4, count);
  RunOneOp(&net, 4);
  int lost = 0;
  net.set_filter([&](const wire::Header& header, Rank from, Rank to) {
    return header.type != PacketType::kData || from != Rank(2) ||
           to != Rank(1) ||
           ((header.flags & wire::kFlagRepair) == 0 && ++lost != 10);
  });
  net.set_delay([](const wire::Header& header, Rank, Rank) {
    return header.type == PacketType::kResult && header.contributors < 4
               ? Duration::Micros(50)
               : Duration();
  });
  for (size_t r = 0; r < 4; ++r) {
    net.Submit(r, AllReduce(count, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Millis(5));
  for (size_t r = 0; r < 4; ++r) {
    const OpReport* report = net.report(r, OpSeq(1));
    ASSERT_NE(report, nullptr);
    EXPECT_EQ(report->absent, 0u) << "rank " << r;
    EXPECT_EQ(report->contributions, 4 * count - kChunk);
    EXPECT_LT(report->closed - report->submitted, Duration::Micros(1'600));
  }
}

// Once an owner has closed its stage 1 nothing but what is lost lacks.
TEST(BoundedTest, OneSilenceIsEnoughAfterAnOwnersClose) {
  TestNet net(4, FastSettings());
  FormOrDie(&net, 4);
  const uint64_t count = 4 * kChunk * 20;
  Buffers buffers(4, count);
  RunOneOp(&net, 4);
  int lost = 0;
  int results = 0;
  net.set_filter([&](const wire::Header& header, Rank from, Rank to) {
    const bool again = (header.flags & wire::kFlagRepair) != 0;
    if (header.type == PacketType::kData && from == Rank(2) && to == Rank(1)) {
      return !again && ++lost != 10;
    }
    return header.type != PacketType::kResult || from != Rank(1) ||
           to != Rank(3) || (!again && ++results != 5);
  });
  for (size_t r = 0; r < 4; ++r) {
    net.Submit(r, AllReduce(count, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Millis(5));
  const OpReport* report = net.report(3, OpSeq(1));
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->absent, 124u);
  EXPECT_EQ(report->cause, EndCause::kEarly);
  // The owner's silence, then our own; questions in vain take less.
  EXPECT_NEAR((report->closed - report->submitted).nanos(), 2'400'000, 400'000);
}

// Everybody starts with another owner, and everybody's stream to an owner at
// another chunk: a cut tail hits other chunks each time.
TEST(BoundedTest, StreamsAreStaggered) {
  constexpr size_t kWorld = 4;
  TestNet net(kWorld, FastSettings());
  FormOrDie(&net, kWorld);
  const OpDescriptor op = AllReduce(kWorld * kChunk * 50, Mode::kBounded);
  const ChunkPlan plan(op, kWorld, kPayload, 0xABCD1234, OpSeq(0));
  Buffers buffers(kWorld, op.count);
  std::map<std::pair<Rank, Rank>, uint32_t> first_chunk;
  std::map<Rank, Rank> first_owner;
  net.set_filter([&](const wire::Header& header, Rank from, Rank to) {
    if (header.type != PacketType::kData) return true;
    first_chunk.try_emplace({from, to}, plan.Locate(header.chunk)->local);
    first_owner.try_emplace(from, to);
    return true;
  });
  for (size_t r = 0; r < kWorld; ++r) net.Submit(r, op, buffers.View(r));
  net.Run(Duration::Millis(3));
  ASSERT_EQ(first_chunk.size(), kWorld * (kWorld - 1));
  for (const auto& [stream, local] : first_chunk) {
    EXPECT_EQ(local, StreamOffset(0xABCD1234, OpSeq(0), stream.first,
                                  stream.second, 50));
  }
  for (const auto& [from, to] : first_owner) {
    EXPECT_EQ(to.index(), (from.index() + 1) % kWorld);
  }
}

TEST(BoundedTest, HardLimitNamesTheMissing) {
  TestNet net(4, FastSettings());
  FormOrDie(&net, 4);
  Buffers buffers(4, 400);
  for (size_t r = 0; r < 2; ++r) {  // two of four are no quorum
    net.Submit(r, AllReduce(400, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Millis(499));
  EXPECT_EQ(net.report(0, OpSeq(0)), nullptr);
  net.Run(Duration::Millis(2));
  const OpReport* report = net.report(0, OpSeq(0));
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->status, OpStatus::kHardLimit);
  EXPECT_TRUE(report->missing.Contains(Rank(2)));
  EXPECT_TRUE(report->missing.Contains(Rank(3)));
  EXPECT_FALSE(report->missing.Contains(Rank(1)));
}

TEST(BoundedTest, HadamardSpreadsTheLossOfAChunk) {
  TestNet net(2, FastSettings());
  FormOrDie(&net, 2);
  const size_t count = 20'000;
  Buffers buffers(2, count);
  const Buffers before = buffers;
  OpDescriptor op = AllReduce(count, Mode::kBounded, gradcodec::ReduceOp::kAvg);
  op.codec = Codec::kHadamard;
  for (size_t r = 0; r < 2; ++r) net.Submit(r, op, buffers.View(r));
  net.Run(Duration::Millis(20));
  for (size_t r = 0; r < 2; ++r) {
    ASSERT_EQ(net.report(r, OpSeq(0))->status, OpStatus::kComplete);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_NEAR(buffers.values[r][i],
                  (before.values[0][i] + before.values[1][i]) / 2, 1e-2);
    }
  }
}

// Both ways, in full packets, of half as many bytes.
TEST(BoundedTest, NarrowCodecsRoundWhatTravels) {
  const size_t count = 10'000;
  for (Codec codec : {Codec::kNone, Codec::kBfloat16, Codec::kFloat16}) {
    TestNet net(3, FastSettings());
    FormOrDie(&net, 3);
    Buffers buffers(3, count);
    const Buffers before = buffers;
    size_t bytes = 0;
    net.set_filter([&bytes](const wire::Header& header, Rank, Rank) {
      const bool values = header.type == PacketType::kData ||
                          header.type == PacketType::kResult;
      bytes += values ? header.length : 0;
      return true;
    });
    OpDescriptor op = AllReduce(count, Mode::kBounded);
    op.codec = codec;
    for (size_t r = 0; r < 3; ++r) net.Submit(r, op, buffers.View(r));
    net.Run(Duration::Millis(20));
    const size_t width = codec == Codec::kNone ? 4 : 2;
    EXPECT_EQ(bytes, 2 * 2 * count * width);
    const float error = codec == Codec::kBfloat16 ? 0x1p-7f : 0;
    for (size_t r = 0; r < 3; ++r) {
      ASSERT_EQ(net.report(r, OpSeq(0))->status, OpStatus::kComplete);
      EXPECT_EQ(buffers.values[r], buffers.values[0]);
      for (size_t i = 0; i < count; ++i) {
        const float sum = 3 * before.values[1][i];  // 100, 200, 300 and more
        ASSERT_NEAR(buffers.values[r][i], sum, error * sum);
      }
    }
    if (codec == Codec::kBfloat16) {
      EXPECT_EQ(buffers.values[0][1], 600) << "603 has too many bits";
    }
  }
}

TEST(BoundedTest, NarrowCodecsAreForBoundedFloat32) {
  TestNet net(2, FastSettings());
  FormOrDie(&net, 2);
  Buffers buffers(2, 100);
  for (Codec codec : {Codec::kBfloat16, Codec::kFloat16}) {
    OpDescriptor op = AllReduce(50, Mode::kBounded);
    op.codec = codec;
    for (gradcodec::Dtype dtype :
         {gradcodec::Dtype::kFloat16, gradcodec::Dtype::kBfloat16,
          gradcodec::Dtype::kFloat64}) {
      op.dtype = dtype;
      EXPECT_EQ(net.Submit(0, op, buffers.View(0)), SubmitResult::kUnsupported);
    }
    op.dtype = gradcodec::Dtype::kFloat32;
    op.mode = Mode::kExact;
    EXPECT_EQ(net.Submit(0, op, buffers.View(0)), SubmitResult::kUnsupported);
    op.bucket = 1;
    op.mode = Mode::kFlush;
    EXPECT_EQ(net.Submit(0, op, buffers.View(0)), SubmitResult::kUnsupported);
    op.mode = Mode::kBounded;
    EXPECT_EQ(net.Submit(0, op, buffers.View(0)), SubmitResult::kAccepted);
  }
}

// ---- bounded reduce-scatters

OpDescriptor Scatter(uint64_t count) {
  OpDescriptor op = AllReduce(count, Mode::kBounded);
  op.collective = Collective::kReduceScatter;
  return op;
}

// All ranks, in place: a rank's part of its buffer becomes its output.
BufferView ScatterView(Buffers* buffers, size_t rank) {
  BufferView view = buffers->View(rank);
  const size_t world = buffers->values.size();
  view.output += buffers->values[rank].size() / world * rank * sizeof(float);
  return view;
}

void SubmitScatter(TestNet* net, Buffers* buffers) {
  for (size_t r = 0; r < buffers->values.size(); ++r) {
    EXPECT_EQ(net->Submit(r, Scatter(buffers->values[r].size()),
                          ScatterView(buffers, r)),
              SubmitResult::kAccepted);
  }
}

// Nothing but its own part has changed.
void ExpectPart(const Buffers& before, const Buffers& after, size_t rank) {
  const size_t world = before.values.size();
  const size_t count = before.values[0].size();
  for (size_t i = 0; i < count; ++i) {
    float expected = before.values[rank][i];
    if (i / (count / world) == rank) {
      expected = 0;
      for (const std::vector<float>& input : before.values) {
        expected += input[i];
      }
    }
    ASSERT_EQ(after.values[rank][i], expected) << "rank " << rank << ", " << i;
  }
}

TEST(BoundedScatterTest, GivesEachRankItsPart) {
  TestNet net(3, FastSettings());
  FormOrDie(&net, 3);
  Buffers buffers(3, 3 * 4 * kChunk + 9);
  const Buffers before = buffers;
  SubmitScatter(&net, &buffers);
  net.Run(Duration::Millis(5));
  for (size_t r = 0; r < 3; ++r) {
    const OpReport* report = net.report(r, OpSeq(0));
    ASSERT_NE(report, nullptr);
    EXPECT_EQ(report->status, OpStatus::kComplete);
    EXPECT_EQ(report->cause, EndCause::kAllIn);
    EXPECT_EQ(report->elements, 4 * kChunk + 3);
    ExpectPart(before, buffers, r);
  }
}

// Its own part may be there long before others need its contribution no more.
TEST(BoundedScatterTest, EndsWhenAllOwnersAreThrough) {
  TestNet net(3, FastSettings());
  FormOrDie(&net, 3);
  net.set_delay([](const wire::Header& header, Rank from, Rank to) {
    return header.type == PacketType::kData && from == Rank(1) && to == Rank(2)
               ? Duration::Micros(700)
               : Duration();
  });
  Buffers buffers(3, 3 * kChunk);
  SubmitScatter(&net, &buffers);
  net.Run(Duration::Millis(5));
  for (size_t r = 0; r < 3; ++r) {
    const OpReport* report = net.report(r, OpSeq(0));
    ASSERT_NE(report, nullptr);
    EXPECT_GE(report->closed - report->submitted, Duration::Micros(700));
  }
}

TEST(BoundedScatterTest, LostContributionsAreSentAgain) {
  TestNet net(3, FastSettings());
  FormOrDie(&net, 3);
  net.set_filter([](const wire::Header& header, Rank from, Rank to) {
    return header.type != PacketType::kData || from != Rank(1) ||
           to != Rank(2) || (header.flags & wire::kFlagRepair) != 0;
  });
  Buffers buffers(3, 3 * 4 * kChunk);
  const Buffers before = buffers;
  SubmitScatter(&net, &buffers);
  net.Run(Duration::Millis(9));
  for (size_t r = 0; r < 3; ++r) {
    ASSERT_NE(net.report(r, OpSeq(0)), nullptr);
    EXPECT_EQ(net.report(r, OpSeq(0))->status, OpStatus::kComplete);
    ExpectPart(before, buffers, r);
  }
  EXPECT_EQ(net.report(2, OpSeq(0))->repaired, 4u);
}

TEST(BoundedScatterTest, WhatIsLostForGoodIsDividedByWhatCame) {
  TestNet net(3, FastSettings());
  FormOrDie(&net, 3);
  net.set_filter([](const wire::Header& header, Rank from, Rank to) {
    return header.type != PacketType::kData || from != Rank(1) || to != Rank(2);
  });
  Buffers buffers(3, 3 * kChunk);
  const Buffers before = buffers;
  SubmitScatter(&net, &buffers);
  net.Run(Duration::Millis(12));
  ExpectPart(before, buffers, 0);
  ExpectPart(before, buffers, 1);
  const OpReport* report = net.report(2, OpSeq(0));
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->status, OpStatus::kPartial);
  EXPECT_EQ(report->min_contributors, 2);
  EXPECT_EQ(report->contributions, 2 * kChunk);
  EXPECT_EQ(report->absent, 0u);
  const size_t at = 2 * kChunk + 5;
  EXPECT_EQ(buffers.values[2][at],
            (before.values[0][at] + before.values[2][at]) * 3 / 2);
}

TEST(BoundedScatterTest, ALostAccountIsAskedFor) {
  TestNet net(3, FastSettings());
  FormOrDie(&net, 3);
  net.set_filter([](const wire::Header& header, Rank from, Rank to) {
    return header.type != PacketType::kResult || from != Rank(1) ||
           to != Rank(2) || (header.flags & wire::kFlagRepair) != 0;
  });
  Buffers buffers(3, 3 * kChunk);
  SubmitScatter(&net, &buffers);
  net.Run(Duration::Millis(9));
  ASSERT_NE(net.report(2, OpSeq(0)), nullptr);
  EXPECT_EQ(net.report(2, OpSeq(0))->cause, EndCause::kAllIn);
  EXPECT_EQ(net.report(2, OpSeq(0))->repaired, 1u);
}

// The rank has its own part, whatever the others say.
TEST(BoundedScatterTest, WithoutAnAccountTheResultIsAsGood) {
  TestNet net(3, FastSettings());
  FormOrDie(&net, 3);
  net.set_filter([](const wire::Header& header, Rank from, Rank to) {
    return header.type != PacketType::kResult || from != Rank(1) ||
           to != Rank(2);
  });
  Buffers buffers(3, 3 * kChunk);
  const Buffers before = buffers;
  SubmitScatter(&net, &buffers);
  net.Run(Duration::Millis(12));
  const OpReport* report = net.report(2, OpSeq(0));
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->status, OpStatus::kComplete);
  EXPECT_NE(report->cause, EndCause::kAllIn);
  ExpectPart(before, buffers, 2);
}

// Its shard would not be the caller's part.
TEST(BoundedScatterTest, HasNoCodec) {
  TestNet net(2, FastSettings());
  FormOrDie(&net, 2);
  Buffers buffers(2, 100);
  OpDescriptor op = Scatter(100);
  for (Codec codec : {Codec::kHadamard, Codec::kBfloat16}) {
    op.codec = codec;
    EXPECT_EQ(net.Submit(0, op, ScatterView(&buffers, 0)),
              SubmitResult::kUnsupported);
  }
}

// Exact mode survives the loss of any kind of packet, a third of them.
TEST(ExactTest, EveryCollectiveSurvivesLoss) {
  for (Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter,
        Collective::kAllGather, Collective::kBroadcast, Collective::kBarrier}) {
    for (size_t world : {2, 3, 5}) {
      TestNet net(world, FastSettings());
      FormOrDie(&net, world);
      Rng rng(world * 10 + static_cast<size_t>(collective));
      net.set_filter(
          [&](const wire::Header&, Rank, Rank) { return rng.Below(3) != 0; });
      OpDescriptor op;
      op.collective = collective;
      op.mode = Mode::kExact;
      op.root = Rank(1);
      op.count = collective == Collective::kBarrier ? 0 : 3000 * world;
      op.hard_limit = Duration::Seconds(100);
      Buffers in(world, op.count);
      Buffers out(world, op.count);
      for (size_t r = 0; r < world; ++r) {
        std::fill(out.values[r].begin(), out.values[r].end(), -1.0f);
        const BufferView view{in.View(r).input, out.View(r).output};
        ASSERT_EQ(net.Submit(r, op, view), SubmitResult::kAccepted);
      }
      net.Run(Duration::Seconds(30));
      for (size_t r = 0; r < world; ++r) {
        const OpReport* report = net.report(r, OpSeq(0));
        ASSERT_NE(report, nullptr)
            << static_cast<int>(collective) << " of " << world;
        ASSERT_EQ(report->status, OpStatus::kComplete);
        for (size_t i = 0; i < OutputBytes(op, world) / 4; ++i) {
          const float got = out.values[r][i];
          float want = 0;
          if (collective == Collective::kAllGather) {
            want = in.values[i / 3000][i % 3000];
          } else if (collective == Collective::kBroadcast) {
            want = in.values[1][i];
          } else {
            const size_t at =
                collective == Collective::kReduceScatter ? r * 3000 + i : i;
            for (size_t s = 0; s < world; ++s) want += in.values[s][at];
          }
          ASSERT_EQ(got, want) << i;
        }
      }
    }
  }
}

TEST(ExactTest, OnlyWhatWasLostIsSentAgain) {
  constexpr uint32_t kChunks = 8;
  for (uint32_t lost = 0; lost < kChunks; ++lost) {
    TestNet net(2, FastSettings());
    FormOrDie(&net, 2);
    Buffers buffers(2, 2 * kChunk * kChunks);
    uint32_t sent = 0;
    uint32_t lost_chunk = 0;
    std::vector<uint32_t> again;
    net.set_filter([&](const wire::Header& header, Rank from, Rank) {
      if (header.type != PacketType::kData || from != Rank(1)) return true;
      if ((header.flags & wire::kFlagRepair) != 0) {
        again.push_back(header.chunk);
        return true;
      }
      if (sent++ != lost) return true;
      lost_chunk = header.chunk;
      return false;
    });
    const OpDescriptor op = AllReduce(2 * kChunk * kChunks, Mode::kExact);
    for (size_t r = 0; r < 2; ++r) net.Submit(r, op, buffers.View(r));
    net.Run(Duration::Millis(100));
    ASSERT_NE(net.report(0, OpSeq(0)), nullptr);
    EXPECT_EQ(net.report(0, OpSeq(0))->status, OpStatus::kComplete);
    EXPECT_EQ(sent, kChunks);
    EXPECT_EQ(again, std::vector<uint32_t>{lost_chunk}) << lost;
  }
}

TEST(ExactTest, SendsNoFurtherThanTheOwnerCanHold) {
  TestNet net(2, FastSettings());
  FormOrDie(&net, 2);
  const uint32_t window = Reduction::CreditWindow(kPayload, 2);
  const OpDescriptor op = AllReduce(2 * kChunk * (window + 50), Mode::kExact);
  Buffers buffers(2, op.count);
  size_t sent = 0;
  // Rank 1 has opened the op, but rank 0 never hears how far it is.
  net.set_filter([&](const wire::Header& header, Rank from, Rank) {
    if (from == Rank(1)) return header.type == PacketType::kOpen;
    sent += header.type == PacketType::kData &&
            (header.flags & wire::kFlagRepair) == 0;
    return true;
  });
  for (size_t r = 0; r < 2; ++r) net.Submit(r, op, buffers.View(r));
  net.Run(Duration::Millis(100));
  EXPECT_EQ(sent, window);
}

TEST(ExactTest, EndsAtItsHardLimit) {
  TestNet net(2, FastSettings());
  FormOrDie(&net, 2);
  Buffers buffers(2, 200);
  OpDescriptor op = AllReduce(200, Mode::kExact);
  op.hard_limit = Duration::Millis(20);
  net.Submit(0, op, buffers.View(0));
  const Timestamp start = net.now();
  net.Run(Duration::Millis(30));
  const OpReport* report = net.report(0, OpSeq(0));
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->status, OpStatus::kHardLimit);
  EXPECT_EQ(report->closed, start + Duration::Millis(20));
  EXPECT_TRUE(report->missing.Contains(Rank(1)));
}

TEST(ExactTest, BarrierWaitsForTheLast) {
  TestNet net(3, FastSettings());
  FormOrDie(&net, 3);
  OpDescriptor op;
  op.collective = Collective::kBarrier;
  op.mode = Mode::kExact;
  net.Submit(0, op, {});
  net.Submit(1, op, {});
  net.Run(Duration::Millis(100));
  EXPECT_EQ(net.report(0, OpSeq(0)), nullptr);
  net.Submit(2, op, {});
  net.Run(Duration::Millis(5));
  for (size_t r = 0; r < 3; ++r) {
    ASSERT_NE(net.report(r, OpSeq(0)), nullptr);
    EXPECT_EQ(net.report(r, OpSeq(0))->status, OpStatus::kComplete);
  }
}

TEST(MismatchTest, AllRanksGetBothDescriptionsAndGoOn) {
  TestNet net(3, FastSettings());
  FormOrDie(&net, 3);
  Buffers buffers(3, 256);
  for (size_t r = 0; r < 3; ++r) {
    OpDescriptor op = AllReduce(256, Mode::kBounded);
    if (r == 1) op.dtype = gradcodec::Dtype::kBfloat16;
    net.Submit(r, op, buffers.View(r));
  }
  net.Run(Duration::Millis(30));
  for (size_t r = 0; r < 3; ++r) {
    const OpReport* report = net.report(r, OpSeq(0));
    ASSERT_NE(report, nullptr);
    EXPECT_EQ(report->status, OpStatus::kMismatch) << r;
    EXPECT_EQ(
        report->mismatch_descriptor.dtype,
        r == 1 ? gradcodec::Dtype::kFloat32 : gradcodec::Dtype::kBfloat16);
  }
  for (size_t r = 0; r < 3; ++r) {
    net.Submit(r, AllReduce(256, Mode::kBounded), buffers.View(r));
  }
  net.Run(Duration::Millis(30));
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(net.report(r, OpSeq(1))->status, OpStatus::kComplete);
  }
}

TEST(WindowTest, NumbersWrapAndTheWindowHolds) {
  GroupConfig settings = FastSettings();
  settings.first_op = OpSeq(UINT32_MAX - 5);
  settings.window = 4;
  TestNet net(3, settings);
  FormOrDie(&net, 3);
  Buffers buffers(3, 100);
  for (uint32_t op = 0; op < 20; ++op) {
    for (size_t r = 0; r < 3; ++r) {
      ASSERT_EQ(net.Submit(r, AllReduce(100, Mode::kBounded), buffers.View(r)),
                SubmitResult::kAccepted);
    }
    net.Run(Duration::Millis(12));
    for (size_t r = 0; r < 3; ++r) {
      const OpReport* report = net.report(r, settings.first_op.Plus(op));
      ASSERT_NE(report, nullptr);
      EXPECT_EQ(report->status, OpStatus::kComplete);
    }
  }
  Buffers more(3, 100);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(net.Submit(0, AllReduce(100, Mode::kBounded), more.View(0)),
              SubmitResult::kAccepted);
  }
  EXPECT_EQ(net.Submit(0, AllReduce(100, Mode::kBounded), more.View(0)),
            SubmitResult::kWindowFull);
}

TEST(SubmitTest, RefusesWhatNoRankCouldRun) {
  TestNet net(3, FastSettings());
  Buffers buffers(3, 300);
  EXPECT_EQ(net.Submit(0, AllReduce(300, Mode::kBounded), buffers.View(0)),
            SubmitResult::kNotReady);
  FormOrDie(&net, 3);
  OpDescriptor op = AllReduce(300, Mode::kExact, gradcodec::ReduceOp::kAvg);
  op.dtype = gradcodec::Dtype::kInt32;
  EXPECT_EQ(net.Submit(0, op, buffers.View(0)), SubmitResult::kUnsupported);
  op = AllReduce(300, Mode::kBounded);
  op.collective = Collective::kBroadcast;
  EXPECT_EQ(net.Submit(0, op, buffers.View(0)), SubmitResult::kUnsupported);
  op.mode = Mode::kExact;
  op.root = Rank(3);
  EXPECT_EQ(net.Submit(0, op, buffers.View(0)), SubmitResult::kBadRoot);
  op.collective = Collective::kAllGather;
  op.count = 301;
  EXPECT_EQ(net.Submit(0, op, buffers.View(0)), SubmitResult::kBadCount);
  EXPECT_EQ(net.Submit(0, AllReduce(uint64_t{1} << 32, Mode::kBounded),
                       buffers.View(0)),
            SubmitResult::kBadCount);
  EXPECT_EQ(
      net.Submit(0, AllReduce(50'000'000, Mode::kBounded), buffers.View(0)),
      SubmitResult::kTooLarge);
  op = AllReduce(300, Mode::kBounded);
  op.soft_limit = Duration::Seconds(1);
  EXPECT_EQ(net.Submit(0, op, buffers.View(0)), SubmitResult::kBadLimits);
}

}  // namespace
}  // namespace optireduce::core
