#include "dataplane/engine/op_trace.h"

#include <gtest/gtest.h>

#include <thread>

namespace optireduce::engine {
namespace {

OptireduceShmCompletion Entry(uint64_t n) {
  OptireduceShmCompletion entry{};
  entry.cookie = n;
  entry.elements = n * 3;
  entry.missing[15] = ~n;
  return entry;
}

TEST(OpTraceTest, NewestFirst) {
  OpTrace trace;
  EXPECT_TRUE(trace.Read().empty());
  for (uint64_t n = 0; n < 3; ++n) trace.Record(Entry(n));
  const auto entries = trace.Read();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].cookie, 2u);
  EXPECT_EQ(entries[2].cookie, 0u);
}

TEST(OpTraceTest, KeepsTheLast) {
  OpTrace trace;
  for (uint64_t n = 0; n < 1000; ++n) trace.Record(Entry(n));
  const auto entries = trace.Read();
  ASSERT_EQ(entries.size(), OpTrace::kKept);
  EXPECT_EQ(entries.front().cookie, 999u);
  EXPECT_EQ(entries.back().cookie, 1000u - OpTrace::kKept);
}

TEST(OpTraceTest, WhatIsReadIsWholeWhileOthersAreRecorded) {
  OpTrace trace;
  std::thread recorder([&trace] {
    for (uint64_t n = 1; n <= 200'000; ++n) trace.Record(Entry(n));
  });
  uint64_t last = 0;
  while (last < 200'000) {
    for (const OptireduceShmCompletion& entry : trace.Read()) {
      ASSERT_EQ(entry.elements, entry.cookie * 3);
      ASSERT_EQ(entry.missing[15], ~entry.cookie);
      last = std::max(last, entry.cookie);
    }
  }
  recorder.join();
}

}  // namespace
}  // namespace optireduce::engine
