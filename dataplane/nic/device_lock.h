// One daemon per device: a lock that the kernel drops with the process.

#ifndef OPTIREDUCE_DATAPLANE_NIC_DEVICE_LOCK_H_
#define OPTIREDUCE_DATAPLANE_NIC_DEVICE_LOCK_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "dataplane/base/unique_fd.h"

namespace optireduce::nic {

class DeviceLock {
 public:
  // Takes the lock on the file `name`.lock in `directory`, which must be the
  // same for all daemons of this host; to be done before the device is touched.
  // FailedPrecondition names the process that has it. The file stays: removing
  // it would race with the next owner.
  static absl::StatusOr<DeviceLock> Take(const std::string& directory,
                                         const std::string& name);

 private:
  explicit DeviceLock(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace optireduce::nic

#endif  // OPTIREDUCE_DATAPLANE_NIC_DEVICE_LOCK_H_
