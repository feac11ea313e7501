// A daemon in a process of its own that is killed, stopped and restarted, and
// clients that fork. No threads in this process.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "client/optireduce.h"
#include "client/testing/fake_daemon.h"
#include "client/testing/fixture.h"

namespace optireduce::client {
namespace {

class LifecycleTest : public ::testing::Test {
 protected:
  // Milliseconds that `call` takes.
  template <class Call>
  static int64_t Timed(Call call) {
    const auto start = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::steady_clock::now() - start)
        .count();
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_.File("s");
};

TEST_F(LifecycleTest, AKilledDaemonIsLostAtOnceAndANewOneIsJoined) {
  FakeDaemonProcess daemon(path_);
  for (int round = 0; round < 5; ++round) {
    TestClient client(path_);
    const or_op held = client.Submit(kFakeHold);
    daemon.Kill();
    EXPECT_EQ(or_wait(client.session, held, OR_SECONDS(30), nullptr),
              OR_ERR_DAEMON_LOST);
    EXPECT_NE(std::string(or_last_error()).find(path_), std::string::npos);
    client.input[0] = 1;  // no SIGBUS
    or_op op = 0;
    const or_operation operation = client.Operation();
    EXPECT_EQ(or_submit(client.session, client.group, &operation, &op),
              OR_ERR_DAEMON_LOST);
    daemon.Start();
  }
  TestClient client(path_);
  EXPECT_EQ(or_wait(client.session, client.Submit(), OR_SECONDS(30), nullptr),
            OR_OK);
}

TEST_F(LifecycleTest, ADaemonThatDiesDuringAStepsCloseIsLostAtOnce) {
  FakeDaemonProcess daemon(path_);
  TestClient client(path_);
  const pid_t killer = fork();
  if (killer == 0) {
    usleep(100'000);
    daemon.Signal(SIGKILL);
    _exit(0);
  }
  const int64_t took = Timed([&] {
    EXPECT_EQ(or_step_close(client.session, client.group, kFakeHoldStep,
                            OR_STEP_USED, OR_SECONDS(30), nullptr),
              OR_ERR_DAEMON_LOST);
  });
  EXPECT_LT(took, 10'000);
  waitpid(killer, nullptr, 0);
  EXPECT_EQ(or_step_close(client.session, client.group, 1, OR_STEP_USED,
                          OR_SECONDS(30), nullptr),
            OR_ERR_DAEMON_LOST);
}

TEST_F(LifecycleTest, AStoppedDaemonHoldsACloseNoLongerThanItsLimit) {
  FakeDaemonProcess daemon(path_);
  TestClient client(path_);
  daemon.Signal(SIGSTOP);
  const int64_t took = Timed([&] {
    EXPECT_EQ(or_step_close(client.session, client.group, 1, OR_STEP_USED,
                            OR_MILLISECONDS(200), nullptr),
              OR_ERR_TIMEOUT);
  });
  EXPECT_GE(took, 199);
  EXPECT_LT(took, 5000);
  daemon.Signal(SIGCONT);
  EXPECT_EQ(or_step_close(client.session, client.group, 1, OR_STEP_USED,
                          OR_SECONDS(30), nullptr),
            OR_OK);
}

// A client that only polls finds out as well.
TEST_F(LifecycleTest, PollSeesThatTheDaemonIsGone) {
  FakeDaemonProcess daemon(path_);
  TestClient client(path_);
  const or_op held = client.Submit(kFakeHold);
  daemon.Kill();
  EXPECT_EQ(or_poll(client.session, held, nullptr), OR_ERR_DAEMON_LOST);
}

TEST_F(LifecycleTest, AStoppedDaemonHoldsNobodyPastTheCallersLimit) {
  FakeDaemonProcess daemon(path_);
  TestClient client(path_);
  const or_op held = client.Submit(kFakeHold);
  daemon.Signal(SIGSTOP);
  const int64_t took = Timed([&] {
    EXPECT_EQ(or_wait(client.session, held, OR_MILLISECONDS(200), nullptr),
              OR_ERR_TIMEOUT);
  });
  EXPECT_GE(took, 199);
  EXPECT_LT(took, 5000);
  const int64_t leaving = Timed([&] {
    EXPECT_EQ(
        or_group_leave(client.session, client.group, OR_MILLISECONDS(100)),
        OR_ERR_TIMEOUT);
  });
  EXPECT_LT(leaving, 5000);
  or_session* session = nullptr;
  or_connect_options options;
  or_connect_options_init(&options, sizeof(options));
  options.socket_path = path_.c_str();
  options.limit_ns = OR_MILLISECONDS(100);
  EXPECT_EQ(or_connect(&options, &session), OR_ERR_UNREACHABLE);
  EXPECT_NE(std::string(or_last_error()).find("stopped"), std::string::npos);
}

// The library enforces the hard limit itself.
TEST_F(LifecycleTest, AStoppedDaemonIsLostAfterTheHardLimit) {
  FakeDaemonProcess daemon(path_);
  TestClient client(path_, OR_MILLISECONDS(200));
  const or_op held = client.Submit(kFakeHold);
  daemon.Signal(SIGSTOP);
  const int64_t took = Timed([&] {
    EXPECT_EQ(or_wait(client.session, held, -1, nullptr), OR_ERR_DAEMON_LOST);
  });
  EXPECT_GE(took, 199);
  EXPECT_LT(took, 10'000);
  EXPECT_NE(std::string(or_last_error()).find("hard limit"), std::string::npos);
}

TEST_F(LifecycleTest, ADaemonThatGoesOnAgainIsNotLost) {
  FakeDaemonProcess daemon(path_);
  TestClient client(path_, OR_MILLISECONDS(200));
  daemon.Signal(SIGSTOP);
  const or_op op = client.Submit();
  EXPECT_EQ(or_wait(client.session, op, OR_MILLISECONDS(300), nullptr),
            OR_ERR_TIMEOUT);
  daemon.Signal(SIGCONT);
  EXPECT_EQ(or_wait(client.session, op, -1, nullptr), OR_OK);
}

TEST_F(LifecycleTest, AChildIsToldAndTheParentGoesOn) {
  FakeDaemonProcess daemon(path_);
  TestClient client(path_);
  const or_op held = client.Submit();
  const pid_t child = fork();
  if (child == 0) {
    const or_operation operation = client.Operation();
    or_op op = 0;
    void* buffer = nullptr;
    const bool refused =
        or_submit(client.session, client.group, &operation, &op) ==
            OR_ERR_FORKED &&
        std::string(or_last_error()).find("not inherited") !=
            std::string::npos &&
        or_wait(client.session, held, OR_SECONDS(1), nullptr) ==
            OR_ERR_FORKED &&
        or_allocate(client.session, 1, &buffer) == OR_ERR_FORKED &&
        or_disconnect(client.session) == OR_ERR_FORKED &&
        or_close(&client.session) == OR_OK;
    // A session of its own works.
    TestClient own(path_);
    const bool works =
        or_wait(own.session, own.Submit(), OR_SECONDS(30), nullptr) == OR_OK;
    _exit(refused && works ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(or_wait(client.session, held, OR_SECONDS(30), nullptr), OR_OK);
  EXPECT_EQ(or_wait(client.session, client.Submit(), OR_SECONDS(30), nullptr),
            OR_OK);
}

// SIGPIPE would end this process.
TEST_F(LifecycleTest, WritingToADeadDaemonRaisesNoSignal) {
  signal(SIGPIPE, SIG_DFL);
  FakeDaemonProcess daemon(path_);
  TestClient client(path_);
  daemon.Kill();
  EXPECT_EQ(or_group_leave(client.session, client.group, OR_SECONDS(1)),
            OR_ERR_DAEMON_LOST);
}

TEST_F(LifecycleTest, NothingIsLeftInSharedMemory) {
  const auto listing = [] {
    std::string names;
    FILE* pipe = popen("ls -A /dev/shm", "r");
    char line[256];
    while (fgets(line, sizeof(line), pipe) != nullptr) names += line;
    pclose(pipe);
    return names;
  };
  const std::string before = listing();
  FakeDaemonProcess daemon(path_);
  const pid_t child = fork();
  if (child == 0) {
    TestClient client(path_);
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  daemon.Kill();
  EXPECT_EQ(listing(), before);
}

}  // namespace
}  // namespace optireduce::client
