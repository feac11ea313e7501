// Saved state, between a client's memory and the core.

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/engine/engine_testing.h"

namespace optireduce::engine {
namespace {

using Bytes = std::vector<uint8_t>;

class EngineStateTest : public ::testing::Test {
 protected:
  EngineStateTest() : lab_(2, 1, WithSmallLedger()) { lab_.Form(); }

  static core::GroupConfig WithSmallLedger() {
    core::GroupConfig settings = Settings();
    settings.ledger_budget = 1 << 16;
    return settings;
  }
  const Completion& Ask(const decltype(Submission::request)& request) {
    lab_.rank(0).client->Submit({lab_.rank(0).group, request, ++cookie_});
    lab_.Run(Duration());
    const Completion* done = lab_.CompletionOf(0, cookie_);
    EXPECT_NE(done, nullptr);
    return *done;
  }
  Bytes Saved() {
    Bytes state(1000);
    const Completion& done = Ask(StateSave{state});
    EXPECT_EQ(done.state, StateResult::kDone);
    state.resize(done.state_bytes);
    return state;
  }

  Lab lab_;
  uint64_t cookie_ = 100;
};

TEST_F(EngineStateTest, ItIsSavedAndLoaded) {
  const Bytes state = Saved();
  ASSERT_GT(state.size(), 0);
  const Completion& done = Ask(StateLoad{state});
  EXPECT_EQ(done.state, StateResult::kDone);
  EXPECT_EQ(done.state_bytes, state.size());
  EXPECT_EQ(Saved(), state);
}

TEST_F(EngineStateTest, TooLittleRoomIsLeftAlone) {
  const size_t needed = Saved().size();
  Bytes room(needed - 1, 7);
  const Completion& done = Ask(StateSave{room});
  EXPECT_EQ(done.state, StateResult::kNoRoom);
  EXPECT_EQ(done.state_bytes, needed);
  EXPECT_EQ(room, Bytes(needed - 1, 7));
}

TEST_F(EngineStateTest, WhatCannotBeLoadedIsNamed) {
  Bytes state = Saved();
  state[0] ^= 1;
  EXPECT_EQ(Ask(StateLoad{state}).state, StateResult::kDamaged);
  EXPECT_EQ(Ask(StateLoad{{}}).state, StateResult::kDamaged);
  const Bytes large((1 << 16) + 1);
  EXPECT_EQ(Ask(StateLoad{large}).state, StateResult::kNoMemory);
}

TEST_F(EngineStateTest, NotWhileAStepIsOpen) {
  Buffers buffers(2, 100);
  core::OpDescriptor op = Sum(100, core::Mode::kBounded);
  op.bucket = 1;
  op.step = 7;
  for (size_t r = 0; r < 2; ++r) lab_.Submit(r, op, buffers.View(r), 1);
  lab_.Run(Duration::Millis(50));
  ASSERT_NE(lab_.CompletionOf(0, 1), nullptr);
  Bytes state(1000, 7);
  EXPECT_EQ(Ask(StateSave{state}).state, StateResult::kNotQuiet);
  EXPECT_EQ(state, Bytes(1000, 7));
  EXPECT_EQ(Ask(StepClose{7, core::StepOutcome::kUsed}).closed_ops, 1);
  lab_.Run(Duration::Millis(50));
  EXPECT_EQ(Ask(StateSave{state}).state, StateResult::kDone);
}

}  // namespace
}  // namespace optireduce::engine
