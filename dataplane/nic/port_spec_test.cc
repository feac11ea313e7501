#include "dataplane/nic/port_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace optireduce::nic {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

KernelInterface Eth0() {
  KernelInterface interface;
  interface.name = "eth0";
  interface.index = 2;
  interface.mtu = 1500;
  interface.netns = 4026531840;
  return interface;
}

std::string ErrorOf(const std::string& text) {
  const auto spec = ParsePortSpec(text);
  return spec.ok() ? "accepted" : std::string(spec.status().message());
}

TEST(PortSpecTest, Parses) {
  const auto memif = ParsePortSpec("memif:/run/a.sock,id=3,role=server");
  ASSERT_TRUE(memif.ok()) << memif.status();
  EXPECT_EQ(memif->kind, PortKind::kMemif);
  EXPECT_EQ(memif->device, "/run/a.sock");
  EXPECT_EQ(memif->options.at("id"), "3");
  EXPECT_EQ(memif->options.at("role"), "server");

  const auto pci = ParsePortSpec("pci:0000:3b:00.0");
  ASSERT_TRUE(pci.ok()) << pci.status();
  EXPECT_EQ(pci->kind, PortKind::kPci);
  EXPECT_EQ(pci->device, "0000:3b:00.0");

  EXPECT_EQ(ParsePortSpec("af_packet:eth0")->kind, PortKind::kAfPacket);
  EXPECT_EQ(ParsePortSpec("af_xdp:eth0")->kind, PortKind::kAfXdp);
  EXPECT_EQ(ParsePortSpec("ring:0")->kind, PortKind::kRing);
}

TEST(PortSpecTest, SaysWhatIsWrong) {
  EXPECT_THAT(ErrorOf("af_paket:eth0"), HasSubstr("af_packet:eth0"));
  EXPECT_THAT(ErrorOf("AF_PACKET:eth0"), HasSubstr("not one of"));
  EXPECT_THAT(ErrorOf("af_packet"), HasSubstr("not one of"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("not one of"));
  EXPECT_THAT(ErrorOf("af_packet:"), HasSubstr("interface name"));
  EXPECT_THAT(ErrorOf("af_packet:eth0 "), HasSubstr("interface name"));
  EXPECT_THAT(ErrorOf("af_packet:sixteen_letters_"),
              HasSubstr("interface name"));
  EXPECT_THAT(ErrorOf("af_packet:eth0,qdisc_bypass=1"),
              HasSubstr("unknown option \"qdisc_bypass\""));
  EXPECT_THAT(ErrorOf("af_xdp:eth0,queue"), HasSubstr("needs a value"));
  EXPECT_THAT(ErrorOf("af_xdp:eth0,queue="), HasSubstr("needs a value"));
  EXPECT_THAT(ErrorOf("af_xdp:eth0,queue=one"), HasSubstr("is a number"));
  EXPECT_THAT(ErrorOf("af_xdp:eth0,queue=1,queue=2"), HasSubstr("twice"));
  EXPECT_THAT(ErrorOf("memif:/run/a.sock,id=0"), HasSubstr("role is"));
  EXPECT_THAT(ErrorOf("memif:/run/a.sock,role=master"), HasSubstr("role is"));
  EXPECT_THAT(ErrorOf("memif:a.sock,role=client"), HasSubstr("absolute path"));
  EXPECT_THAT(ErrorOf("memif:/" + std::string(200, 'x') + ",role=client"),
              HasSubstr("107"));
  EXPECT_THAT(ErrorOf("ring:a"), HasSubstr("number"));
  EXPECT_THAT(ErrorOf("pci:3b:00.0"), HasSubstr("PCI address"));
  EXPECT_THAT(ErrorOf("pci:0000:3b:00.8"), HasSubstr("PCI address"));
}

TEST(PortSpecTest, AfPacketKeepsTheQueueingDiscipline) {
  const KernelInterface eth0 = Eth0();
  const auto plan =
      PlanDevice(*ParsePortSpec("af_packet:eth0"), &eth0, 1, false);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->bus, "vdev");
  EXPECT_EQ(plan->name, "net_af_packet1");
  EXPECT_THAT(plan->arguments, HasSubstr("iface=eth0,"));
  EXPECT_THAT(plan->arguments, HasSubstr("qdisc_bypass=0"));
  EXPECT_THAT(plan->arguments, HasSubstr("framesz=2048,framecnt=2048"));
}

