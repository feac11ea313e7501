#include "control/frame_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "dataplane/base/unique_fd.h"

namespace optireduce::control {
namespace {

size_t OpenDescriptors() {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                    std::filesystem::directory_iterator()));
}

class FrameSocketTest : public ::testing::Test {
 protected:
  FrameSocketTest() : buffer_(kMaxFrameBytes) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    ours_ = UniqueFd(ends[0]);
    theirs_ = UniqueFd(ends[1]);
  }
  FrameResult Receive() { return ReceiveFrame(ours_.get(), buffer_, &bytes_); }
  std::string Received() const {
    return std::string(buffer_.begin(),
                       buffer_.begin() + static_cast<ptrdiff_t>(bytes_));
  }

  UniqueFd ours_;
  UniqueFd theirs_;
  std::vector<uint8_t> buffer_;
  size_t bytes_ = 0;
};

TEST_F(FrameSocketTest, FramesKeepTheirBounds) {
  EXPECT_EQ(Receive(), FrameResult::kAgain);
  ASSERT_EQ(SendFrame(theirs_.get(), "one"), FrameResult::kFrame);
  ASSERT_EQ(SendFrame(theirs_.get(), "two!"), FrameResult::kFrame);
  ASSERT_EQ(Receive(), FrameResult::kFrame);
  EXPECT_EQ(Received(), "one");
  ASSERT_EQ(Receive(), FrameResult::kFrame);
  EXPECT_EQ(Received(), "two!");
  EXPECT_EQ(Receive(), FrameResult::kAgain);
}

TEST_F(FrameSocketTest, TheLargestFrameFitsTheDefaultBuffers) {
  const std::string frame(kMaxFrameBytes, 'x');
  ASSERT_EQ(SendFrame(theirs_.get(), frame), FrameResult::kFrame);
  ASSERT_EQ(Receive(), FrameResult::kFrame);
  EXPECT_EQ(bytes_, kMaxFrameBytes);
}

TEST_F(FrameSocketTest, ALongerFrameIsOneErrorAndGone) {
  ASSERT_EQ(SendFrame(theirs_.get(), std::string(kMaxFrameBytes + 1, 'x')),
            FrameResult::kFrame);
  EXPECT_EQ(Receive(), FrameResult::kTooLong);
  ASSERT_EQ(SendFrame(theirs_.get(), "next"), FrameResult::kFrame);
  ASSERT_EQ(Receive(), FrameResult::kFrame);
  EXPECT_EQ(Received(), "next");
}

TEST_F(FrameSocketTest, TheEndIsSeenAfterTheLastFrame) {
  ASSERT_EQ(SendFrame(theirs_.get(), "last"), FrameResult::kFrame);
  theirs_.Reset();
  EXPECT_EQ(Receive(), FrameResult::kFrame);
  EXPECT_EQ(Receive(), FrameResult::kClosed);
  EXPECT_EQ(SendFrame(ours_.get(), "anybody?"), FrameResult::kClosed);
}

TEST_F(FrameSocketTest, AnEmptyPacketCountsAsTheEnd) {
  ASSERT_EQ(send(theirs_.get(), "", 0, 0), 0);
  EXPECT_EQ(Receive(), FrameResult::kClosed);
}

TEST_F(FrameSocketTest, ASenderThatIsNotReadBlocksNobody) {
  const std::string frame(60'000, 'x');
  int sent = 0;
  while (SendFrame(ours_.get(), frame) == FrameResult::kFrame) ++sent;
  EXPECT_GT(sent, 0);
  EXPECT_LT(sent, 100);
  EXPECT_EQ(SendFrame(ours_.get(), frame), FrameResult::kAgain);
}

TEST_F(FrameSocketTest, PassesDescriptors) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  ASSERT_EQ(SendFrame(ours_.get(), "here", std::vector<int>{pipe_ends[0]}),
            FrameResult::kFrame);
  char data[16];
  iovec part = {data, sizeof(data)};
  alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))];
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ASSERT_EQ(recvmsg(theirs_.get(), &message, 0), 4);
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  ASSERT_NE(header, nullptr);
  EXPECT_EQ(header->cmsg_type, SCM_RIGHTS);
  int passed = -1;
  memcpy(&passed, CMSG_DATA(header), sizeof(passed));
  ASSERT_EQ(write(pipe_ends[1], "!", 1), 1);
  EXPECT_EQ(read(passed, data, 1), 1);
  close(passed);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

// Descriptors that nobody asked for cannot fill the daemon's table.
TEST_F(FrameSocketTest, DescriptorsFromClientsNeverArrive) {
  const size_t before = OpenDescriptors();
  const std::vector<int> descriptors(kMaxFrameDescriptors, theirs_.get());
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(SendFrame(theirs_.get(), "take this", descriptors),
              FrameResult::kFrame);
    EXPECT_EQ(Receive(), FrameResult::kDescriptors);
  }
  EXPECT_EQ(OpenDescriptors(), before);
  ASSERT_EQ(SendFrame(theirs_.get(), "next"), FrameResult::kFrame);
  EXPECT_EQ(Receive(), FrameResult::kFrame);
}

// K02: other control messages, in either order, are none of ours.
TEST_F(FrameSocketTest, CredentialsWithAFrameDoNoHarm) {
  alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(ucred))] = {};
  iovec part = {const_cast<char*>("hi"), 2};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_CREDENTIALS;
  header->cmsg_len = CMSG_LEN(sizeof(ucred));
  const ucred self = {getpid(), getuid(), getgid()};
  memcpy(CMSG_DATA(header), &self, sizeof(self));
  ASSERT_EQ(sendmsg(theirs_.get(), &message, 0), 2);
  ASSERT_EQ(Receive(), FrameResult::kFrame);
  EXPECT_EQ(Received(), "hi");
}

}  // namespace
}  // namespace optireduce::control
