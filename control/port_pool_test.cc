#include "control/port_pool.h"

#include <gtest/gtest.h>

#include <set>

namespace optireduce::control {
namespace {

TEST(PortPoolTest, GivesEachPortOnce) {
  PortPool pool(65530, 6);
  std::set<uint16_t> ports;
  for (int i = 0; i < 6; ++i) ports.insert(*pool.Take());
  EXPECT_EQ(ports.size(), 6u);
  EXPECT_EQ(*ports.begin(), 65530);
  EXPECT_EQ(*ports.rbegin(), 65535);
  EXPECT_EQ(pool.Take(), std::nullopt);
  pool.Release(65533);
  EXPECT_EQ(pool.in_use(), 5u);
  EXPECT_EQ(pool.Take(), 65533);
}

TEST(PortPoolTest, AFreedPortIsTheLastToBeGivenAgain) {
  PortPool pool(47000, 3);
  EXPECT_EQ(pool.Take(), 47000);
  pool.Release(47000);
  EXPECT_EQ(pool.Take(), 47001);
  EXPECT_EQ(pool.Take(), 47002);
  EXPECT_EQ(pool.Take(), 47000);
}

}  // namespace
}  // namespace optireduce::control
