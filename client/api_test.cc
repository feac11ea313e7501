// The C ABI against a daemon that answers as it is told.

#include <gtest/gtest.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "client/optireduce.h"
#include "client/testing/fake_daemon.h"
#include "client/testing/fixture.h"
#include "proto/shm_abi.h"

namespace optireduce::client {
namespace {

constexpr int64_t kAmple = OR_SECONDS(30);

class ApiTest : public ::testing::Test {
 protected:
  TemporaryDirectory directory_;
  std::string path_ = directory_.File("s");
};

bool ErrorHas(const std::string& text) {
  return std::string(or_last_error()).find(text) != std::string::npos;
}

or_report EmptyReport() {
  or_report report{};
  report.struct_size = sizeof(report);
  return report;
}

size_t OpenDescriptors() {
  const std::filesystem::directory_iterator fds("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(fds), end(fds)));
}

TEST_F(ApiTest, AnOperationTravelsThereAndBack) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  const or_op op = client.Submit();
  or_report report = EmptyReport();
  EXPECT_EQ(or_wait(client.session, op, kAmple, &report), OR_OK);
  for (uint64_t i = 0; i < TestClient::kCount; ++i) {
    EXPECT_EQ(client.output[i], static_cast<float>(i));
  }
  EXPECT_EQ(report.status, OR_OK);
  EXPECT_EQ(report.world, 2u);
  EXPECT_EQ(report.elements, TestClient::kCount);
  EXPECT_EQ(report.missing_fraction, 0);
  EXPECT_EQ(report.missing_count, 0u);
  EXPECT_EQ(report.deadline_ns, OR_MILLISECONDS(100));
  EXPECT_EQ(or_wait(client.session, op, kAmple, nullptr), OR_ERR_ARGUMENT)
      << "an end is reported once";
}

TEST_F(ApiTest, TheReportHasTheWholeAccount) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  or_report report = EmptyReport();
  EXPECT_EQ(or_wait(client.session,
                    client.Submit(kFakeStatus + OPTIREDUCE_SHM_PARTIAL), kAmple,
                    &report),
            OR_PARTIAL);
  EXPECT_EQ(report.cause, OR_CAUSE_DEADLINE);
  EXPECT_EQ(report.absent, 4u);
  EXPECT_EQ(report.contributions, 20u);
  EXPECT_DOUBLE_EQ(report.stage1_loss, 1 - 20.0 / 24);
  EXPECT_DOUBLE_EQ(report.stage2_loss, 0.25);
  EXPECT_DOUBLE_EQ(report.missing_fraction, 1 - 20.0 / 24 * 0.75);
  EXPECT_EQ(report.missing_count, 2u);
  EXPECT_EQ(report.missing[0], 2u);
  EXPECT_EQ(report.missing[1], 2u);
  EXPECT_EQ(report.decision_late_ns, 1234);
  EXPECT_EQ(report.repaired, 17u);
  EXPECT_EQ(report.wall_late_ns, 56789);
}

TEST_F(ApiTest, ErrorsNameRanksAndSayWhatToDo) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  const struct {
    uint64_t bucket;
    or_status status;
    const char* text;
  } cases[] = {
      {kFakeStatus + OPTIREDUCE_SHM_HARD_LIMIT, OR_ERR_HARD_LIMIT,
       "missing: rank 1, 65."},
      {kFakeStatus + OPTIREDUCE_SHM_PEER_LOST, OR_ERR_PEER_LOST,
       "rank 1, 65 died or left"},
      {kFakeStatus + OPTIREDUCE_SHM_MISMATCH, OR_ERR_MISMATCH,
       "rank 1 submitted broadcast int32, 77 elements, exact, root 0"},
      {kFakeStatus + OPTIREDUCE_SHM_EXPIRED, OR_ERR_EXPIRED, "so long after"},
      {kFakeStatus + OPTIREDUCE_SHM_CANCELLED, OR_ERR_CANCELLED, "cancelled"},
      {kFakeStatus + 50, OR_ERR_VERSION, "upgrade the library"},
      {kFakeRefusal + OPTIREDUCE_SHM_REFUSAL_UNSUPPORTED, OR_ERR_UNSUPPORTED,
       "do not go together"},
      {kFakeRefusal + OPTIREDUCE_SHM_REFUSAL_TOO_LARGE, OR_ERR_NO_MEMORY,
       "memory_budget_bytes"},
      {kFakeRefusal + OPTIREDUCE_SHM_REFUSAL_PEER_LOST, OR_ERR_PEER_LOST,
       "form a new one"},
      {kFakeRefusal + OPTIREDUCE_SHM_REFUSAL_LEFT, OR_ERR_CLOSED, "has left"},
      {kFakeRefusal + OPTIREDUCE_SHM_REFUSAL_COUNT, OR_ERR_ARGUMENT,
       "multiple of"},
      {kFakeRefusal + OPTIREDUCE_SHM_REFUSAL_IN_FLIGHT, OR_ERR_BUSY,
       "in flight"},
      {kFakeRefusal + OPTIREDUCE_SHM_REFUSAL_SHUTDOWN, OR_ERR_REFUSED,
       "is stopping"},
      {kFakeRefusal + 99, OR_ERR_ARGUMENT, "upgrade the library"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    or_report report = EmptyReport();
    EXPECT_EQ(or_wait(client.session, client.Submit(c.bucket), kAmple, &report),
              c.status);
    EXPECT_EQ(report.status, c.status);
    EXPECT_TRUE(ErrorHas(c.text)) << or_last_error();
    EXPECT_TRUE(ErrorHas("rank 0 of 2, group \"g\"")) << or_last_error();
  }
}

TEST_F(ApiTest, PollDoesNotWait) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  const or_op held = client.Submit(kFakeHold);
  EXPECT_EQ(or_poll(client.session, held, nullptr), OR_PENDING);
  EXPECT_EQ(or_wait(client.session, held, 0, nullptr), OR_ERR_TIMEOUT);
  EXPECT_EQ(or_poll(client.session, held, nullptr), OR_PENDING);
}

