// Daemon: everything that optireduced consists of, from start to stop.

#ifndef OPTIREDUCE_CONTROL_DAEMON_H_
#define OPTIREDUCE_CONTROL_DAEMON_H_

#include <signal.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "control/config_loader.h"
#include "control/data_port.h"
#include "control/dispatcher.h"
#include "control/engine_channel.h"
#include "control/event_loop.h"
#include "control/listen_socket.h"
#include "control/server.h"
#include "control/worker.h"
#include "dataplane/base/time.h"
#include "dataplane/base/unique_fd.h"
#include "dataplane/engine/clock.h"
#include "dataplane/engine/engine.h"

namespace optireduce::control {

// One in a process. Runs on the thread that makes it, which must have blocked
// StopSignals() before any thread was started.
class Daemon {
 public:
  // SIGTERM and SIGINT.
  static sigset_t StopSignals();

  explicit Daemon(const LoadedConfig& config);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Takes the socket and the port, makes sure that packets pass, and says that
  // it is ready. CANCELLED if it was stopped meanwhile.
  absl::Status Start();
  // Serves until a signal, then lets end what is in flight, and says goodbye.
  void Run();

 private:
  absl::Status OpenControl();
  absl::Status TestPort();
  absl::Status StartEngine();
  void StartServing();
  void OnStopSignal();
  void Announce(const std::string& notification) const;

  void Drain();
  void KeepWatchdog();
  // Runs the loop until `done` or for so long.
  template <class Done>
  bool RunUntil(const Done& done, Duration limit);

  const LoadedConfig config_;
  const Timestamp started_ = Now();
  bool stop_ = false;        // a signal has come
  bool stop_twice_ = false;  // and another one

  // In the order of their making; they go in the reverse order.
  UniqueFd signals_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<ListenSocket> socket_;  // until the server has it
  std::unique_ptr<DataPort> port_;
  std::vector<std::string> notes_;  // what was found, and what is done without
  const engine::MonotonicClock clock_;
  std::unique_ptr<engine::Engine> engine_;
  std::thread engine_thread_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<EngineChannel> channel_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Dispatcher> dispatcher_;
  uint64_t last_heartbeat_ = 0;
};

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_DAEMON_H_
