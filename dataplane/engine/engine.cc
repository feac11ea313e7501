#include "dataplane/engine/engine.h"

#include <sys/prctl.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "dataplane/core/drop.h"
#include "dataplane/engine/lateness.h"
#include "dataplane/nic/address_text.h"

namespace optireduce::engine {
namespace {

constexpr size_t kMailbox = 1024;
// Budgets of one poll.
constexpr int kCommandBudget = 64;
// Before a stage closes what arrived in time is drained, but only as much as
// takes well under a millisecond: closing must not be late itself.
constexpr int kReceiveBursts = 4;
constexpr int kTransmitBursts = 16;
constexpr size_t kPullBudget = 32;  // for each session

// Nothing is due: sleep so long at most, for the heartbeat.
constexpr Duration kLongestSleep = Duration::Millis(100);
// Submissions wait for room that a timer of the core may make.
constexpr Duration kWaitingSleep = Duration::Millis(1);
// The port takes nothing now. No longer than the tick that timers may be late.
constexpr Duration kBlockedSleep = Duration::Micros(100);
// Between two looks at a port that cannot wake us: short after traffic, then
// doubled each time.
constexpr Duration kShortestNap = Duration::Micros(50);
constexpr Duration kLongestNap = Duration::Millis(1);

nic::Ipv4Address ToNic(const core::NetAddress& address) {
  return nic::Ipv4Address(address.ToIpv4());
}

core::NetAddress ToCore(nic::Ipv4Address address) {
  return core::NetAddress::FromIpv4(address.value());
}

bool IsIpv4(const core::NetAddress& address) {
  return address == core::NetAddress::FromIpv4(address.ToIpv4());
}

// A source port of the dynamic range; varied for path entropy.
uint16_t SourcePort(uint16_t flow) {
  return static_cast<uint16_t>(0xC000 | (flow & 0x3FFF));
}

// What the calling thread has waited for a CPU although it was runnable.
Duration ReadRunDelay() {
  std::ifstream file("/proc/thread-self/schedstat");
  int64_t ran = 0;
  int64_t waited = 0;
  file >> ran >> waited;
  return file ? Duration::Nanos(waited) : Duration();
}

}  // namespace

Engine::Engine(const EngineOptions& options, nic::PacketPort* port,
               const Clock* clock)
    : options_(options),
      port_(port),
      clock_(clock),
      core_(options.core),
      ledger_(&core_),
      commands_(kMailbox),
      notices_(kMailbox),
      queue_empty_(clock->Now()),
      nap_(kShortestNap) {
  sleeper_.Add(commands_.fd());
  if (port_->wait_fd() >= 0) sleeper_.Add(port_->wait_fd());
}

Engine::~Engine() { port_->GiveBack(std::span(lent_).first(num_lent_)); }

// ---- control's side ---------------------------------------------------------

bool Engine::Post(std::unique_ptr<Command>& command) {
  return commands_.Post(command);
}

bool Engine::Post(Command command) {
  auto message = std::make_unique<Command>(std::move(command));
  return commands_.Post(message);
}

void Engine::Stop() {
  stop_.store(true, std::memory_order_release);
  commands_.Ring();
}

// ---- the loop ---------------------------------------------------------------

void Engine::Run() {
  // Timers of an ordinary thread may be 50 us late by design.
  prctl(PR_SET_TIMERSLACK, 1000UL);
  prctl(PR_SET_NAME, "engine");
  while (!stop_.load(std::memory_order_acquire)) {
    const PollResult poll = Poll();
    if (!poll.again && !options_.dedicated_core) Sleep(poll);
  }
}

Engine::PollResult Engine::Poll() {
  poll_start_ = clock_->Now();
  poll_cpu_start_ = clock_->ThreadCpu();
  const auto before = counters_.Snapshot();
  heartbeat_.fetch_add(1, std::memory_order_relaxed);
  Add(Count::kPolls);

  HandleCommands(poll_start_);
  PollResult result;
  result.again = Receive();
  ledger_.RetryWaiting(poll_start_);
  const OpLedger::PullResult pull = ledger_.Pull(kPullBudget, clock_->Now());
  Add(Count::kSubmissions, pull.pulled);
  result.again |= pull.more;
  const Timestamp now = clock_->Now();
  core_.Advance(now);
  DeliverEvents();
  // What has just ended has made room.
  const bool waiting = ledger_.RetryWaiting(now);
  const Sending sending = Transmit(now);
  port_->Tick(now);
  ledger_.Flush();
  while (const auto broken = ledger_.TakeBroken()) Tell(SessionBroken{*broken});
  WatchPort();
  PostNotices();

  result.active = SeenActivity(before);
  // What came back to us has had its say only in part.
  const auto looped = static_cast<size_t>(Count::kDatagramsLooped);
  result.again |= sending == Sending::kMore ||
                  counters_.Get(Count::kDatagramsLooped) != before[looped];
  result.next =
      std::min({core_.NextWakeup(), port_->NextTick(), now + kLongestSleep});
  if (waiting) result.next = std::min(result.next, now + kWaitingSleep);
  // The core wants to send at once, which hides when its timers are due.
  if (sending == Sending::kBlocked) {
    result.next = std::max(result.next, now + kBlockedSleep);
  }
  return result;
}

bool Engine::SeenActivity(
    const std::array<uint64_t, kNumCounts>& before) const {
  for (const Count moved :
       {Count::kDatagramsReceived, Count::kDatagramsSent,
        Count::kDatagramsLooped, Count::kSubmissions, Count::kOpsDone}) {
    if (counters_.Get(moved) != before[static_cast<size_t>(moved)]) return true;
  }
  return false;
}

void Engine::Sleep(const PollResult& poll) {
  Duration span = poll.next - clock_->Now();
  if (port_->wait_fd() < 0) span = std::min(span, Nap(poll.active));
  if (ledger_.PrepareToSleep()) {
    Add(Count::kSleeps);
    sleeper_.Sleep(span);
  }
  ledger_.WokeUp();
}

Duration Engine::Nap(bool active) {
  nap_ = active ? kShortestNap : std::min(nap_ * 2, kLongestNap);
  return nap_;
}

// ---- packets ----------------------------------------------------------------

bool Engine::Receive() {
  for (int burst = 0; burst < kReceiveBursts; ++burst) {
    const Timestamp now = clock_->Now();
    const nic::RxResult result = port_->Receive(received_, now);
    const auto datagrams = std::span(received_).first(result.datagrams);
    for (const nic::RxDatagram& datagram : datagrams) {
      const Timestamp arrival =
          std::min(datagram.arrival.value_or(queue_empty_), now);
      core_.OnPacket({.source = ToCore(datagram.source.ip),
                      .destination_port = datagram.destination_port,
                      .ecn_marked = datagram.congestion_experienced,
                      .bytes = datagram.payload},
                     arrival, now);
    }
    port_->Release(datagrams);
    Add(Count::kDatagramsReceived, result.datagrams);
    if (!result.more) {
      queue_empty_ = now;
      return false;
    }
  }
  Add(Count::kReceiveBudgetUsedUp);
  return true;
}

Engine::Sending Engine::Transmit(Timestamp now) {
  for (int burst = 0; burst < kTransmitBursts; ++burst) {
    const Sending sending = TransmitBatch(now);
    if (sending != Sending::kMore) return sending;
  }
  return Sending::kMore;
}

Engine::Sending Engine::TransmitBatch(Timestamp now) {
  num_lent_ += port_->Lend(std::span(lent_).subspan(num_lent_));
  if (num_lent_ == 0) {
    Add(Count::kNoTransmitBuffer);
    return Sending::kBlocked;
  }
  std::array<core::TxDescriptor, kBatch> descriptors;
  for (size_t i = 0; i < num_lent_; ++i) {
    descriptors[i].buffer = lent_[i].buffer.data();
    descriptors[i].capacity = static_cast<uint32_t>(lent_[i].buffer.size());
  }
  const size_t filled =
      core_.PollTx(std::span(descriptors).first(num_lent_), now);
  const nic::Ipv4Address ours = port_->info().ip;
  std::array<nic::TxDatagram, kBatch> sent;
  size_t num_sent = 0;
  // Buffers that are not sent move to the front and are used again.
  size_t kept = 0;
  for (size_t i = 0; i < num_lent_; ++i) {
    const core::TxDescriptor& descriptor = descriptors[i];
    const bool is_filled = i < filled;
    if (is_filled && ToNic(descriptor.destination.address) != ours) {
      nic::TxDatagram& datagram = sent[num_sent++];
      datagram = lent_[i];
      datagram.length = descriptor.length;
      datagram.source_port = SourcePort(descriptor.flow);
      datagram.destination = {ToNic(descriptor.destination.address),
                              descriptor.destination.port};
      continue;
    }
    if (is_filled) {
      // Another rank on this host: it never leaves the daemon.
      core_.OnPacket({.source = descriptor.source.address,
                      .destination_port = descriptor.destination.port,
                      .ecn_marked = false,
                      .bytes = {descriptor.buffer, descriptor.length}},
                     now, now);
    }
    lent_[kept++] = lent_[i];
  }
  num_lent_ = kept;
  port_->Send(std::span(sent).first(num_sent), now);
  Add(Count::kDatagramsSent, num_sent);
  Add(Count::kDatagramsLooped, filled - num_sent);
  return filled != 0 ? Sending::kMore : Sending::kDone;
}

// ---- events -----------------------------------------------------------------

void Engine::DeliverEvents() {
  core::Event event;
  while (core_.PopEvent(&event)) {
    switch (event.kind) {
      case core::EventKind::kOpDone:
        DeliverOpDone(event);
        break;
      case core::EventKind::kGroupReleased:
        Remove(event.group);
        break;
      case core::EventKind::kBuffersFree:
        // The client gets them back with the close of the step, whether or not
        // anything was late.
        break;
      default:
        Tell(GroupChanged{ledger_.OwnerOf(event.group), event});
        break;
    }
  }
}

void Engine::DeliverOpDone(const core::Event& event) {
  const Timestamp done = clock_->Now();
  const Lateness late =
      LatenessOf(event.report.submitted, event.report.deadline, poll_start_,
                 clock_->ThreadCpu() - poll_cpu_start_, done);
  if (late.wall > Duration()) {
    wall_late_.Record(static_cast<uint64_t>(late.wall.nanos()));
    decision_late_.Record(static_cast<uint64_t>(late.decision.nanos()));
  }
  Add(Count::kOpsDone);
  ledger_.OnOpDone(event.group, event.report, late.wall, late.decision);
}

void Engine::WatchPort() {
  const bool up = port_->link_up();
  if (up == port_up_) return;
  port_up_ = up;
  Tell(PortChanged{up});
}

void Engine::Tell(Notice notice) {
  late_notices_.push_back(std::make_unique<Notice>(std::move(notice)));
}

void Engine::PostNotices() {
  while (!late_notices_.empty() && notices_.Post(late_notices_.front())) {
    late_notices_.pop_front();
  }
}

// ---- commands ---------------------------------------------------------------

void Engine::HandleCommands(Timestamp now) {
  for (int i = 0; i < kCommandBudget; ++i) {
    const std::unique_ptr<Command> command = commands_.Take();
    if (command == nullptr) return;
    std::visit([&](auto& c) { Handle(c, now); }, *command);
  }
  commands_.Ring();  // there may be more
}

absl::Status Engine::CheckGroup(const AddGroup& command) const {
  const core::GroupConfig& config = command.config;
  const nic::PortInfo& port = port_->info();
  if (!ledger_.HasSession(command.session)) {
    return absl::NotFoundError("the session is gone");
  }
  for (size_t rank = 0; rank < config.members.size(); ++rank) {
    if (!IsIpv4(config.members[rank].address)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the address of rank ", rank, " is no IPv4 address"));
    }
  }
  const size_t self = config.self.index();
  if (self < config.members.size() &&
      ToNic(config.members[self].address) != port.ip) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", self, ", this one, is given the address ",
                     nic::ToText(ToNic(config.members[self].address)),
                     ", but this daemon's is ", nic::ToText(port.ip)));
  }
  const size_t datagram = core::MaxDatagramBytes(config.payload_bytes);
  if (datagram > port_->max_payload()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "packets of ", datagram, " bytes do not fit this port's MTU of ",
        port.mtu, ", which takes ", port_->max_payload()));
  }
  return absl::OkStatus();
}

