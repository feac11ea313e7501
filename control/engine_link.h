// EngineLink: the engine, as the tables of sessions and groups see it.

#ifndef OPTIREDUCE_CONTROL_ENGINE_LINK_H_
#define OPTIREDUCE_CONTROL_ENGINE_LINK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "dataplane/engine/messages.h"

namespace optireduce::control {

class EngineLink {
 public:
  virtual ~EngineLink() = default;

  // Commands take effect in the order posted, and none is lost.
  virtual void Post(engine::Command command) = 0;

  // Calls back with a snapshot that is taken after everything posted before has
  // taken effect.
  using SnapshotCallback = std::function<void(const engine::Snapshot&)>;
  void AskSnapshot(SnapshotCallback callback) {
    Ask(std::move(callback), /*with_ops=*/false);
  }
  void AskSnapshotWithOps(SnapshotCallback callback) {
    Ask(std::move(callback), /*with_ops=*/true);
  }
  void OnSnapshot(const engine::Snapshot& snapshot) {
    const auto it = snapshots_.find(snapshot.request);
    if (it == snapshots_.end()) return;
    const auto callback = std::move(it->second);
    snapshots_.erase(it);
    callback(snapshot);
  }

 private:
  void Ask(SnapshotCallback callback, bool with_ops) {
    const uint64_t request = next_request_++;
    snapshots_[request] = std::move(callback);
    Post(engine::TakeSnapshot{request, with_ops});
  }

  std::map<uint64_t, SnapshotCallback> snapshots_;
  uint64_t next_request_ = 1;
};

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_ENGINE_LINK_H_
