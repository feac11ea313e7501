// ArpTable: which hardware address the next hop towards a host has.
//
// The next hop is the host itself if it is in our subnet, else the gateway. An
// address is asked for when it is first needed, again with growing pauses until
// somebody answers, and once more before it expires, so that a changed hardware
// address is in use within the expiry. Only hosts that we have asked for are
// ever entered: the segment cannot fill the table.
//
// Pure logic: takes `now`, and says what to send. Not thread-safe.

#ifndef OPTIREDUCE_DATAPLANE_NIC_ARP_TABLE_H_
#define OPTIREDUCE_DATAPLANE_NIC_ARP_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dataplane/base/time.h"
#include "dataplane/nic/address.h"
#include "dataplane/nic/frame.h"

namespace optireduce::nic {

struct ArpSettings {
  Duration expiry = Duration::Seconds(60);      // of an answer
  Duration first_retry = Duration::Millis(50);  // then doubled each time ...
  Duration max_retry = Duration::Seconds(1);    // ... up to this
  int silent_after = 5;  // requests without an answer: the host is silent
  // A host that nobody has sent to for this long is forgotten.
  Duration forget_after = Duration::Seconds(120);
  size_t max_entries = 4096;
};

// Our own addresses on the segment.
struct Subnet {
  MacAddress mac;
  Ipv4Address ip;
  int prefix_length = 24;  // 0..32
  std::optional<Ipv4Address> gateway;

  bool Contains(Ipv4Address other) const;
};

// An ARP packet to send.
struct ArpMessage {
  MacAddress destination;
  ArpPacket packet;
};

enum class Route : uint8_t {
  kResolved,
  kUnresolved,  // being asked for
  kNoRoute,     // outside the subnet without a gateway, or the table is full
};

class ArpTable {
 public:
  ArpTable(const Subnet& subnet, const ArpSettings& settings);

  // A host whose address is never asked for and never changes.
  void AddStatic(Ipv4Address ip, const MacAddress& mac);

  // The hardware address to send to; *mac is set if kResolved. Starts asking.
  Route Lookup(Ipv4Address destination, Timestamp now, MacAddress* mac);

  // A received ARP packet. Returns our answer if one is due.
  std::optional<ArpMessage> OnPacket(const ArpPacket& packet, Timestamp now);

  // Tells everybody whose our address is: whoever knew it as another's learns,
  // and whoever has it, too, answers (see conflicts()).
  ArpMessage Announcement() const;

  // The next request that is due, if any; forgets unused hosts.
  std::optional<ArpMessage> PollRequest(Timestamp now);
  // When PollRequest() has something to do next.
  Timestamp NextWakeup() const { return next_wakeup_; }

  // Next hops that are needed and have answered none of the last
  // `silent_after` requests.
  std::vector<Ipv4Address> Silent() const;
  // Packets from others that claim our own IP address.
  uint64_t conflicts() const { return conflicts_; }

 private:
  struct Entry {
    std::optional<MacAddress> mac;
    bool is_static = false;
    Timestamp expires;  // of mac
    Timestamp last_used;
    Timestamp next_request;  // Never() for a static one
    int unanswered = 0;
  };

  void Learn(Ipv4Address ip, const MacAddress& mac, Timestamp now);
  Duration RetryPause(int unanswered) const;
  // One entry's share of PollRequest: true if a request is to be sent now.
  bool Service(Entry& entry, Timestamp now);

  const Subnet subnet_;
  const ArpSettings settings_;
  std::unordered_map<uint32_t, Entry> entries_;
  Timestamp next_wakeup_ = Timestamp::Never();
  uint64_t conflicts_ = 0;
};

}  // namespace optireduce::nic

#endif  // OPTIREDUCE_DATAPLANE_NIC_ARP_TABLE_H_
