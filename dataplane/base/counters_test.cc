#include "dataplane/base/counters.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <latch>
#include <thread>

namespace optireduce {
namespace {

enum class Event { kFirst, kSecond, kThird };
using Counters = CounterArray<Event, 3>;

TEST(CounterArrayTest, StartsAtZeroAndCountsApart) {
  Counters counters;
  EXPECT_EQ(counters.Sum(), 0u);
  counters.Increment(Event::kFirst);
  counters.Increment(Event::kThird, 40);
  counters.Increment(Event::kThird, 2);
  EXPECT_EQ(counters.Get(Event::kFirst), 1u);
  EXPECT_EQ(counters.Get(Event::kSecond), 0u);
  EXPECT_EQ(counters.Get(Event::kThird), 42u);
  EXPECT_EQ(counters.Snapshot(), (std::array<uint64_t, 3>{1, 0, 42}));
  EXPECT_EQ(counters.Sum(), 43u);
}

TEST(CounterArrayTest, AnotherThreadSeesThemGrow) {
  constexpr uint64_t kIncrements = 100'000;
  Counters counters;
  std::latch start(2);
  std::thread writer([&] {
    start.arrive_and_wait();
    for (uint64_t i = 0; i < kIncrements; ++i) {
      counters.Increment(Event::kSecond);
    }
  });
  start.arrive_and_wait();
  uint64_t last = 0;
  bool grows = true;
  for (uint64_t i = 0; i < kIncrements; ++i) {
    const uint64_t seen = counters.Get(Event::kSecond);
    grows = grows && last <= seen && seen <= kIncrements;
    last = seen;
  }
  writer.join();
  EXPECT_TRUE(grows);
  EXPECT_EQ(counters.Get(Event::kSecond), kIncrements);
}

}  // namespace
}  // namespace optireduce
