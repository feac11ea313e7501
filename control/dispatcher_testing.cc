#include "control/dispatcher_testing.h"

#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

namespace optireduce::control {

size_t EntriesOf(const std::string& folder) {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator(folder),
                    std::filesystem::directory_iterator()));
}

void TestClient::Map() {
  void* base = mmap(nullptr, segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                    descriptors.at(0).get(), 0);
  ASSERT_NE(base, MAP_FAILED);
  header = {static_cast<OptireduceShmHeader*>(base),
            [bytes = segment_bytes](void* p) { munmap(p, bytes); }};
}

DispatcherTest::DispatcherTest() : loop_(*EventLoop::Create()) {
  char name[] = "/tmp/dispatchXXXXXX";
  EXPECT_NE(mkdtemp(name), nullptr);
  folder_ = name;
  worker_ = *Worker::Start(loop_.get());
  Start("");
}

DispatcherTest::~DispatcherTest() {
  server_.reset();
  dispatcher_.reset();
  worker_.reset();
  std::filesystem::remove_all(folder_);
}

void DispatcherTest::Start(const std::string& config_text) {
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

Reply DispatcherTest::Ask(TestClient& client, Request request) {
  request.set_id(++next_request_);
  client.Send(request);
  return Answer(client, next_request_);
}

Reply DispatcherTest::Answer(TestClient& client, uint64_t id) {
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

Reply DispatcherTest::SayHello(TestClient& client, uint64_t data_bytes) {
  Request request;
  request.mutable_hello()->set_min_version(kProtocolVersion);
  request.mutable_hello()->set_max_version(kProtocolVersion);
  request.mutable_hello()->set_client("test");
  request.mutable_hello()->set_data_bytes(data_bytes);
  Reply reply = Ask(client, request);
  client.session = reply.hello().session();
  client.segment_bytes = reply.hello().segment_bytes();
  client.descriptors = client.TakeDescriptors();
  if (reply.has_hello()) client.Map();
  return reply;
}

TestClient DispatcherTest::LiveClient() {
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

Request DispatcherTest::PrepareRequest(uint32_t rank, uint32_t world) {
  Request request;
  request.mutable_prepare_group()->set_rank(rank);
  request.mutable_prepare_group()->set_world(world);
  request.mutable_prepare_group()->set_name("job");
  return request;
}

std::vector<std::string> DispatcherTest::MembersWithPeer(
    const std::string& own) {
  Member peer;
  EXPECT_TRUE(peer.ParseFromString(own));
  peer.set_rank(1);
  peer.set_address(std::string("\x0a\x00\x00\x02", 4));
  return {own, peer.SerializeAsString()};
}

DispatcherTest::Forming DispatcherTest::StartForming(TestClient& client) {
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

DispatcherTest::Forming DispatcherTest::ReadyGroup(TestClient& client) {
  Forming forming = StartForming(client);
  Notify(client, forming, core::EventKind::kGroupReady);
  EXPECT_TRUE(Answer(client, forming.request).has_form_group());
  return forming;
}

void DispatcherTest::Notify(TestClient& client, const Forming& group,
                            core::EventKind kind, uint16_t peer) {
  engine::GroupChanged changed;
  changed.session = engine::SessionId(static_cast<uint32_t>(client.session));
  changed.event.kind = kind;
  changed.event.group = group.id;
  changed.event.peer = core::Rank(peer);
  dispatcher_->OnNotice(changed);
}

void DispatcherTest::RemoveGroup(TestClient& client, const Forming& group) {
  dispatcher_->OnNotice(engine::GroupRemoved{
      engine::SessionId(static_cast<uint32_t>(client.session)), group.id});
}

void DispatcherTest::AnswerSnapshot(uint64_t request,
                                    engine::Snapshot snapshot) {
  auto owned = std::make_unique<engine::Snapshot>(std::move(snapshot));
  owned->request = request;
  dispatcher_->OnNotice(engine::Notice(std::move(owned)));
}

}  // namespace optireduce::control
