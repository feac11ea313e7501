// DPDK's interrupt thread, on which drivers handle what devices report.

#ifndef OPTIREDUCE_DATAPLANE_NIC_INTERRUPT_THREAD_H_
#define OPTIREDUCE_DATAPLANE_NIC_INTERRUPT_THREAD_H_

#include <functional>

namespace optireduce::nic {

// Runs `work` on DPDK's interrupt thread and returns when it is done: no
// driver's handler runs meanwhile, and those that had begun before have ended.
// EAL must be up. From any other thread.
void RunOnInterruptThread(const std::function<void()>& work);

// Stops that thread for good, outside any driver's handler. It cannot be
// joined: it sleeps until the process ends.
void ParkInterruptThread();

}  // namespace optireduce::nic

#endif  // OPTIREDUCE_DATAPLANE_NIC_INTERRUPT_THREAD_H_
