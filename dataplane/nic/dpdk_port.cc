#include "dataplane/nic/dpdk_port.h"

#include <net/if.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "dataplane/base/counters.h"
#include "dataplane/base/unique_fd.h"
#include "dataplane/nic/address_text.h"
#include "dataplane/nic/af_packet_socket.h"
#include "dataplane/nic/frame.h"
#include "dataplane/nic/interrupt_thread.h"
#include "dataplane/nic/queue_plan.h"

namespace optireduce::nic {
namespace {

constexpr size_t kBurst = 64;
// Frames that wait in the port for the device. Few: what waits here is past
// the pacer.
constexpr size_t kBacklog = 128;
// Received datagrams and lent buffers that a caller may hold at once.
constexpr size_t kHeld = 512;
constexpr unsigned kPoolCache = 64;
constexpr size_t kMaxSegments = 8;
constexpr Duration kLinkCheckInterval = Duration::Seconds(1);
constexpr Duration kBacklogRetry = Duration::Micros(200);
// A payload to send starts on a cache line: the headers end there.
constexpr uint16_t kTxHeadroom = 192 - kUdpFrameHeaderBytes;
static_assert(kTxHeadroom >= kHeadroomBytes);
static_assert(kHeadroomBytes == RTE_PKTMBUF_HEADROOM);

enum class Count : uint8_t {
  kRxFrames,
  kRxBytes,
  kRxTooManySegments,
  kRxNoBuffer,
  kTxFrames,
  kTxBytes,
  kTxNoBuffer,
  kTxNoRoute,
  kTxUnresolved,
  kTxBadLength,
  kArpAnnouncements,
  kArpRequests,
  kArpReplies,
  kArpNotSent,
  kArpConflicts,
};
constexpr std::array<const char*, 15> kCountNames = {
    "rx_frames",     "rx_bytes",      "rx_too_many_segments", "rx_no_buffer",
    "tx_frames",     "tx_bytes",      "tx_no_buffer",         "tx_no_route",
    "tx_unresolved", "tx_bad_length", "arp_announcements",    "arp_requests",
    "arp_replies",   "arp_not_sent",  "arp_conflicts",
};

RxOffload OffloadOf(const rte_mbuf& mbuf) {
  RxOffload offload;
  switch (mbuf.ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) {
    case RTE_MBUF_F_RX_IP_CKSUM_GOOD:
      offload.ip = RxChecksum::kGood;
      break;
    case RTE_MBUF_F_RX_IP_CKSUM_BAD:
      offload.ip = RxChecksum::kBad;
      break;
    case RTE_MBUF_F_RX_IP_CKSUM_NONE:
      offload.ip = RxChecksum::kNone;
      break;
    default:
      break;
  }
  switch (mbuf.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) {
    case RTE_MBUF_F_RX_L4_CKSUM_GOOD:
      offload.udp = RxChecksum::kGood;
      break;
    case RTE_MBUF_F_RX_L4_CKSUM_BAD:
      offload.udp = RxChecksum::kBad;
      break;
    case RTE_MBUF_F_RX_L4_CKSUM_NONE:
      offload.udp = RxChecksum::kNone;
      break;
    default:
      break;
  }
  return offload;
}

absl::Status DeviceError(const std::string& name, const std::string& what,
                         int error) {
  return absl::FailedPreconditionError(absl::StrCat(
      name, ": cannot ", what, ": ", rte_strerror(error < 0 ? -error : error)));
}

// The frames that wait for the device, in order.
class Backlog {
 public:
  size_t size() const { return tail_ - head_; }
  size_t room() const { return kBacklog - size(); }
  void Push(rte_mbuf* mbuf) { frames_[tail_++ % kBacklog] = mbuf; }
  // The longest run at the front that lies in one piece.
  std::span<rte_mbuf*> Front() {
    const size_t begin = head_ % kBacklog;
    return std::span(frames_).subspan(begin,
                                      std::min(size(), kBacklog - begin));
  }
  void Pop(size_t frames) { head_ += frames; }

 private:
  std::array<rte_mbuf*, kBacklog> frames_{};
  size_t head_ = 0;
  size_t tail_ = 0;
};

// One pool, owned.
class BufferPool {
 public:
  BufferPool() = default;
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool() { rte_mempool_free(pool_); }

