#include "dataplane/nic/eal.h"

#include <pthread.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_log.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dataplane/nic/interrupt_thread.h"

namespace optireduce::nic {
namespace {

// DPDK itself cannot be started twice in a process.
std::atomic<bool> eal_was_started = false;

// Runs rte_eal_init without its side effects: it binds the calling thread to a
// core, and takes the directory for its files from the environment.
class KeepAffinity {
 public:
  KeepAffinity() {
    valid_ =
        pthread_getaffinity_np(pthread_self(), sizeof(saved_), &saved_) == 0;
  }
  ~KeepAffinity() {
    if (valid_) pthread_setaffinity_np(pthread_self(), sizeof(saved_), &saved_);
  }
  KeepAffinity(const KeepAffinity&) = delete;
  KeepAffinity& operator=(const KeepAffinity&) = delete;

  // A core that this thread may use.
  int AnyCore() const {
    for (int core = 0; valid_ && core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &saved_)) return core;
    }
    return 0;
  }

 private:
  cpu_set_t saved_{};
  bool valid_ = false;
};

class ScopedEnvironment {
 public:
  ScopedEnvironment(const char* name, const std::string& value) : name_(name) {
    if (const char* old = getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedEnvironment() {
    if (old_) {
      setenv(name_, old_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  const char* const name_;
  std::optional<std::string> old_;
};

// A directory under /tmp. EAL insists on one, and leaves nothing in it that it
// would need later.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    if (mkdtemp(path_) == nullptr) path_[0] = '\0';
  }
  ~TemporaryDirectory() {
    std::error_code ignored;  // what is left over under /tmp harms nobody
    if (valid()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  bool valid() const { return path_[0] != '\0'; }
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/optireduce-XXXXXX";
};

std::string ReadMeminfo() {
  std::ifstream file("/proc/meminfo");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Whether to use hugepages; explains itself in `notes`.
absl::StatusOr<bool> UseHugepages(const EalConfig& config,
                                  std::vector<std::string>* notes) {
  if (config.pages == PageMode::kSmall) return false;
  const HugepageState state = ParseHugepages(ReadMeminfo());
  const uint64_t need_bytes = static_cast<uint64_t>(config.memory_mb) << 20;
  const uint64_t need =
      state.page_bytes == 0
          ? 0
          : (need_bytes + state.page_bytes - 1) / state.page_bytes;
  if (need != 0 && state.free_pages >= need) return true;
  const std::string found =
      absl::StrCat(need, " free hugepages of ", state.page_bytes >> 10,
                   " KiB are needed and ", state.free_pages, " are free");
  if (config.pages == PageMode::kHuge) {
    return absl::FailedPreconditionError(
        absl::StrCat(found, "; as root: sysctl vm.nr_hugepages=", need));
  }
  notes->push_back(absl::StrCat("Ordinary pages are in use: ", found, "."));
  return false;
}

std::string EalError(int error) {
  switch (error) {
    case EACCES:
    case EPERM:
      return "permission denied; DPDK's messages above say for what";
    case EALREADY:
      return "it was started already in this process";
    case ENOMEM:
      return "not enough memory";
    default:
      return absl::StrCat(rte_strerror(error),
                          "; DPDK's messages above say more");
  }
}

}  // namespace

HugepageState ParseHugepages(const std::string& meminfo) {
  HugepageState state;
  std::istringstream lines(meminfo);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string key;
    uint64_t value = 0;
    words >> key >> value;
    if (!words) continue;
    if (key == "HugePages_Free:") state.free_pages = value;
    if (key == "Hugepagesize:") state.page_bytes = value << 10;
  }
  return state;
}

absl::StatusOr<std::unique_ptr<Eal>> Eal::Start(const EalConfig& config) {
  std::unique_ptr<Eal> eal(new Eal);
  absl::StatusOr<bool> huge = UseHugepages(config, &eal->notes_);
  if (!huge.ok()) return huge.status();
  const KeepAffinity affinity;
  eal->arguments_ = {
      "optireduce",
      absl::StrCat("--lcores=0@", affinity.AnyCore()),
      "-m",
      absl::StrCat(config.memory_mb),
      "--no-telemetry",
      "--log-level=warning",
  };
  if (*huge) {
    eal->arguments_.push_back("--in-memory");
  } else {
    eal->arguments_.insert(eal->arguments_.end(), {"--no-huge", "--no-shconf"});
  }
  if (config.pci_allow.empty()) eal->arguments_.push_back("--no-pci");
  for (const std::string& device : config.pci_allow) {
    eal->arguments_.insert(eal->arguments_.end(), {"-a", device});
  }
  for (std::string& argument : eal->arguments_) {
    eal->argv_.push_back(argument.data());
  }

  if (eal_was_started.exchange(true)) {
    return absl::FailedPreconditionError(
        "DPDK can be started once in a process");
  }
  const TemporaryDirectory directory;
  if (!directory.valid()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot make a directory under /tmp: ", std::strerror(errno)));
  }
  const ScopedEnvironment environment("RUNTIME_DIRECTORY", directory.path());
  rte_openlog_stream(stderr);  // and not to the system's log as well
  if (rte_eal_init(static_cast<int>(eal->argv_.size()), eal->argv_.data()) <
      0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot start DPDK: ", EalError(rte_errno)));
  }
  eal->started_ = true;
  return eal;
}

Eal::~Eal() {
  if (!started_) return;
  // It would go on while memory that it looks at is taken away, and net_memif
  // never tells it that a listening socket is gone.
  ParkInterruptThread();
  rte_eal_cleanup();
}

absl::StatusOr<uint16_t> Eal::AddDevice(const DevicePlan& plan) {
  const KeepAffinity affinity;
  uint16_t port = 0;
  // An allowed PCI device is there since the start.
  if (rte_eth_dev_get_port_by_name(plan.name.c_str(), &port) == 0) return port;
  const int error = rte_eal_hotplug_add(plan.bus.c_str(), plan.name.c_str(),
                                        plan.arguments.c_str());
  if (error != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot open device ", plan.name, " (", plan.arguments,
                     "): ", rte_strerror(-error)));
  }
  if (rte_eth_dev_get_port_by_name(plan.name.c_str(), &port) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("device ", plan.name, " is no network port"));
  }
  return port;
}

}  // namespace optireduce::nic
