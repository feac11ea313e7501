#include "client/testing/fixture.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

namespace optireduce::client {

TemporaryDirectory::TemporaryDirectory() {
  char path[] = "/tmp/optireduceXXXXXX";
  path_ = mkdtemp(path);
}

TemporaryDirectory::~TemporaryDirectory() {
  std::filesystem::remove_all(path_);
}

void FakeDaemonProcess::Start() {
  int ready[2];
  EXPECT_EQ(pipe(ready), 0);
  pid_ = fork();
  if (pid_ == 0) {
    FakeDaemon daemon(path_, {});
    EXPECT_EQ(write(ready[1], "r", 1), 1);
    daemon.Run();
    _exit(0);
  }
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  close(ready[1]);
}

void FakeDaemonProcess::Kill() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

TestClient::TestClient(const std::string& path, int64_t hard_limit_ns,
                       double min_fraction, uint32_t halt_after) {
  or_connect_options options;
  or_connect_options_init(&options, sizeof(options));
  options.socket_path = path.c_str();
  options.segment_bytes = 1 << 20;
  EXPECT_EQ(or_connect(&options, &session), OR_OK) << or_last_error();

  or_group_settings settings;
  or_group_settings_init(&settings, sizeof(settings));
  settings.name = "g";
  settings.world = 2;
  settings.hard_limit_ns = hard_limit_ns;
  settings.min_fraction = min_fraction;
  settings.halt_after = halt_after;
  or_member members[2] = {};
  EXPECT_EQ(
      or_group_prepare(session, &settings, OR_SECONDS(5), &group, &members[0]),
      OR_OK)
      << or_last_error();
  members[1] = members[0];
  members[1].data[members[1].size - 1] = '1';  // the fake's member of rank 1
  EXPECT_EQ(or_group_form(session, group, members, OR_SECONDS(5)), OR_OK)
      << or_last_error();

  void* buffer = nullptr;
  EXPECT_EQ(or_allocate(session, kCount * sizeof(float), &buffer), OR_OK);
  input = static_cast<float*>(buffer);
  EXPECT_EQ(or_allocate(session, kCount * sizeof(float), &buffer), OR_OK);
  output = static_cast<float*>(buffer);
  for (uint64_t i = 0; i < kCount; ++i) input[i] = static_cast<float>(i);
}

or_operation TestClient::Operation(uint64_t bucket) const {
  or_operation operation;
  or_operation_init(&operation, sizeof(operation));
  operation.count = kCount;
  operation.input = input;
  operation.output = output;
  operation.bucket = bucket;
  return operation;
}

or_op TestClient::Submit(uint64_t bucket) {
  const or_operation operation = Operation(bucket);
  or_op op = 0;
  EXPECT_EQ(or_submit(session, group, &operation, &op), OR_OK)
      << or_last_error();
  return op;
}

}  // namespace optireduce::client
