// The client's ends of the rings, with the daemon's ends in the test's hands.

#include "client/segment.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>

#include "client/error.h"

namespace optireduce::client {
namespace {

constexpr uint32_t kSlots = 4;
constexpr uint64_t kBytes = 16384;

class SegmentTest : public ::testing::Test {
 protected:
  SegmentTest() : memory_(memfd_create("segment", MFD_CLOEXEC)) {
    EXPECT_EQ(ftruncate(memory_.get(), kBytes), 0);
    base_ = static_cast<uint8_t*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                       MAP_SHARED, memory_.get(), 0));
    OptireduceShmHeader& head = header();
    head.magic = OPTIREDUCE_SHM_MAGIC;
    head.version = OPTIREDUCE_SHM_VERSION;
    head.header_bytes = OPTIREDUCE_SHM_HEADER_BYTES;
    head.segment_bytes = kBytes;
    head.submission_offset = 4096;
    head.submission_slots = kSlots;
    head.submission_bytes = sizeof(OptireduceShmSubmission);
    head.completion_offset = 4096 + kSlots * sizeof(OptireduceShmSubmission);
    head.completion_slots = kSlots;
    head.completion_bytes = sizeof(OptireduceShmCompletion);
    head.data_offset = 8192;
    head.data_bytes = 8192;
    head.state = OPTIREDUCE_SHM_LIVE;
  }
  ~SegmentTest() override { munmap(base_, kBytes); }

  or_status Map(uint64_t bytes = kBytes) {
    engine_bell_ = UniqueFd(eventfd(0, EFD_NONBLOCK));
    int bells[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, bells), 0);
    daemon_bell_ = UniqueFd(bells[0]);
    return Segment::Map(memory_, bytes, UniqueFd(dup(engine_bell_.get())),
                        UniqueFd(bells[1]), &segment_);
  }

  OptireduceShmHeader& header() {
    return *reinterpret_cast<OptireduceShmHeader*>(base_);
  }
  const OptireduceShmSubmission& Submitted(uint32_t index) {
    return reinterpret_cast<OptireduceShmSubmission*>(
        base_ + header().submission_offset)[index % kSlots];
  }
  void Complete(uint64_t cookie) {
    auto* ring = reinterpret_cast<OptireduceShmCompletion*>(
        base_ + header().completion_offset);
    ring[header().completion_tail % kSlots].cookie = cookie;
    ++header().completion_tail;
  }
  bool Submit(uint64_t cookie) {
    OptireduceShmSubmission submission{};
    submission.cookie = cookie;
    return segment_.Submit(submission);
  }
  bool EngineIsRung() {
    uint64_t count = 0;
    return read(engine_bell_.get(), &count, sizeof(count)) == sizeof(count);
  }

  UniqueFd memory_;
  UniqueFd engine_bell_;
  UniqueFd daemon_bell_;
  uint8_t* base_ = nullptr;
  Segment segment_;
};

TEST_F(SegmentTest, EntriesGoThereAndComeBackInOrder) {
  ASSERT_EQ(Map(), OR_OK) << LastError();
  EXPECT_EQ(segment_.data_offset(), 8192u);
  EXPECT_EQ(segment_.data_bytes(), 8192u);
  segment_.data()[8191] = 7;
  EXPECT_EQ(base_[16383], 7);
  OptireduceShmCompletion completion;
  for (uint64_t round = 0; round < 10; ++round) {
    for (uint64_t i = 0; i < kSlots; ++i) {
      EXPECT_TRUE(Submit(10 * round + i));
      EXPECT_EQ(Submitted(header().submission_tail - 1).cookie, 10 * round + i);
    }
    EXPECT_FALSE(Submit(99)) << "as many as slots are outstanding";
    EXPECT_FALSE(segment_.TakeCompletion(&completion));
    for (uint64_t i = 0; i < kSlots; ++i) Complete(10 * round + i);
    for (uint64_t i = 0; i < kSlots; ++i) {
      ASSERT_TRUE(segment_.TakeCompletion(&completion));
      EXPECT_EQ(completion.cookie, 10 * round + i);
    }
    EXPECT_EQ(header().completion_head, header().completion_tail);
  }
}

