// Frames on a Unix socket of type SOCK_SEQPACKET: one message per packet.

#ifndef OPTIREDUCE_CONTROL_FRAME_SOCKET_H_
#define OPTIREDUCE_CONTROL_FRAME_SOCKET_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace optireduce::control {

// Below Linux's default send buffer, which bounds a packet.
inline constexpr size_t kMaxFrameBytes = 196608;
inline constexpr size_t kMaxFrameDescriptors = 4;

enum class FrameResult : uint8_t {
  kFrame,        // received, or sent
  kAgain,        // would block
  kClosed,       // the peer is gone
  kTooLong,      // a frame above kMaxFrameBytes; its rest is lost
  kDescriptors,  // the frame came with descriptors; they were not accepted
};

// Receives one frame into `buffer`. Descriptors that come with it never enter
// this process: there is no room for them in the call, so the kernel drops
// them. An empty packet cannot be told from the end and counts as it.
FrameResult ReceiveFrame(int socket, std::span<uint8_t> buffer, size_t* bytes);

// Sends one frame, and duplicates of `descriptors` (at most
// kMaxFrameDescriptors) with it. Neither blocks nor raises SIGPIPE.
FrameResult SendFrame(int socket, const std::string& frame,
                      std::span<const int> descriptors = {});

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_FRAME_SOCKET_H_
