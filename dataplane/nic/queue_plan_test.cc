#include "dataplane/nic/queue_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace optireduce::nic {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(QueuePlanTest, DeviceWithoutAnyFeatureIsUsable) {
  const auto plan = PlanQueues({.driver = "net_null"}, 1500);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE(plan->rx_checksum);
  EXPECT_FALSE(plan->tx_checksum);
  EXPECT_GT(plan->rx_descriptors, 0);
  EXPECT_GT(plan->tx_descriptors, 0);
  EXPECT_THAT(plan->notes, Contains(HasSubstr("checked in software")));
  EXPECT_THAT(plan->notes, Contains(HasSubstr("made in software")));
  EXPECT_THAT(plan->notes, Contains(HasSubstr("link speed")));
}

TEST(QueuePlanTest, OffersAreUsed) {
  const auto plan = PlanQueues({.driver = "mlx5_pci",
                                .link_bps = 100'000'000'000,
                                .rx_ip_checksum = true,
                                .rx_udp_checksum = true,
                                .tx_udp_checksum = true,
                                .tx_fast_free = true},
                               1500);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->rx_checksum);
  EXPECT_TRUE(plan->tx_checksum);
  EXPECT_TRUE(plan->tx_fast_free);
  EXPECT_THAT(plan->notes, Contains(HasSubstr("checked by the device")));
}

TEST(QueuePlanTest, HalfOfTheReceiveChecksumsIsNone) {
  EXPECT_FALSE(
      PlanQueues({.driver = "x", .rx_ip_checksum = true}, 1500)->rx_checksum);
  EXPECT_FALSE(
      PlanQueues({.driver = "x", .rx_udp_checksum = true}, 1500)->rx_checksum);
}

TEST(QueuePlanTest, MultiSegmentAndFastFreeAreNeverBothAsked) {
  for (const bool multi : {false, true}) {
    for (const bool fast : {false, true}) {
      const auto plan = PlanQueues(
          {.driver = "x", .tx_fast_free = fast, .tx_multi_segment = multi},
          1500);
      EXPECT_FALSE(plan->tx_fast_free && plan->tx_multi_segment);
    }
  }
}

TEST(QueuePlanTest, DescriptorsFitTheDevice) {
  const auto plan = PlanQueues(
      {.driver = "x", .max_rx_descriptors = 256, .max_tx_descriptors = 128},
      1500);
  EXPECT_EQ(plan->rx_descriptors, 256);
  EXPECT_EQ(plan->tx_descriptors, 128);
}

TEST(QueuePlanTest, BuffersHoldAFrameOfTheMtu) {
  for (const uint16_t mtu : {576, 1500, 2030, 9000, 9216}) {
    const auto plan = PlanQueues({.driver = "x"}, mtu);
    ASSERT_TRUE(plan.ok());
    EXPECT_GE(plan->buffer_bytes, kHeadroomBytes + 64 + 22 + mtu);
    EXPECT_GE(plan->buffer_bytes, kHeadroomBytes + 2048);
  }
}

TEST(QueuePlanTest, GveBuffersAreClampedWithOneNotice) {
  const auto plan = PlanQueues({.driver = "net_gve"}, 1460);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->buffer_bytes, kHeadroomBytes + 2048);
  EXPECT_THAT(plan->notes, Contains(HasSubstr("gve")).Times(1));
  const auto jumbo = PlanQueues({.driver = "net_gve"}, 8896);
  ASSERT_FALSE(jumbo.ok());
  EXPECT_THAT(std::string(jumbo.status().message()), HasSubstr("2026"));
}

TEST(QueuePlanTest, AfXdpHasBuffersForItsRings) {
  EXPECT_GE(PlanQueues({.driver = "net_af_xdp"}, 1500)->rx_buffers, 4096);
  const auto other = PlanQueues({.driver = "net_ice"}, 1500);
  EXPECT_EQ(other->rx_buffers, other->rx_descriptors);
}

TEST(QueuePlanTest, MtuOutsideTheDevicesRangeIsRefused) {
  const DeviceCapabilities device = {
      .driver = "x", .min_mtu = 68, .max_mtu = 1500};
  EXPECT_TRUE(PlanQueues(device, 1500).ok());
  const auto plan = PlanQueues(device, 1501);
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("1500"));
  EXPECT_FALSE(PlanQueues(device, 60).ok());
}

}  // namespace
}  // namespace optireduce::nic
