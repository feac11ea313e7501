#include "control/server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "control/frame_socket.h"
#include "control/testing/client.h"
#include "dataplane/base/rng.h"

namespace optireduce::control {
namespace {

using ::testing::HasSubstr;

size_t OpenDescriptors() {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                    std::filesystem::directory_iterator()));
}

// Answers every StatusRequest with a text of the given length.
class FakeHandler : public RequestHandler {
 public:
  void OnRequest(const Asker& asker, const PeerCredentials&,
                 const Request&) override {
    ++requests;
    if (silent) return;
    Reply reply;
    reply.mutable_status()->set_version(std::string(reply_bytes, 'v'));
    outbox->Reply(asker, reply);
  }
  void OnClosed(uint64_t, const std::string& reason) override {
    ++closed;
    last_reason = reason;
  }

  Outbox* outbox = nullptr;

  bool silent = false;
  size_t reply_bytes = 10;
  int requests = 0;
  int closed = 0;
  std::string last_reason;
};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() : loop_(*EventLoop::Create()) {
    char name[] = "/tmp/serverXXXXXX";
    EXPECT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    Start({.policy = {.own_uid = getuid()}});
  }
  ~ServerTest() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }
  void Start(const ServerOptions& options) {
    server_.reset();
    auto socket = ListenSocket::Open({.path = Path(), .group = ""});
    ASSERT_TRUE(socket.ok()) << socket.status();
    server_ =
        std::make_unique<Server>(options, *std::move(socket), loop_.get());
    handler_.outbox = server_.get();
    server_->Start(&handler_);
  }
  std::string Path() const { return folder_ + "/s"; }
  // Until nothing happens any more.
  void Run() { testing::RunUntilIdle(*loop_); }
  static Request Status(uint64_t id) {
    Request request;
    request.set_id(id);
    request.mutable_status();
    return request;
  }
  // The next frame for `client`, which must be there.
  ServerFrame Next(testing::Client& client) {
    Run();
    auto frame = client.Receive();
    EXPECT_TRUE(frame.has_value());
    return frame.value_or(ServerFrame());
  }

  FakeHandler handler_;
  std::string folder_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, AnswersByNumber) {
  testing::Client client(Path());
  client.Send(Status(7));
  client.Send(Status(8));
  EXPECT_EQ(Next(client).reply().id(), 7u);
  EXPECT_EQ(Next(client).reply().id(), 8u);
  EXPECT_EQ(handler_.requests, 2);
  client.Close();
  Run();
  EXPECT_EQ(handler_.closed, 1);
  EXPECT_EQ(server_->num_connections(), 0u);
}

TEST_F(ServerTest, ARequestSentWithoutWaitingIsLikeAnyOther) {
  testing::Client client(Path());
  client.Send(Status(1));  // before the server has accepted
  EXPECT_EQ(Next(client).reply().id(), 1u);
}

TEST_F(ServerTest, FramesBeforeTheEndCount) {
  handler_.silent = true;
  testing::Client client(Path());
  for (int i = 0; i < 40; ++i) client.Send(Status(i));
  client.Close();
  Run();
  EXPECT_EQ(handler_.requests, 40);
  EXPECT_EQ(handler_.closed, 1);
}

TEST_F(ServerTest, AMalformedFrameEndsThatConnectionOnly) {
  testing::Client good(Path());
  testing::Client bad(Path());
  good.Send(Status(1));
  EXPECT_EQ(Next(good).reply().id(), 1u);
  bad.SendBytes("\xff\xff\xff\xff");
  const ServerFrame frame = Next(bad);
  EXPECT_EQ(frame.goodbye().code(), ERROR_BAD_REQUEST);
  EXPECT_THAT(frame.goodbye().message(), HasSubstr("no Request"));
  EXPECT_TRUE(bad.AtEnd());
  good.Send(Status(2));
  EXPECT_EQ(Next(good).reply().id(), 2u);
  EXPECT_EQ(server_->num_connections(), 1u);
}

TEST_F(ServerTest, AnOversizedFrameEndsThatConnection) {
  testing::Client client(Path());
  client.SendBytes(std::string(kMaxFrameBytes + 1, 'x'));
  EXPECT_THAT(Next(client).goodbye().message(), HasSubstr("longer than"));
  EXPECT_TRUE(client.AtEnd());
}