void Engine::Handle(AddGroup& command, Timestamp now) {
  if (absl::Status status = CheckGroup(command); !status.ok()) {
    Tell(GroupAdded{command.request, command.session, std::move(status)});
    return;
  }
  absl::StatusOr<core::GroupId> group = core_.AddGroup(command.config, now);
  if (group.ok()) {
    ledger_.AddGroup(*group, command.config, command.session, command.handle);
  }
  Tell(GroupAdded{command.request, command.session, std::move(group)});
}

void Engine::Handle(const LeaveGroup& command, Timestamp now) {
  if (!ledger_.HasGroup(command.group)) return;
  core_.Leave(command.group, command.reason, now);
  ledger_.LeaveGroup(command.group);
}

void Engine::Handle(const RemoveGroup& command, Timestamp /*now*/) {
  Remove(command.group);
}

void Engine::Remove(core::GroupId group) {
  if (!ledger_.HasGroup(group)) return;
  const SessionId owner = ledger_.OwnerOf(group);
  core_.RemoveGroup(group);
  ledger_.RemoveGroup(group);
  Tell(GroupRemoved{owner, group});
}

void Engine::Handle(const AttachSession& command, Timestamp /*now*/) {
  if (!ledger_.AttachSession(command.session, command.port)) return;
  const int fd = command.port->wakeup_fd();
  sleeper_.Add(fd);
  wakeup_fds_[command.session] = fd;
}