TEST_F(SegmentTest, TheEngineIsWokenOnlyWhenItSleeps) {
  ASSERT_EQ(Map(), OR_OK);
  EXPECT_TRUE(Submit(1));
  EXPECT_FALSE(EngineIsRung());
  header().engine_sleeps = 1;
  EXPECT_TRUE(Submit(2));
  EXPECT_TRUE(EngineIsRung());
  EXPECT_EQ(header().engine_sleeps, 0u);
  EXPECT_TRUE(Submit(3));
  EXPECT_FALSE(EngineIsRung());
}

// A completion that comes just before the sleep is announced rings no bell.
TEST_F(SegmentTest, NoSleepOverACompletionThatIsThere) {
  ASSERT_EQ(Map(), OR_OK);
  EXPECT_TRUE(segment_.PrepareToSleep());
  EXPECT_EQ(header().client_sleeps, 1u);
  segment_.WokeUp();
  EXPECT_EQ(header().client_sleeps, 0u);
  Complete(1);
  EXPECT_FALSE(segment_.PrepareToSleep());
}

TEST_F(SegmentTest, TheBellIsSilencedAndTellsOfTheDaemonsEnd) {
  ASSERT_EQ(Map(), OR_OK);
  EXPECT_TRUE(segment_.SilenceBell());
  ASSERT_EQ(send(daemon_bell_.get(), "xy", 2, 0), 2);
  EXPECT_TRUE(segment_.SilenceBell());
  pollfd bell{segment_.bell(), POLLIN, 0};
  EXPECT_EQ(poll(&bell, 1, 0), 0);
  daemon_bell_.Reset();
  EXPECT_EQ(poll(&bell, 1, 0), 1);
  EXPECT_FALSE(segment_.SilenceBell());
}

TEST_F(SegmentTest, TheEndOfTheSessionHasAReason) {
  ASSERT_EQ(Map(), OR_OK);
  uint32_t reason = 77;
  EXPECT_FALSE(segment_.IsClosed(&reason));
  header().state_reason = OPTIREDUCE_SHM_REASON_SHUTDOWN;
  header().state = OPTIREDUCE_SHM_CLOSED;
  EXPECT_TRUE(segment_.IsClosed(&reason));
  EXPECT_EQ(std::string(CloseReason(reason)), "the daemon was shut down");
  EXPECT_EQ(std::string(CloseReason(12345)), "the daemon gave no reason");
}

// The daemon is trusted, but a header that is not ours must not lead astray.
TEST_F(SegmentTest, HeadersThatLeadOutsideAreRefused) {
  const OptireduceShmHeader good = header();
  const auto refuses = [&](auto change) {
    header() = good;
    change(header());
    EXPECT_EQ(Map(), OR_ERR_VERSION);
  };
  refuses([](auto& h) { h.magic ^= 1; });
  refuses([](auto& h) { ++h.version; });
  refuses([](auto& h) { h.segment_bytes += 1; });
  refuses([](auto& h) { h.submission_slots = 3; });
  refuses([](auto& h) { h.submission_slots = 0; });
  refuses([](auto& h) { h.submission_slots = uint32_t{1} << 31; });
  refuses([](auto& h) { h.submission_offset = kBytes - 64; });
  refuses([](auto& h) { h.submission_offset = UINT64_MAX; });
  refuses([](auto& h) { h.submission_offset = 0; });
  refuses([](auto& h) { h.submission_bytes = 32; });
  refuses([](auto& h) { h.completion_offset = kBytes; });
  refuses([](auto& h) { h.completion_bytes = 321; });
  refuses([](auto& h) { h.data_offset = 8193; });
  refuses([](auto& h) { h.data_offset = 2 * kBytes; });
  refuses([](auto& h) { h.data_bytes = 8193; });
  header() = good;
  EXPECT_EQ(Map(kBytes + 1), OR_ERR_VERSION) << "smaller than announced";
  EXPECT_EQ(Map(100), OR_ERR_VERSION);
  EXPECT_EQ(Map(), OR_OK);
}

}  // namespace
}  // namespace optireduce::client
