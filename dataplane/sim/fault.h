// What can go wrong between two NICs, one small class for each kind.
//
// A datagram that leaves a NIC is shown to every fault in turn; together they
// decide on one Treatment. Every fault that strikes is counted under its kind,
// so that oracles can compare what was done with what the core saw.

#ifndef OPTIREDUCE_DATAPLANE_SIM_FAULT_H_
#define OPTIREDUCE_DATAPLANE_SIM_FAULT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "dataplane/base/rng.h"
#include "dataplane/base/time.h"
#include "dataplane/sim/packet_pool.h"

namespace optireduce::sim {

enum class FaultKind : uint8_t {
  kLoss,        // each packet on its own
  kBurst,       // runs of packets
  kTail,        // the end of a stream
  kDuplicate,   // a second copy
  kReorder,     // overtaken by later ones
  kFlipped,     // corrupt, with a UDP checksum made to fit
  kDiscarded,   // corrupt, dropped by the receiving port
  kOldEpoch,    // comes again, from an earlier formation
  kStale,       // comes again, much later
  kPartition,   // one direction between two hosts is cut
  kForged,      // a lie, made up by somebody who knows the format
  kInvented,    // true and well made, but nobody sent it
  kBackground,  // traffic of others takes the queue (counted in bursts)
  kQueue,       // no room in the switch
  kRing,        // no room in the receiving NIC
  kDeadHost,    // nobody there any more
  kPollStall,   // an engine is not polled
  kHostStall,   // a host stands still, trainers and all
  kTrainerStall,
  kTrainerDeath,
  kDaemonDeath,
  kScripted,  // named one by one
};
inline constexpr size_t kNumFaultKinds = 22;

std::string_view Name(FaultKind kind);

using FaultCounts = std::array<uint64_t, kNumFaultKinds>;

// One lie in an otherwise good packet, sealed anew where the lie is not the
// seal's. None may be accepted.
enum class Forgery : uint8_t {
  kNone,
  kCut,           // ends early
  kMagic,         // first byte
  kVersion,       // of a later release
  kType,          // unknown
  kFlags,         // a reserved one
  kLength,        // disagrees with the datagram
  kSeal,          // CRC
  kBody,          // of a length that its type cannot have
  kTag,           // of a group that is not here
  kRank,          // outside the group
  kAddress,       // of another host
  kMirror,        // from the receiver itself
  kOpBehind,      // long settled
  kOpAhead,       // beyond any window
  kFingerprint,   // of another op
  kChunk,         // outside the plan
  kShortPayload,  // some elements less than the chunk has
};
inline constexpr uint32_t kNumForgeries = 18;

// Writes the lie into a copy of a packet. False where it cannot be told about
// a packet of this type; the packet is then as it was.
bool Forge(Forgery forgery, Rng* rng, Packet* packet);

// What happens to one datagram.
struct Treatment {
  bool drop = false;
  FaultKind dropped_by = FaultKind::kLoss;
  bool flip = false;       // the datagram itself, not its copies
  uint32_t copies = 0;     // beyond the first
  bool stale = false;      // one more copy, much later
  bool old_epoch = false;  // one more, with the tag of an earlier formation
  Forgery forgery = Forgery::kNone;         // one more, changed in this way
  std::optional<PacketPool::Ref> invented;  // another one, to be sent too
  Duration delay{};                         // of the datagram
  Duration copy_delay{};                    // of the copies, beyond that
  Duration replay_delay{};                  // of those that come from nobody
};

// Between `begin` and `end` of the simulation's time.
struct Window {
  Timestamp begin;
  Timestamp end = Timestamp::Never();

  bool Contains(Timestamp now) const { return begin <= now && now < end; }
};

class Fault {
 public:
  virtual ~Fault() = default;
  // Adds to `*treatment`, unless the datagram is dropped already, and to
  // `*counts`.
  virtual void Strike(const Packet& packet, Timestamp now, Rng* rng,
                      Treatment* treatment, FaultCounts* counts) = 0;
};

inline void Count(FaultKind kind, FaultCounts* counts) {
  ++(*counts)[static_cast<size_t>(kind)];
}

// Drops each packet with a chance.
class Loss : public Fault {
 public:
  Loss(Window window, double share) : window_(window), share_(share) {}
  void Strike(const Packet& packet, Timestamp now, Rng* rng,
              Treatment* treatment, FaultCounts* counts) override;

