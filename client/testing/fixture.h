// What the tests of the C ABI share: a fake daemon on a thread or in a process
// of its own, and a session with a group and a buffer.

#ifndef OPTIREDUCE_CLIENT_TESTING_FIXTURE_H_
#define OPTIREDUCE_CLIENT_TESTING_FIXTURE_H_

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <thread>

#include "client/optireduce.h"
#include "client/testing/fake_daemon.h"

namespace optireduce::client {

// A directory under /tmp (a socket's path must be short) that goes away.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The fake on a thread of this process.
class FakeDaemonThread {
 public:
  explicit FakeDaemonThread(const std::string& path,
                            const FakeDaemon::Options& options = {})
      : daemon_(path, options), thread_([this] { daemon_.Run(); }) {}
  ~FakeDaemonThread() {
    daemon_.Stop();
    thread_.join();
  }

 private:
  FakeDaemon daemon_;
  std::thread thread_;
};

// The fake in a process that can be stopped and killed. Construct it before
// this process has threads.
class FakeDaemonProcess {
 public:
  explicit FakeDaemonProcess(const std::string& path) : path_(path) { Start(); }
  ~FakeDaemonProcess() { Kill(); }
  FakeDaemonProcess(const FakeDaemonProcess&) = delete;
  FakeDaemonProcess& operator=(const FakeDaemonProcess&) = delete;

  void Start();
  void Signal(int signal) const { kill(pid_, signal); }
  void Kill();

 private:
  const std::string path_;
  pid_t pid_ = -1;
};

// One rank of two, connected to the fake at `path`.
class TestClient {
 public:
  static constexpr uint64_t kCount = 16;

  explicit TestClient(const std::string& path,
                      int64_t hard_limit_ns = OR_SECONDS(30),
                      double min_fraction = 0, uint32_t halt_after = 0);
  ~TestClient() { or_close(&session); }

  or_operation Operation(uint64_t bucket = 0) const;
  // Submits the operation; fails the test if that fails.
  or_op Submit(uint64_t bucket = 0);

  or_session* session = nullptr;
  or_group group = 0;
  float* input = nullptr;
  float* output = nullptr;
};

}  // namespace optireduce::client

#endif  // OPTIREDUCE_CLIENT_TESTING_FIXTURE_H_
