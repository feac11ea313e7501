// How fast to send, and to how many at once.

#include <algorithm>

#include "dataplane/core/group.h"

namespace optireduce::core {
namespace {

// Of a queue that is no longer than it must be: what the hosts that send at
// once may put into it before any of them can have heard of it.
constexpr uint64_t kTargetBytes = 128 << 10;
constexpr Duration kLeastTarget = Duration::Micros(50);

// What may leave on a path back to back: what a host that sleeps between
// packets has to catch up with when it wakes.
constexpr uint32_t kPathBurstBytes = 16 << 10;
constexpr uint32_t kShareBurstBytes = 64 << 10;

// A FEEDBACK for so many packets. Echoes that come more often say nothing new.
constexpr uint32_t kEchoPackets = 16;
constexpr Duration kEchoGap = Duration::Micros(50);

}  // namespace

void Group::SetUpShare() {
  if (config_.share_cap_permille < 1000) {
    share_ =
        Pacer(line_bps_ / 1000 * config_.share_cap_permille, kShareBurstBytes);
  }
}

Path Group::NewPath() const {
  const auto target = static_cast<int64_t>(
      static_cast<double>(kTargetBytes) * 8e9 / static_cast<double>(line_bps_));
  return {RateController(std::max(Duration::Nanos(target), kLeastTarget),
                         Ceiling()),
          Pacer(Ceiling(), kPathBurstBytes)};
}

// Line > share cap > incast: of so many senders at once each has so much of a
// receiver's line.
uint64_t Group::Ceiling() const {
  const uint64_t share = line_bps_ / 1000 * config_.share_cap_permille;
  const uint64_t others = std::max<uint64_t>(world() - 1, 1);
  return share / (config_.incast == 0
                      ? others
                      : std::min<uint64_t>(config_.incast, others));
}

// With congestion control the sender is to hear of every few packets.
void Group::NoteStreamFrom(Rank source, Timestamp now) {
  Peer& peer = PeerOf(source);
  if (paths_.empty() || ++peer.unechoed < kEchoPackets ||
      now < peer.echoed_at + kEchoGap) {
    return;
  }
  peer.feedback_due = true;
  MarkControl(source);
}

void Group::NotePathEcho(Rank source, const wire::Header& header,
                         const wire::FeedbackBody& feedback, Timestamp now) {
  if (paths_.empty() || !feedback.echo_valid) return;
  Path& path = paths_[source.index()];
  const Echo echo{.send_time = feedback.echo_time,
                  .held = feedback.echo_delay,
                  .peer_time = header.send_time,
                  .received = feedback.received,
                  .marked = feedback.ecn_marks};
  path.control.OnEcho(echo, now);
  path.pacer.SetRate(path.control.rate_bps(), now);
  // What waits may leave sooner than it was to.
  if (blocked_until_ != Timestamp::Never()) blocked_until_ = now;
}

// Every packet counts, also those that wait for nobody.
void Group::NoteSent(Rank peer, uint32_t bytes, Timestamp now) {
  share_.OnSent(bytes);
  if (paths_.empty()) return;
  Path& path = paths_[peer.index()];
  path.control.OnSent(now, needed_bps_);
  path.pacer.SetRate(path.control.rate_bps(), now);
  path.pacer.OnSent(bytes);
}

bool Group::MayLeaveAt(Timestamp at, Timestamp now) {
  if (at <= now) return true;
  blocked_until_ = std::min(blocked_until_, at);
  return false;
}

bool Group::MayUseShare(Timestamp now) {
  return MayLeaveAt(share_.NextSend(now), now);
}

bool Group::MaySendTo(Rank peer, Timestamp now) {
  return paths_.empty() ||
         MayLeaveAt(paths_[peer.index()].pacer.NextSend(now), now);
}

// Streams to owners start in turn: one may once fewer of those before it are
// not through than may send at once. All ranks begin with another owner, so
// that each of these has about so many senders.
bool Group::MayStartStream(const Op& op) const {
  return config_.incast == 0 || op.sending.streams_before < config_.incast;
}

// For both stages, all chunks of a shard to each peer.
void Group::NoteNeed(const Op& op, Duration bound) {
  const uint64_t chunks = op.plan.chunk_limit() / world();
  const auto bytes =
      static_cast<double>(2 * chunks * MaxDatagramBytes(config_.payload_bytes));
  needed_bps_ = static_cast<uint64_t>(bytes * 8 / bound.seconds());
}

}  // namespace optireduce::core
