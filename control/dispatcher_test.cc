// The tables behind the control socket, with real sockets and real memory but
// an engine that does what the test says.

#include "control/dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <deque>
#include <filesystem>

#include "control/testing/client.h"

namespace optireduce::control {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

size_t EntriesOf(const std::string& folder) {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator(folder),
                    std::filesystem::directory_iterator()));
}

// Keeps commands until the test has looked at them.
class FakeEngine : public EngineLink {
 public:
  void Post(engine::Command command) override {
    commands.push_back(std::move(command));
  }
  // The next command, which must be of this type.
  template <class T>
  T Take() {
    if (commands.empty() || !std::holds_alternative<T>(commands.front())) {
      ADD_FAILURE() << "no such command: "
                    << (commands.empty() ? -1 : commands.front().index());
      return T();
    }
    T command = std::get<T>(std::move(commands.front()));
    commands.pop_front();
    return command;
  }

  std::deque<engine::Command> commands;
};

// A client with its end of a session.
class TestClient : public testing::Client {
 public:
  using testing::Client::Client;

  uint64_t session = 0;
  uint64_t segment_bytes = 0;
  std::vector<UniqueFd> descriptors;
  std::shared_ptr<OptireduceShmHeader> header;  // mapped

  void Map() {
    void* base = mmap(nullptr, segment_bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED, descriptors.at(0).get(), 0);
    ASSERT_NE(base, MAP_FAILED);
    header = {static_cast<OptireduceShmHeader*>(base),
              [bytes = segment_bytes](void* p) { munmap(p, bytes); }};
  }
};

class DispatcherTest : public ::testing::Test {
 protected:
  DispatcherTest() : loop_(*EventLoop::Create()) {
    char name[] = "/tmp/dispatchXXXXXX";
    EXPECT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    worker_ = *Worker::Start(loop_.get());
    Start("");
  }
  ~DispatcherTest() override {
    server_.reset();
    dispatcher_.reset();
    worker_.reset();
    std::filesystem::remove_all(folder_);
  }
  void Start(const std::string& config_text) {
    server_.reset();
    dispatcher_.reset();
    engine_.commands.clear();
    ConfigSources sources;
    sources.file_name = "test.conf";
    sources.file_text =
        "port: \"af_packet:eth0\" address: \"10.0.0.1/24\" hugepages: "
        "\"off\" " +
        config_text;
    const auto config = LoadConfig(sources);
    ASSERT_TRUE(config.ok()) << config.status();
    DaemonFacts facts;
    facts.version = "1.2.3";
    facts.port = config->values().port();
    facts.info.ip = nic::Ipv4Address(0x0A000001);
    facts.info.mtu = 1500;
    facts.info.driver = "net_test";
    facts.notes = {"a fallback"};
    ServerOptions options;
    options.policy.own_uid = getuid();
    server_ = std::make_unique<Server>(
        options, *ListenSocket::Open({.path = folder_ + "/s", .group = ""}),
        loop_.get());
    dispatcher_ = std::make_unique<Dispatcher>(*config, facts, &engine_,
                                               server_.get(), worker_.get());
    server_->Start(dispatcher_.get());
  }

  // Until `done` or 20 s.
  template <class Done>
  bool RunUntil(const Done& done) {
    const Timestamp end = Now() + Duration::Seconds(20);
    while (!done()) {
      if (Now() > end) return false;
      loop_->RunOnce(Duration::Millis(20));
    }
    return true;
  }
  void Run() { testing::RunUntilIdle(*loop_); }

