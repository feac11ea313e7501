// DPDK's environment (EAL), brought up once in a process.

#ifndef OPTIREDUCE_DATAPLANE_NIC_EAL_H_
#define OPTIREDUCE_DATAPLANE_NIC_EAL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataplane/nic/port_spec.h"

namespace optireduce::nic {

enum class PageMode : uint8_t {
  kSmall,  // ordinary pages: needs nothing, cannot drive PCI devices by IOMMU
  kHuge,   // anonymous hugepages: leave no files behind, whatever happens
  kAuto,   // kHuge if enough are free, else kSmall
};

struct EalConfig {
  PageMode pages = PageMode::kAuto;
  int memory_mb = 64;
  // Of the PCI devices, only these are ever touched. EAL looks at them when it
  // starts: take their locks before.
  std::vector<std::string> pci_allow = {};
};

// Free hugepages of the kernel's default size.
struct HugepageState {
  uint64_t page_bytes = 0;
  uint64_t free_pages = 0;
};
// From the text of /proc/meminfo.
HugepageState ParseHugepages(const std::string& meminfo);

class Eal {
 public:
  // Starts EAL. Works without root, /run and hugetlbfs; touches no hugetlbfs
  // mount; opens no telemetry socket. The calling thread keeps its CPU
  // affinity. A process can start it once: a second call fails, also after the
  // first was destroyed.
  static absl::StatusOr<std::unique_ptr<Eal>> Start(const EalConfig& config);
  // All ports must be closed before.
  ~Eal();
  Eal(const Eal&) = delete;
  Eal& operator=(const Eal&) = delete;

  // Creates (vdev) or attaches (pci) a device. Returns its ethdev port number.
  absl::StatusOr<uint16_t> AddDevice(const DevicePlan& plan);

  // What was found and which fallbacks were taken, one sentence each.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  Eal() = default;

  bool started_ = false;
  std::vector<std::string> arguments_;
  std::vector<char*> argv_;
  std::vector<std::string> notes_;
};

}  // namespace optireduce::nic

#endif  // OPTIREDUCE_DATAPLANE_NIC_EAL_H_