 private:
  Window window_;
  double share_;
};

// Gilbert and Elliott: the way to each host is good (loses nothing) or bad
// (loses `bad_share`), and changes with each packet by chance.
class BurstLoss : public Fault {
 public:
  BurstLoss(Window window, size_t hosts, double to_bad, double to_good,
            double bad_share)
      : window_(window),
        bad_(hosts, false),
        to_bad_(to_bad),
        to_good_(to_good),
        bad_share_(bad_share) {}
  void Strike(const Packet& packet, Timestamp now, Rng* rng,
              Treatment* treatment, FaultCounts* counts) override;

 private:
  Window window_;
  std::vector<bool> bad_;  // by destination host
  double to_bad_;
  double to_good_;
  double bad_share_;
};

// Drops everything marked as the tail of a stream (an op, a stage, a source
// and a destination), in a share of the streams. Repairs pass.
class TailLoss : public Fault {
 public:
  TailLoss(Window window, uint64_t salt, uint32_t streams_permille)
      : window_(window), salt_(salt), streams_permille_(streams_permille) {}
  void Strike(const Packet& packet, Timestamp now, Rng* rng,
              Treatment* treatment, FaultCounts* counts) override;

 private:
  Window window_;
  uint64_t salt_;
  uint32_t streams_permille_;
};

class Duplication : public Fault {
 public:
  Duplication(Window window, double share, Duration longest)
      : window_(window), share_(share), longest_(longest) {}
  void Strike(const Packet& packet, Timestamp now, Rng* rng,
              Treatment* treatment, FaultCounts* counts) override;

 private:
  Window window_;
  double share_;
  Duration longest_;
};

// Holds a share of the packets back for up to `longest`.
class Reordering : public Fault {
 public:
  Reordering(Window window, double share, Duration longest)
      : window_(window), share_(share), longest_(longest) {}
  void Strike(const Packet& packet, Timestamp now, Rng* rng,
              Treatment* treatment, FaultCounts* counts) override;

 private:
  Window window_;
  double share_;
  Duration longest_;
};

// Flips bits in a share of the packets. In `flipped_share` of these the UDP
// checksum is made to fit and the core sees them; the receiving port drops the
// others.
class Corruption : public Fault {
 public:
  Corruption(Window window, double share, double flipped_share)
      : window_(window), share_(share), flipped_share_(flipped_share) {}
  void Strike(const Packet& packet, Timestamp now, Rng* rng,
              Treatment* treatment, FaultCounts* counts) override;

 private:
  Window window_;
  double share_;
  double flipped_share_;
};

// A share of the packets comes again, up to `longest` later: as it was, or with
// the tag of an earlier epoch of the same group.
class Replay : public Fault {
 public:
  Replay(Window window, double share, bool old_epoch, Duration longest)
      : window_(window),
        share_(share),
        old_epoch_(old_epoch),
        longest_(longest) {}
  void Strike(const Packet& packet, Timestamp now, Rng* rng,
              Treatment* treatment, FaultCounts* counts) override;

 private:
  Window window_;
  double share_;
  bool old_epoch_;
  Duration longest_;
};

// Every so often a packet is followed by a forgery of it.
class Forger : public Fault {
 public:
  Forger(Window window, double share, Duration longest)
      : window_(window), share_(share), longest_(longest) {}
  void Strike(const Packet& packet, Timestamp now, Rng* rng,
              Treatment* treatment, FaultCounts* counts) override;

 private:
  Window window_;
  double share_;
  Duration longest_;
};

// Nothing gets from one host to another; the other way it does.
class Partition : public Fault {
 public:
  Partition(Window window, uint16_t from_host, uint16_t to_host)
      : window_(window), from_host_(from_host), to_host_(to_host) {}
  void Strike(const Packet& packet, Timestamp now, Rng* rng,
              Treatment* treatment, FaultCounts* counts) override;

 private:
  Window window_;
  uint16_t from_host_;
  uint16_t to_host_;
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_FAULT_H_
