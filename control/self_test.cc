#include "control/self_test.h"

#include <array>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dataplane/nic/address_text.h"

namespace optireduce::control {
namespace {

constexpr Duration kRound = Duration::Millis(20);
constexpr uint16_t kDiscard = 9;  // the UDP service that answers nothing

class SelfTest {
 public:
  SelfTest(nic::PacketPort* port, const SelfTestOptions& options,
           const SelfTestHooks& hooks)
      : port_(*port),
        options_(options),
        hooks_(hooks),
        end_(hooks.now() + options.limit) {}

  absl::Status Run() {
    absl::Status status =
        Await("the link is down", [this] { return port_.link_up(); });
    if (status.ok()) status = SendSomething();
    if (status.ok()) status = CheckAddress();
    if (status.ok() && options_.gateway) status = ReachGateway();
    return status;
  }

 private:
  // Serves the port until `done`; `problem` is what is wrong until then.
  template <class Done>
  absl::Status Await(const std::string& problem, const Done& done) {
    bool told = false;
    while (true) {
      Serve();
      if (done()) return absl::OkStatus();
      if (!told) hooks_.progress(absl::StrCat("waiting: ", problem));
      told = true;
      if (hooks_.interrupted()) return absl::CancelledError("interrupted");
      if (hooks_.now() >= end_) return absl::UnavailableError(problem);
      hooks_.wait(kRound);
    }
  }

  // What the engine does later.
  void Serve() {
    std::array<nic::RxDatagram, 32> received;
    const nic::RxResult result = port_.Receive(received, hooks_.now());
    port_.Release(std::span(received).first(result.datagrams));
    port_.Tick(hooks_.now());
  }

  // A datagram, or the question who `to` is.
  void SendTo(nic::Ipv4Address to) {
    std::array<nic::TxDatagram, 1> lent;
    if (port_.Lend(lent) != 1) return;
    lent[0].length = 0;
    lent[0].source_port = kDiscard;
    lent[0].destination = {to, kDiscard};
    port_.Send(lent, hooks_.now());
    port_.Tick(hooks_.now());
  }

  uint64_t Counter(const std::string& name) const {
    std::vector<nic::NamedCounter> counters;
    port_.AppendCounters(&counters);
    for (const nic::NamedCounter& counter : counters) {
      if (counter.name == name) return counter.value;
    }
    return 0;
  }

  absl::Status SendSomething() {
    absl::Status status = Await("the device takes no frame",
                                [this] { return Counter("tx_frames") > 0; });
    if (status.ok() && Counter("device_tx_errors") > 0) {
      return absl::UnavailableError("the device fails to send");
    }
    return status;
  }

  absl::Status CheckAddress() {
    const Timestamp until = hooks_.now() + options_.conflict_wait;
    while (hooks_.now() < until && Counter("arp_conflicts") == 0) {
      if (hooks_.interrupted()) return absl::CancelledError("interrupted");
      hooks_.wait(kRound);
      Serve();
    }
    if (Counter("arp_conflicts") == 0) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "another host has the address ", nic::ToText(port_.info().ip)));
  }

  absl::Status ReachGateway() {
    return Await(absl::StrCat("the gateway ", nic::ToText(*options_.gateway),
                              " answers no ARP request"),
                 [this] {
                   const uint64_t before = Counter("tx_unresolved");
                   SendTo(*options_.gateway);
                   return Counter("tx_unresolved") == before;
                 });
  }

  nic::PacketPort& port_;
  const SelfTestOptions& options_;
  const SelfTestHooks& hooks_;
  const Timestamp end_;
};

}  // namespace

absl::Status TestDataPort(nic::PacketPort* port, const SelfTestOptions& options,
                          const SelfTestHooks& hooks) {
  return SelfTest(port, options, hooks).Run();
}

}  // namespace optireduce::control
