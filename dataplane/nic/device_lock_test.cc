#include "dataplane/nic/device_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace optireduce::nic {
namespace {

using ::testing::HasSubstr;

TEST(DeviceLockTest, SecondOwnerIsRefusedAndToldWhoHasIt) {
  const auto first = DeviceLock::Take(testing::TempDir(), "net-1-eth0");
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = DeviceLock::Take(testing::TempDir(), "net-1-eth0");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  const std::string message(second.status().message());
  EXPECT_THAT(message, HasSubstr("net-1-eth0"));
  EXPECT_THAT(message, HasSubstr("process " + std::to_string(getpid())));
}

TEST(DeviceLockTest, OtherDevicesAreFree) {
  const auto first = DeviceLock::Take(testing::TempDir(), "net-1-eth1");
  const auto second = DeviceLock::Take(testing::TempDir(), "net-2-eth1");
  EXPECT_TRUE(first.ok());
  EXPECT_TRUE(second.ok());
}

TEST(DeviceLockTest, IsFreeAgainAfterTheOwner) {
  { const auto first = DeviceLock::Take(testing::TempDir(), "net-1-eth2"); }
  EXPECT_TRUE(DeviceLock::Take(testing::TempDir(), "net-1-eth2").ok());
}

TEST(DeviceLockTest, IsFreeAgainAfterTheOwnerWasKilled) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto lock = DeviceLock::Take(testing::TempDir(), "net-1-eth3");
    const char byte = lock.ok() ? 1 : 0;
    if (write(ready[1], &byte, 1) == 1) pause();
    _exit(1);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 1);
  EXPECT_FALSE(DeviceLock::Take(testing::TempDir(), "net-1-eth3").ok());
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(DeviceLock::Take(testing::TempDir(), "net-1-eth3").ok());
  close(ready[0]);
  close(ready[1]);
}

TEST(DeviceLockTest, FileThatIsOnlyReadableIsEnough) {
  const std::string path = testing::TempDir() + "/net-1-eth4.lock";
  { const auto first = DeviceLock::Take(testing::TempDir(), "net-1-eth4"); }
  ASSERT_EQ(chmod(path.c_str(), S_IRUSR), 0);
  const auto lock = DeviceLock::Take(testing::TempDir(), "net-1-eth4");
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_FALSE(DeviceLock::Take(testing::TempDir(), "net-1-eth4").ok());
}

TEST(DeviceLockTest, MissingDirectoryIsNamed) {
  const auto lock = DeviceLock::Take("/nonexistent", "net-1-eth0");
  ASSERT_FALSE(lock.ok());
  EXPECT_THAT(std::string(lock.status().message()), HasSubstr("/nonexistent"));
}

}  // namespace
}  // namespace optireduce::nic
