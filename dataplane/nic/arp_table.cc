#include "dataplane/nic/arp_table.h"

#include <algorithm>

namespace optireduce::nic {

bool Subnet::Contains(Ipv4Address other) const {
  if (prefix_length <= 0) return true;
  const uint32_t mask = ~uint32_t{0} << (32 - std::min(prefix_length, 32));
  return ((ip.value() ^ other.value()) & mask) == 0;
}

ArpTable::ArpTable(const Subnet& subnet, const ArpSettings& settings)
    : subnet_(subnet), settings_(settings) {}

void ArpTable::AddStatic(Ipv4Address ip, const MacAddress& mac) {
  Entry entry;
  entry.mac = mac;
  entry.is_static = true;
  entry.expires = Timestamp::Never();
  entry.next_request = Timestamp::Never();
  entries_[ip.value()] = entry;
}

Route ArpTable::Lookup(Ipv4Address destination, Timestamp now,
                       MacAddress* mac) {
  Ipv4Address hop = destination;
  // A static entry wins over the gateway, too.
  auto found = entries_.find(hop.value());
  if (found == entries_.end() && !subnet_.Contains(destination)) {
    if (!subnet_.gateway) return Route::kNoRoute;
    hop = *subnet_.gateway;
    found = entries_.find(hop.value());
  }
  if (found == entries_.end()) {
    if (hop == subnet_.ip || entries_.size() >= settings_.max_entries) {
      return Route::kNoRoute;
    }
    Entry entry;
    entry.next_request = now;
    found = entries_.emplace(hop.value(), entry).first;
    next_wakeup_ = std::min(next_wakeup_, now);
  }
  Entry& entry = found->second;
  entry.last_used = now;
  if (!entry.mac || now >= entry.expires) return Route::kUnresolved;
  *mac = *entry.mac;
  return Route::kResolved;
}

std::optional<ArpMessage> ArpTable::OnPacket(const ArpPacket& packet,
                                             Timestamp now) {
  if (packet.sender_ip == subnet_.ip) {
    if (packet.sender_mac == subnet_.mac) return std::nullopt;  // a loop
    ++conflicts_;  // if it asks, it is answered, and so learns
  } else {
    Learn(packet.sender_ip, packet.sender_mac, now);
  }
  if (packet.operation != ArpOperation::kRequest ||
      packet.target_ip != subnet_.ip) {
    return std::nullopt;
  }
  return ArpMessage{packet.sender_mac,
                    {.operation = ArpOperation::kReply,
                     .sender_mac = subnet_.mac,
                     .sender_ip = subnet_.ip,
                     .target_mac = packet.sender_mac,
                     .target_ip = packet.sender_ip}};
}

ArpMessage ArpTable::Announcement() const {
  return {kBroadcastMac,
          {.operation = ArpOperation::kRequest,
           .sender_mac = subnet_.mac,
           .sender_ip = subnet_.ip,
           .target_mac = MacAddress{},
           .target_ip = subnet_.ip}};
}

void ArpTable::Learn(Ipv4Address ip, const MacAddress& mac, Timestamp now) {
  const auto found = entries_.find(ip.value());
  if (found == entries_.end() || found->second.is_static) return;
  Entry& entry = found->second;
  entry.mac = mac;
  entry.expires = now + settings_.expiry;
  entry.unanswered = 0;
  // Early enough for several tries before the address expires.
  entry.next_request = now + settings_.expiry * 3 / 4;
  next_wakeup_ = std::min(next_wakeup_, entry.next_request);
}

Duration ArpTable::RetryPause(int unanswered) const {
  Duration pause = settings_.first_retry;
  for (int i = 1; i < unanswered && pause < settings_.max_retry; ++i) {
    pause = pause * 2;
  }
  return std::min(pause, settings_.max_retry);
}

bool ArpTable::Service(Entry& entry, Timestamp now) {
  if (now < entry.next_request) return false;
  ++entry.unanswered;
  entry.next_request = now + RetryPause(entry.unanswered);
  return true;
}

std::optional<ArpMessage> ArpTable::PollRequest(Timestamp now) {
  if (now < next_wakeup_) return std::nullopt;
  Timestamp next = Timestamp::Never();
  for (auto it = entries_.begin(); it != entries_.end();) {
    auto& [ip, entry] = *it;
    if (!entry.is_static && now - entry.last_used > settings_.forget_after) {
      it = entries_.erase(it);
      continue;
    }
    if (Service(entry, now)) {
      // More may be due: the next call finds out.
      return ArpMessage{kBroadcastMac,
                        {.operation = ArpOperation::kRequest,
                         .sender_mac = subnet_.mac,
                         .sender_ip = subnet_.ip,
                         .target_mac = MacAddress{},
                         .target_ip = Ipv4Address(ip)}};
    }
    next = std::min(next, entry.next_request);
    ++it;
  }
  next_wakeup_ = next;
  return std::nullopt;
}

std::vector<Ipv4Address> ArpTable::Silent() const {
  std::vector<Ipv4Address> silent;
  for (const auto& [ip, entry] : entries_) {
    if (entry.unanswered >= settings_.silent_after) {
      silent.push_back(Ipv4Address(ip));
    }
  }
  std::sort(silent.begin(), silent.end());
  return silent;
}

}  // namespace optireduce::nic