  absl::Status Create(const std::string& name, size_t buffers,
                      size_t buffer_bytes) {
    pool_ = rte_pktmbuf_pool_create(
        name.c_str(), static_cast<unsigned>(buffers), kPoolCache, 0,
        static_cast<uint16_t>(buffer_bytes), SOCKET_ID_ANY);
    if (pool_ != nullptr) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot allocate ", buffers, " packet buffers of ", buffer_bytes,
        " bytes (", (buffers * buffer_bytes) >> 20,
        " MiB): ", rte_strerror(rte_errno), "; give DPDK more memory"));
  }
  rte_mempool* get() const { return pool_; }
  size_t Missing() const {
    return pool_ == nullptr ? 0 : rte_mempool_in_use_count(pool_);
  }

 private:
  rte_mempool* pool_ = nullptr;
};

class DpdkPortImpl final : public DpdkPort {
 public:
  explicit DpdkPortImpl(const DpdkPortConfig& config) : config_(config) {}
  ~DpdkPortImpl() override { (void)Close(); }

  absl::Status Start();
  absl::Status Close() override;

  const PortInfo& info() const override { return info_; }
  RxResult Receive(std::span<RxDatagram> out, Timestamp now) override;
  void Release(std::span<const RxDatagram> datagrams) override;
  size_t Lend(std::span<TxDatagram> out) override;
  void Send(std::span<const TxDatagram> datagrams, Timestamp now) override;
  void GiveBack(std::span<const TxDatagram> datagrams) override;
  void Tick(Timestamp now) override;
  Timestamp NextTick() const override;
  int wait_fd() const override { return socket_ ? socket_->fd() : -1; }
  bool link_up() const override {
    return link_up_.load(std::memory_order_relaxed);
  }
  std::vector<Ipv4Address> SilentNextHops() const override {
    return arp_->Silent();
  }
  void AppendCounters(std::vector<NamedCounter>* out) const override;

 private:
  absl::Status Configure(const rte_eth_dev_info& device);
  absl::Status SetUpQueues(const rte_eth_dev_info& device,
                           const rte_eth_conf& conf);
  void FindAddress();
  void UseKernelSocket();
  void CheckLink(Timestamp now);
  // Calls that start, stop or close the device.
  void Control(const std::function<void()>& calls) const;
  void Restart();

  // One received frame: true if *out now holds it, else it is freed.
  bool Accept(rte_mbuf* mbuf, RxDatagram* out, Timestamp now);
  bool TakePayload(rte_mbuf* mbuf, FrameSegments segments,
                   const ParsedFrame& frame, RxDatagram* out);
  void OnArp(const ArpPacket& packet, Timestamp now);

  bool Enqueue(const TxDatagram& datagram, Timestamp now);
  bool EnqueueArp(const ArpMessage& message);
  void Flush();

  void Add(Count which, uint64_t by = 1) { counters_.Increment(which, by); }

  const DpdkPortConfig config_;
  PortInfo info_;
  LocalAddress local_;
  QueuePlan plan_;
  bool device_started_ = false;
  bool closed_ = false;
  BufferPool rx_pool_;
  BufferPool tx_pool_;
  Backlog backlog_;
  size_t lent_ = 0;
  std::optional<ArpTable> arp_;
  std::optional<AfPacketSocket> socket_;
  UniqueFd query_socket_;  // for the kernel interface's flags
  std::atomic<bool> link_up_ = true;
  Timestamp next_link_check_;
  bool announcement_due_ = false;
  Timestamp next_flush_ = Timestamp::Never();
  CounterArray<Count, kCountNames.size()> counters_;
  CounterArray<FrameVerdict, kNumFrameVerdicts> verdicts_;
};

// ---- start and stop ---------------------------------------------------------