TEST_F(ApiTest, ABufferInFlightIsRefusedWithBothRanges) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  client.Submit(kFakeHold);
  char text[64];
  snprintf(text, sizeof(text), "[%p, %p)", static_cast<void*>(client.input),
           static_cast<void*>(client.input + TestClient::kCount));

  or_operation inside = client.Operation();
  inside.input = client.input + 2;
  inside.output = client.input + 2;
  inside.count = 3;
  or_op op = 0;
  EXPECT_EQ(or_submit(client.session, client.group, &inside, &op), OR_ERR_BUSY);
  EXPECT_TRUE(ErrorHas(text)) << or_last_error();
  snprintf(text, sizeof(text), "[%p, %p)", static_cast<void*>(client.input + 2),
           static_cast<void*>(client.input + 5));
  EXPECT_TRUE(ErrorHas(text)) << or_last_error();
  EXPECT_EQ(or_free(client.session, client.input), OR_ERR_BUSY);

  EXPECT_EQ(or_group_leave(client.session, client.group, kAmple), OR_OK);
  EXPECT_EQ(or_free(client.session, client.input), OR_OK);
}

TEST_F(ApiTest, OutputsInFlightAreTakenAsWell) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  client.Submit(kFakeHold);
  or_operation other = client.Operation();
  other.input = other.output = client.output;
  or_op op = 0;
  EXPECT_EQ(or_submit(client.session, client.group, &other, &op), OR_ERR_BUSY);
  EXPECT_EQ(or_free(client.session, client.output), OR_ERR_BUSY);
}

TEST_F(ApiTest, BuffersAreFreeAgainAfterTheEnd) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(or_wait(client.session, client.Submit(), kAmple, nullptr), OR_OK);
  }
}

TEST_F(ApiTest, BuffersMustLieInOneAllocation) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  std::vector<float> elsewhere(TestClient::kCount);
  or_op op = 0;
  or_operation operation = client.Operation();
  operation.input = elsewhere.data();
  EXPECT_EQ(or_submit(client.session, client.group, &operation, &op),
            OR_ERR_ARGUMENT);
  EXPECT_TRUE(ErrorHas("or_allocate")) << or_last_error();
  operation = client.Operation();
  operation.count = TestClient::kCount + 1;
  EXPECT_EQ(or_submit(client.session, client.group, &operation, &op),
            OR_ERR_ARGUMENT);
  operation = client.Operation();
  operation.input = nullptr;
  EXPECT_EQ(or_submit(client.session, client.group, &operation, &op),
            OR_ERR_ARGUMENT);
  operation = client.Operation();
  operation.count = 8;
  operation.output = client.input + 4;
  EXPECT_EQ(or_submit(client.session, client.group, &operation, &op),
            OR_ERR_ARGUMENT);
  EXPECT_TRUE(ErrorHas("neither the same")) << or_last_error();
  // Rank 0's part of a reduce-scatter is the first one.
  operation.collective = OR_REDUCE_SCATTER;
  EXPECT_EQ(or_submit(client.session, client.group, &operation, &op),
            OR_ERR_ARGUMENT);
  operation.output = client.input;
  EXPECT_EQ(or_submit(client.session, client.group, &operation, &op), OR_OK);
}