TEST_F(ServerTest, DescriptorsEndThatConnectionAndNeverArrive) {
  const size_t before = OpenDescriptors();
  {
    testing::Client client(Path());
    ASSERT_EQ(SendFrame(client.fd(), Status(1).SerializeAsString(),
                        std::vector<int>{0, 1, 2}),
              FrameResult::kFrame);
    EXPECT_THAT(Next(client).goodbye().message(), HasSubstr("descriptors"));
  }
  Run();
  EXPECT_EQ(OpenDescriptors(), before);
  EXPECT_EQ(handler_.requests, 0);
}

TEST_F(ServerTest, AnUnknownRequestIsAnErrorAndNoMore) {
  testing::Client client(Path());
  Request request;
  request.set_id(3);
  client.Send(request);
  const ServerFrame frame = Next(client);
  EXPECT_EQ(frame.reply().id(), 3u);
  EXPECT_EQ(frame.reply().error().code(), ERROR_BAD_REQUEST);
  client.Send(Status(4));
  EXPECT_EQ(Next(client).reply().id(), 4u);
}

TEST_F(ServerTest, RandomFramesHarmNobody) {
  constexpr uint64_t kSeed = 31337;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  testing::Client witness(Path());
  const std::string good = Status(1).SerializeAsString();
  for (int i = 0; i < 500; ++i) {
    testing::Client client(Path());
    for (uint64_t frames = 1 + rng.Below(4); frames > 0; --frames) {
      std::string bytes = good;
      if (rng.Chance(0.7)) {
        bytes.assign(1 + rng.Below(200), '\0');
        for (char& c : bytes) c = static_cast<char>(rng.Next());
      }
      client.SendBytes(bytes);
    }
    Run();
  }
  Run();
  witness.Send(Status(9));
  EXPECT_EQ(Next(witness).reply().id(), 9u);
  EXPECT_EQ(server_->num_connections(), 1u);
}

// K11.
TEST_F(ServerTest, AClientThatNeverReadsIsDroppedAtALimit) {
  handler_.reply_bytes = 50'000;
  testing::Client slow(Path());
  testing::Client other(Path());
  int sent = 0;
  while (server_->num_connections() != 1 && sent < 500) {
    slow.Send(Status(sent++));
    other.Send(Status(sent));
    EXPECT_EQ(Next(other).reply().id(), static_cast<uint64_t>(sent));
  }
  EXPECT_LT(sent, 100);
  EXPECT_EQ(handler_.closed, 1);
  EXPECT_THAT(handler_.last_reason, HasSubstr("does not read"));
}

TEST_F(ServerTest, ASlowReaderThatReadsInTheEndGetsEverything) {
  handler_.reply_bytes = 50'000;
  testing::Client client(Path());
  for (int i = 0; i < 15; ++i) client.Send(Status(i));
  Run();
  for (uint64_t i = 0; i < 15; ++i) EXPECT_EQ(Next(client).reply().id(), i);
  EXPECT_EQ(server_->num_connections(), 1u);
}

TEST_F(ServerTest, OneConnectionTooManyIsToldSo) {
  Start({.policy = {.own_uid = getuid()}, .max_connections = 2});
  testing::Client first(Path());
  testing::Client second(Path());
  Run();
  testing::Client third(Path());
  EXPECT_EQ(Next(third).goodbye().code(), ERROR_QUOTA);
  EXPECT_TRUE(third.AtEnd());
  first.Close();
  Run();
  testing::Client fourth(Path());
  fourth.Send(Status(1));
  EXPECT_EQ(Next(fourth).reply().id(), 1u);
}

// K04, the part that needs another user.
TEST_F(ServerTest, ARefusedUserGetsNoSessionButAReason) {
  if (getuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  Start({.policy = {.own_uid = 0, .allowed_uids = {54321}}});
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  ASSERT_EQ(chmod(Path().c_str(), 0666), 0);
  constexpr int kNoSuchUser = 99;
  const auto connect_as = [this](uid_t uid) {
    const pid_t child = fork();
    if (child == 0) {
      if (setgid(uid) != 0 || setuid(uid) != 0) _exit(kNoSuchUser);
      testing::Client client(Path());
      // Sent before it is known whether it will be let in.
      client.Send(Status(1));
      client.WaitReadable();
      const auto frame = client.Receive();
      _exit(!frame ? 8 : frame->has_reply() ? 1 : frame->goodbye().code() + 2);
    }
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
      loop_->RunOnce(Duration::Millis(5));
    }
    return WEXITSTATUS(status);
  };
  const int allowed = connect_as(54321);
  if (allowed == kNoSuchUser) GTEST_SKIP() << "a namespace with one user";
  EXPECT_EQ(allowed, 1);
  EXPECT_EQ(connect_as(54322), ERROR_PERMISSION + 2);
  Run();
  EXPECT_EQ(server_->num_refused(), 1u);
  EXPECT_EQ(server_->num_connections(), 0u);
  EXPECT_EQ(handler_.requests, 1);
}

