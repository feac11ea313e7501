#include "control/daemon.h"

#include <errno.h>
#include <glog/logging.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "control/config_rules.h"
#include "control/daemon_options.h"
#include "control/self_test.h"
#include "control/version.h"
#include "dataplane/nic/address_text.h"

namespace optireduce::control {
namespace {

// What is in flight gets so long to end after a stop signal, and peers to fetch
// what they still need.
constexpr Duration kDrainLimit = Duration::Seconds(5);
constexpr Duration kReleaseLimit = Duration::Seconds(2);
constexpr Duration kDrainCheck = Duration::Millis(10);
// A loop without events still looks around so often.
constexpr Duration kLoopLimit = Duration::Seconds(1);

// The engine goes before the trainers: it is what ends their waits in time.
constexpr int kEngineNice = -10;

// While it lives, threads that this one makes have the engine's priority.
class EnginePriority {
 public:
  EnginePriority()
      : before_(getpriority(PRIO_PROCESS, 0)),
        raised_(setpriority(PRIO_PROCESS, 0, kEngineNice) == 0) {}
  ~EnginePriority() {
    if (raised_) setpriority(PRIO_PROCESS, 0, before_);
  }
  EnginePriority(const EnginePriority&) = delete;
  EnginePriority& operator=(const EnginePriority&) = delete;

  bool raised() const { return raised_; }

 private:
  const int before_;
  const bool raised_;
};

absl::Status PinThread(std::thread* thread, int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<size_t>(core), &cores);
  const int error =
      pthread_setaffinity_np(thread->native_handle(), sizeof(cores), &cores);
  if (error == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "engine_core: CPU ", core, " cannot be used: ", strerror(error)));
}

}  // namespace

sigset_t Daemon::StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

Daemon::Daemon(const LoadedConfig& config) : config_(config) {}

Daemon::~Daemon() {
  // First of all: what it may still hold goes with the tables.
  if (engine_thread_.joinable()) {
    engine_->Stop();
    engine_thread_.join();
  }
  server_.reset();  // tells the dispatcher of connections that are left
  dispatcher_.reset();
  channel_.reset();
  worker_.reset();
}

// ---- start ------------------------------------------------------------------

absl::Status Daemon::Start() {
  absl::Status status = OpenControl();
  if (!status.ok()) return status;
  auto port = DataPort::Open(config_.values());
  if (!port.ok()) return port.status();
  port_ = *std::move(port);
  notes_ = port_->notes();
  for (const std::string& note : notes_) LOG(INFO) << note;
  status = TestPort();
  if (status.ok()) status = StartEngine();
  if (!status.ok()) return status;
  StartServing();
  return absl::OkStatus();
}