TEST_F(ApiTest, NoElementsNeedNoBuffer) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  or_operation operation = client.Operation();
  operation.count = 0;
  operation.input = operation.output = nullptr;
  or_op op = 0;
  ASSERT_EQ(or_submit(client.session, client.group, &operation, &op), OR_OK);
  EXPECT_EQ(or_wait(client.session, op, kAmple, nullptr), OR_OK);
  operation.collective = OR_BARRIER;
  operation.dtype = OR_FLOAT32;
  ASSERT_EQ(or_submit(client.session, client.group, &operation, &op), OR_OK);
  EXPECT_EQ(or_wait(client.session, op, kAmple, nullptr), OR_OK);
}

// Limits travel in microseconds; zero would mean that there is none.
TEST_F(ApiTest, ALimitIsNeverShorterThanAskedFor) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  or_operation operation = client.Operation();
  for (const auto& [asked, granted] :
       {std::pair<int64_t, int64_t>{1, 1000}, {1000, 1000}, {1001, 2000}}) {
    operation.soft_limit_ns = asked;
    or_op op = 0;
    ASSERT_EQ(or_submit(client.session, client.group, &operation, &op), OR_OK);
    or_report report = EmptyReport();
    EXPECT_EQ(or_wait(client.session, op, kAmple, &report), OR_OK);
    EXPECT_EQ(report.deadline_ns, granted);
  }
}

TEST_F(ApiTest, ValuesOutsideTheirRangesAreRefusedByName) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  const auto refuse = [&](auto change, const char* text) {
    or_operation operation = client.Operation();
    change(operation);
    or_op op = 0;
    EXPECT_LT(or_submit(client.session, client.group, &operation, &op), 0);
    EXPECT_TRUE(ErrorHas(text)) << or_last_error();
  };
  refuse([](or_operation& o) { o.dtype = 257; }, "dtype 257");
  refuse([](or_operation& o) { o.collective = -1; }, "collective -1");
  refuse([](or_operation& o) { o.count = uint64_t{1} << 32; }, "4294967296");
  refuse([](or_operation& o) { o.root = 1024; }, "root 1024");
  refuse([](or_operation& o) { o.soft_limit_ns = -1; }, "soft_limit_ns");
  refuse([](or_operation& o) { o.hard_limit_ns = INT64_MAX; }, "hard_limit_ns");
  for (const float scale :
       {-1.0F, 1e-40F, std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    refuse([&](or_operation& o) { o.loss_scale = scale; }, "loss_scale");
  }
  refuse([](or_operation& o) { o.struct_size = 3; }, "struct_size is 3");
  or_op op = 0;
  const or_operation operation = client.Operation();
  EXPECT_EQ(or_submit(client.session, 999, &operation, &op), OR_ERR_CLOSED);
  EXPECT_EQ(or_submit(nullptr, client.group, &operation, &op), OR_ERR_ARGUMENT);
  EXPECT_EQ(or_submit(client.session, client.group, nullptr, &op),
            OR_ERR_ARGUMENT);
  EXPECT_EQ(or_submit(client.session, client.group, &operation, nullptr),
            OR_ERR_ARGUMENT);
}

TEST_F(ApiTest, StructsOfLaterVersionsAreUnderstoodIfTheyAddNothing) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  struct {
    or_operation known;
    uint64_t added;
  } later{client.Operation(), 0};
  later.known.struct_size = sizeof(later);
  or_op op = 0;
  EXPECT_EQ(or_submit(client.session, client.group, &later.known, &op), OR_OK);
  struct {
    or_report known;
    uint64_t added;
  } report{};
  report.known.struct_size = sizeof(report);
  report.added = 1;
  EXPECT_EQ(or_wait(client.session, op, kAmple, &report.known), OR_OK);
  EXPECT_EQ(report.known.struct_size, sizeof(report));
  EXPECT_EQ(report.known.elements, TestClient::kCount);
  EXPECT_EQ(report.added, 0u);

  later.added = 1;
  EXPECT_EQ(or_submit(client.session, client.group, &later.known, &op),
            OR_ERR_VERSION);
}

