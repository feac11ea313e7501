// A session over a real segment, whose client is the test.

#ifndef OPTIREDUCE_DATAPLANE_ENGINE_SHM_SESSION_TESTING_H_
#define OPTIREDUCE_DATAPLANE_ENGINE_SHM_SESSION_TESTING_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <variant>

#include "dataplane/engine/session_port.h"
#include "dataplane/engine/shm_session.h"
#include "dataplane/shm/bell.h"
#include "dataplane/shm/segment.h"
#include "proto/shm_abi.h"

namespace optireduce::engine {

inline constexpr uint32_t kSlots = OPTIREDUCE_SHM_SUBMISSION_SLOTS;
inline constexpr uint32_t kHandle = 5;
inline constexpr core::GroupId kGroup(77);
inline constexpr uint16_t kWorld = 4;

inline const OpRequest& OpOf(const Submission& submission) {
  return std::get<OpRequest>(submission.request);
}

class ShmSessionTest : public ::testing::Test {
 protected:
  ShmSessionTest()
      : segment_(*shm::Segment::Create(
            {.data_bytes = 1 << 20, .hugepages = shm::HugePages::kOff},
            shm::MemoryLimits())),
        bells_(*shm::MakeBells()),
        data_(segment_->data_offset()) {
    EXPECT_TRUE(segment_->Seal().ok());
    session_ = std::make_unique<ShmSession>(
        *segment_, bells_.engine_event.get(), bells_.client_bell.get());
    session_->AddGroup(kGroup, kWorld, kHandle);
  }

  // An all-reduce of `count` floats in place at `offset` of the data area.
  OptireduceShmSubmission AllReduce(uint64_t offset, uint32_t count) const {
    OptireduceShmSubmission s{};
    s.cookie = next_cookie_;
    s.group = kHandle;
    s.kind = OPTIREDUCE_SHM_OP;
    s.loss_scale = 1;
    s.collective = static_cast<uint8_t>(core::Collective::kAllReduce);
    s.reduce_op = static_cast<uint8_t>(gradcodec::ReduceOp::kSum);
    s.dtype = static_cast<uint8_t>(gradcodec::Dtype::kFloat32);
    s.mode = static_cast<uint8_t>(core::Mode::kBounded);
    s.count = count;
    s.input_offset = s.output_offset = data_ + offset;
    return s;
  }
  uint64_t Post(OptireduceShmSubmission s) {
    s.cookie = next_cookie_++;
    segment_->submissions()[tail_ % kSlots] = s;
    std::atomic_ref(segment_->header()->submission_tail)
        .store(++tail_, std::memory_order_seq_cst);
    return s.cookie;
  }
  // Posts `s` and expects that the engine gets it.
  Submission Accepted(const OptireduceShmSubmission& s) {
    Post(s);
    Submission submission;
    EXPECT_EQ(session_->Pull(&submission), PullResult::kPulled);
    return submission;
  }
  // Posts `s` and expects its refusal.
  OptireduceShmCompletion Refused(const OptireduceShmSubmission& s) {
    const uint64_t cookie = Post(s);
    Submission submission;
    EXPECT_EQ(session_->Pull(&submission), PullResult::kEmpty);
    const OptireduceShmCompletion entry = Read();
    EXPECT_EQ(entry.status, OPTIREDUCE_SHM_REFUSED);
    EXPECT_EQ(entry.cookie, cookie);
    EXPECT_EQ(entry.group, s.group);
    return entry;
  }
  bool HasCompletion() const {
    return segment_->header()->completion_tail != head_;
  }
  OptireduceShmCompletion Read() {
    EXPECT_TRUE(HasCompletion());
    const OptireduceShmCompletion entry =
        segment_->completions()[head_ % kSlots];
    std::atomic_ref(segment_->header()->completion_head)
        .store(++head_, std::memory_order_release);
    return entry;
  }
  OptireduceShmCompletion Finish(const Submission& submission,
                                 core::OpReport report = {}) {
    Complete(submission, core::SubmitResult::kAccepted, report);
    return Read();
  }
  void Complete(const Submission& submission, core::SubmitResult result,
                core::OpReport report = {}) {
    Completion completion;
    completion.cookie = submission.cookie;
    completion.group = submission.group;
    completion.submit = result;
    completion.report = report;
    session_->Complete(completion);
  }

  std::unique_ptr<shm::Segment> segment_;
  shm::Bells bells_;
  std::unique_ptr<ShmSession> session_;
  const uint64_t data_;
  uint64_t next_cookie_ = 1000;
  uint32_t tail_ = 0;
  uint32_t head_ = 0;
};

}  // namespace optireduce::engine

#endif  // OPTIREDUCE_DATAPLANE_ENGINE_SHM_SESSION_TESTING_H_
