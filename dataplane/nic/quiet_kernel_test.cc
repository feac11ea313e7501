#include "dataplane/nic/quiet_kernel.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace optireduce::nic {
namespace {

constexpr Ipv4Address kLoopback{0x7f000001};
// RFC 5737: no host has it.
constexpr Ipv4Address kNobodys{0xc0000201};

// A UDP socket, and a port that was free a moment ago.
class UdpSocket {
 public:
  explicit UdpSocket(uint16_t port = 0) {
    sockaddr_in address = Address(port);
    bound_ =
        bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    socklen_t size = sizeof(address);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~UdpSocket() { close(fd_); }
  bool bound() const { return bound_; }
  uint16_t port() const { return port_; }

  // What the kernel says about a datagram to the port: on the loopback an
  // "unreachable" is there before send() returns.
  int ErrorAfterSendingTo(uint16_t port) const {
    const sockaddr_in address = Address(port);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address),
                      sizeof(address)),
              0);
    EXPECT_EQ(send(fd_, "x", 1, 0), 1);
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
  }

 private:
  static sockaddr_in Address(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  int fd_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  bool bound_ = false;
  uint16_t port_ = 0;
};

uint16_t FreePort() { return UdpSocket().port(); }

TEST(QuietKernelTest, KernelNoLongerAnswersForThePort) {
  const uint16_t port = FreePort();
  EXPECT_EQ(UdpSocket().ErrorAfterSendingTo(port), ECONNREFUSED);
  const auto quiet = QuietKernel::Bind(kLoopback, port, 1);
  ASSERT_TRUE(quiet.ok()) << quiet.status();
  EXPECT_TRUE(quiet->active());
  EXPECT_EQ(UdpSocket().ErrorAfterSendingTo(port), 0);
}

TEST(QuietKernelTest, ReleasesThePorts) {
  const uint16_t port = FreePort();
  {
    const auto quiet = QuietKernel::Bind(kLoopback, port, 1);
    ASSERT_TRUE(quiet.ok()) << quiet.status();
    EXPECT_FALSE(UdpSocket(port).bound());
  }
  EXPECT_TRUE(UdpSocket(port).bound());
}

TEST(QuietKernelTest, PortOfAnotherProcessIsAnError) {
  const UdpSocket other;
  const auto quiet = QuietKernel::Bind(kLoopback, other.port(), 1);
  ASSERT_FALSE(quiet.ok());
  EXPECT_EQ(quiet.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_NE(
      std::string(quiet.status().message()).find(std::to_string(other.port())),
      std::string::npos);
}

TEST(QuietKernelTest, AddressThatTheKernelDoesNotOwnNeedsNothing) {
  const auto quiet = QuietKernel::Bind(kNobodys, 4000, 100);
  ASSERT_TRUE(quiet.ok()) << quiet.status();
  EXPECT_FALSE(quiet->active());
}

}  // namespace
}  // namespace optireduce::nic