  TestClient Connect() { return TestClient(folder_ + "/s"); }
  // Sends, and waits for the answer.
  Reply Ask(TestClient& client, Request request) {
    request.set_id(++next_request_);
    client.Send(request);
    return Answer(client, next_request_);
  }
  Reply Answer(TestClient& client, uint64_t id) {
    std::optional<ServerFrame> frame;
    EXPECT_TRUE(RunUntil([&] {
      frame = client.Receive();
      return frame.has_value();
    }));
    if (!frame) return Reply();
    EXPECT_TRUE(frame->has_reply()) << frame->DebugString();
    EXPECT_EQ(frame->reply().id(), id);
    return frame->reply();
  }
  Reply SayHello(TestClient& client, uint64_t data_bytes = 1 << 20) {
    Request request;
    request.mutable_hello()->set_min_version(1);
    request.mutable_hello()->set_max_version(1);
    request.mutable_hello()->set_client("test");
    request.mutable_hello()->set_data_bytes(data_bytes);
    Reply reply = Ask(client, request);
    client.session = reply.hello().session();
    client.segment_bytes = reply.hello().segment_bytes();
    client.descriptors = client.TakeDescriptors();
    if (reply.has_hello()) client.Map();
    return reply;
  }
  TestClient LiveClient() {
    TestClient client = Connect();
    EXPECT_TRUE(SayHello(client).has_hello());
    Request request;
    request.mutable_mapped();
    EXPECT_TRUE(Ask(client, request).has_mapped());
    const auto attach = engine_.Take<engine::AttachSession>();
    EXPECT_EQ(attach.session.value(), client.session);
    EXPECT_NE(attach.port, nullptr);
    return client;
  }
  Request PrepareRequest(uint32_t rank, uint32_t world) {
    Request request;
    request.mutable_prepare_group()->set_rank(rank);
    request.mutable_prepare_group()->set_world(world);
    request.mutable_prepare_group()->set_name("job");
    return request;
  }
  // A group of this rank and one made-up peer; forming, known to the engine.
  struct Forming {
    uint32_t handle = 0;
    uint64_t request = 0;
    core::GroupId id;
    core::GroupConfig config;
  };
  std::vector<std::string> MembersWithPeer(const std::string& own) {
    Member peer;
    EXPECT_TRUE(peer.ParseFromString(own));
    peer.set_rank(1);
    peer.set_address(std::string("\x0a\x00\x00\x02", 4));
    return {own, peer.SerializeAsString()};
  }
  Forming StartForming(TestClient& client) {
    const Reply prepared = Ask(client, PrepareRequest(0, 2));
    Forming forming;
    forming.handle = prepared.prepare_group().group();
    Request request;
    request.mutable_form_group()->set_group(forming.handle);
    for (const std::string& blob :
         MembersWithPeer(prepared.prepare_group().member())) {
      request.mutable_form_group()->add_members(blob);
    }
    request.set_id(forming.request = ++next_request_);
    client.Send(request);
    EXPECT_TRUE(RunUntil([&] { return !engine_.commands.empty(); }));
    auto add = engine_.Take<engine::AddGroup>();
    EXPECT_EQ(add.handle, forming.handle);
    EXPECT_EQ(add.session.value(), client.session);
    forming.config = add.config;
    forming.id = core::GroupId(1000 + forming.handle);
    dispatcher_->OnNotice(
        engine::GroupAdded{add.request, add.session, forming.id});
    return forming;
  }
  void Notify(TestClient& client, const Forming& group, core::EventKind kind,
              uint16_t peer = 0) {
    engine::GroupChanged changed;
    changed.session = engine::SessionId(static_cast<uint32_t>(client.session));
    changed.event.kind = kind;
    changed.event.group = group.id;
    changed.event.peer = core::Rank(peer);
    dispatcher_->OnNotice(changed);
  }
  Forming ReadyGroup(TestClient& client) {
    Forming forming = StartForming(client);
    Notify(client, forming, core::EventKind::kGroupReady);
    EXPECT_TRUE(Answer(client, forming.request).has_form_group());
    return forming;
  }
  void RemoveGroup(TestClient& client, const Forming& group) {
    dispatcher_->OnNotice(engine::GroupRemoved{
        engine::SessionId(static_cast<uint32_t>(client.session)), group.id});
  }
  void AnswerSnapshot(uint64_t request, engine::Snapshot snapshot = {}) {
    auto owned = std::make_unique<engine::Snapshot>(std::move(snapshot));
    owned->request = request;
    dispatcher_->OnNotice(engine::Notice(std::move(owned)));
  }

  std::string folder_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<Worker> worker_;
  FakeEngine engine_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Dispatcher> dispatcher_;
  uint64_t next_request_ = 100;
};