TEST(PortSpecTest, AfPacketFramesHoldTheMtu) {
  KernelInterface eth0 = Eth0();
  eth0.mtu = 9000;
  const auto plan =
      PlanDevice(*ParsePortSpec("af_packet:eth0"), &eth0, 0, false);
  ASSERT_TRUE(plan.ok());
  EXPECT_THAT(plan->arguments,
              HasSubstr("blocksz=65536,framesz=16384,framecnt=256"));
  eth0.mtu = 65535;
  EXPECT_THAT(
      PlanDevice(*ParsePortSpec("af_packet:eth0"), &eth0, 0, false)->arguments,
      HasSubstr("blocksz=131072,framesz=131072,"));
}

TEST(PortSpecTest, DefaultRouteIsRefusedUnlessForced) {
  KernelInterface eth0 = Eth0();
  eth0.has_default_route = true;
  for (const char* text : {"af_packet:eth0", "af_xdp:eth0"}) {
    const auto plan = PlanDevice(*ParsePortSpec(text), &eth0, 0, false);
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(plan.status().message()), HasSubstr("eth0"));
    EXPECT_TRUE(PlanDevice(*ParsePortSpec(text), &eth0, 0, true).ok());
  }
}

TEST(PortSpecTest, LocksNameTheDevice) {
  const auto lock = [](const std::string& text, uint64_t netns) {
    KernelInterface eth0 = Eth0();
    eth0.netns = netns;
    return PlanDevice(*ParsePortSpec(text), &eth0, 0, false)->lock_name;
  };
  // The same interface by another driver is the same device; an interface of
  // that name in another namespace is not.
  EXPECT_EQ(lock("af_packet:eth0", 1), lock("af_xdp:eth0", 1));
  EXPECT_NE(lock("af_packet:eth0", 1), lock("af_packet:eth0", 2));
  EXPECT_NE(lock("memif:/a,role=server", 1), lock("memif:/a,role=client", 1));
  EXPECT_NE(lock("memif:/a,role=server", 1),
            lock("memif:/a,id=1,role=server", 1));
  EXPECT_THAT(lock("memif:/a/b,role=server", 1), Not(HasSubstr("/")));
  EXPECT_EQ(lock("pci:0000:3b:00.0", 1), "pci-0000:3b:00.0");
}

TEST(PortSpecTest, PlansTheOthers) {
  const auto plan = [](const std::string& text) {
    const KernelInterface eth0 = Eth0();
    return *PlanDevice(*ParsePortSpec(text), &eth0, 2, false);
  };
  EXPECT_EQ(plan("af_xdp:eth0,queue=3").arguments,
            "iface=eth0,start_queue=3,queue_count=1");
  EXPECT_EQ(plan("memif:/a,role=client").name, "net_memif2");
  EXPECT_THAT(plan("memif:/a,id=7,role=client").arguments,
              HasSubstr("socket=/a,socket-abstract=no,id=7,role=client"));
  EXPECT_TRUE(plan("memif:/a,role=client").restart_to_reconnect);
  EXPECT_FALSE(plan("memif:/a,role=server").restart_to_reconnect);
  EXPECT_EQ(plan("ring:5").name, "net_ring5");
  EXPECT_EQ(plan("pci:0000:3b:00.0").bus, "pci");
  EXPECT_EQ(plan("pci:0000:3b:00.0").name, "0000:3b:00.0");
}

}  // namespace
}  // namespace optireduce::nic