absl::Status DpdkPortImpl::Start() {
  rte_eth_dev_info device{};
  if (const int error = rte_eth_dev_info_get(config_.port_id, &device)) {
    return DeviceError(absl::StrCat("port ", config_.port_id),
                       "read its capabilities", error);
  }
  char name[RTE_ETH_NAME_MAX_LEN] = {};
  rte_eth_dev_get_name_by_port(config_.port_id, name);
  info_.name = name;
  info_.driver = device.driver_name;
  info_.ip = config_.ip;
  info_.mtu = config_.mtu;
  if (absl::Status status = Configure(device); !status.ok()) return status;
  FindAddress();
  const int error = rte_eth_dev_start(config_.port_id);
  device_started_ = error == 0;
  if (!device_started_ && !config_.restart_to_reconnect) {
    return DeviceError(info_.name, "start it", error);
  }
  if (config_.interface) UseKernelSocket();
  arp_.emplace(
      Subnet{local_.mac, local_.ip, config_.prefix_length, config_.gateway},
      config_.arp);
  for (const auto& [ip, mac] : config_.static_neighbours) {
    arp_->AddStatic(ip, mac);
  }
  return absl::OkStatus();
}

uint64_t LinkBps(const DpdkPortConfig& config) {
  if (config.interface) return config.interface->link_bps;
  rte_eth_link link{};
  if (rte_eth_link_get_nowait(config.port_id, &link) != 0 ||
      link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN) {
    return 0;
  }
  return uint64_t{link.link_speed} * 1'000'000;
}

DeviceCapabilities CapabilitiesOf(const rte_eth_dev_info& device,
                                  uint64_t link_bps) {
  const auto rx = [&](uint64_t bit) {
    return (device.rx_offload_capa & bit) != 0;
  };
  const auto tx = [&](uint64_t bit) {
    return (device.tx_offload_capa & bit) != 0;
  };
  return {
      .driver = device.driver_name,
      .min_mtu = device.min_mtu,
      .max_mtu = device.max_mtu,
      .link_bps = link_bps,
      .rx_ip_checksum = rx(RTE_ETH_RX_OFFLOAD_IPV4_CKSUM),
      .rx_udp_checksum = rx(RTE_ETH_RX_OFFLOAD_UDP_CKSUM),
      .tx_udp_checksum = tx(RTE_ETH_TX_OFFLOAD_UDP_CKSUM),
      .tx_fast_free = tx(RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE),
      .tx_multi_segment = tx(RTE_ETH_TX_OFFLOAD_MULTI_SEGS),
      .max_rx_descriptors = device.rx_desc_lim.nb_max,
      .max_tx_descriptors = device.tx_desc_lim.nb_max,
  };
}

absl::Status DpdkPortImpl::Configure(const rte_eth_dev_info& device) {
  info_.link_bps = LinkBps(config_);
  absl::StatusOr<QueuePlan> plan =
      PlanQueues(CapabilitiesOf(device, info_.link_bps), config_.mtu);
  if (!plan.ok()) return plan.status();
  plan_ = *std::move(plan);
  info_.notes = plan_.notes;

  rte_eth_conf conf{};
  conf.rxmode.mtu = config_.mtu;
  if (plan_.rx_checksum) {
    conf.rxmode.offloads |=
        RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
  }
  if (plan_.tx_checksum) conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
  if (plan_.tx_fast_free) {
    conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
  }
  conf.intr_conf.lsc =
      (*device.dev_flags & RTE_ETH_DEV_INTR_LSC) != 0 ? 1U : 0U;
  if (const int error = rte_eth_dev_configure(config_.port_id, 1, 1, &conf)) {
    return DeviceError(info_.name, "configure it", error);
  }
  return SetUpQueues(device, conf);
}

