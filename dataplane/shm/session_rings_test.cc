#include "dataplane/shm/session_rings.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "dataplane/base/rng.h"
#include "dataplane/shm/bell.h"

namespace optireduce::shm {
namespace {

constexpr uint64_t kSlots = OPTIREDUCE_SHM_SUBMISSION_SLOTS;

// The client's end, as the ABI describes it.
class Client {
 public:
  explicit Client(const Segment& segment)
      : header_(segment.header()),
        submissions_(segment.submissions()),
        completions_(segment.completions()) {}

  void Submit(uint64_t cookie) {
    OptireduceShmSubmission& slot = submissions_[tail_ % kSlots];
    slot = {};
    slot.cookie = cookie;
    slot.output_offset = ~cookie;
    SetTail(tail_ + 1);
  }
  void SetTail(uint32_t tail) {
    tail_ = tail;
    std::atomic_ref(header_->submission_tail)
        .store(tail, std::memory_order_seq_cst);
  }
  void SetHead(uint32_t head) {
    head_ = head;
    std::atomic_ref(header_->completion_head)
        .store(head, std::memory_order_release);
  }
  bool Read(OptireduceShmCompletion* entry) {
    const uint32_t tail = std::atomic_ref(header_->completion_tail)
                              .load(std::memory_order_seq_cst);
    if (tail == head_) return false;
    *entry = completions_[head_ % kSlots];
    SetHead(head_ + 1);
    return true;
  }
  bool TakeEngineSleeps() {
    const std::atomic_ref sleeps(header_->engine_sleeps);
    return sleeps.load(std::memory_order_seq_cst) != 0 &&
           sleeps.exchange(0, std::memory_order_seq_cst) != 0;
  }
  // False if something is there already.
  bool PrepareToSleep() {
    const std::atomic_ref sleeps(header_->client_sleeps);
    sleeps.store(1, std::memory_order_seq_cst);
    if (std::atomic_ref(header_->completion_tail)
            .load(std::memory_order_seq_cst) == head_) {
      return true;
    }
    sleeps.store(0, std::memory_order_relaxed);
    return false;
  }

 private:
  OptireduceShmHeader* header_;
  OptireduceShmSubmission* submissions_;
  OptireduceShmCompletion* completions_;
  uint32_t tail_ = 0;
  uint32_t head_ = 0;
};

class SessionRingsTest : public ::testing::Test {
 protected:
  SessionRingsTest()
      : segment_(
            *Segment::Create({.hugepages = HugePages::kOff}, MemoryLimits())),
        client_(*segment_),
        rings_(*segment_) {
    EXPECT_TRUE(segment_->Seal().ok());
  }

  uint64_t Take() {
    OptireduceShmSubmission copy;
    EXPECT_EQ(rings_.TakeSubmission(&copy), TakeResult::kTaken);
    return copy.cookie;
  }
  void Answer(uint64_t cookie) {
    OptireduceShmCompletion entry{};
    entry.cookie = cookie;
    entry.repaired = ~cookie;  // the entry's last word
    rings_.PushCompletion(entry);
  }
  void ExpectBroken(uint32_t reason) {
    OptireduceShmSubmission copy;
    EXPECT_EQ(rings_.TakeSubmission(&copy), TakeResult::kBroken);
    EXPECT_EQ(rings_.broken_reason(), reason);
    // For good, whatever the client does next.
    client_.SetTail(0);
    client_.SetHead(0);
    EXPECT_EQ(rings_.TakeSubmission(&copy), TakeResult::kBroken);
    EXPECT_TRUE(rings_.PrepareToSleep());
  }

