// Sessions, from hello to their end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "control/dispatcher_testing.h"

namespace optireduce::control {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(DispatcherTest, ASessionFromHelloToItsEnd) {
  TestClient client = Connect();
  const Reply reply = SayHello(client, 100'000);
  EXPECT_EQ(reply.hello().version(), kProtocolVersion);
  EXPECT_EQ(reply.hello().shm_version(), OPTIREDUCE_SHM_VERSION);
  EXPECT_EQ(reply.hello().daemon_version(), "1.2.3");
  ASSERT_EQ(client.descriptors.size(), 3u);
  struct stat status = {};
  ASSERT_EQ(fstat(client.descriptors[0].get(), &status), 0);
  EXPECT_EQ(static_cast<uint64_t>(status.st_size), client.segment_bytes);
  const auto header = client.header;
  EXPECT_EQ(header->magic, OPTIREDUCE_SHM_MAGIC);
  EXPECT_EQ(header->session, client.session);
  EXPECT_GE(header->data_bytes, 100'000u);

  Request mapped;
  mapped.mutable_mapped();
  EXPECT_TRUE(Ask(client, mapped).has_mapped());
  EXPECT_EQ(ftruncate(client.descriptors[0].get(), 0), -1);  // sealed
  const auto attach = engine_.Take<engine::AttachSession>();
  EXPECT_EQ(dispatcher_->sessions().sessions().size(), 1u);

  client.Close();
  ASSERT_TRUE(RunUntil([&] { return !engine_.commands.empty(); }));
  const auto detach = engine_.Take<engine::DetachSession>();
  EXPECT_EQ(detach.session, attach.session);
  EXPECT_EQ(detach.reason, wire::LeaveReason::kClientDied);
  EXPECT_EQ(header->state, unsigned{OPTIREDUCE_SHM_CLOSED});
  // Still mapped, as the engine may use it.
  EXPECT_EQ(dispatcher_->sessions().sessions().size(), 1u);
  dispatcher_->OnNotice(engine::SessionDetached{detach.session});
  EXPECT_TRUE(dispatcher_->Empty());
  EXPECT_EQ(dispatcher_->sessions().bytes_in_use(), 0u);
}

// K07.
TEST_F(DispatcherTest, VersionsThatDoNotMeetAreBothNamed) {
  TestClient client = Connect();
  Request request;
  request.mutable_hello()->set_min_version(5);
  request.mutable_hello()->set_max_version(6);
  Reply reply = Ask(client, request);
  EXPECT_EQ(reply.error().code(), ERROR_VERSION);
  EXPECT_THAT(reply.error().message(),
              AllOf(HasSubstr("5 to 6"), HasSubstr("the daemon 4"),
                    HasSubstr("upgrade the daemon")));
  request.mutable_hello()->set_min_version(0);
  request.mutable_hello()->set_max_version(0);
  EXPECT_THAT(Ask(client, request).error().message(),
              HasSubstr("upgrade the client"));
  EXPECT_TRUE(dispatcher_->sessions().sessions().empty());
  // A range that includes ours is fine.
  request.mutable_hello()->set_max_version(9);
  EXPECT_TRUE(Ask(client, request).has_hello());
}

TEST_F(DispatcherTest, OneSessionPerConnectionAndInOrder) {
  TestClient client = Connect();
  Request mapped;
  mapped.mutable_mapped();
  EXPECT_EQ(Ask(client, mapped).error().code(), ERROR_BAD_REQUEST);
  EXPECT_EQ(Ask(client, PrepareRequest(0, 1)).error().code(),
            ERROR_BAD_REQUEST);
  EXPECT_TRUE(SayHello(client).has_hello());
  EXPECT_EQ(SayHello(client).error().code(), ERROR_BAD_REQUEST);
  // Not before it is mapped.
  EXPECT_EQ(Ask(client, PrepareRequest(0, 1)).error().code(),
            ERROR_BAD_REQUEST);
  EXPECT_TRUE(Ask(client, mapped).has_mapped());
  EXPECT_EQ(Ask(client, mapped).error().code(), ERROR_BAD_REQUEST);
}

TEST_F(DispatcherTest, NamesThatWouldSpoilATerminalAreRefused) {
  TestClient client = Connect();
  for (const std::string& name : {std::string("a\nb"), std::string("\x1b[2J"),
                                  std::string(65, 'x'), std::string(1, '\0')}) {
    Request request;
    request.mutable_hello()->set_min_version(kProtocolVersion);
    request.mutable_hello()->set_max_version(kProtocolVersion);
    request.mutable_hello()->set_client(name);
    EXPECT_EQ(Ask(client, request).error().code(), ERROR_INVALID_SETTING);
  }
}

TEST_F(DispatcherTest, QuotasAreNamed) {
  Start(
      "max_sessions: 3 max_sessions_per_user: 2 max_segment_mb: 2 "
      "max_total_segment_mb: 3");
  TestClient first = Connect();
  EXPECT_THAT(SayHello(first, 3 << 20).error().message(),
              HasSubstr("max_segment_mb"));
  EXPECT_TRUE(SayHello(first, 2 << 20).has_hello());
  TestClient second = Connect();
  EXPECT_THAT(SayHello(second, 2 << 20).error().message(),
              HasSubstr("max_total_segment_mb"));
  EXPECT_TRUE(SayHello(second, 1 << 20).has_hello());
  TestClient third = Connect();
  const Reply reply = SayHello(third, 0);
  EXPECT_EQ(reply.error().code(), ERROR_QUOTA);
  EXPECT_THAT(reply.error().message(), HasSubstr("max_sessions_per_user"));
  // What ends makes room at once, as it was never used.
  second.Close();
  ASSERT_TRUE(
      RunUntil([&] { return dispatcher_->sessions().sessions().size() == 1; }));
  EXPECT_TRUE(SayHello(third, 1 << 20).has_hello());

  Start("max_sessions: 1");
  TestClient one = Connect();
  EXPECT_TRUE(SayHello(one).has_hello());
  TestClient two = Connect();
  EXPECT_THAT(SayHello(two).error().message(), HasSubstr("max_sessions)"));
}

// S01.
TEST_F(DispatcherTest, TooLittleMemoryIsAnErrorThatNamesTheLimit) {
  Start("max_segment_mb: 1048576 max_total_segment_mb: 1048576");
  TestClient client = Connect();
  const Reply reply = SayHello(client, uint64_t{1} << 40);
  EXPECT_EQ(reply.error().code(), ERROR_NO_MEMORY);
  EXPECT_THAT(reply.error().message(),
              AllOf(HasSubstr("1048577 MiB needed"), HasSubstr("available")));
  EXPECT_TRUE(dispatcher_->sessions().sessions().empty());
  EXPECT_TRUE(SayHello(client).has_hello());  // less is fine
}

TEST_F(DispatcherTest, AClientThatShrinksItsSegmentLosesItsSessionOnly) {
  TestClient witness = LiveClient();
  TestClient client = Connect();
  SayHello(client);
  ASSERT_EQ(ftruncate(client.descriptors[0].get(), 4096), 0);
  Request mapped;
  mapped.mutable_mapped();
  client.Send(mapped);
  std::optional<ServerFrame> frame;
  ASSERT_TRUE(RunUntil([&] {
    frame = client.Receive();
    return frame.has_value();
  }));
  EXPECT_THAT(frame->goodbye().message(), HasSubstr("changed the size"));
  ASSERT_TRUE(
      RunUntil([&] { return dispatcher_->sessions().sessions().size() == 1; }));
  EXPECT_TRUE(Ask(witness, PrepareRequest(0, 1)).has_prepare_group());
  EXPECT_TRUE(engine_.commands.empty());  // it never heard of the other
}

TEST_F(DispatcherTest, ClientsMayDieAtAnyMoment) {
  const size_t descriptors = EntriesOf("/proc/self/fd");
  const size_t shm = EntriesOf("/dev/shm");
  for (int i = 0; i < 100; ++i) {
    TestClient client = Connect();
    Request request;
    request.mutable_hello()->set_min_version(kProtocolVersion);
    request.mutable_hello()->set_max_version(kProtocolVersion);
    request.mutable_hello()->set_data_bytes(1 << 20);
    Request mapped;
    mapped.mutable_mapped();
    // Before the server has seen it; after Hello; after the answer; after
    // Mapped; after its answer; forming a group.
    const int moment = i % 6;
    if (moment >= 1) client.Send(request);
    if (moment >= 2) {
      ASSERT_TRUE(RunUntil([&] { return client.Receive().has_value(); }));
      client.descriptors = client.TakeDescriptors();
    }
    if (moment >= 3) client.Send(mapped);
    if (moment >= 4) {
      ASSERT_TRUE(RunUntil([&] { return client.Receive().has_value(); }));
    }
    if (moment >= 5) {
      const auto& sessions = dispatcher_->sessions().sessions();
      client.session = sessions.rbegin()->first.value();
      engine_.Take<engine::AttachSession>();
      StartForming(client);
    }
    client.Close();
    client.descriptors.clear();
    // Let everything happen; the engine acknowledges what it is told.
    ASSERT_TRUE(RunUntil([&] {
      while (!engine_.commands.empty()) {
        const auto command = std::move(engine_.commands.front());
        engine_.commands.pop_front();
        if (const auto* d = std::get_if<engine::DetachSession>(&command)) {
          for (const auto& [handle, group] : dispatcher_->groups().groups()) {
            if (group.session != d->session || !group.id) continue;
            dispatcher_->OnNotice(engine::GroupRemoved{d->session, *group.id});
            break;
          }
          dispatcher_->OnNotice(engine::SessionDetached{d->session});
        }
      }
      return server_->num_connections() == 0 && dispatcher_->Empty();
    })) << "moment "
        << moment;
  }
  ASSERT_TRUE(
      RunUntil([&] { return EntriesOf("/proc/self/fd") <= descriptors; }));
  EXPECT_EQ(EntriesOf("/dev/shm"), shm);
  EXPECT_EQ(dispatcher_->sessions().bytes_in_use(), 0u);
  EXPECT_EQ(dispatcher_->groups().ports_in_use(), 0u);
  EXPECT_EQ(dispatcher_->groups().memory_in_use(), 0u);
}

TEST_F(DispatcherTest, ABrokenSessionIsEndedWithAReason) {
  TestClient client = LiveClient();
  const auto header = client.header;
  header->submission_tail = 5000;
  const engine::SessionId id(static_cast<uint32_t>(client.session));
  // What the engine does.
  engine::Submission submission;
  auto* port = dispatcher_->sessions().sessions().at(id).port.get();
  ASSERT_EQ(port->Pull(&submission), engine::PullResult::kBroken);
  dispatcher_->OnNotice(engine::SessionBroken{id});
  Run();
  const auto frame = client.Receive();
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->goodbye().code(), ERROR_BAD_REQUEST);
  EXPECT_THAT(frame->goodbye().message(), HasSubstr("tail"));
  EXPECT_TRUE(client.AtEnd());
  engine_.Take<engine::DetachSession>();
  EXPECT_EQ(header->state_reason,
            unsigned{OPTIREDUCE_SHM_REASON_BAD_SUBMISSION_TAIL});
}

}  // namespace
}  // namespace optireduce::control