// The first version's ended before the loss scale.
TEST_F(ApiTest, AnOperationOfTheFirstVersionHasTheDefaults) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  or_operation operation = client.Operation(kFakeScale);
  operation.loss_scale = 8;
  operation.struct_size = offsetof(or_operation, loss_scale);
  or_op op = 0;
  ASSERT_EQ(or_submit(client.session, client.group, &operation, &op), OR_OK)
      << or_last_error();
  EXPECT_EQ(or_wait(client.session, op, kAmple, nullptr), OR_OK);
  EXPECT_EQ(client.output[0], 1);
  --operation.struct_size;
  EXPECT_EQ(or_submit(client.session, client.group, &operation, &op),
            OR_ERR_ARGUMENT);
}

TEST_F(ApiTest, TheRingsHoldSoManyOperationsAndNoMore) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  or_operation operation = client.Operation(kFakeHold);
  operation.count = 0;
  or_op op = 0;
  for (int i = 0; i < OPTIREDUCE_SHM_SUBMISSION_SLOTS; ++i) {
    ASSERT_EQ(or_submit(client.session, client.group, &operation, &op), OR_OK);
  }
  EXPECT_EQ(or_submit(client.session, client.group, &operation, &op),
            OR_ERR_BUSY);
}

TEST_F(ApiTest, EventsComeInOrder) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  or_event event{};
  event.struct_size = sizeof(event);
  EXPECT_EQ(or_group_next_event(client.session, client.group, &event),
            OR_PENDING);
  EXPECT_EQ(
      or_wait(client.session, client.Submit(kFakeSuspect), kAmple, nullptr),
      OR_OK);
  EXPECT_EQ(
      or_wait(client.session, client.Submit(kFakePeerLost), kAmple, nullptr),
      OR_OK);
  ASSERT_EQ(or_group_next_event(client.session, client.group, &event), OR_OK);
  EXPECT_EQ(event.kind, OR_EVENT_PEER_SUSPECT);
  EXPECT_EQ(event.rank, 1u);
  ASSERT_EQ(or_group_next_event(client.session, client.group, &event), OR_OK);
  EXPECT_EQ(event.kind, OR_EVENT_PEER_LOST);
  EXPECT_EQ(or_group_next_event(client.session, client.group, &event),
            OR_PENDING);
}

TEST_F(ApiTest, LeavingEndsWhatIsInFlightAndMayBeRepeated) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  const or_op held = client.Submit(kFakeHold);
  EXPECT_EQ(or_group_leave(client.session, client.group, kAmple), OR_OK);
  EXPECT_EQ(or_wait(client.session, held, kAmple, nullptr), OR_ERR_CANCELLED);
  EXPECT_EQ(or_group_leave(client.session, client.group, kAmple), OR_OK);
  EXPECT_EQ(or_group_leave(client.session, 77, kAmple), OR_ERR_ARGUMENT);
  const or_operation operation = client.Operation();
  or_op op = 0;
  EXPECT_EQ(or_submit(client.session, client.group, &operation, &op),
            OR_ERR_CLOSED);
  or_event event{};
  event.struct_size = sizeof(event);
  EXPECT_EQ(or_group_next_event(client.session, client.group, &event),
            OR_ERR_CLOSED);
}

TEST_F(ApiTest, ADaemonThatSaysGoodbyeIsLostWithItsReason) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  const or_op op = client.Submit(kFakeGoodbye);
  EXPECT_EQ(or_wait(client.session, op, kAmple, nullptr), OR_ERR_DAEMON_LOST);
  EXPECT_TRUE(ErrorHas("the fake has had enough")) << or_last_error();
  EXPECT_TRUE(ErrorHas(path_)) << or_last_error();
  const or_operation operation = client.Operation();
  or_op next = 0;
  EXPECT_EQ(or_submit(client.session, client.group, &operation, &next),
            OR_ERR_DAEMON_LOST);
  client.input[0] = 5;  // buffers stay usable
  TestClient again(path_);
  EXPECT_EQ(or_wait(again.session, again.Submit(), kAmple, nullptr), OR_OK);
}

