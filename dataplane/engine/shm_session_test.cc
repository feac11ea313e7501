#include "dataplane/engine/shm_session.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "dataplane/base/rng.h"
#include "dataplane/engine/shm_session_testing.h"

namespace optireduce::engine {
namespace {

TEST_F(ShmSessionTest, TranslatesEveryField) {
  OptireduceShmSubmission s = AllReduce(64, 100);
  s.reduce_op = static_cast<uint8_t>(gradcodec::ReduceOp::kAvg);
  s.codec = static_cast<uint8_t>(core::Codec::kHadamard);
  s.root = 3;
  s.soft_limit_us = 7;
  s.hard_limit_us = UINT32_MAX;
  s.bucket = UINT64_MAX;
  s.step = 12;
  s.loss_scale = 0.5F;
  s.output_offset = data_ + 4096;
  const Submission got = Accepted(s);
  EXPECT_EQ(got.group, kGroup);
  const core::OpDescriptor expected = {
      .collective = core::Collective::kAllReduce,
      .reduce_op = gradcodec::ReduceOp::kAvg,
      .dtype = gradcodec::Dtype::kFloat32,
      .mode = core::Mode::kBounded,
      .codec = core::Codec::kHadamard,
      .root = core::Rank(3),
      .count = 100,
      .bucket = UINT64_MAX,
      .step = 12,
      .soft_limit = Duration::Micros(7),
      .hard_limit = Duration::Micros(UINT32_MAX),
      .loss_scale = 0.5F};
  EXPECT_EQ(OpOf(got).op, expected);
  EXPECT_EQ(OpOf(got).buffers.input, segment_->base() + data_ + 64);
  EXPECT_EQ(OpOf(got).buffers.output, segment_->base() + data_ + 4096);
}

TEST_F(ShmSessionTest, GivesTheFullAccount) {
  const Submission submission = Accepted(AllReduce(0, 8));
  core::OpReport report;
  report.op_seq = core::OpSeq(9);
  report.status = core::OpStatus::kMismatch;
  report.cause = core::EndCause::kError;
  report.world = kWorld;
  report.elements = 8;
  report.absent = 2;
  report.contributions = 20;
  report.min_contributors = 3;
  report.missing.Add(core::Rank(3));
  report.missing.Add(core::Rank(0));
  report.submitted = Timestamp::FromNanos(100);
  report.closed = Timestamp::FromNanos(300);
  report.mismatch_rank = core::Rank(2);
  report.mismatch_descriptor = {.collective = core::Collective::kBroadcast,
                                .reduce_op = gradcodec::ReduceOp::kMax,
                                .dtype = gradcodec::Dtype::kInt64,
                                .mode = core::Mode::kExact,
                                .codec = core::Codec::kHadamard,
                                .root = core::Rank(1),
                                .count = 11,
                                .bucket = 12,
                                .step = 13};
  session_->Complete({.cookie = submission.cookie,
                      .group = kGroup,
                      .report = report,
                      .wall_late = Duration::Nanos(50),
                      .decision_late = Duration::Nanos(40)});
  const OptireduceShmCompletion entry = Read();
  EXPECT_EQ(entry.cookie, 1000u);
  EXPECT_EQ(entry.group, kHandle);
  EXPECT_EQ(entry.op_seq, 9u);
  EXPECT_EQ(entry.status, OPTIREDUCE_SHM_MISMATCH);
  EXPECT_EQ(entry.cause, OPTIREDUCE_SHM_CAUSE_ERROR);
  EXPECT_EQ(entry.refusal, OPTIREDUCE_SHM_REFUSAL_NONE);
  EXPECT_EQ(entry.world, kWorld);
  EXPECT_EQ(entry.elements, 8u);
  EXPECT_EQ(entry.absent, 2u);
  EXPECT_EQ(entry.contributions, 20u);
  EXPECT_EQ(entry.min_contributors, 3u);
  EXPECT_EQ(entry.missing[0], 0b1001u);
  EXPECT_EQ(entry.missing[15], 0u);
  EXPECT_EQ(entry.submitted_ns, 100);
  EXPECT_EQ(entry.quorum_ns, OPTIREDUCE_SHM_NEVER);
  EXPECT_EQ(entry.deadline_ns, OPTIREDUCE_SHM_NEVER);
  EXPECT_EQ(entry.closed_ns, 300);
  EXPECT_EQ(entry.wall_late_ns, 50);
  EXPECT_EQ(entry.decision_late_ns, 40);
  EXPECT_EQ(entry.mismatch_rank, 2u);
  EXPECT_EQ(entry.mismatch_collective, 4u);
  EXPECT_EQ(entry.mismatch_reduce_op, 4u);
  EXPECT_EQ(entry.mismatch_dtype, 11u);
  EXPECT_EQ(entry.mismatch_mode, 2u);
  EXPECT_EQ(entry.mismatch_codec, 1u);
  EXPECT_EQ(entry.mismatch_root, 1u);
  EXPECT_EQ(entry.mismatch_count, 11u);
  EXPECT_EQ(entry.mismatch_bucket, 12u);
  EXPECT_EQ(entry.mismatch_step, 13u);
}

TEST_F(ShmSessionTest, NamesMissingRanksOfTheLargestGroup) {
  core::OpReport report;
  report.status = core::OpStatus::kPartial;
  report.world = wire::kMaxWorld;
  report.missing.Add(core::Rank(64));
  report.missing.Add(core::Rank(1023));
  const OptireduceShmCompletion entry =
      Finish(Accepted(AllReduce(0, 8)), report);
  EXPECT_EQ(entry.missing[0], 0u);
  EXPECT_EQ(entry.missing[1], 1u);
  EXPECT_EQ(entry.missing[15], uint64_t{1} << 63);
}

TEST_F(ShmSessionTest, RefusesEveryValueThatIsNone) {
  const auto refusal_of = [this](auto change) {
    OptireduceShmSubmission s = AllReduce(0, 4);
    change(s);
    return Refused(s).refusal;
  };
  for (const int value : {0, 6, 255}) {
    EXPECT_EQ(refusal_of([&](auto& s) { s.collective = value; }),
              OPTIREDUCE_SHM_REFUSAL_COLLECTIVE);
  }
  for (const int value : {0, 5, 255}) {
    EXPECT_EQ(refusal_of([&](auto& s) { s.reduce_op = value; }),
              OPTIREDUCE_SHM_REFUSAL_REDUCE_OP);
  }
  for (const int value : {0, 13, 255}) {
    EXPECT_EQ(refusal_of([&](auto& s) { s.dtype = value; }),
              OPTIREDUCE_SHM_REFUSAL_DTYPE);
  }
  for (const int value : {0, 3, 255}) {
    EXPECT_EQ(refusal_of([&](auto& s) { s.mode = value; }),
              OPTIREDUCE_SHM_REFUSAL_MODE);
  }
  EXPECT_EQ(refusal_of([](auto& s) { s.codec = 4; }),
            OPTIREDUCE_SHM_REFUSAL_CODEC);
  EXPECT_EQ(refusal_of([](auto& s) { s.reserved0[2] = 1; }),
            OPTIREDUCE_SHM_REFUSAL_RESERVED);
  EXPECT_EQ(refusal_of([](auto& s) { s.reserved1[4] = 1; }),
            OPTIREDUCE_SHM_REFUSAL_RESERVED);
  EXPECT_EQ(refusal_of([](auto& s) { s.outcome = 1; }),
            OPTIREDUCE_SHM_REFUSAL_RESERVED);
  for (const int value : {0, 5, 255}) {
    EXPECT_EQ(refusal_of([&](auto& s) { s.kind = value; }),
              OPTIREDUCE_SHM_REFUSAL_KIND);
  }
  for (const float scale :
       {0.0F, -1.0F, 1e-40F, std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_EQ(refusal_of([&](auto& s) { s.loss_scale = scale; }),
              OPTIREDUCE_SHM_REFUSAL_LOSS_SCALE)
        << scale;
  }
  EXPECT_EQ(refusal_of([](auto& s) { s.group = kHandle + 1; }),
            OPTIREDUCE_SHM_REFUSAL_GROUP);
  // The core's number for the group is not the client's business.
  EXPECT_EQ(refusal_of([](auto& s) { s.group = kGroup.value(); }),
            OPTIREDUCE_SHM_REFUSAL_GROUP);
  EXPECT_EQ(session_->counters().Get(ShmSessionCounter::kRefused),
            session_->counters().Get(ShmSessionCounter::kSubmitted));
}

TEST_F(ShmSessionTest, RefusesBuffersOutsideTheDataArea) {
  const uint64_t end = data_ + segment_->data_bytes();
  for (const uint64_t offset :
       {uint64_t{0}, data_ - 1, end - 15, end, UINT64_MAX, UINT64_MAX - 3}) {
    OptireduceShmSubmission s = AllReduce(0, 4);
    s.input_offset = offset;
    OptireduceShmCompletion entry = Refused(s);
    EXPECT_EQ(entry.refusal, OPTIREDUCE_SHM_REFUSAL_INPUT_RANGE) << offset;
    EXPECT_EQ(entry.wanted.offset, offset);
    EXPECT_EQ(entry.wanted.bytes, 16u);
    EXPECT_EQ(entry.conflict.offset, data_);
    EXPECT_EQ(entry.conflict.bytes, segment_->data_bytes());
    s = AllReduce(0, 4);
    s.output_offset = offset;
    EXPECT_EQ(Refused(s).refusal, OPTIREDUCE_SHM_REFUSAL_OUTPUT_RANGE);
  }
  OptireduceShmSubmission s = AllReduce(0, UINT32_MAX);
  s.dtype = static_cast<uint8_t>(gradcodec::Dtype::kFloat64);
  EXPECT_EQ(Refused(s).refusal, OPTIREDUCE_SHM_REFUSAL_INPUT_RANGE);
  // The very last bytes are in.
  s = AllReduce(0, 4);
  s.input_offset = s.output_offset = end - 16;
  Accepted(s);
}

TEST_F(ShmSessionTest, RefusesPartialOverlapOfInputAndOutput) {
  OptireduceShmSubmission s = AllReduce(0, 100);
  s.output_offset = data_ + 399;
  const OptireduceShmCompletion entry = Refused(s);
  EXPECT_EQ(entry.refusal, OPTIREDUCE_SHM_REFUSAL_OVERLAP);
  EXPECT_EQ(entry.wanted.offset, data_ + 399);
  EXPECT_EQ(entry.conflict.offset, data_);
  s.output_offset = data_ + 400;
  Accepted(s);
}

// S09.
TEST_F(ShmSessionTest, RefusesBuffersInFlightAndNamesBothRanges) {
  const Submission first = Accepted(AllReduce(1000, 100));
  OptireduceShmCompletion entry = Refused(AllReduce(1000, 100));
  EXPECT_EQ(entry.refusal, OPTIREDUCE_SHM_REFUSAL_IN_FLIGHT);
  EXPECT_EQ(entry.wanted.offset, data_ + 1000);
  EXPECT_EQ(entry.wanted.bytes, 400u);
  EXPECT_EQ(entry.conflict.offset, data_ + 1000);
  EXPECT_EQ(entry.conflict.bytes, 400u);
  entry = Refused(AllReduce(1100, 2));
  EXPECT_EQ(entry.refusal, OPTIREDUCE_SHM_REFUSAL_IN_FLIGHT);
  EXPECT_EQ(entry.wanted.offset, data_ + 1100);
  EXPECT_EQ(entry.wanted.bytes, 8u);
  EXPECT_EQ(entry.conflict.offset, data_ + 1000);
  // An output alone, and neighbours.
  OptireduceShmSubmission s = AllReduce(0, 10);
  s.output_offset = data_ + 1396;
  EXPECT_EQ(Refused(s).refusal, OPTIREDUCE_SHM_REFUSAL_IN_FLIGHT);
  const Submission before = Accepted(AllReduce(960, 10));
  const Submission after = Accepted(AllReduce(1400, 10));
  // Refusals have reserved nothing.
  const Submission zero = Accepted(AllReduce(0, 10));

  EXPECT_EQ(Finish(first).status, OPTIREDUCE_SHM_COMPLETE);
  const Submission again = Accepted(AllReduce(1000, 100));
  for (const Submission& submission : {before, after, zero, again}) {
    Finish(submission);
  }
}

TEST_F(ShmSessionTest, BothBuffersAreFreeAfterCompletion) {
  OptireduceShmSubmission s = AllReduce(0, 100);
  s.output_offset = data_ + 400;
  const Submission first = Accepted(s);
  EXPECT_EQ(Refused(AllReduce(0, 1)).refusal, OPTIREDUCE_SHM_REFUSAL_IN_FLIGHT);
  EXPECT_EQ(Refused(AllReduce(400, 1)).refusal,
            OPTIREDUCE_SHM_REFUSAL_IN_FLIGHT);
  Finish(first);
  Finish(Accepted(AllReduce(0, 200)));
}

TEST_F(ShmSessionTest, InPlaceBuffersOfUnequalSizeCountAsTheLarger) {
  OptireduceShmSubmission s = AllReduce(0, 100);
  s.collective = static_cast<uint8_t>(core::Collective::kReduceScatter);
  s.output_offset = data_ + 200;  // rank 2's part of the input
  const Submission first = Accepted(s);
  for (const uint64_t offset : {0, 200, 296, 396}) {
    EXPECT_EQ(Refused(AllReduce(offset, 1)).refusal,
              OPTIREDUCE_SHM_REFUSAL_IN_FLIGHT);
  }
  Finish(first);
  Finish(Accepted(AllReduce(0, 100)));
}

// Which part of the input the output may be depends on the rank: the core's
// business, but the ranges are named here.
TEST_F(ShmSessionTest, ThePartThatTheCoreRefusesIsNamed) {
  OptireduceShmSubmission s = AllReduce(0, 100);
  s.collective = static_cast<uint8_t>(core::Collective::kReduceScatter);
  s.output_offset = data_ + 52;
  Complete(Accepted(s), core::SubmitResult::kBadBuffers);
  const OptireduceShmCompletion entry = Read();
  EXPECT_EQ(entry.refusal, OPTIREDUCE_SHM_REFUSAL_OVERLAP);
  EXPECT_EQ(entry.wanted.offset, data_ + 52);
  EXPECT_EQ(entry.wanted.bytes, 100u);
  EXPECT_EQ(entry.conflict.offset, data_);
  EXPECT_EQ(entry.conflict.bytes, 400u);
}

TEST_F(ShmSessionTest, EmptyBuffersMayLieAnywhere) {
  OptireduceShmSubmission s = AllReduce(0, 0);
  s.input_offset = UINT64_MAX;
  s.output_offset = 0;
  const Submission empty = Accepted(s);
  EXPECT_EQ(OpOf(empty).buffers.input, nullptr);
  EXPECT_EQ(OpOf(empty).buffers.output, nullptr);
  Finish(empty);
}

TEST_F(ShmSessionTest, TranslatesTheCoresRefusals) {
  using core::SubmitResult;
  const std::map<SubmitResult, int> expected = {
      {SubmitResult::kNotReady, OPTIREDUCE_SHM_REFUSAL_NOT_READY},
      {SubmitResult::kUnsupported, OPTIREDUCE_SHM_REFUSAL_UNSUPPORTED},
      {SubmitResult::kBadRoot, OPTIREDUCE_SHM_REFUSAL_ROOT},
      {SubmitResult::kBadCount, OPTIREDUCE_SHM_REFUSAL_COUNT},
      {SubmitResult::kBadLimits, OPTIREDUCE_SHM_REFUSAL_LIMITS},
      {SubmitResult::kBadScale, OPTIREDUCE_SHM_REFUSAL_LOSS_SCALE},
      {SubmitResult::kBadBuffers, OPTIREDUCE_SHM_REFUSAL_OVERLAP},
      {SubmitResult::kTooLarge, OPTIREDUCE_SHM_REFUSAL_TOO_LARGE},
      {SubmitResult::kPeerLost, OPTIREDUCE_SHM_REFUSAL_PEER_LOST},
      {SubmitResult::kLeft, OPTIREDUCE_SHM_REFUSAL_LEFT}};
  for (const auto& [result, refusal] : expected) {
    const Submission submission = Accepted(AllReduce(0, 4));
    Complete(submission, result);
    const OptireduceShmCompletion entry = Read();
    EXPECT_EQ(entry.status, OPTIREDUCE_SHM_REFUSED);
    EXPECT_EQ(entry.refusal, refusal);
  }
}

TEST_F(ShmSessionTest, ARemovedGroupTakesNothingButItsOpsEnd) {
  const Submission submission = Accepted(AllReduce(0, 4));
  session_->RemoveGroup(kGroup);
  EXPECT_EQ(Refused(AllReduce(100, 4)).refusal, OPTIREDUCE_SHM_REFUSAL_GROUP);
  core::OpReport report;
  report.status = core::OpStatus::kCancelled;
  const OptireduceShmCompletion entry = Finish(submission, report);
  EXPECT_EQ(entry.status, OPTIREDUCE_SHM_CANCELLED);
  EXPECT_EQ(entry.group, kHandle);
}

TEST_F(ShmSessionTest, WhileTheDaemonStopsWhatIsInFlightStillEnds) {
  EXPECT_TRUE(session_->idle());
  const Submission submission = Accepted(AllReduce(0, 4));
  EXPECT_FALSE(session_->idle());
  session_->StopTaking();
  EXPECT_EQ(Refused(AllReduce(100, 4)).refusal,
            OPTIREDUCE_SHM_REFUSAL_SHUTDOWN);
  EXPECT_FALSE(session_->idle());
  EXPECT_EQ(Finish(submission).status, OPTIREDUCE_SHM_COMPLETE);
  EXPECT_TRUE(session_->idle());
}

TEST_F(ShmSessionTest, TracesWhatHasEnded) {
  const Submission submission = Accepted(AllReduce(0, 4));
  Refused(AllReduce(0, 4));
  Finish(submission);
  const auto trace = session_->trace().Read();
  ASSERT_EQ(trace.size(), 2u);
  EXPECT_EQ(trace[0].cookie, 1000u);
  EXPECT_EQ(trace[1].refusal, OPTIREDUCE_SHM_REFUSAL_IN_FLIGHT);
}

TEST_F(ShmSessionTest, EqualCookiesAreTheClientsOwnAffair) {
  OptireduceShmSubmission s = AllReduce(0, 4);
  next_cookie_ = 1;
  const Submission first = Accepted(s);
  next_cookie_ = 1;
  s = AllReduce(100, 4);
  const Submission second = Accepted(s);
  EXPECT_NE(first.cookie, second.cookie);
  EXPECT_EQ(Finish(second).cookie, 1u);
  EXPECT_EQ(Refused(AllReduce(0, 4)).refusal, OPTIREDUCE_SHM_REFUSAL_IN_FLIGHT);
  EXPECT_EQ(Finish(first).cookie, 1u);
}

TEST_F(ShmSessionTest, EveryOutstandingOpHasASlot) {
  std::vector<Submission> submissions;
  for (uint64_t i = 0; i < kSlots; ++i) {
    OptireduceShmSubmission s = AllReduce(i * 8, 1);
    s.output_offset += 4;
    submissions.push_back(Accepted(s));
  }
  EXPECT_EQ(session_->max_in_flight(), submissions.size());
  std::set<uint64_t> cookies;
  for (const Submission& submission : submissions) {
    cookies.insert(submission.cookie);
    Finish(submission);
  }
  EXPECT_EQ(cookies.size(), kSlots);
}

TEST_F(ShmSessionTest, ABrokenClientIsReportedWithAReason) {
  std::atomic_ref(segment_->header()->submission_tail).store(kSlots + 1);
  Submission submission;
  EXPECT_EQ(session_->broken_reason(), unsigned{OPTIREDUCE_SHM_REASON_NONE});
  EXPECT_EQ(session_->Pull(&submission), PullResult::kBroken);
  EXPECT_EQ(session_->broken_reason(),
            unsigned{OPTIREDUCE_SHM_REASON_BAD_SUBMISSION_TAIL});
}

TEST_F(ShmSessionTest, ManyRefusalsDoNotHoldUpThePoll) {
  OptireduceShmSubmission bad = AllReduce(0, 4);
  bad.mode = 0;
  for (uint32_t i = 0; i < kSlots - 1; ++i) Post(bad);
  Post(AllReduce(0, 4));
  Submission submission;
  EXPECT_EQ(session_->Pull(&submission), PullResult::kEmpty);
  EXPECT_LT(segment_->header()->completion_tail, 100u);
  EXPECT_FALSE(session_->PrepareToSleep());
  int pulls = 1;
  while (session_->Pull(&submission) == PullResult::kEmpty) ++pulls;
  EXPECT_LT(pulls, 100);
  EXPECT_EQ(segment_->header()->completion_tail, kSlots - 1);
}

TEST_F(ShmSessionTest, WakesASleepingClientOncePerBatch) {
  pollfd bell = {bells_.client_end.get(), POLLIN, 0};
  const Submission first = Accepted(AllReduce(0, 4));
  const Submission second = Accepted(AllReduce(100, 4));
  Finish(first);
  session_->Flush();
  EXPECT_EQ(poll(&bell, 1, 0), 0);  // the client is awake
  std::atomic_ref(segment_->header()->client_sleeps).store(1);
  session_->Flush();
  EXPECT_EQ(poll(&bell, 1, 0), 0);  // nothing new
  Finish(second);
  EXPECT_EQ(poll(&bell, 1, 0), 0);
  session_->Flush();
  EXPECT_EQ(poll(&bell, 1, 0), 1);
  char bytes[8];
  EXPECT_EQ(recv(bells_.client_end.get(), bytes, sizeof(bytes), 0), 1);
}

TEST_F(ShmSessionTest, WakesAClientForRefusalsToo) {
  std::atomic_ref(segment_->header()->client_sleeps).store(1);
  OptireduceShmSubmission bad = AllReduce(0, 4);
  bad.mode = 0;
  Refused(bad);
  pollfd bell = {bells_.client_end.get(), POLLIN, 0};
  EXPECT_EQ(poll(&bell, 1, 0), 1);
}

// Random submissions: whatever is accepted is well-formed, inside the data area
// and disjoint from everything in flight; everything is answered exactly once.
// Without steps, which have a test of their own.
TEST_F(ShmSessionTest, RandomSubmissionsNeverGetThroughWrongly) {
  constexpr uint64_t kSeed = 8191;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  std::vector<Submission> in_flight;
  const uint8_t* data = segment_->base() + data_;
  const uint8_t* end = data + segment_->data_bytes();
  int accepted = 0;
  int answered = 0;
  constexpr int kRounds = 50'000;
  for (int round = 0; round < kRounds; ++round) {
    OptireduceShmSubmission s =
        AllReduce(rng.Below(4096), static_cast<uint32_t>(rng.Below(200)));
    s.output_offset =
        rng.Chance(0.5) ? s.input_offset : data_ + rng.Below(4096);
    for (uint64_t hits = rng.Below(3); hits > 0; --hits) {
      auto* bytes = reinterpret_cast<uint8_t*>(&s);
      bytes[8 + rng.Below(offsetof(OptireduceShmSubmission, reserved1) - 8)] =
          static_cast<uint8_t>(rng.Next());
    }
    s.step = 0;
    Post(s);
    Submission got;
    if (session_->Pull(&got) == PullResult::kPulled) {
      ++accepted;
      const OpRequest& op = OpOf(got);
      const size_t in = core::InputBytes(op.op, kWorld);
      const size_t out = core::OutputBytes(op.op, kWorld);
      const auto inside = [&](const uint8_t* p, size_t bytes) {
        return bytes == 0 || (p >= data && p + bytes <= end);
      };
      ASSERT_TRUE(inside(op.buffers.input, in));
      ASSERT_TRUE(inside(op.buffers.output, out));
      in_flight.push_back(got);
    }
    if (in_flight.size() > 8 || (!in_flight.empty() && rng.Chance(0.3))) {
      const size_t victim = rng.Below(in_flight.size());
      Complete(in_flight[victim], core::SubmitResult::kAccepted);
      in_flight.erase(in_flight.begin() + static_cast<ptrdiff_t>(victim));
    }
    for (; HasCompletion(); ++answered) Read();
  }
  for (const Submission& submission : in_flight) Finish(submission), ++answered;
  EXPECT_EQ(answered, kRounds);
  EXPECT_GT(accepted, kRounds / 10);
}

}  // namespace
}  // namespace optireduce::engine
