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
  // Another result of the same chunk. It would be believed if it came first:
  // the receiving host hands it in right behind the true one.
  kOtherResult,
};
inline constexpr uint32_t kNumForgeries = 19;

// Writes the lie into a copy of a packet. False where it cannot be told about
// a packet of this type; the packet is then as it was.
bool Forge(Forgery forgery, Rng* rng, Packet* packet);
// kOtherResult. False if the packet carries no elements.
bool ForgeResult(Packet* packet);

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

// Strikes only inside its window.
class Fault {
 public:
  explicit Fault(Window window) : window_(window) {}
  virtual ~Fault() = default;
  // Adds to `*treatment`, unless the datagram is dropped already, and to
  // `*counts`.
  void Strike(const Packet& packet, Timestamp now, Rng* rng,
              Treatment* treatment, FaultCounts* counts) {
    if (window_.Contains(now)) Act(packet, rng, treatment, counts);
  }

 private:
  virtual void Act(const Packet& packet, Rng* rng, Treatment* treatment,
                   FaultCounts* counts) = 0;

  Window window_;
};

// A fault that strikes each packet with a chance, whatever it carries.
class ChanceFault : public Fault {
 public:
  ChanceFault(Window window, double share) : Fault(window), share_(share) {}

 private:
  void Act(const Packet& packet, Rng* rng, Treatment* treatment,
           FaultCounts* counts) final;
  virtual void Happen(Rng* rng, Treatment* treatment, FaultCounts* counts) = 0;

  double share_;
};

inline void Count(FaultKind kind, FaultCounts* counts) {
  ++(*counts)[static_cast<size_t>(kind)];
}

// Drops each packet with a chance.
class Loss : public ChanceFault {
 public:
  using ChanceFault::ChanceFault;

 private:
  void Happen(Rng* rng, Treatment* treatment, FaultCounts* counts) override;
};

// Gilbert and Elliott: the way to each host is good (loses nothing) or bad
// (loses `bad_share`), and changes with each packet by chance.
class BurstLoss : public Fault {
 public:
  BurstLoss(Window window, size_t hosts, double to_bad, double to_good,
            double bad_share)
      : Fault(window),
        bad_(hosts, false),
        to_bad_(to_bad),
        to_good_(to_good),
        bad_share_(bad_share) {}

 private:
  void Act(const Packet& packet, Rng* rng, Treatment* treatment,
           FaultCounts* counts) override;

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
      : Fault(window), salt_(salt), streams_permille_(streams_permille) {}

 private:
  void Act(const Packet& packet, Rng* rng, Treatment* treatment,
           FaultCounts* counts) override;

  uint64_t salt_;
  uint32_t streams_permille_;
};

class Duplication : public ChanceFault {
 public:
  Duplication(Window window, double share, Duration longest)
      : ChanceFault(window, share), longest_(longest) {}

 private:
  void Happen(Rng* rng, Treatment* treatment, FaultCounts* counts) override;

  Duration longest_;
};

// Holds a share of the packets back for up to `longest`.
class Reordering : public ChanceFault {
 public:
  Reordering(Window window, double share, Duration longest)
      : ChanceFault(window, share), longest_(longest) {}

 private:
  void Happen(Rng* rng, Treatment* treatment, FaultCounts* counts) override;

  Duration longest_;
};

// Flips bits in a share of the packets. In `flipped_share` of these the UDP
// checksum is made to fit and the core sees them; the receiving port drops the
// others.
class Corruption : public ChanceFault {
 public:
  Corruption(Window window, double share, double flipped_share)
      : ChanceFault(window, share), flipped_share_(flipped_share) {}

 private:
  void Happen(Rng* rng, Treatment* treatment, FaultCounts* counts) override;

  double flipped_share_;
};

// A share of the packets comes again, up to `longest` later: as it was, or with
// the tag of an earlier epoch of the same group.
class Replay : public ChanceFault {
 public:
  Replay(Window window, double share, bool old_epoch, Duration longest)
      : ChanceFault(window, share), old_epoch_(old_epoch), longest_(longest) {}

 private:
  void Happen(Rng* rng, Treatment* treatment, FaultCounts* counts) override;

  bool old_epoch_;
  Duration longest_;
};

// Every so often a packet is followed by a forgery of it.
class Forger : public ChanceFault {
 public:
  Forger(Window window, double share, Duration longest)
      : ChanceFault(window, share), longest_(longest) {}

 private:
  void Happen(Rng* rng, Treatment* treatment, FaultCounts* counts) override;

  Duration longest_;
};

// Nothing gets from one host to another; the other way it does.
class Partition : public Fault {
 public:
  Partition(Window window, uint16_t from_host, uint16_t to_host)
      : Fault(window), from_host_(from_host), to_host_(to_host) {}

 private:
  void Act(const Packet& packet, Rng* rng, Treatment* treatment,
           FaultCounts* counts) override;

  uint16_t from_host_;
  uint16_t to_host_;
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_FAULT_H_
