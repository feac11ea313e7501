#include "dataplane/nic/interrupt_thread.h"

#include <rte_alarm.h>
#include <rte_interrupts.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <semaphore>

namespace optireduce::nic {
namespace {

struct Errand {
  const std::function<void()>* work;
  std::binary_semaphore done{0};
};

void Do(void* argument) {
  Errand& errand = *static_cast<Errand*>(argument);
  (*errand.work)();
  errand.done.release();
}

// `argument` may be gone once it is released.
void Park(void* argument) {
  static_cast<std::binary_semaphore*>(argument)->release();
  while (true) pause();
}

}  // namespace

void ParkInterruptThread() {
  // Not by an alarm: EAL waits for those to end when it ends.
  const int event = eventfd(1, EFD_CLOEXEC);
  rte_intr_handle* const handle =
      rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
  std::binary_semaphore parked{0};
  if (event >= 0 && handle != nullptr && rte_intr_fd_set(handle, event) == 0 &&
      rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT) == 0 &&
      rte_intr_callback_register(handle, Park, &parked) == 0) {
    parked.acquire();
  }
  rte_intr_instance_free(handle);  // EAL has its own copy
}

void RunOnInterruptThread(const std::function<void()>& work) {
  Errand errand{.work = &work};
  // Alarms ring on that thread.
  if (rte_eal_alarm_set(1, Do, &errand) != 0) return work();
  errand.done.acquire();
}

}  // namespace optireduce::nic
