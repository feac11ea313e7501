#include "dataplane/base/require.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

namespace optireduce {
namespace {

bool TrappedInSilence(int status) {
  return WIFSIGNALED(status) &&
         (WTERMSIG(status) == SIGILL || WTERMSIG(status) == SIGTRAP);
}

TEST(Require, DoesNothingIfTheConditionHolds) {
  static_assert((Require(true), true));
  volatile bool holds = true;
  Require(holds);
}

TEST(RequireDeathTest, TrapsWithoutAWord) {
  volatile bool holds = false;
  EXPECT_EXIT(Require(holds), TrappedInSilence, "^$");
}

}  // namespace
}  // namespace optireduce
