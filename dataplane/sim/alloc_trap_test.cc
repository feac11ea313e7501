#include "dataplane/sim/alloc_trap.h"

#include <memory>

#include "gtest/gtest.h"

namespace optireduce::sim {
namespace {

TEST(AllocTrapTest, CountsAllocationsAndReleasesOnlyWhileForbidden) {
  const uint64_t before = NoAllocation::violations();
  auto value = std::make_unique<int>(1);
  EXPECT_EQ(NoAllocation::violations(), before);
  {
    const NoAllocation forbidden;
    value = std::make_unique<int>(2);  // one new, one delete
  }
  EXPECT_EQ(NoAllocation::violations(), before + 2);
  value.reset();
  EXPECT_EQ(NoAllocation::violations(), before + 2);
}

TEST(AllocTrapTest, Nests) {
  const uint64_t before = NoAllocation::violations();
  const NoAllocation outer;
  { const NoAllocation inner; }
  const auto value = std::make_unique<int>(1);
  EXPECT_EQ(NoAllocation::violations(), before + 1);
}

}  // namespace
}  // namespace optireduce::sim