TEST_F(ApiTest, DisconnectKeepsBuffersAndMayBeRepeated) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  const or_op held = client.Submit(kFakeHold);
  EXPECT_EQ(or_disconnect(client.session), OR_OK);
  EXPECT_EQ(or_disconnect(client.session), OR_OK);
  client.output[3] = 3;
  EXPECT_EQ(or_wait(client.session, held, kAmple, nullptr), OR_ERR_CLOSED);
  EXPECT_EQ(or_free(client.session, client.input), OR_OK);
  void* buffer = nullptr;
  EXPECT_EQ(or_allocate(client.session, 1, &buffer), OR_ERR_CLOSED);
  EXPECT_EQ(or_close(&client.session), OR_OK);
  EXPECT_EQ(client.session, nullptr);
  EXPECT_EQ(or_close(&client.session), OR_OK);
}

TEST_F(ApiTest, OneThreadDisconnectsWhileAnotherWaits) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  const or_op held = client.Submit(kFakeHold);
  int status = OR_OK;
  std::thread waiter(
      [&] { status = or_wait(client.session, held, kAmple, nullptr); });
  EXPECT_EQ(or_disconnect(client.session), OR_OK);
  waiter.join();
  EXPECT_EQ(status, OR_ERR_CLOSED);
}

// Whoever sleeps for all and leaves hands that on: nobody sleeps unwatched.
TEST_F(ApiTest, AWaiterThatGivesUpHandsTheSleepOn) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  or_operation operation = client.Operation(kFakeLater);
  operation.count = 0;
  or_op later = 0;
  ASSERT_EQ(or_submit(client.session, client.group, &operation, &later), OR_OK);
  const or_op held = client.Submit(kFakeHold);
  std::thread impatient([&] {
    EXPECT_EQ(or_wait(client.session, held, OR_MILLISECONDS(50), nullptr),
              OR_ERR_TIMEOUT);
  });
  std::thread patient([&] {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(or_wait(client.session, later, kAmple, nullptr), OR_OK);
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              std::chrono::seconds(15));
  });
  impatient.join();
  patient.join();
}

TEST_F(ApiTest, FailuresToConnectSayWhy) {
  or_session* session = nullptr;
  or_connect_options options;
  or_connect_options_init(&options, sizeof(options));
  options.socket_path = path_.c_str();
  options.limit_ns = OR_MILLISECONDS(50);
  EXPECT_EQ(or_connect(&options, &session), OR_ERR_UNREACHABLE);
  EXPECT_TRUE(ErrorHas(path_)) << or_last_error();
  EXPECT_TRUE(ErrorHas("0.05 s")) << or_last_error();
  {
    FakeDaemon::Options fake;
    fake.protocol_version = 5;
    FakeDaemonThread daemon(path_, fake);
    EXPECT_EQ(or_connect(&options, &session), OR_ERR_VERSION);
    EXPECT_TRUE(ErrorHas("version 5")) << or_last_error();
    EXPECT_TRUE(ErrorHas("liboptireduce 4")) << or_last_error();
  }
  {
    FakeDaemon::Options fake;
    fake.hello_error = control::ERROR_QUOTA;
    FakeDaemonThread daemon(path_, fake);
    EXPECT_EQ(or_connect(&options, &session), OR_ERR_REFUSED);
    EXPECT_TRUE(ErrorHas("the fake says no")) << or_last_error();
  }
  {
    FakeDaemon::Options fake;
    fake.hello_error = control::ERROR_SHUTTING_DOWN;  // it may come back
    FakeDaemonThread daemon(path_, fake);
    EXPECT_EQ(or_connect(&options, &session), OR_ERR_UNREACHABLE);
  }
  const std::string long_path(200, 'x');
  options.socket_path = long_path.c_str();
  EXPECT_EQ(or_connect(&options, &session), OR_ERR_UNREACHABLE);
  options.socket_path = directory_.path().c_str();  // no socket at all
  EXPECT_EQ(or_connect(&options, &session), OR_ERR_UNREACHABLE);
  EXPECT_EQ(session, nullptr);
}

TEST_F(ApiTest, ConnectWaitsForTheDaemonToStart) {
  or_connect_options options;
  or_connect_options_init(&options, sizeof(options));
  options.socket_path = path_.c_str();
  options.limit_ns = kAmple;
  or_session* session = nullptr;
  int status = OR_OK;
  std::thread connecting([&] { status = or_connect(&options, &session); });
  FakeDaemonThread daemon(path_);
  connecting.join();
  EXPECT_EQ(status, OR_OK);
  EXPECT_EQ(or_close(&session), OR_OK);
}

