#include "control/engine_channel.h"

#include <sys/epoll.h>

#include <utility>

namespace optireduce::control {
namespace {

// Of a full mailbox: the engine empties it in a few polls.
constexpr Duration kRetry = Duration::Millis(1);

}  // namespace

EngineChannel::EngineChannel(engine::Engine* engine, EventLoop* loop)
    : engine_(engine), loop_(loop) {
  loop_->Add(engine_->notice_fd(), EPOLLIN,
             [this](uint32_t) { TakeNotices(); });
}

EngineChannel::~EngineChannel() {
  loop_->Remove(engine_->notice_fd());
  loop_->Cancel(retry_);
}

void EngineChannel::Post(engine::Command command) {
  waiting_.push_back(std::make_unique<engine::Command>(std::move(command)));
  if (waiting_.size() == 1) PostWaiting();
}

void EngineChannel::PostWaiting() {
  while (!waiting_.empty() && engine_->Post(waiting_.front())) {
    waiting_.pop_front();
  }
  if (!waiting_.empty()) {
    retry_ = loop_->At(Now() + kRetry, [this] { PostWaiting(); });
  }
}

void EngineChannel::TakeNotices() {
  engine_->AcknowledgeNotices();
  while (const std::unique_ptr<engine::Notice> notice = engine_->TakeNotice()) {
    callback_(*notice);
  }
}

}  // namespace optireduce::control
