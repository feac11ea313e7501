#include "dataplane/core/lateness.h"

#include <gtest/gtest.h>

namespace optireduce::core {
namespace {

const Rank kFirst(0);
const Rank kSecond(1);

TEST(Lateness, WhoWasNeverLateIsGivenNothing) {
  Lateness lateness(2);
  lateness.OnQuorum();
  EXPECT_EQ(lateness.Allowance(kFirst), Duration());
}

TEST(Lateness, ARankIsGivenTwoFifthsMoreThanItWasLateBy) {
  Lateness lateness(2);
  lateness.OnOpened(kSecond, Duration::Millis(10));
  EXPECT_EQ(lateness.Allowance(kSecond), Duration::Millis(14));
  EXPECT_EQ(lateness.Allowance(kFirst), Duration());
}

TEST(Lateness, TheLongestCounts) {
  Lateness lateness(2);
  lateness.OnOpened(kFirst, Duration::Millis(10));
  lateness.OnOpened(kFirst, Duration::Millis(5));
  EXPECT_EQ(lateness.Allowance(kFirst), Duration::Millis(14));
  lateness.OnOpened(kFirst, Duration::Millis(20));
  EXPECT_EQ(lateness.Allowance(kFirst), Duration::Millis(28));
}

// Late with the first of 40 buckets in each step, by the same time.
TEST(Lateness, WhatReturnsInEveryStepIsNotForgotten) {
  Lateness lateness(2);
  lateness.OnOpened(kFirst, Duration::Millis(10));
  for (int op = 0; op < 40; ++op) lateness.OnQuorum();
  EXPECT_GT(lateness.Allowance(kFirst), Duration::Millis(10));
}

TEST(Lateness, WhatDoesNotReturnIsForgotten) {
  Lateness lateness(2);
  lateness.OnOpened(kFirst, Duration::Millis(10));
  for (int op = 0; op < 400; ++op) lateness.OnQuorum();
  EXPECT_LT(lateness.Allowance(kFirst), Duration::Millis(1));
}

}  // namespace
}  // namespace optireduce::core