absl::Status DpdkPortImpl::SetUpQueues(const rte_eth_dev_info& device,
                                       const rte_eth_conf& conf) {
  const uint16_t id = config_.port_id;
  if (const int error = rte_eth_dev_adjust_nb_rx_tx_desc(
          id, &plan_.rx_descriptors, &plan_.tx_descriptors)) {
    return DeviceError(info_.name, "size its queues", error);
  }
  const size_t spare = kHeld + kBurst + size_t{2} * kPoolCache;
  absl::Status status =
      rx_pool_.Create(absl::StrCat("optireduce_rx_", id),
                      plan_.rx_buffers + spare, plan_.buffer_bytes);
  if (!status.ok()) return status;
  status = tx_pool_.Create(absl::StrCat("optireduce_tx_", id),
                           plan_.tx_descriptors + kBacklog + spare,
                           plan_.buffer_bytes);
  if (!status.ok()) return status;

  const auto numa_node =
      static_cast<unsigned>(std::max(rte_eth_dev_socket_id(id), 0));
  rte_eth_rxconf rx_conf = device.default_rxconf;
  rx_conf.offloads = conf.rxmode.offloads;
  if (const int error = rte_eth_rx_queue_setup(
          id, 0, plan_.rx_descriptors, numa_node, &rx_conf, rx_pool_.get())) {
    return DeviceError(info_.name, "set up its receive queue", error);
  }
  rte_eth_txconf tx_conf = device.default_txconf;
  tx_conf.offloads = conf.txmode.offloads;
  if (const int error = rte_eth_tx_queue_setup(id, 0, plan_.tx_descriptors,
                                               numa_node, &tx_conf)) {
    return DeviceError(info_.name, "set up its transmit queue", error);
  }
  return absl::OkStatus();
}

void DpdkPortImpl::FindAddress() {
  rte_ether_addr own{};
  MacAddress device_mac;
  if (rte_eth_macaddr_get(config_.port_id, &own) == 0) {
    std::memcpy(device_mac.bytes.data(), own.addr_bytes,
                device_mac.bytes.size());
  }
  const bool has_mac = device_mac != MacAddress{} && !device_mac.IsGroup();
  MacAddress mac = device_mac;
  if (config_.mac) {
    mac = *config_.mac;
  } else if (!has_mac) {
    const uint32_t ip = config_.ip.value();
    mac = {{0x02, 0x00, static_cast<uint8_t>(ip >> 24),
            static_cast<uint8_t>(ip >> 16), static_cast<uint8_t>(ip >> 8),
            static_cast<uint8_t>(ip)}};
    info_.notes.push_back(absl::StrCat("The device has no hardware address; ",
                                       ToText(mac), " is used."));
  }
  if (mac != device_mac && has_mac &&
      rte_eth_promiscuous_enable(config_.port_id) != 0) {
    info_.notes.push_back(
        "The device cannot be made promiscuous: frames to the configured "
        "hardware address may not arrive.");
  }
  info_.mac = mac;
  local_ = {mac, config_.ip, config_.first_port, config_.num_ports};
}

void DpdkPortImpl::UseKernelSocket() {
  query_socket_ = UniqueFd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  socket_ = AfPacketSocket::Find(config_.interface->index);
  if (!socket_) {
    info_.notes.push_back(
        "The device can only be polled: the engine sleeps in short naps.");
    return;
  }
  if (!socket_->SetFilter(config_.ip)) {
    info_.notes.push_back(
        "The kernel takes no filter: frames for others are sorted out here.");
  }
}

absl::Status DpdkPortImpl::Close() {
  if (closed_) return absl::OkStatus();
  closed_ = true;
  if (device_started_) {
    std::array<rte_mbuf*, kBurst> frames;
    // A stopped device may keep what it has received.
    for (int burst = 0; burst < 64; ++burst) {
      const uint16_t n =
          rte_eth_rx_burst(config_.port_id, 0, frames.data(), kBurst);
      rte_pktmbuf_free_bulk(frames.data(), n);
      if (n == 0) break;
    }
  }
  Control([this] {
    if (device_started_) rte_eth_dev_stop(config_.port_id);
  });
  while (backlog_.size() != 0) {
    const auto frames = backlog_.Front();
    rte_pktmbuf_free_bulk(frames.data(), static_cast<unsigned>(frames.size()));
    backlog_.Pop(frames.size());
  }
  socket_.reset();
  Control([this] { rte_eth_dev_close(config_.port_id); });
  const size_t rx_missing = rx_pool_.Missing();
  const size_t missing = tx_pool_.Missing() +
                         (rx_missing <= plan_.rx_buffers_kept ? 0 : rx_missing);
  if (missing == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(info_.name, ": ", missing,
                                          " packet buffers did not come back"));
}

// ---- receive ----------------------------------------------------------------