void Engine::Handle(const DetachSession& command, Timestamp now) {
  for (const core::GroupId group : ledger_.GroupsOf(command.session)) {
    core_.Leave(group, command.reason, now);
  }
  ledger_.DetachSession(command.session);
  const auto fd = wakeup_fds_.find(command.session);
  if (fd != wakeup_fds_.end()) {
    sleeper_.Remove(fd->second);
    wakeup_fds_.erase(fd);
  }
  Tell(SessionDetached{command.session});
}

void Engine::Handle(const TakeSnapshot& command, Timestamp now) {
  auto owned = std::make_unique<Snapshot>();
  Snapshot& snapshot = *owned;
  snapshot.request = command.request;
  snapshot.taken = now;
  AppendCounters(&snapshot.counters);
  for (const core::GroupId group : core_.Groups()) {
    snapshot.groups.push_back({.group = group,
                               .session = ledger_.OwnerOf(group),
                               .status = core_.Status(group),
                               .ops_in_flight = ledger_.InFlight(group),
                               .ops_waiting = ledger_.Waiting(group),
                               .verdicts = ledger_.Verdicts(group),
                               .ops = {}});
    if (command.with_ops) snapshot.groups.back().ops = core_.Records(group);
  }
  snapshot.silent_next_hops = port_->SilentNextHops();
  snapshot.port_up = port_->link_up();
  snapshot.cpu = clock_->ThreadCpu();
  snapshot.run_delay = ReadRunDelay();
  snapshot.wall_late = wall_late_;
  snapshot.decision_late = decision_late_;
  Tell(std::move(owned));
}

void Engine::AppendCounters(std::vector<nic::NamedCounter>* out) const {
  constexpr std::array<const char*, kNumCounts> kNames = {
      "polls",
      "sleeps",
      "datagrams_received",
      "datagrams_sent",
      "datagrams_looped",
      "submissions",
      "ops_done",
      "receive_budget_used_up",
      "no_transmit_buffer",
  };
  for (size_t i = 0; i < kNumCounts; ++i) {
    out->push_back({absl::StrCat("engine_", kNames[i]),
                    counters_.Get(static_cast<Count>(i))});
  }
  for (size_t i = 0; i < core::kNumVerdicts; ++i) {
    const auto verdict = static_cast<core::Verdict>(i);
    out->push_back({absl::StrCat("core_", std::string(core::Name(verdict))),
                    core_.counters().Get(verdict)});
  }
  std::vector<nic::NamedCounter> port;
  port_->AppendCounters(&port);
  for (nic::NamedCounter& counter : port) {
    out->push_back({absl::StrCat("port_", counter.name), counter.value});
  }
}

}  // namespace optireduce::engine