TEST_F(ApiTest, SettingsAreCheckedByName) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  const auto refuse = [&](auto change, const char* text) {
    or_group_settings settings;
    or_group_settings_init(&settings, sizeof(settings));
    settings.world = 4;
    change(settings);
    or_group group = 0;
    or_member member;
    EXPECT_EQ(
        or_group_prepare(client.session, &settings, kAmple, &group, &member),
        OR_ERR_ARGUMENT);
    EXPECT_TRUE(ErrorHas(text)) << or_last_error();
  };
  refuse([](or_group_settings& s) { s.world = 0; }, "world 0");
  refuse([](or_group_settings& s) { s.world = 1025; }, "world 1025");
  refuse([](or_group_settings& s) { s.rank = 4; }, "rank 4");
  refuse([](or_group_settings& s) { s.fill = 9; }, "fill 9");
  refuse([](or_group_settings& s) { s.hard_limit_ns = -5; },
         "hard_limit_ns is negative: -5");
  const std::string name(49, 'n');
  refuse([&](or_group_settings& s) { s.name = name.c_str(); }, name.c_str());
}

or_group_settings SettingsOf(uint32_t rank, int64_t formation_limit_ns) {
  or_group_settings settings;
  or_group_settings_init(&settings, sizeof(settings));
  settings.rank = rank;
  settings.world = 2;
  settings.formation_limit_ns = formation_limit_ns;
  return settings;
}

TEST_F(ApiTest, TwoRanksMeetInADirectory) {
  FakeDaemonThread daemon(path_);
  TestClient clients[] = {TestClient(path_), TestClient(path_)};
  const or_rendezvous rendezvous{directory_.path().c_str(), "meeting"};
  for (int round = 0; round < 5; ++round) {
    int statuses[2];
    or_group groups[2] = {};
    const auto create = [&](uint32_t rank) {
      or_group_settings settings = SettingsOf(rank, kAmple);
      settings.name = kFakeTogether;
      statuses[rank] = or_group_create_in_directory(
          clients[rank].session, &settings, &rendezvous, &groups[rank]);
    };
    std::thread other([&] { create(1); });
    create(0);
    other.join();
    for (int rank : {0, 1}) {
      EXPECT_EQ(statuses[rank], OR_OK);
      EXPECT_EQ(or_group_leave(clients[rank].session, groups[rank], kAmple),
                OR_OK);
      EXPECT_FALSE(std::filesystem::exists(
          directory_.File("optireduce.meeting." + std::to_string(rank))));
    }
  }
}

TEST_F(ApiTest, AMeetingWithoutTheOthersNamesThem) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  const or_rendezvous rendezvous{directory_.path().c_str(), "meeting"};
  const or_group_settings settings = SettingsOf(0, OR_MILLISECONDS(100));
  or_group group = 0;
  EXPECT_EQ(or_group_create_in_directory(client.session, &settings, &rendezvous,
                                         &group),
            OR_ERR_FORMATION);
  EXPECT_TRUE(ErrorHas("rank 1")) << or_last_error();
}

TEST_F(ApiTest, AnExchangeOfTheCallersOwn) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  struct Context {
    int result;
    uint32_t calls;
  } context{OR_OK, 0};
  const or_exchange exchange = [](void* c, uint32_t rank, uint32_t world,
                                  const or_member* own, or_member* all,
                                  int64_t limit_ns) -> int {
    Context& state = *static_cast<Context*>(c);
    ++state.calls;
    EXPECT_EQ(rank, 0u);
    EXPECT_EQ(world, 2u);
    EXPECT_LE(limit_ns, kAmple / 2);
    all[0] = all[1] = *own;
    all[1].data[all[1].size - 1] = '1';
    return state.result;
  };
  const or_group_settings settings = SettingsOf(0, kAmple);
  or_group group = 0;
  EXPECT_EQ(
      or_group_create(client.session, &settings, exchange, &context, &group),
      OR_OK)
      << or_last_error();
  EXPECT_EQ(context.calls, 1u);
  context.result = OR_ERR_SYSTEM;
  EXPECT_EQ(
      or_group_create(client.session, &settings, exchange, &context, &group),
      OR_ERR_SYSTEM);
}

