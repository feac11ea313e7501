#include "dataplane/nic/kernel_interface.h"

#include <gtest/gtest.h>

namespace optireduce::nic {
namespace {

constexpr char kIpv4Routes[] =
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n"
    "eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
    "eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
    "eth1\t0000630A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
    "ppp0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0\n"
    // Half of the address space is not a default route.
    "tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n";

constexpr char kIpv6Routes[] =
    "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
    "fe800000000000000000000000000001 00000400 00000001 00000000 00000003 "
    "    eth2\n"
    "fe800000000000000000000000000000 40 00000000000000000000000000000000 00 "
    "00000000000000000000000000000000 00000100 00000001 00000000 00000001 "
    "    eth3\n"
    "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
    "00000000000000000000000000000000 ffffffff 00000001 00000000 00200200 "
    "      lo\n";

TEST(KernelInterfaceTest, FindsTheIpv4DefaultRouteAndItsGateway) {
  const DefaultRoute route = FindIpv4DefaultRoute(kIpv4Routes, "eth0");
  EXPECT_TRUE(route.exists);
  EXPECT_EQ(route.gateway, Ipv4Address(0xac110001));
  EXPECT_FALSE(FindIpv4DefaultRoute(kIpv4Routes, "eth1").exists);
  EXPECT_FALSE(FindIpv4DefaultRoute(kIpv4Routes, "tun0").exists);
  EXPECT_FALSE(FindIpv4DefaultRoute("", "eth0").exists);
}

TEST(KernelInterfaceTest, DefaultRouteWithoutGateway) {
  const DefaultRoute route = FindIpv4DefaultRoute(kIpv4Routes, "ppp0");
  EXPECT_TRUE(route.exists);
  EXPECT_FALSE(route.gateway.has_value());
}

TEST(KernelInterfaceTest, FindsTheIpv6DefaultRoute) {
  EXPECT_TRUE(HasIpv6DefaultRoute(kIpv6Routes, "eth2"));
  EXPECT_FALSE(HasIpv6DefaultRoute(kIpv6Routes, "eth3"));
  // The kernel's "unreachable" route.
  EXPECT_FALSE(HasIpv6DefaultRoute(kIpv6Routes, "lo"));
}

TEST(KernelInterfaceTest, ReadsTheLoopback) {
  const auto lo = ReadKernelInterface("lo");
  ASSERT_TRUE(lo.ok()) << lo.status();
  EXPECT_GT(lo->index, 0);
  EXPECT_GT(lo->mtu, 0);
  EXPECT_NE(lo->netns, 0);
  EXPECT_FALSE(lo->has_default_route);
}

TEST(KernelInterfaceTest, UnknownNameListsTheKnownOnes) {
  const auto missing = ReadKernelInterface("nosuch0");
  ASSERT_FALSE(missing.ok());
  const std::string message(missing.status().message());
  EXPECT_NE(message.find("nosuch0"), std::string::npos) << message;
  EXPECT_NE(message.find("lo"), std::string::npos) << message;
}

}  // namespace
}  // namespace optireduce::nic