// ---- sessions ---------------------------------------------------------------

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
  request.mutable_hello()->set_min_version(2);
  request.mutable_hello()->set_max_version(3);
  Reply reply = Ask(client, request);
  EXPECT_EQ(reply.error().code(), ERROR_VERSION);
  EXPECT_THAT(reply.error().message(),
              AllOf(HasSubstr("2 to 3"), HasSubstr("the daemon 1"),
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
    request.mutable_hello()->set_min_version(1);
    request.mutable_hello()->set_max_version(1);
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
    request.mutable_hello()->set_min_version(1);
    request.mutable_hello()->set_max_version(1);
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

// ---- groups -----------------------------------------------------------------

TEST_F(DispatcherTest, AGroupFromPreparationToItsEnd) {
  TestClient client = LiveClient();
  Request request = PrepareRequest(0, 2);
  request.mutable_prepare_group()->mutable_settings()->set_result_bound_us(
      20'000);
  request.mutable_prepare_group()->mutable_settings()->set_window(8);
  request.mutable_prepare_group()->mutable_settings()->set_fill(FILL_OWN);
  const Reply prepared = Ask(client, request);
  ASSERT_TRUE(prepared.has_prepare_group()) << prepared.DebugString();
  const GroupSettings& settings = prepared.prepare_group().settings();
  EXPECT_EQ(settings.result_bound_us(), 20'000u);
  EXPECT_EQ(settings.stage1_bound_us(), 12'000u);
  EXPECT_EQ(settings.early_wait_us(), 2'000u);
  EXPECT_EQ(settings.quorum_permille(), 750u);
  EXPECT_EQ(settings.mtu(), 1500u);
  Member own;
  ASSERT_TRUE(own.ParseFromString(prepared.prepare_group().member()));
  EXPECT_EQ(own.address(), std::string("\x0a\x00\x00\x01", 4));
  EXPECT_EQ(own.port(), 47000u);

  Request form;
  form.set_id(5);
  form.mutable_form_group()->set_group(prepared.prepare_group().group());
  for (const std::string& blob :
       MembersWithPeer(prepared.prepare_group().member())) {
    form.mutable_form_group()->add_members(blob);
  }
  client.Send(form);
  ASSERT_TRUE(RunUntil([&] { return !engine_.commands.empty(); }));
  const auto add = engine_.Take<engine::AddGroup>();
  EXPECT_EQ(add.config.result_bound, Duration::Millis(20));
  EXPECT_EQ(add.config.stage1_bound, Duration::Millis(12));
  EXPECT_EQ(add.config.window, 8u);
  EXPECT_EQ(add.config.fill, core::FillPolicy::kOwn);
  EXPECT_EQ(add.config.payload_bytes, wire::PayloadForMtu(1500));
  EXPECT_EQ(add.config.self, core::Rank(0));
  ASSERT_EQ(add.config.members.size(), 2u);
  EXPECT_EQ(add.config.members[1].address,
            core::NetAddress::FromIpv4(0x0A000002));

  Forming group;
  group.id = core::GroupId(9);
  dispatcher_->OnNotice(engine::GroupAdded{add.request, add.session, group.id});
  Run();
  EXPECT_FALSE(client.Receive());  // not before the peers are heard
  Notify(client, group, core::EventKind::kGroupReady);
  const Reply formed = Answer(client, 5);
  EXPECT_EQ(formed.form_group().tag(), add.config.tag);
  EXPECT_EQ(formed.form_group().payload_bytes(), add.config.payload_bytes);

  // What happens to peers is told unasked.
  Notify(client, group, core::EventKind::kPeerSuspect, 1);
  Notify(client, group, core::EventKind::kPeerHealthy, 1);
  Notify(client, group, core::EventKind::kPeerLost, 1);
  for (const GroupEventKind kind :
       {GROUP_PEER_SUSPECT, GROUP_PEER_HEALTHY, GROUP_PEER_LOST}) {
    const auto frame = client.Receive();
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->group_event().kind(), kind);
    EXPECT_EQ(frame->group_event().rank(), 1u);
    EXPECT_EQ(frame->group_event().group(), add.handle);
  }

  // Leaving is answered once the engine has left.
  Request leave;
  leave.set_id(6);
  leave.mutable_leave_group()->set_group(add.handle);
  client.Send(leave);
  ASSERT_TRUE(RunUntil([&] { return engine_.commands.size() == 2; }));
  const auto left = engine_.Take<engine::LeaveGroup>();
  EXPECT_EQ(left.group, group.id);
  EXPECT_EQ(left.reason, wire::LeaveReason::kLeft);
  Run();
  EXPECT_FALSE(client.Receive());
  AnswerSnapshot(engine_.Take<engine::TakeSnapshot>().request);
  EXPECT_TRUE(Answer(client, 6).has_leave_group());
  // Its port is kept while peers may still send to it.
  EXPECT_EQ(dispatcher_->groups().ports_in_use(), 1u);
  RemoveGroup(client, group);
  EXPECT_EQ(dispatcher_->groups().ports_in_use(), 0u);
  EXPECT_EQ(dispatcher_->groups().memory_in_use(), 0u);
}

// K09.
TEST_F(DispatcherTest, LeavingTwiceIsNoErrorAndNamesAreFreeAgain) {
  TestClient client = LiveClient();
  const size_t descriptors = EntriesOf("/proc/self/fd");
  for (int i = 0; i < 100; ++i) {
    const Reply prepared = Ask(client, PrepareRequest(0, 1));
    ASSERT_TRUE(prepared.has_prepare_group());
    Request leave;
    leave.mutable_leave_group()->set_group(prepared.prepare_group().group());
    EXPECT_TRUE(Ask(client, leave).has_leave_group());
    EXPECT_TRUE(Ask(client, leave).has_leave_group());
  }
  EXPECT_EQ(EntriesOf("/proc/self/fd"), descriptors);
  EXPECT_EQ(dispatcher_->groups().num_groups(), 0u);
  Request leave;
  leave.mutable_leave_group()->set_group(5000);
  EXPECT_EQ(Ask(client, leave).error().code(), ERROR_NOT_FOUND);
}

TEST_F(DispatcherTest, LeavingTwiceWhileTheFirstIsUnderWay) {
  TestClient client = LiveClient();
  const Forming group = ReadyGroup(client);
  Request leave;
  leave.mutable_leave_group()->set_group(group.handle);
  leave.set_id(1);
  client.Send(leave);
  leave.set_id(2);
  client.Send(leave);
  ASSERT_TRUE(RunUntil([&] { return engine_.commands.size() == 4; }));
  engine_.Take<engine::LeaveGroup>();
  const auto first = engine_.Take<engine::TakeSnapshot>();
  AnswerSnapshot(first.request);
  EXPECT_TRUE(Answer(client, 1).has_leave_group());
  EXPECT_TRUE(Answer(client, 2).has_leave_group());
}

TEST_F(DispatcherTest, OneTenantsGroupIsNotAnothers) {
  TestClient first = LiveClient();
  TestClient second = LiveClient();
  const Forming group = ReadyGroup(first);
  Request leave;
  leave.mutable_leave_group()->set_group(group.handle);
  EXPECT_EQ(Ask(second, leave).error().code(), ERROR_NOT_FOUND);
  Request form;
  form.mutable_form_group()->set_group(group.handle);
  EXPECT_EQ(Ask(second, form).error().code(), ERROR_NOT_FOUND);
  EXPECT_TRUE(engine_.commands.empty());
}

TEST_F(DispatcherTest, BadMembersAreRefusedAndThePreparationStays) {
  TestClient client = LiveClient();
  const Reply prepared = Ask(client, PrepareRequest(0, 2));
  Request form;
  form.mutable_form_group()->set_group(prepared.prepare_group().group());
  form.mutable_form_group()->add_members(prepared.prepare_group().member());
  form.mutable_form_group()->add_members(prepared.prepare_group().member());
  const Reply reply = Ask(client, form);
  EXPECT_EQ(reply.error().code(), ERROR_MEMBERS);
  EXPECT_THAT(reply.error().message(), HasSubstr("rank 0 is there twice"));
  EXPECT_THAT(reply.error().disagree(), ElementsAre(0, 1));
  EXPECT_TRUE(engine_.commands.empty());
  form.mutable_form_group()->clear_members();
  for (const std::string& blob :
       MembersWithPeer(prepared.prepare_group().member())) {
    form.mutable_form_group()->add_members(blob);
  }
  client.Send(form);
  ASSERT_TRUE(RunUntil([&] { return !engine_.commands.empty(); }));
  engine_.Take<engine::AddGroup>();
  // But once only.
  EXPECT_THAT(Ask(client, form).error().message(),
              HasSubstr("forming already"));
}

TEST_F(DispatcherTest, AFailedFormationNamesTheRanks) {
  TestClient client = LiveClient();
  const Forming group = StartForming(client);
  engine::GroupChanged failed;
  failed.event.kind = core::EventKind::kGroupFailed;
  failed.event.group = group.id;
  failed.event.silent.Add(core::Rank(1));
  dispatcher_->OnNotice(failed);
  const Reply reply = Answer(client, group.request);
  EXPECT_EQ(reply.error().code(), ERROR_FORMATION);
  EXPECT_THAT(reply.error().silent(), ElementsAre(1));
  EXPECT_THAT(reply.error().message(), HasSubstr("not heard within the limit: "
                                                 "rank 1"));
  EXPECT_EQ(engine_.Take<engine::RemoveGroup>().group, group.id);
  RemoveGroup(client, group);
  EXPECT_EQ(dispatcher_->groups().num_groups(), 0u);
}

TEST_F(DispatcherTest, AGroupThatTheEngineRefuses) {
  TestClient client = LiveClient();
  const Reply prepared = Ask(client, PrepareRequest(0, 1));
  Request form;
  form.set_id(7);
  form.mutable_form_group()->set_group(prepared.prepare_group().group());
  form.mutable_form_group()->add_members(prepared.prepare_group().member());
  client.Send(form);
  ASSERT_TRUE(RunUntil([&] { return !engine_.commands.empty(); }));
  const auto add = engine_.Take<engine::AddGroup>();
  dispatcher_->OnNotice(engine::GroupAdded{
      add.request, add.session, absl::InvalidArgumentError("window: 0")});
  EXPECT_THAT(Answer(client, 7).error().message(), HasSubstr("window: 0"));
  EXPECT_EQ(dispatcher_->groups().num_groups(), 0u);
  EXPECT_EQ(dispatcher_->groups().ports_in_use(), 0u);
}

TEST_F(DispatcherTest, LeavingBeforeTheEngineHasTheGroup) {
  TestClient client = LiveClient();
  const Reply prepared = Ask(client, PrepareRequest(0, 1));
  Request form;
  form.set_id(1);
  form.mutable_form_group()->set_group(prepared.prepare_group().group());
  form.mutable_form_group()->add_members(prepared.prepare_group().member());
  client.Send(form);
  Request leave;
  leave.set_id(2);
  leave.mutable_leave_group()->set_group(prepared.prepare_group().group());
  client.Send(leave);
  EXPECT_EQ(Answer(client, 1).error().code(), ERROR_FORMATION);
  const auto add = engine_.Take<engine::AddGroup>();
  EXPECT_TRUE(engine_.commands.empty());
  dispatcher_->OnNotice(
      engine::GroupAdded{add.request, add.session, core::GroupId(4)});
  EXPECT_EQ(engine_.Take<engine::LeaveGroup>().group, core::GroupId(4));
  AnswerSnapshot(engine_.Take<engine::TakeSnapshot>().request);
  EXPECT_TRUE(Answer(client, 2).has_leave_group());
}

TEST_F(DispatcherTest, SettingsOutOfRangeAreNamed) {
  TestClient client = LiveClient();
  const auto error_of = [&](auto change) {
    Request request = PrepareRequest(0, 2);
    change(request.mutable_prepare_group());
    const Reply reply = Ask(client, request);
    EXPECT_EQ(reply.error().code(), ERROR_INVALID_SETTING);
    return reply.error().message();
  };
  EXPECT_THAT(error_of([](auto* p) { p->set_rank(2); }),
              HasSubstr("rank 2 in a world of 2"));
  EXPECT_THAT(error_of([](auto* p) { p->set_world(0); }),
              HasSubstr("from 1 to 1024"));
  EXPECT_THAT(error_of([](auto* p) { p->set_world(1025); }),
              HasSubstr("a world of 1025"));
  EXPECT_THAT(error_of([](auto* p) { p->set_name(std::string(49, 'x')); }),
              HasSubstr("at most 48 bytes"));
  EXPECT_THAT(error_of([](auto* p) { p->set_name("\x1b[2J"); }),
              HasSubstr("printable"));
  EXPECT_THAT(error_of([](auto* p) { p->mutable_settings()->set_window(0); }),
              AllOf(HasSubstr("group_window"), HasSubstr("from 1 to 256")));
  EXPECT_THAT(error_of([](auto* p) {
                p->mutable_settings()->set_stage1_bound_us(200'000);
              }),
              HasSubstr("group_stage1_bound_us (200000)"));
  EXPECT_THAT(error_of([](auto* p) { p->mutable_settings()->set_mtu(1501); }),
              HasSubstr("mtu: 1501"));
  EXPECT_THAT(error_of([](auto* p) { p->mutable_settings()->set_mtu(500); }),
              HasSubstr("mtu: 500"));
  EXPECT_THAT(error_of([](auto* p) {
                p->mutable_settings()->set_memory_budget_bytes(100);
              }),
              HasSubstr("memory_budget_bytes"));
  EXPECT_EQ(dispatcher_->groups().num_groups(), 0u);
}

TEST_F(DispatcherTest, GroupQuotasAreNamed) {
  Start(
      "max_groups_per_session: 2 max_total_group_mb: 300 udp_port_count: 3 "
      "group_memory_mb: 100");
  TestClient first = LiveClient();
  EXPECT_TRUE(Ask(first, PrepareRequest(0, 1)).has_prepare_group());
  EXPECT_TRUE(Ask(first, PrepareRequest(0, 1)).has_prepare_group());
  EXPECT_THAT(Ask(first, PrepareRequest(0, 1)).error().message(),
              HasSubstr("max_groups_per_session"));
  TestClient second = LiveClient();
  EXPECT_TRUE(Ask(second, PrepareRequest(0, 1)).has_prepare_group());
  const Reply reply = Ask(second, PrepareRequest(0, 1));
  EXPECT_EQ(reply.error().code(), ERROR_QUOTA);
  EXPECT_THAT(reply.error().message(), HasSubstr("max_total_group_mb"));
  Request small = PrepareRequest(0, 1);
  small.mutable_prepare_group()->mutable_settings()->set_memory_budget_bytes(
      1 << 20);
  first.Close();
  ASSERT_TRUE(RunUntil([&] { return !engine_.commands.empty(); }));
  // Prepared groups go at once.
  EXPECT_EQ(dispatcher_->groups().num_groups(), 1u);
  EXPECT_TRUE(Ask(second, small).has_prepare_group());
}

TEST_F(DispatcherTest, GroupsOutliveTheirSessionUntilPeersNeedNothing) {
  TestClient client = LiveClient();
  const Forming group = ReadyGroup(client);
  client.Close();
  ASSERT_TRUE(RunUntil([&] { return !engine_.commands.empty(); }));
  const auto detach = engine_.Take<engine::DetachSession>();
  dispatcher_->OnNotice(engine::SessionDetached{detach.session});
  EXPECT_TRUE(dispatcher_->sessions().sessions().empty());
  EXPECT_EQ(dispatcher_->groups().num_groups(), 1u);
  // Nobody is there to be told.
  Notify(client, group, core::EventKind::kPeerLost, 1);
  EXPECT_FALSE(dispatcher_->Empty());
  RemoveGroup(client, group);
  EXPECT_TRUE(dispatcher_->Empty());
}

// ---- admin ------------------------------------------------------------------

TEST_F(DispatcherTest, StatusNeedsNoSession) {
  TestClient client = Connect();
  Request request;
  request.set_id(1);
  request.mutable_status();
  client.Send(request);
  ASSERT_TRUE(RunUntil([&] { return !engine_.commands.empty(); }));
  engine::Snapshot snapshot;
  snapshot.port_up = true;
  snapshot.silent_next_hops = {nic::Ipv4Address(0x0A000009)};
  AnswerSnapshot(engine_.Take<engine::TakeSnapshot>().request,
                 std::move(snapshot));
  const StatusReply status = Answer(client, 1).status();
  EXPECT_EQ(status.version(), "1.2.3");
  EXPECT_EQ(status.state(), "ready");
  EXPECT_EQ(status.address(), "10.0.0.1");
  EXPECT_EQ(status.driver(), "net_test");
  EXPECT_EQ(status.mtu(), 1500u);
  EXPECT_THAT(status.notes(),
              ElementsAre("a fallback", HasSubstr("10.0.0.9 answers no ARP")));
}

TEST_F(DispatcherTest, GroupsPeersAndStats) {
  TestClient client = LiveClient();
  const Forming group = ReadyGroup(client);
  engine::Snapshot snapshot;
  snapshot.counters = {{"core_bad_crc", 3}};
  engine::GroupSnapshot row;
  row.group = group.id;
  row.status.next_op = core::OpSeq(12);
  row.status.memory_used = 77;
  row.status.peers.resize(2);
  row.status.peers[1].suspect = true;
  row.status.peers[1].packets_received = 5;
  row.status.peers[1].endpoint = {core::NetAddress::FromIpv4(0x0A000002),
                                  47000};
  snapshot.groups = {row};
  const auto ask = [&](Request request) {
    request.set_id(1);
    client.Send(request);
    EXPECT_TRUE(RunUntil([&] { return !engine_.commands.empty(); }));
    AnswerSnapshot(engine_.Take<engine::TakeSnapshot>().request, snapshot);
    return Answer(client, 1);
  };
  Request request;
  request.mutable_groups();
  const GroupsReply groups = ask(request).groups();
  ASSERT_EQ(groups.groups_size(), 1);
  EXPECT_EQ(groups.groups(0).name(), "job");
  EXPECT_EQ(groups.groups(0).client(), "test");
  EXPECT_EQ(groups.groups(0).state(), "ready");
  EXPECT_EQ(groups.groups(0).next_op(), 12u);
  EXPECT_EQ(groups.groups(0).memory_used(), 77u);
  EXPECT_EQ(groups.groups(0).tag(), group.config.tag);
  request.mutable_peers();
  const PeersReply peers = ask(request).peers();
  ASSERT_EQ(peers.peers_size(), 1);
  EXPECT_EQ(peers.peers(0).rank(), 1u);
  EXPECT_EQ(peers.peers(0).state(), "suspect");
  EXPECT_EQ(peers.peers(0).endpoint(), "10.0.0.2:47000");
  request.mutable_stats();
  const StatsReply stats = ask(request).stats();
  std::map<std::string, uint64_t> counters;
  for (const auto& counter : stats.counters()) {
    counters[counter.name()] = counter.value();
  }
  EXPECT_EQ(counters.at("core_bad_crc"), 3u);
  EXPECT_EQ(counters.at("control_sessions"), 1u);
  EXPECT_EQ(counters.at("control_data_ports"), 1u);
}

TEST_F(DispatcherTest, OpsAndConfigNeedNoEngine) {
  TestClient client = LiveClient();
  Request request;
  request.mutable_ops();
  EXPECT_EQ(Ask(client, request).ops().ops_size(), 0);
  request.mutable_config();
  const ConfigReply config = Ask(client, request).config();
  std::map<std::string, ConfigReply::Entry> entries;
  for (const auto& entry : config.entries()) entries[entry.key()] = entry;
  EXPECT_EQ(entries.size(), ConfigKeys().size());
  EXPECT_EQ(entries.at("port").value(), "af_packet:eth0");
  EXPECT_EQ(entries.at("port").origin(), "file");
  EXPECT_EQ(entries.at("port").where(), "test.conf:1");
  EXPECT_EQ(entries.at("group_window").origin(), "default");
}

// ---- stopping ---------------------------------------------------------------

TEST_F(DispatcherTest, WhileItDrainsNothingNewBegins) {
  TestClient client = LiveClient();
  dispatcher_->BeginDrain();
  EXPECT_TRUE(dispatcher_->Drained());
  EXPECT_EQ(Ask(client, PrepareRequest(0, 1)).error().code(),
            ERROR_SHUTTING_DOWN);
  TestClient late = Connect();
  EXPECT_EQ(SayHello(late).error().code(), ERROR_SHUTTING_DOWN);
  server_->DropAll(ERROR_SHUTTING_DOWN, "the daemon stops");
  Run();
  const auto detach = engine_.Take<engine::DetachSession>();
  EXPECT_EQ(detach.reason, wire::LeaveReason::kShutdown);
  dispatcher_->OnNotice(engine::SessionDetached{detach.session});
  EXPECT_TRUE(dispatcher_->Empty());
}

}  // namespace
}  // namespace optireduce::control