RxResult DpdkPortImpl::Receive(std::span<RxDatagram> out, Timestamp now) {
  RxResult result;
  if (!device_started_) return result;
  std::array<rte_mbuf*, kBurst> frames;
  const auto asked = static_cast<uint16_t>(std::min(out.size(), kBurst));
  const uint16_t received =
      rte_eth_rx_burst(config_.port_id, 0, frames.data(), asked);
  for (uint16_t i = 0; i < received; ++i) {
    Add(Count::kRxFrames);
    Add(Count::kRxBytes, frames[i]->pkt_len);
    if (Accept(frames[i], &out[result.datagrams], now)) ++result.datagrams;
  }
  result.more = received == asked;
  return result;
}

bool DpdkPortImpl::Accept(rte_mbuf* mbuf, RxDatagram* out, Timestamp now) {
  std::array<std::span<const uint8_t>, kMaxSegments> segments;
  size_t count = 0;
  for (const rte_mbuf* m = mbuf; m != nullptr; m = m->next) {
    if (count == kMaxSegments) {
      Add(Count::kRxTooManySegments);
      rte_pktmbuf_free(mbuf);
      return false;
    }
    segments[count++] = {rte_pktmbuf_mtod(m, const uint8_t*), m->data_len};
  }
  const FrameSegments all = std::span(segments).first(count);
  const ParsedFrame frame = ParseFrame(all, OffloadOf(*mbuf), &local_);
  verdicts_.Increment(frame.verdict);
  if (frame.verdict == FrameVerdict::kUdp) {
    return TakePayload(mbuf, all, frame, out);
  }
  if (IsAccepted(frame.verdict)) OnArp(frame.arp, now);
  rte_pktmbuf_free(mbuf);
  return false;
}

bool DpdkPortImpl::TakePayload(rte_mbuf* mbuf, FrameSegments segments,
                               const ParsedFrame& frame, RxDatagram* out) {
  std::span<const uint8_t> payload = UdpPayload(segments, frame, {});
  if (payload.size() != frame.payload_bytes) {
    // In several segments: into one buffer.
    rte_mbuf* whole = rte_pktmbuf_alloc(rx_pool_.get());
    if (whole == nullptr) {
      Add(Count::kRxNoBuffer);
      rte_pktmbuf_free(mbuf);
      return false;
    }
    payload = UdpPayload(
        segments, frame,
        {rte_pktmbuf_mtod(whole, uint8_t*), rte_pktmbuf_tailroom(whole)});
    rte_pktmbuf_free(mbuf);
    mbuf = whole;
    if (payload.size() != frame.payload_bytes) {
      Add(Count::kRxNoBuffer);  // larger than any of our MTU
      rte_pktmbuf_free(mbuf);
      return false;
    }
  }
  *out = {.source = {frame.source.ip, frame.source.port},
          .destination_port = frame.destination.port,
          .congestion_experienced = frame.congestion_experienced,
          .payload = payload,
          .arrival = std::nullopt,
          .frame = mbuf};
  return true;
}

void DpdkPortImpl::Release(std::span<const RxDatagram> datagrams) {
  for (const RxDatagram& datagram : datagrams) {
    rte_pktmbuf_free(static_cast<rte_mbuf*>(datagram.frame));
  }
}

void DpdkPortImpl::OnArp(const ArpPacket& packet, Timestamp now) {
  const uint64_t conflicts = arp_->conflicts();
  const std::optional<ArpMessage> answer = arp_->OnPacket(packet, now);
  Add(Count::kArpConflicts, arp_->conflicts() - conflicts);
  if (answer && EnqueueArp(*answer)) Add(Count::kArpReplies);
}

// ---- transmit ---------------------------------------------------------------

size_t DpdkPortImpl::Lend(std::span<TxDatagram> out) {
  // Every lent buffer has its place in the backlog.
  const size_t taken = std::min(backlog_.size() + lent_, kBacklog);
  const size_t wanted = std::min({out.size(), kBurst, kBacklog - taken});
  std::array<rte_mbuf*, kBurst> frames;
  if (wanted == 0) return 0;
  if (rte_pktmbuf_alloc_bulk(tx_pool_.get(), frames.data(),
                             static_cast<unsigned>(wanted)) != 0) {
    Add(Count::kTxNoBuffer, wanted);
    return 0;
  }
  for (size_t i = 0; i < wanted; ++i) {
    frames[i]->data_off = kTxHeadroom;
    out[i] = {};
    out[i].buffer = {
        rte_pktmbuf_mtod_offset(frames[i], uint8_t*, kUdpFrameHeaderBytes),
        max_payload()};
    out[i].frame = frames[i];
  }
  lent_ += wanted;
  return wanted;
}

