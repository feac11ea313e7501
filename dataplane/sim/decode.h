// `optisim decode`: the production parsers' verdict on every frame of a
// capture.

#ifndef OPTIREDUCE_DATAPLANE_SIM_DECODE_H_
#define OPTIREDUCE_DATAPLANE_SIM_DECODE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace optireduce::sim {

// A classic pcap file (either byte order, microseconds or nanoseconds) of
// Ethernet frames.
absl::StatusOr<std::vector<std::vector<uint8_t>>> ReadPcap(
    std::span<const uint8_t> file);

// One line of JSON for a frame. It is handed to the parser in segments that end
// at the given offsets, and is judged the same however it is cut.
std::string DecodeFrame(std::span<const uint8_t> frame,
                        std::span<const uint64_t> split);

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_DECODE_H_
