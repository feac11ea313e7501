// Saving and loading a group's state, at the daemon's end of the rings.

#include <gtest/gtest.h>

#include <cstring>

#include "dataplane/engine/shm_session_testing.h"

namespace optireduce::engine {
namespace {

class ShmSessionStateTest : public ShmSessionTest {
 protected:
  OptireduceShmSubmission Save(uint64_t offset, uint32_t bytes) const {
    OptireduceShmSubmission s{};
    s.group = kHandle;
    s.kind = OPTIREDUCE_SHM_STATE_SAVE;
    s.count = bytes;
    s.output_offset = data_ + offset;
    return s;
  }
  OptireduceShmSubmission Load(uint64_t offset, uint32_t bytes) const {
    OptireduceShmSubmission s = Save(0, bytes);
    s.kind = OPTIREDUCE_SHM_STATE_LOAD;
    s.output_offset = 0;
    s.input_offset = data_ + offset;
    return s;
  }
  OptireduceShmCompletion FinishState(const Submission& submission,
                                      StateResult result, size_t bytes) {
    Completion completion;
    completion.cookie = submission.cookie;
    completion.state = result;
    completion.state_bytes = bytes;
    session_->Complete(completion);
    return Read();
  }
};

TEST_F(ShmSessionStateTest, TheMemoryIsTheOneThatIsNamed) {
  const Submission save = Accepted(Save(64, 100));
  EXPECT_EQ(save.group, kGroup);
  const auto out = std::get<StateSave>(save.request).out;
  EXPECT_EQ(out.data(), segment_->base() + data_ + 64);
  EXPECT_EQ(out.size(), 100u);
  const Submission load = Accepted(Load(512, 200));
  const auto state = std::get<StateLoad>(load.request).state;
  EXPECT_EQ(state.data(), segment_->base() + data_ + 512);
  EXPECT_EQ(state.size(), 200u);

  OptireduceShmCompletion entry = FinishState(save, StateResult::kDone, 77);
  EXPECT_EQ(entry.kind, OPTIREDUCE_SHM_STATE_SAVE);
  EXPECT_EQ(entry.status, OPTIREDUCE_SHM_COMPLETE);
  EXPECT_EQ(entry.elements, 77u);
  EXPECT_EQ(entry.step_open, 0);
  entry = FinishState(load, StateResult::kDone, 200);
  EXPECT_EQ(entry.kind, OPTIREDUCE_SHM_STATE_LOAD);
  EXPECT_TRUE(session_->trace().Read().empty());
}

TEST_F(ShmSessionStateTest, ResultsAreTold) {
  const std::pair<StateResult, int> expected[] = {
      {StateResult::kNotQuiet, OPTIREDUCE_SHM_REFUSAL_NOT_QUIET},
      {StateResult::kNoRoom, OPTIREDUCE_SHM_REFUSAL_STATE_ROOM},
      {StateResult::kDamaged, OPTIREDUCE_SHM_REFUSAL_STATE_DAMAGED},
      {StateResult::kVersion, OPTIREDUCE_SHM_REFUSAL_STATE_VERSION},
      {StateResult::kOtherGroup, OPTIREDUCE_SHM_REFUSAL_STATE_GROUP},
      {StateResult::kNoMemory, OPTIREDUCE_SHM_REFUSAL_STATE_MEMORY}};
  for (const auto& [result, refusal] : expected) {
    const OptireduceShmCompletion entry =
        FinishState(Accepted(Save(0, 8)), result, 500);
    EXPECT_EQ(entry.status, OPTIREDUCE_SHM_REFUSED);
    EXPECT_EQ(entry.refusal, refusal);
    EXPECT_EQ(entry.elements, 500u);
  }
}

TEST_F(ShmSessionStateTest, TheMemoryIsInFlightMeanwhile) {
  const Submission save = Accepted(Save(64, 100));
  EXPECT_EQ(Refused(AllReduce(160, 1)).refusal,
            OPTIREDUCE_SHM_REFUSAL_IN_FLIGHT);
  EXPECT_EQ(Refused(Load(0, 65)).refusal, OPTIREDUCE_SHM_REFUSAL_IN_FLIGHT);
  FinishState(save, StateResult::kDone, 0);
  FinishState(Accepted(Load(0, 65)), StateResult::kDone, 65);
  FinishState(Accepted(Save(0, 0)), StateResult::kNoRoom, 1);
}

TEST_F(ShmSessionStateTest, RefusesWhatIsOutsideOrNotUsed) {
  const uint64_t end = segment_->data_bytes();
  EXPECT_EQ(Refused(Save(end - 7, 8)).refusal,
            OPTIREDUCE_SHM_REFUSAL_OUTPUT_RANGE);
  EXPECT_EQ(Refused(Load(end - 7, 8)).refusal,
            OPTIREDUCE_SHM_REFUSAL_INPUT_RANGE);
  OptireduceShmSubmission wild = Load(0, UINT32_MAX);
  wild.input_offset = UINT64_MAX - 5;
  EXPECT_EQ(Refused(wild).refusal, OPTIREDUCE_SHM_REFUSAL_INPUT_RANGE);
  // Every byte but cookie, group, kind, count and the offset.
  for (size_t i = 13; i < sizeof(OptireduceShmSubmission); ++i) {
    if ((i >= 32 && i < 36) || (i >= 56 && i < 64)) continue;
    OptireduceShmSubmission s = Load(0, 8);
    reinterpret_cast<uint8_t*>(&s)[i] = 1;
    EXPECT_EQ(Refused(s).refusal, OPTIREDUCE_SHM_REFUSAL_RESERVED) << i;
  }
}

}  // namespace
}  // namespace optireduce::engine
