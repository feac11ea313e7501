// EngineChannel: control's end of the engine's two mailboxes.

#ifndef OPTIREDUCE_CONTROL_ENGINE_CHANNEL_H_
#define OPTIREDUCE_CONTROL_ENGINE_CHANNEL_H_

#include <deque>
#include <functional>
#include <memory>

#include "control/engine_link.h"
#include "control/event_loop.h"
#include "dataplane/engine/engine.h"

namespace optireduce::control {

// Control's thread.
class EngineChannel : public EngineLink {
 public:
  using NoticeCallback = std::function<void(const engine::Notice&)>;

  // Both outlive it.
  EngineChannel(engine::Engine* engine, EventLoop* loop);
  ~EngineChannel() override;

  // Once, before the first notice is due.
  void SetCallback(NoticeCallback callback) { callback_ = std::move(callback); }
  // What the engine has no room for now is posted later, in order.
  void Post(engine::Command command) override;

 private:
  void TakeNotices();
  void PostWaiting();

  engine::Engine* const engine_;
  EventLoop* const loop_;
  NoticeCallback callback_;
  std::deque<std::unique_ptr<engine::Command>> waiting_;
  EventLoop::TimerId retry_ = 0;
};

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_ENGINE_CHANNEL_H_
