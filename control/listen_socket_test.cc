#include "control/listen_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace optireduce::control {
namespace {

using ::testing::HasSubstr;

class ListenSocketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // Short: socket paths are limited to 107 bytes.
    char name[] = "/tmp/listenXXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    path_ = folder_ + "/control.sock";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  auto Open() { return ListenSocket::Open({.path = path_, .group = ""}); }
  std::string ErrorOf() {
    const auto socket = Open();
    EXPECT_EQ(socket.status().code(), absl::StatusCode::kFailedPrecondition);
    return std::string(socket.status().message());
  }
  // 0, or what connect(2) says.
  int Connect(int type = SOCK_SEQPACKET) {
    const UniqueFd fd(socket(AF_UNIX, type, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    return connect(fd.get(), reinterpret_cast<sockaddr*>(&address),
                   sizeof(address)) == 0
               ? 0
               : errno;
  }
  // What a process that was killed leaves behind.
  void LeaveDeadSocket(int type) {
    const UniqueFd fd(socket(AF_UNIX, type, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    ASSERT_EQ(
        bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
        0);
  }

  std::string folder_;
  std::string path_;
};

TEST_F(ListenSocketTest, ListensWithTheRightPermissions) {
  const mode_t mask = umask(0);
  auto socket = Open();
  EXPECT_EQ(umask(mask), 0u);  // ours to keep
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_EQ(Connect(), 0);
  struct stat status = {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0660u);
  socket->reset();
  EXPECT_EQ(Connect(), ENOENT);
}

TEST_F(ListenSocketTest, TheGroupIsGivenByNameOrNumber) {
  for (const std::string group : {"root", "0"}) {
    const auto socket =
        ListenSocket::Open({.path = path_, .mode = 0600, .group = group});
    if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
    ASSERT_TRUE(socket.ok()) << socket.status();
    struct stat status = {};
    ASSERT_EQ(stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600u);
    EXPECT_EQ(status.st_gid, 0u);
  }
  const auto socket =
      ListenSocket::Open({.path = path_, .group = "no-such-group-here"});
  EXPECT_THAT(std::string(socket.status().message()),
              HasSubstr("\"no-such-group-here\""));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

// K06.
TEST_F(ListenSocketTest, ADeadSocketIsReplaced) {
  LeaveDeadSocket(SOCK_SEQPACKET);
  EXPECT_EQ(Connect(), ECONNREFUSED);
  const auto socket = Open();
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_EQ(Connect(), 0);
}

TEST_F(ListenSocketTest, ALiveDaemonIsLeftAlone) {
  const auto first = Open();
  ASSERT_TRUE(first.ok());
  EXPECT_THAT(ErrorOf(), HasSubstr("another optireduced is running"));
  EXPECT_EQ(Connect(), 0);
  // Even if its lock file is gone.
  ASSERT_EQ(unlink((path_ + ".lock").c_str()), 0);
  EXPECT_THAT(ErrorOf(), HasSubstr("somebody answers"));
  EXPECT_EQ(Connect(), 0);
}

TEST_F(ListenSocketTest, AnythingElseIsLeftAlone) {
  std::ofstream(path_) << "precious";
  EXPECT_THAT(ErrorOf(), HasSubstr("no socket is there"));
  std::string text;
  std::ifstream(path_) >> text;
  EXPECT_EQ(text, "precious");

  std::filesystem::remove(path_);
  std::filesystem::create_symlink("/nowhere", path_);
  EXPECT_THAT(ErrorOf(), HasSubstr("left alone"));
  EXPECT_TRUE(std::filesystem::is_symlink(path_));

  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_THAT(ErrorOf(), HasSubstr("left alone"));
}

TEST_F(ListenSocketTest, ALivingSocketOfAnotherKindIsLeftAlone) {
  const UniqueFd stream(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(stream.get(), reinterpret_cast<sockaddr*>(&address),
                 sizeof(address)),
            0);
  ASSERT_EQ(listen(stream.get(), 1), 0);
  ErrorOf();
  EXPECT_EQ(Connect(SOCK_STREAM), 0);
}

TEST_F(ListenSocketTest, OfManyThatStartAtOnceOneWins) {
  constexpr int kStarts = 8;
  for (int round = 0; round < 5; ++round) {
    LeaveDeadSocket(SOCK_SEQPACKET);
    int go[2];
    int done[2];
    int verdict[2];
    ASSERT_EQ(pipe(go), 0);
    ASSERT_EQ(pipe(done), 0);
    ASSERT_EQ(pipe(verdict), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < kStarts; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        close(go[1]);
        close(done[1]);
        char byte;
        [[maybe_unused]] ssize_t n = read(go[0], &byte, 1);  // until closed
        const auto socket = Open();
        byte = socket.ok() ? 1 : 0;
        n = write(verdict[1], &byte, 1);
        n = read(done[0], &byte, 1);  // the winner stays until all have tried
        _exit(0);
      }
      children.push_back(child);
    }
    close(go[0]);
    close(go[1]);
    int winners = 0;
    for (int i = 0; i < kStarts; ++i) {
      char byte = 0;
      ASSERT_EQ(read(verdict[0], &byte, 1), 1);
      winners += byte;
    }
    EXPECT_EQ(winners, 1);
    close(done[0]);
    close(done[1]);
    close(verdict[0]);
    close(verdict[1]);
    for (const pid_t child : children) waitpid(child, nullptr, 0);
    std::filesystem::remove(path_);
  }
}

TEST_F(ListenSocketTest, OnlyItsOwnFileIsRemovedAtTheEnd) {
  auto socket = Open();
  ASSERT_TRUE(socket.ok());
  std::filesystem::remove(path_);
  std::ofstream(path_) << "not ours";
  socket->reset();
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(ListenSocketTest, MakesItsFolder) {
  path_ = folder_ + "/optireduce/control.sock";
  EXPECT_TRUE(Open().ok());
  path_ = folder_ + "/a/b/control.sock";
  EXPECT_THAT(ErrorOf(), HasSubstr("opening"));
}

TEST_F(ListenSocketTest, ALongPathIsAnError) {
  path_ = folder_ + "/" + std::string(200, 'x');
  EXPECT_THAT(ErrorOf(), HasSubstr("longer than 107 bytes"));
}

}  // namespace
}  // namespace optireduce::control
