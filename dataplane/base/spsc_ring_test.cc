#include "dataplane/base/spsc_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <latch>
#include <thread>

namespace optireduce {
namespace {

TEST(SpscRingTest, FirstInFirstOutUpToItsCapacity) {
  SpscRing<int> ring(4);
  EXPECT_EQ(ring.capacity(), 4u);
  int value = -1;
  EXPECT_FALSE(ring.TryPop(value));
  EXPECT_EQ(value, -1);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(ring.SizeEstimate(), static_cast<size_t>(i));
    EXPECT_TRUE(ring.TryPush(i));
  }
  EXPECT_FALSE(ring.TryPush(4));
  EXPECT_EQ(ring.SizeEstimate(), 4u);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(ring.TryPop(value));
    EXPECT_EQ(value, i);
  }
  EXPECT_FALSE(ring.TryPop(value));
}

TEST(SpscRingTest, OneEntryIsEnough) {
  SpscRing<int> ring(1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(ring.TryPush(i));
    EXPECT_FALSE(ring.TryPush(i));
    int value = -1;
    EXPECT_TRUE(ring.TryPop(value));
    EXPECT_EQ(value, i);
    EXPECT_FALSE(ring.TryPop(value));
  }
}

TEST(SpscRingTest, GoesRoundManyTimesAtEveryLevel) {
  SpscRing<uint64_t> ring(8);
  uint64_t pushed = 0;
  uint64_t popped = 0;
  for (size_t level = 0; level <= 8; ++level) {
    while (ring.SizeEstimate() < level) ASSERT_TRUE(ring.TryPush(pushed++));
    for (int i = 0; i < 20; ++i) {
      if (level < 8) {
        ASSERT_TRUE(ring.TryPush(pushed++));
      }
      uint64_t value = 0;
      ASSERT_EQ(ring.TryPop(value), pushed > popped);
      if (pushed > popped) {
        ASSERT_EQ(value, popped++);
      }
      if (level == 8) {
        ASSERT_TRUE(ring.TryPush(pushed++));
      }
    }
    ASSERT_EQ(ring.SizeEstimate(), level);
  }
}

// More than a word, so that a torn entry shows.
struct Entry {
  uint64_t number;
  uint64_t complement;
};

// Lets the other thread run now and then: on a busy machine it may need that,
// but each time may cost a time slice.
class Patience {
 public:
  void Wait() {
    if (++waits_ % 256 == 0) std::this_thread::yield();
  }

 private:
  int waits_ = 0;
};

struct Tally {
  uint64_t done = 0;
  uint64_t wrong = 0;
  Patience patience;
};

void Pop(SpscRing<Entry>& ring, Tally& tally) {
  Entry entry;
  if (!ring.TryPop(entry)) {
    tally.patience.Wait();
    return;
  }
  if (entry.number != tally.done || entry.complement != ~entry.number) {
    ++tally.wrong;
  }
  ++tally.done;
}

TEST(SpscRingTest, BothEndsAndAWatcherAtOnce) {
  constexpr int kTries = 200'000;
  SpscRing<Entry> ring(16);
  std::latch start(3);
  uint64_t pushed = 0;
  std::thread producer([&] {
    Patience patience;
    start.arrive_and_wait();
    for (int i = 0; i < kTries; ++i) {
      if (ring.TryPush({pushed, ~pushed})) {
        ++pushed;
      } else {
        patience.Wait();
      }
    }
  });
  size_t most = 0;
  std::thread watcher([&] {
    start.arrive_and_wait();
    for (int i = 0; i < kTries; ++i) most = std::max(most, ring.SizeEstimate());
  });
  start.arrive_and_wait();
  Tally popped;
  for (int i = 0; i < kTries; ++i) Pop(ring, popped);
  producer.join();
  watcher.join();
  while (ring.SizeEstimate() > 0) Pop(ring, popped);
  EXPECT_EQ(popped.done, pushed);
  EXPECT_EQ(popped.wrong, 0u);
  EXPECT_LE(most, ring.capacity());
  EXPECT_GE(pushed, ring.capacity());
}

}  // namespace
}  // namespace optireduce
