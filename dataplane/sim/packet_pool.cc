#include "dataplane/sim/packet_pool.h"

#include <cstring>

namespace optireduce::sim {

PacketPool::Ref PacketPool::Copy(Ref ref) {
  const Ref copy = Allocate();
  uint8_t* const buffer = packets_[copy].buffer;
  packets_[copy] = packets_[ref];
  packets_[copy].buffer = buffer;
  const Packet& packet = packets_[ref];
  std::memcpy(buffer, packet.buffer,
              packet.group == kForeignGroup ? kForeignBytes : packet.length);
  return copy;
}

void PacketPool::Grow() {
  slabs_.push_back(
      std::make_unique_for_overwrite<uint8_t[]>(kSlab * capacity_));
  for (size_t i = 0; i < kSlab; ++i) {
    packets_.emplace_back().buffer = slabs_.back().get() + i * capacity_;
    free_.push_back(static_cast<Ref>(packets_.size() - 1));
  }
}

}  // namespace optireduce::sim