void DpdkPortImpl::GiveBack(std::span<const TxDatagram> datagrams) {
  for (const TxDatagram& datagram : datagrams) {
    rte_pktmbuf_free(static_cast<rte_mbuf*>(datagram.frame));
  }
  lent_ -= datagrams.size();
}

void DpdkPortImpl::Send(std::span<const TxDatagram> datagrams, Timestamp now) {
  for (const TxDatagram& datagram : datagrams) {
    if (!Enqueue(datagram, now)) {
      rte_pktmbuf_free(static_cast<rte_mbuf*>(datagram.frame));
    }
  }
  lent_ -= datagrams.size();
  Flush();
}

bool DpdkPortImpl::Enqueue(const TxDatagram& datagram, Timestamp now) {
  if (datagram.length > datagram.buffer.size()) {
    Add(Count::kTxBadLength);
    return false;
  }
  MacAddress next_hop;
  switch (arp_->Lookup(datagram.destination.ip, now, &next_hop)) {
    case Route::kResolved:
      break;
    case Route::kUnresolved:
      Add(Count::kTxUnresolved);
      return false;
    case Route::kNoRoute:
      Add(Count::kTxNoRoute);
      return false;
  }
  auto* mbuf = static_cast<rte_mbuf*>(datagram.frame);
  const size_t bytes = kUdpFrameHeaderBytes + datagram.length;
  const bool built = BuildUdpHeaders(
      {rte_pktmbuf_mtod(mbuf, uint8_t*), bytes},
      {local_.mac, local_.ip, datagram.source_port},
      {next_hop, datagram.destination.ip, datagram.destination.port},
      datagram.length,
      plan_.tx_checksum ? TxChecksum::kPseudoHeader : TxChecksum::kSoftware);
  if (!built) {
    Add(Count::kTxBadLength);
    return false;
  }
  mbuf->data_len = static_cast<uint16_t>(bytes);
  mbuf->pkt_len = static_cast<uint32_t>(bytes);
  if (plan_.tx_checksum) {
    mbuf->ol_flags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_UDP_CKSUM;
    mbuf->l2_len = kEthernetHeaderBytes;
    mbuf->l3_len = kIpv4HeaderBytes;
  }
  backlog_.Push(mbuf);
  return true;
}

bool DpdkPortImpl::EnqueueArp(const ArpMessage& message) {
  rte_mbuf* mbuf =
      backlog_.room() > lent_ ? rte_pktmbuf_alloc(tx_pool_.get()) : nullptr;
  if (mbuf == nullptr) {
    Add(Count::kArpNotSent);
    return false;
  }
  auto* frame = reinterpret_cast<uint8_t*>(
      rte_pktmbuf_append(mbuf, static_cast<uint16_t>(kArpFrameBytes)));
  BuildArp(std::span<uint8_t, kArpFrameBytes>(frame, kArpFrameBytes),
           message.destination, message.packet);
  backlog_.Push(mbuf);
  return true;
}

void DpdkPortImpl::Flush() {
  if (!device_started_) return;
  size_t room = kBacklog;
  if (socket_ && backlog_.size() != 0) {
    room = socket_->SendRoom(config_.mtu + kEthernetHeaderBytes);
  }
  // At most two pieces: the backlog is a ring.
  for (int piece = 0; piece < 2 && backlog_.size() != 0; ++piece) {
    const auto front = backlog_.Front();
    const size_t offered = std::min(front.size(), room);
    uint64_t bytes = 0;
    std::array<uint32_t, kBacklog> lengths;
    for (size_t i = 0; i < offered; ++i) lengths[i] = front[i]->pkt_len;
    const size_t sent = rte_eth_tx_burst(config_.port_id, 0, front.data(),
                                         static_cast<uint16_t>(offered));
    for (size_t i = 0; i < sent; ++i) bytes += lengths[i];
    Add(Count::kTxFrames, sent);
    Add(Count::kTxBytes, bytes);
    backlog_.Pop(sent);
    room -= sent;
    if (sent < front.size()) break;
  }
}

