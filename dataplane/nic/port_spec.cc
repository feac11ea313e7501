#include "dataplane/nic/port_spec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace optireduce::nic {
namespace {

struct KindName {
  const char* name;
  PortKind kind;
  std::vector<std::string> options;
  const char* example;
};

const std::array<KindName, 5>& Kinds() {
  static const auto* kinds = new std::array<KindName, 5>{{
      {"af_packet", PortKind::kAfPacket, {}, "af_packet:eth0"},
      {"af_xdp", PortKind::kAfXdp, {"queue"}, "af_xdp:eth0,queue=0"},
      {"memif",
       PortKind::kMemif,
       {"id", "role"},
       "memif:/run/a.sock,id=0,role=server"},
      {"ring", PortKind::kRing, {}, "ring:0"},
      {"pci", PortKind::kPci, {}, "pci:0000:3b:00.0"},
  }};
  return *kinds;
}

bool IsNumber(const std::string& text) {
  return !text.empty() && text.size() <= 9 &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

// The kernel's rule for interface names, and nothing that would end a devarg.
bool IsInterfaceName(const std::string& text) {
  return !text.empty() && text.size() < 16 &&
         text.find_first_of("/,: \t\n=") == std::string::npos;
}

// 0000:3b:00.0
bool IsPciAddress(const std::string& text) {
  constexpr std::string_view kPattern = "hhhh:hh:hh.o";
  if (text.size() != kPattern.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool octal = c >= '0' && c <= '7';
    const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ||
                     (c >= 'A' && c <= 'F');
    const bool right = kPattern[i] == 'h'   ? hex
                       : kPattern[i] == 'o' ? octal
                                            : c == kPattern[i];
    if (!right) return false;
  }
  return true;
}

absl::Status Invalid(const std::string& text, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("port \"", text, "\": ", why));
}

absl::Status ParseOptions(const std::string& text,
                          const std::vector<std::string>& words,
                          const KindName& kind, PortSpec* spec) {
  for (size_t i = 1; i < words.size(); ++i) {
    const std::vector<std::string> pair =
        absl::StrSplit(words[i], absl::MaxSplits('=', 1));
    if (std::find(kind.options.begin(), kind.options.end(), pair[0]) ==
        kind.options.end()) {
      return Invalid(
          text,
          absl::StrCat("unknown option \"", pair[0], "\"; ", kind.name,
                       kind.options.empty()
                           ? " takes none"
                           : " takes " + absl::StrJoin(kind.options, ", ")));
    }
    if (pair.size() != 2 || pair[1].empty()) {
      return Invalid(
          text, absl::StrCat(pair[0], " needs a value, as in ", kind.example));
    }
    if (!spec->options.emplace(pair[0], pair[1]).second) {
      return Invalid(text, absl::StrCat(pair[0], " is given twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckValues(const std::string& text, const PortSpec& spec) {
  for (const char* key : {"id", "queue"}) {
    const auto found = spec.options.find(key);
    if (found != spec.options.end() && !IsNumber(found->second)) {
      return Invalid(text, absl::StrCat(key, " is a number"));
    }
  }
  switch (spec.kind) {
    case PortKind::kAfPacket:
    case PortKind::kAfXdp:
      if (!IsInterfaceName(spec.device)) {
        return Invalid(text, "an interface name follows the colon");
      }
      break;
    case PortKind::kMemif: {
      const auto role = spec.options.find("role");
      if (role == spec.options.end() ||
          (role->second != "server" && role->second != "client")) {
        return Invalid(text, "role is server on one side, client on the other");
      }
      // sun_path, less its final zero.
      if (spec.device.empty() || spec.device[0] != '/' ||
          spec.device.size() > 107) {
        return Invalid(text,
                       "the absolute path of a socket, at most 107 characters, "
                       "follows the colon");
      }
      break;
    }
    case PortKind::kRing:
      if (!IsNumber(spec.device)) {
        return Invalid(text, "a number follows the colon");
      }
      break;
    case PortKind::kPci:
      if (!IsPciAddress(spec.device)) {
        return Invalid(text, "a PCI address follows, as in pci:0000:3b:00.0");
      }
      break;
  }
  return absl::OkStatus();
}

// The rings that net_af_packet shares with the kernel. A frame of the ring
// holds one Ethernet frame behind about 60 bytes of the kernel's; blocks are
// powers of two of whole frames.
std::string AfPacketArguments(const KernelInterface& interface) {
  constexpr size_t kKernelBytes = 128;
  constexpr size_t kEthernetBytes = 14 + 4;
  constexpr size_t kRingBytes = size_t{4} << 20;
  const size_t frame = std::max<size_t>(
      2048, std::bit_ceil(interface.mtu + kEthernetBytes + kKernelBytes));
  const size_t block = std::max<size_t>(frame, size_t{64} << 10);
  // By default this driver goes around the queueing discipline, so that no
  // rate limit of the host would apply to us.
  return absl::StrCat("iface=", interface.name, ",qpairs=1,qdisc_bypass=0",
                      ",blocksz=", block, ",framesz=", frame,
                      ",framecnt=", kRingBytes / frame);
}

DevicePlan PlanKernelInterface(const PortSpec& spec,
                               const KernelInterface& interface, int index) {
  // Both drivers take frames from the same interface: one lock for both.
  DevicePlan plan{
      .bus = "vdev",
      .name = "",
      .arguments = "",
      .lock_name = absl::StrCat("net-", interface.netns, "-", interface.name),
      .restart_to_reconnect = false};
  if (spec.kind == PortKind::kAfPacket) {
    plan.name = absl::StrCat("net_af_packet", index);
    plan.arguments = AfPacketArguments(interface);
  } else {
    const auto queue = spec.options.find("queue");
    plan.name = absl::StrCat("net_af_xdp", index);
    plan.arguments = absl::StrCat(
        "iface=", interface.name,
        ",start_queue=", queue == spec.options.end() ? "0" : queue->second,
        ",queue_count=1");
  }
  return plan;
}

std::string WithoutSlashes(std::string path) {
  std::replace(path.begin(), path.end(), '/', '_');
  return path;
}

}  // namespace

absl::StatusOr<PortSpec> ParsePortSpec(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string kind_name = text.substr(0, colon);
  const auto& kinds = Kinds();
  const auto kind =
      std::find_if(kinds.begin(), kinds.end(),
                   [&](const KindName& k) { return kind_name == k.name; });
  if (kind == kinds.end() || colon == std::string::npos) {
    std::vector<std::string> examples;
    for (const KindName& k : kinds) examples.emplace_back(k.example);
    return Invalid(text,
                   absl::StrCat("not one of ", absl::StrJoin(examples, " | ")));
  }
  const std::vector<std::string> words =
      absl::StrSplit(text.substr(colon + 1), ',');
  PortSpec spec;
  spec.kind = kind->kind;
  spec.device = words[0];
  if (absl::Status status = ParseOptions(text, words, *kind, &spec);
      !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckValues(text, spec); !status.ok()) {
    return status;
  }
  return spec;
}

absl::StatusOr<DevicePlan> PlanDevice(const PortSpec& spec,
                                      const KernelInterface* interface,
                                      int index, bool allow_default_route) {
  switch (spec.kind) {
    case PortKind::kAfPacket:
    case PortKind::kAfXdp:
      if (interface->has_default_route && !allow_default_route) {
        return absl::FailedPreconditionError(absl::StrCat(
            "interface ", interface->name,
            " carries this host's default route; taking it could cut the host "
            "off. Use another interface, or force it"));
      }
      return PlanKernelInterface(spec, *interface, index);
    case PortKind::kMemif: {
      const auto id = spec.options.find("id");
      const std::string number = id == spec.options.end() ? "0" : id->second;
      const std::string role = spec.options.at("role");
      return DevicePlan{
          .bus = "vdev",
          .name = absl::StrCat("net_memif", index),
          // Large enough that a frame is never cut in two below MTU 2,000.
          .arguments = absl::StrCat("socket=", spec.device,
                                    ",socket-abstract=no,id=", number,
                                    ",role=", role, ",bsize=2048,rsize=11"),
          .lock_name = absl::StrCat("memif", WithoutSlashes(spec.device), "-",
                                    number, "-", role),
          .restart_to_reconnect = role == "client"};
    }
    case PortKind::kRing:
      // Lives in this process: the lock is its own.
      return DevicePlan{.bus = "vdev",
                        .name = absl::StrCat("net_ring", spec.device),
                        .arguments = "",
                        .lock_name = "",
                        .restart_to_reconnect = false};
    case PortKind::kPci:
      return DevicePlan{.bus = "pci",
                        .name = spec.device,
                        .arguments = "",
                        .lock_name = absl::StrCat("pci-", spec.device),
                        .restart_to_reconnect = false};
  }
  return absl::InternalError("unknown kind of port");
}

}  // namespace optireduce::nic