  std::unique_ptr<Segment> segment_;
  Client client_;
  SessionRings rings_;
};

TEST_F(SessionRingsTest, KeepsOrderOverManyTurns) {
  OptireduceShmSubmission copy;
  EXPECT_EQ(rings_.TakeSubmission(&copy), TakeResult::kEmpty);
  for (uint64_t i = 0; i < 3 * kSlots; i += 3) {
    for (uint64_t j = i; j < i + 3; ++j) client_.Submit(j);
    for (uint64_t j = i; j < i + 3; ++j) {
      ASSERT_EQ(rings_.TakeSubmission(&copy), TakeResult::kTaken);
      ASSERT_EQ(copy.cookie, j);
      ASSERT_EQ(copy.output_offset, ~j);
      Answer(j);
    }
    OptireduceShmCompletion entry;
    for (uint64_t j = i; j < i + 3; ++j) {
      ASSERT_TRUE(client_.Read(&entry));
      ASSERT_EQ(entry.cookie, j);
      ASSERT_EQ(entry.repaired, ~j);
    }
    ASSERT_FALSE(client_.Read(&entry));
  }
}

TEST_F(SessionRingsTest, AsManyOutstandingAsThereAreSlots) {
  for (uint64_t i = 0; i < kSlots; ++i) client_.Submit(i);
  for (uint64_t i = 0; i < kSlots; ++i) Answer(Take());
  OptireduceShmCompletion entry;
  for (uint64_t i = 0; i < kSlots; ++i) {
    ASSERT_TRUE(client_.Read(&entry));
    ASSERT_EQ(entry.cookie, i);
  }
}

TEST_F(SessionRingsTest, OneMoreOutstandingBreaksTheSession) {
  for (uint64_t i = 0; i < kSlots; ++i) client_.Submit(i);
  for (uint64_t i = 0; i < kSlots; ++i) Answer(Take());
  client_.Submit(kSlots);  // without having read a completion
  ExpectBroken(OPTIREDUCE_SHM_REASON_TOO_MANY_OUTSTANDING);
}

TEST_F(SessionRingsTest, ReadingMakesRoomForAsMany) {
  for (uint64_t i = 0; i < kSlots; ++i) client_.Submit(i);
  for (uint64_t i = 0; i < kSlots; ++i) Answer(Take());
  OptireduceShmCompletion entry;
  ASSERT_TRUE(client_.Read(&entry));
  client_.Submit(kSlots);
  EXPECT_EQ(Take(), kSlots);
}

TEST_F(SessionRingsTest, TailTooFarAhead) {
  client_.SetTail(kSlots + 1);
  ExpectBroken(OPTIREDUCE_SHM_REASON_BAD_SUBMISSION_TAIL);
}

TEST_F(SessionRingsTest, TailGoesBack) {
  client_.Submit(1);
  client_.Submit(2);
  Answer(Take());
  Answer(Take());
  client_.SetTail(1);
  ExpectBroken(OPTIREDUCE_SHM_REASON_BAD_SUBMISSION_TAIL);
}

TEST_F(SessionRingsTest, HeadBeyondTheTail) {
  client_.Submit(1);
  Answer(Take());
  client_.SetHead(2);
  ExpectBroken(OPTIREDUCE_SHM_REASON_BAD_COMPLETION_HEAD);
}

TEST_F(SessionRingsTest, HeadGoesBack) {
  client_.Submit(1);
  client_.Submit(2);
  Answer(Take());
  Answer(Take());
  client_.SetHead(2);
  client_.Submit(3);
  Answer(Take());
  client_.SetHead(1);
  ExpectBroken(OPTIREDUCE_SHM_REASON_BAD_COMPLETION_HEAD);
}

TEST_F(SessionRingsTest, NothingTheClientOverwritesMovesTheDaemon) {
  OptireduceShmHeader& header = *segment_->header();
  memset(&header, 0xFF, offsetof(OptireduceShmHeader, submission_tail));
  header.submission_head = 77;
  header.completion_tail = 99;
  client_.Submit(5);
  EXPECT_EQ(Take(), 5u);
  EXPECT_EQ(header.submission_head, 1u);
  Answer(5);
  EXPECT_EQ(header.completion_tail, 1u);
  EXPECT_EQ(segment_->completions()[0].cookie, 5u);
}

TEST_F(SessionRingsTest, SleepsOnlyWhileNothingWaits) {
  EXPECT_TRUE(rings_.PrepareToSleep());
  client_.Submit(1);
  EXPECT_TRUE(client_.TakeEngineSleeps());
  EXPECT_FALSE(client_.TakeEngineSleeps());  // one bell is enough
  rings_.WokeUp();
  EXPECT_FALSE(rings_.PrepareToSleep());
  EXPECT_FALSE(client_.TakeEngineSleeps());  // taken back
  Answer(Take());

  EXPECT_FALSE(rings_.TakeClientSleeps());
  EXPECT_FALSE(client_.PrepareToSleep());
  OptireduceShmCompletion entry;
  EXPECT_TRUE(client_.Read(&entry));
  EXPECT_TRUE(client_.PrepareToSleep());
  EXPECT_TRUE(rings_.TakeClientSleeps());
  EXPECT_FALSE(rings_.TakeClientSleeps());
}

TEST_F(SessionRingsTest, AFreshFindOfDamageIsToldBeforeSleeping) {
  client_.SetTail(kSlots + 1);
  EXPECT_FALSE(rings_.PrepareToSleep());
  ExpectBroken(OPTIREDUCE_SHM_REASON_BAD_SUBMISSION_TAIL);
}

// Random indices and contents: never more than the slots there are, and no
// access outside of them (which asan would see).
TEST_F(SessionRingsTest, SurvivesRandomWrites) {
  constexpr uint64_t kSeed = 4711;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  for (int round = 0; round < 300; ++round) {
    SessionRings rings(*segment_);
    client_.SetTail(0);
    client_.SetHead(0);
    uint32_t taken = 0;
    for (int step = 0; step < 200; ++step) {
      const auto value = static_cast<uint32_t>(
          rng.Chance(0.2) ? rng.Next() : rng.Below(2 * kSlots));
      switch (rng.Below(4)) {
        case 0:
          client_.SetTail(value);
          break;
        case 1:
          client_.SetHead(value);
          break;
        case 2: {
          auto* words = reinterpret_cast<uint64_t*>(segment_->base());
          words[rng.Below(segment_->bytes() / 8)] = rng.Next();
          break;
        }
        default:
          OptireduceShmSubmission copy;
          if (rings.TakeSubmission(&copy) == TakeResult::kTaken) {
            ++taken;
            rings.PushCompletion({});
          }
      }
    }
    ASSERT_LE(taken, 200u);
  }
}

// Both sides sleep whenever they can; neither may miss the other.
TEST_F(SessionRingsTest, NoWakeUpIsLost) {
  constexpr uint64_t kOps = 20'000;
  auto bells = MakeBells();
  ASSERT_TRUE(bells.ok());
  std::atomic<bool> failed = false;

  std::thread daemon([&] {
    uint64_t done = 0;
    OptireduceShmSubmission copy;
    while (done < kOps) {
      const TakeResult result = rings_.TakeSubmission(&copy);
      if (result == TakeResult::kTaken) {
        Answer(copy.cookie);
        if (rings_.TakeClientSleeps()) Ring(bells->client_bell.get());
        ++done;
      } else if (result == TakeResult::kBroken) {
        failed = true;
        return;
      } else if (rings_.PrepareToSleep()) {
        pollfd wait = {bells->engine_event.get(), POLLIN, 0};
        if (poll(&wait, 1, 20'000) != 1) {
          failed = true;
          return;
        }
        uint64_t count = 0;
        if (read(bells->engine_event.get(), &count, 8) != 8) failed = true;
        rings_.WokeUp();
      }
    }
  });

  uint64_t received = 0;
  OptireduceShmCompletion entry;
  for (uint64_t sent = 0; received < kOps && !failed;) {
    if (sent < kOps && sent - received < 3) {
      client_.Submit(sent++);
      if (client_.TakeEngineSleeps()) {
        const uint64_t one = 1;
        ASSERT_EQ(write(bells->engine_event.get(), &one, 8), 8);
      }
    } else if (client_.Read(&entry)) {
      ASSERT_EQ(entry.cookie, received++);
    } else if (client_.PrepareToSleep()) {
      pollfd wait = {bells->client_end.get(), POLLIN, 0};
      ASSERT_EQ(poll(&wait, 1, 20'000), 1);
      char bytes[64];
      ASSERT_GT(recv(bells->client_end.get(), bytes, sizeof(bytes), 0), 0);
    }
  }
  daemon.join();
  EXPECT_FALSE(failed);
  EXPECT_EQ(received, kOps);
}

TEST(BellTest, NeverBlocksHoweverManyBytesAreUnread) {
  auto bells = MakeBells();
  ASSERT_TRUE(bells.ok());
  // What a client can do to a descriptor that it was given.
  ASSERT_EQ(fcntl(bells->client_end.get(), F_SETFL, 0), 0);
  ASSERT_EQ(fcntl(bells->client_bell.get(), F_SETFL, 0), 0);
  for (int i = 0; i < 100'000; ++i) Ring(bells->client_bell.get());
  pollfd wait = {bells->client_end.get(), POLLIN, 0};
  EXPECT_EQ(poll(&wait, 1, 0), 1);
}

TEST(BellTest, HangsUpWithTheDaemon) {
  auto bells = MakeBells();
  ASSERT_TRUE(bells.ok());
  bells->client_bell.Reset();
  pollfd wait = {bells->client_end.get(), POLLIN, 0};
  ASSERT_EQ(poll(&wait, 1, 0), 1);
  EXPECT_TRUE(wait.revents & POLLHUP);
}

TEST(BellTest, AClientThatIsGoneRaisesNoSignal) {
  auto bells = MakeBells();
  ASSERT_TRUE(bells.ok());
  bells->client_end.Reset();
  Ring(bells->client_bell.get());  // SIGPIPE would end the test
}

}  // namespace
}  // namespace optireduce::shm
