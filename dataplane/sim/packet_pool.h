// Datagrams on their way, and the memory they live in.

#ifndef OPTIREDUCE_DATAPLANE_SIM_PACKET_POOL_H_
#define OPTIREDUCE_DATAPLANE_SIM_PACKET_POOL_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/base/time.h"
#include "dataplane/core/types.h"
#include "proto/wire.h"

namespace optireduce::sim {

// How a datagram came to be on the wire.
enum class Origin : uint8_t {
  kSent,       // by a core, as it is
  kDuplicate,  // a copy that the network made
  kCorrupt,    // bits flipped on the way
  kReplay,     // an old one that comes again
  kForged,     // a lie
  kInvented,   // true, but not sent by the core it names
};

// The `group` of a packet that no core sent and none gets: somebody else's. Of
// its `length` on the wire the buffer holds only the first bytes, kForeignBytes
// at most, and those in its owner's own form, which starts with a hash of it.
inline constexpr uint16_t kForeignGroup = UINT16_MAX;
inline constexpr uint32_t kForeignBytes = 96;

struct Packet {
  core::Endpoint source;
  core::Endpoint destination;
  uint16_t source_host = 0;
  uint16_t destination_host = 0;
  // Between which ranks of which group of the simulation, or kForeignGroup.
  uint16_t group = 0;
  core::Rank source_rank{};
  core::Rank destination_rank{};
  Origin origin = Origin::kSent;
  // Right behind it comes the same packet with another result.
  bool contradicted = false;
  // What the sender wrote; the bytes may differ once they are corrupt.
  wire::Header header;
  Timestamp arrived;  // at the NIC, simulation time
  bool ecn_capable = false;
  bool marked = false;  // by a switch that is congested
  uint32_t length = 0;
  uint8_t* buffer = nullptr;  // `capacity` of the pool

  std::span<const uint8_t> bytes() const { return {buffer, length}; }
};

// Recycles packets. References are small integers, so that they fit into an
// event. Not thread-safe.
class PacketPool {
 public:
  using Ref = uint32_t;

  explicit PacketPool(uint32_t capacity) : capacity_(capacity) {}

  uint32_t capacity() const { return capacity_; }
  Packet& operator[](Ref ref) { return packets_[ref]; }

  Ref Allocate() {
    if (free_.empty()) Grow();
    const Ref ref = free_.back();
    free_.pop_back();
    packets_[ref].contradicted = false;
    return ref;
  }
  void Free(Ref ref) { free_.push_back(ref); }
  Ref Copy(Ref ref);

  // Packets that are out.
  size_t in_use() const { return packets_.size() - free_.size(); }

 private:
  static constexpr size_t kSlab = 256;

  void Grow();

  uint32_t capacity_;
  std::deque<Packet> packets_;
  std::vector<std::unique_ptr<uint8_t[]>> slabs_;
  std::vector<Ref> free_;
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_PACKET_POOL_H_