absl::Status Daemon::OpenControl() {
  const sigset_t stop_signals = StopSignals();
  signals_ = UniqueFd(signalfd(-1, &stop_signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid()) {
    return absl::InternalError(absl::StrCat("signalfd: ", strerror(errno)));
  }
  auto loop = EventLoop::Create();
  if (!loop.ok()) return loop.status();
  loop_ = *std::move(loop);
  loop_->Add(signals_.get(), EPOLLIN, [this](uint32_t) { OnStopSignal(); });
  auto socket = ListenSocket::Open(MakeListenOptions(config_.values()));
  if (!socket.ok()) return socket.status();
  socket_ = *std::move(socket);
  auto worker = Worker::Start(loop_.get());
  if (!worker.ok()) return worker.status();
  worker_ = *std::move(worker);
  return absl::OkStatus();
}

absl::Status Daemon::TestPort() {
  const config::DaemonConfig& config = config_.values();
  SelfTestOptions options;
  if (!config.gateway().empty()) {
    options.gateway = nic::ParseIpv4(config.gateway());
  }
  SelfTestHooks hooks;
  hooks.now = Now;
  hooks.wait = [this](Duration at_most) { loop_->RunOnce(at_most); };
  hooks.progress = [this](const std::string& text) {
    LOG(INFO) << text;
    Announce(absl::StrCat("STATUS=", text));
  };
  hooks.interrupted = [this] { return stop_; };
  absl::Status status = TestDataPort(port_->port(), options, hooks);
  if (status.ok() || status.code() == absl::StatusCode::kCancelled) {
    return status;
  }
  return absl::Status(
      status.code(),
      absl::StrCat(config.port(), ": ", std::string(status.message())));
}

absl::Status Daemon::StartEngine() {
  const config::DaemonConfig& config = config_.values();
  engine_ = std::make_unique<engine::Engine>(MakeEngineOptions(config),
                                             port_->port(), &clock_);
  {
    const EnginePriority priority;
    if (!priority.raised()) {
      notes_.emplace_back(
          "The engine has to wait for a CPU like any other process: root, or "
          "CAP_SYS_NICE, would put it first.");
      LOG(INFO) << notes_.back();
    }
    engine_thread_ = std::thread([this] { engine_->Run(); });
  }
  channel_ = std::make_unique<EngineChannel>(engine_.get(), loop_.get());
  const auto core = ParseEngineCore(config.engine_core());
  if (!core.ok()) return core.status();
  return *core ? PinThread(&engine_thread_, **core) : absl::OkStatus();
}

void Daemon::StartServing() {
  const config::DaemonConfig& config = config_.values();
  server_ = std::make_unique<Server>(MakeServerOptions(config),
                                     std::move(socket_), loop_.get());
  DaemonFacts facts;
  facts.version = kVersion;
  facts.started = started_;
  facts.port = config.port();
  facts.info = port_->port()->info();
  facts.rate_bps = config.rate_bps();
  facts.notes = notes_;
  dispatcher_ = std::make_unique<Dispatcher>(config_, facts, channel_.get(),
                                             server_.get(), worker_.get());
  channel_->SetCallback(
      [this](const engine::Notice& notice) { dispatcher_->OnNotice(notice); });
  server_->Start(dispatcher_.get());

  const std::string where =
      absl::StrCat(nic::ToText(facts.info.ip), " on ", facts.port,
                   ", control socket ", config.socket());
  fprintf(stderr, "optireduced is ready: %s\n", where.c_str());
  Announce(absl::StrCat("READY=1\nSTATUS=ready: ", where));
  KeepWatchdog();
}

void Daemon::Announce(const std::string& notification) const {
  // Without a service manager nobody listens, and that is fine.
  sd_notify(0, notification.c_str());
}

void Daemon::KeepWatchdog() {
  uint64_t interval_us = 0;
  if (sd_watchdog_enabled(0, &interval_us) <= 0) return;
  // Silent when the engine hangs, whatever this thread does.
  const uint64_t heartbeat = engine_->heartbeat();
  if (heartbeat != last_heartbeat_) Announce("WATCHDOG=1");
  last_heartbeat_ = heartbeat;
  loop_->At(Now() + Duration::Micros(static_cast<int64_t>(interval_us) / 3),
            [this] { KeepWatchdog(); });
}

// ---- stop -------------------------------------------------------------------

void Daemon::OnStopSignal() {
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    stop_twice_ = stop_;
    stop_ = true;
  }
}

template <class Done>
bool Daemon::RunUntil(const Done& done, Duration limit) {
  const Timestamp end = Now() + limit;
  while (!done()) {
    if (Now() >= end || stop_twice_) return false;
    loop_->RunOnce(kDrainCheck);
  }
  return true;
}

void Daemon::Run() {
  while (!stop_) loop_->RunOnce(kLoopLimit);
  LOG(INFO) << "stopping";
  Announce("STOPPING=1\nSTATUS=draining");
  Drain();
  LOG(INFO) << "stopped";
}

void Daemon::Drain() {
  server_->StopAccepting();
  dispatcher_->BeginDrain();
  if (!RunUntil([this] { return dispatcher_->Drained(); }, kDrainLimit)) {
    LOG(WARNING) << "ops that were in flight are cancelled";
  }
  server_->DropAll(ERROR_SHUTTING_DOWN, "the daemon stops");
  const auto released = [this] {
    return server_->num_connections() == 0 && dispatcher_->Empty();
  };
  if (!RunUntil(released, kReleaseLimit)) {
    LOG(WARNING) << "peers may still have wanted something";
  }
}

}  // namespace optireduce::control