TEST_F(ApiTest, AFormationThatFailsOrHangsLeavesNoGroup) {
  const TemporaryDirectory meetings;
  for (const bool hangs : {false, true}) {
    FakeDaemon::Options fake;
    fake.never_forms = hangs;
    fake.form_error = control::ERROR_FORMATION;
    FakeDaemonThread daemon(path_, fake);
    or_connect_options options;
    or_connect_options_init(&options, sizeof(options));
    options.socket_path = path_.c_str();
    or_session* session = nullptr;
    ASSERT_EQ(or_connect(&options, &session), OR_OK);
    or_group_settings settings = SettingsOf(0, OR_MILLISECONDS(200));
    settings.world = 1;
    const or_rendezvous rendezvous{meetings.path().c_str(), "m"};
    or_group group = 0;
    EXPECT_EQ(
        or_group_create_in_directory(session, &settings, &rendezvous, &group),
        hangs ? OR_ERR_TIMEOUT : OR_ERR_FORMATION);
    EXPECT_EQ(ErrorHas("rank 1 did not"), !hangs) << or_last_error();
    EXPECT_EQ(group, 0u);
    or_close(&session);
  }
}

TEST_F(ApiTest, ManySessionsAndGroupsLeaveNoDescriptor) {
  FakeDaemonThread daemon(path_);
  { const TestClient warm_up(path_); }
  const auto create = [&] {
    TestClient client(path_);
    EXPECT_EQ(or_wait(client.session, client.Submit(), kAmple, nullptr), OR_OK);
  };
  // The fake notices the end of a session before it takes up the next.
  create();
  const size_t before = OpenDescriptors();
  for (int i = 0; i < 100; ++i) create();
  create();
  EXPECT_LE(OpenDescriptors(), before + 6);
}

TEST_F(ApiTest, ThreadsShareASession) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&client] {
      void* buffer = nullptr;
      ASSERT_EQ(or_allocate(client.session, 64, &buffer), OR_OK);
      or_operation operation = client.Operation();
      operation.input = operation.output = buffer;
      for (int i = 0; i < 2000; ++i) {
        or_op op = 0;
        ASSERT_EQ(or_submit(client.session, client.group, &operation, &op),
                  OR_OK);
        ASSERT_EQ(or_wait(client.session, op, OR_SECONDS(5), nullptr), OR_OK)
            << or_last_error();
      }
      EXPECT_EQ(or_free(client.session, buffer), OR_OK);
    });
  }
  for (auto& thread : threads) thread.join();
}

// Every wake-up is needed here: the fake sleeps whenever nothing is there, and
// so does the client.
TEST_F(ApiTest, NoWakeUpIsLost) {
  FakeDaemonThread daemon(path_);
  TestClient client(path_);
  or_operation operation = client.Operation();
  operation.mode = OR_EXACT;
  operation.count = 1;
  for (int i = 0; i < 30'000; ++i) {
    or_op op = 0;
    ASSERT_EQ(or_submit(client.session, client.group, &operation, &op), OR_OK);
    ASSERT_EQ(or_wait(client.session, op, OR_SECONDS(5), nullptr), OR_OK)
        << "operation " << i << ": " << or_last_error();
  }
}

TEST_F(ApiTest, TheProcessIsLeftAsItWas) {
  struct sigaction before[NSIG];
  for (int s = 1; s < NSIG; ++s) sigaction(s, nullptr, &before[s]);
  cpu_set_t cpus_before;
  CPU_ZERO(&cpus_before);
  sched_getaffinity(0, sizeof(cpus_before), &cpus_before);
  {
    FakeDaemonThread daemon(path_);
    TestClient client(path_);
    client.Submit(kFakeGoodbye);
    or_close(&client.session);
  }
  for (int s = 1; s < NSIG; ++s) {
    struct sigaction after {};
    if (sigaction(s, nullptr, &after) != 0) continue;
    EXPECT_EQ(before[s].sa_handler, after.sa_handler) << "signal " << s;
  }
  cpu_set_t cpus_after;
  CPU_ZERO(&cpus_after);
  sched_getaffinity(0, sizeof(cpus_after), &cpus_after);
  EXPECT_TRUE(CPU_EQUAL(&cpus_before, &cpus_after));
}

}  // namespace
}  // namespace optireduce::client