TEST_F(ServerTest, ADeadProcessIsNoticedThoughItsChildHoldsTheSocket) {
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    testing::Client client(Path());
    if (fork() == 0) {
      close(go[1]);
      client.Send(Status(1));
      char byte;
      [[maybe_unused]] ssize_t n = read(go[0], &byte, 1);
      _exit(0);
    }
    pause();
    _exit(0);
  }
  close(go[0]);
  // Once the child has spoken, both have the socket.
  while (handler_.requests == 0) loop_->RunOnce(Duration::Millis(5));
  ASSERT_EQ(kill(parent, SIGKILL), 0);
  ASSERT_EQ(waitpid(parent, nullptr, 0), parent);
  for (int i = 0; i < 1000 && server_->num_connections() != 0; ++i) {
    loop_->RunOnce(Duration::Millis(5));
  }
  EXPECT_EQ(server_->num_connections(), 0u);
  EXPECT_THAT(handler_.last_reason, HasSubstr("process has ended"));
  close(go[1]);
}

TEST_F(ServerTest, WithoutDescriptorsItNeitherDiesNorSpins) {
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  testing::Client client(Path());
  rlimit tight = old;
  tight.rlim_cur = OpenDescriptors() - 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  int turns = 0;
  const Timestamp end = Now() + Duration::Millis(300);
  while (Now() < end) {
    loop_->RunOnce(end - Now());
    ++turns;
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_LT(turns, 20);
  // The client was kept waiting, not lost.
  client.Send(Status(1));
  for (int i = 0; i < 100 && handler_.requests == 0; ++i) {
    loop_->RunOnce(Duration::Millis(50));
  }
  EXPECT_EQ(Next(client).reply().id(), 1u);
}

TEST_F(ServerTest, NoDescriptorStaysBehind) {
  const size_t before = OpenDescriptors();
  for (int i = 0; i < 100; ++i) {
    testing::Client client(Path());
    client.Send(Status(1));
    Next(client);
  }
  Run();
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST_F(ServerTest, GoodbyeAtTheEnd) {
  testing::Client client(Path());
  client.Send(Status(1));
  Next(client);
  server_->StopAccepting();
  EXPECT_FALSE(testing::Client::CanConnect(Path()));
  server_->DropAll(ERROR_SHUTTING_DOWN, "the daemon stops");
  EXPECT_EQ(Next(client).goodbye().code(), ERROR_SHUTTING_DOWN);
  EXPECT_TRUE(client.AtEnd());
  EXPECT_EQ(handler_.closed, 1);
}

TEST(EventLoopTest, TimersInOrderAndOnce) {
  auto loop = *EventLoop::Create();
  std::string order;
  const Timestamp now = Now();
  loop->At(now + Duration::Millis(2), [&] { order += 'b'; });
  loop->At(now + Duration::Millis(1), [&] { order += 'a'; });
  const auto cancelled = loop->At(now, [&] { order += 'x'; });
  loop->At(now + Duration::Millis(3), [&] {
    loop->At(Now(), [&] { order += 'd'; });
    order += 'c';
  });
  loop->Cancel(cancelled);
  loop->Cancel(12345);
  for (int i = 0; i < 1000 && order.size() < 4; ++i) {
    loop->RunOnce(Duration::Seconds(1));
  }
  EXPECT_EQ(order, "abcd");
}

TEST(EventLoopTest, ARemovedWatchIsNotCalledForEventsFetchedBefore) {
  auto loop = *EventLoop::Create();
  int first[2];
  int second[2];
  ASSERT_EQ(pipe(first), 0);
  ASSERT_EQ(pipe(second), 0);
  ASSERT_EQ(write(first[1], "x", 1), 1);
  ASSERT_EQ(write(second[1], "x", 1), 1);
  int calls = 0;
  const auto remove_both = [&](uint32_t) {
    ++calls;
    loop->Remove(first[0]);
    loop->Remove(second[0]);
  };
  ASSERT_TRUE(loop->Add(first[0], EPOLLIN, remove_both));
  ASSERT_TRUE(loop->Add(second[0], EPOLLIN, remove_both));
  loop->RunOnce(Duration::Millis(10));
  EXPECT_EQ(calls, 1);
  for (const int fd : {first[0], first[1], second[0], second[1]}) close(fd);
}

}  // namespace
}  // namespace optireduce::control