// ---- housekeeping -----------------------------------------------------------

void DpdkPortImpl::Tick(Timestamp now) {
  if (now >= next_link_check_) CheckLink(now);
  if (announcement_due_ && EnqueueArp(arp_->Announcement())) {
    announcement_due_ = false;
    Add(Count::kArpAnnouncements);
  }
  while (backlog_.room() > lent_) {
    const std::optional<ArpMessage> request = arp_->PollRequest(now);
    if (!request) break;
    if (EnqueueArp(*request)) Add(Count::kArpRequests);
  }
  Flush();
  next_flush_ = backlog_.size() == 0 ? Timestamp::Never() : now + kBacklogRetry;
}

Timestamp DpdkPortImpl::NextTick() const {
  return std::min({next_flush_, next_link_check_, arp_->NextWakeup()});
}

void DpdkPortImpl::CheckLink(Timestamp now) {
  bool up = false;
  if (config_.interface) {
    // The driver says "up" whatever happens to the interface beneath.
    ifreq request{};
    std::memcpy(request.ifr_name, config_.interface->name.data(),
                std::min(config_.interface->name.size(), size_t{IFNAMSIZ - 1}));
    up = ioctl(query_socket_.get(), SIOCGIFFLAGS, &request) == 0 &&
         (request.ifr_flags & IFF_RUNNING) != 0;
  } else {
    rte_eth_link link{};
    up = rte_eth_link_get_nowait(config_.port_id, &link) == 0 &&
         link.link_status == RTE_ETH_LINK_UP;
  }
  const bool was_up = link_up_.exchange(up, std::memory_order_relaxed);
  // Not at the first sight: the peers may just be shaking hands.
  if (!up && !was_up && config_.restart_to_reconnect) Restart();
  // The first time, and when others may have forgotten us.
  if (up && (!was_up || next_link_check_ == Timestamp())) {
    announcement_due_ = true;
  }
  next_link_check_ = now + kLinkCheckInterval;
}

void DpdkPortImpl::Control(const std::function<void()>& calls) const {
  // net_memif takes its peer's leave on the interrupt thread and shares its
  // tables with these calls without a lock: at the same time, both would free
  // them. Other drivers may count on that thread while they close. (Nor has it
  // a lock between that thread and its receive and send functions, for which
  // there is no remedy from outside: a peer's death can, rarely, be ours.)
  if (info_.driver == "net_memif") {
    RunOnInterruptThread(calls);
  } else {
    calls();
  }
}

void DpdkPortImpl::Restart() {
  Control([this] {
    if (device_started_) rte_eth_dev_stop(config_.port_id);
    device_started_ = rte_eth_dev_start(config_.port_id) == 0;
  });
}

void DpdkPortImpl::AppendCounters(std::vector<NamedCounter>* out) const {
  for (size_t i = 0; i < kCountNames.size(); ++i) {
    out->push_back({kCountNames[i], counters_.Get(static_cast<Count>(i))});
  }
  for (size_t i = 0; i < kNumFrameVerdicts; ++i) {
    const auto verdict = static_cast<FrameVerdict>(i);
    out->push_back({absl::StrCat("rx_", std::string(Name(verdict))),
                    verdicts_.Get(verdict)});
  }
  rte_eth_stats stats{};
  if (rte_eth_stats_get(config_.port_id, &stats) != 0) return;
  out->push_back({"device_rx_missed", stats.imissed});
  out->push_back({"device_rx_errors", stats.ierrors});
  out->push_back({"device_rx_no_buffer", stats.rx_nombuf});
  out->push_back({"device_tx_errors", stats.oerrors});
}

}  // namespace

absl::StatusOr<std::unique_ptr<DpdkPort>> DpdkPort::Open(
    const DpdkPortConfig& config) {
  auto port = std::make_unique<DpdkPortImpl>(config);
  if (absl::Status status = port->Start(); !status.ok()) return status;
  return absl::StatusOr<std::unique_ptr<DpdkPort>>(std::move(port));
}

}  // namespace optireduce::nic
