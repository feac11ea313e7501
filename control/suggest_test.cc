#include "control/suggest.h"

#include <gtest/gtest.h>

namespace optireduce::control {
namespace {

TEST(EditDistanceTest, CountsEachKindOfSlipOnce) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("mtu", "mtu"), 0u);
  EXPECT_EQ(EditDistance("mtu", ""), 3u);
  EXPECT_EQ(EditDistance("mtu", "mtus"), 1u);
  EXPECT_EQ(EditDistance("mtu", "tu"), 1u);
  EXPECT_EQ(EditDistance("mtu", "mtx"), 1u);
  EXPECT_EQ(EditDistance("mtu", "mut"), 1u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
}

TEST(SuggestionTest, FindsTheLikelyName) {
  const std::vector<std::string> names = {"hugepages", "mtu", "memory_mb",
                                          "socket"};
  EXPECT_EQ(Suggestion("hugepge", names), "; did you mean \"hugepages\"?");
  EXPECT_EQ(Suggestion("MTU", names), "; did you mean \"mtu\"?");
  EXPECT_EQ(Suggestion("memroy_mb", names, "--"),
            "; did you mean \"--memory_mb\"?");
}

TEST(SuggestionTest, SaysNothingWhenNothingIsClose) {
  EXPECT_EQ(Suggestion("completely_else", {"mtu", "socket"}), "");
  EXPECT_EQ(Suggestion("xyz", {"mtu"}), "");
  EXPECT_EQ(Suggestion("mtu", {}), "");
}

}  // namespace
}  // namespace optireduce::control
