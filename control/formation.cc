#include "control/formation.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "dataplane/base/xxhash64.h"
#include "dataplane/nic/address.h"
#include "dataplane/nic/address_text.h"
#include "proto/wire.h"

namespace optireduce::control {
namespace {

nic::Ipv4Address AddressOf(const Member& member) {
  uint32_t address = 0;
  for (const char byte : member.address()) {
    address = address << 8 | static_cast<uint8_t>(byte);
  }
  return nic::Ipv4Address(address);
}

std::string EndpointText(const Member& member) {
  return absl::StrCat(nic::ToText(AddressOf(member)), ":", member.port());
}

std::string FillName(FillPolicy fill) {
  return fill == FILL_OWN ? "own" : "zero";
}

// The settings that all must share, by name and as text.
std::vector<std::pair<std::string, std::string>> Settings(const Member& m) {
  return {{"result_bound_us", absl::StrCat(m.result_bound_us())},
          {"stage1_bound_us", absl::StrCat(m.stage1_bound_us())},
          {"early_wait_us", absl::StrCat(m.early_wait_us())},
          {"adaptive_bounds", m.adaptive_bounds() ? "true" : "false"},
          {"slowest_rate_bps", absl::StrCat(m.slowest_rate_bps())},
          {"hard_limit_us", absl::StrCat(m.hard_limit_us())},
          {"window", absl::StrCat(m.window())},
          {"quorum_permille", absl::StrCat(m.quorum_permille())},
          {"memory_budget_bytes", absl::StrCat(m.memory_budget_bytes())},
          {"owed_budget_bytes", absl::StrCat(m.owed_budget_bytes())},
          {"fill", FillName(m.fill())}};
}

class Checker {
 public:
  Checker(const Member& own, const std::vector<std::string>& blobs,
          Error* error)
      : own_(own), blobs_(blobs), error_(*error) {
    error_.Clear();
  }

  std::optional<Formation> Check() {
    const bool good = CheckCount() && Parse() && CheckVersions() &&
                      CheckRanks() && CheckOwn() && CheckNames() &&
                      CheckEndpoints() && CheckSettings();
    if (!good) return std::nullopt;
    return Form();
  }

 private:
  // Always false. `ranks` are at fault.
  bool Fail(const std::string& message, const std::vector<size_t>& ranks) {
    error_.set_code(ERROR_MEMBERS);
    error_.set_message(message);
    for (const size_t rank : ranks) {
      error_.add_disagree(static_cast<uint32_t>(rank));
    }
    return false;
  }

  bool CheckCount() {
    if (blobs_.size() == own_.world()) return true;
    return Fail(absl::StrCat(blobs_.size(), " members given for a world of ",
                             own_.world()),
                {});
  }

  bool Parse() {
    members_.resize(blobs_.size());
    for (size_t i = 0; i < blobs_.size(); ++i) {
      Member& m = members_[i];
      const bool good = blobs_[i].size() <= kMaxMemberBytes &&
                        m.ParseFromString(blobs_[i]) &&
                        m.magic() == kMemberMagic;
      if (!good) {
        return Fail(absl::StrCat("what stands for rank ", i,
                                 " is not what a daemon has given out"),
                    {i});
      }
    }
    return true;
  }

  // Fields beyond the version may mean something else in other versions.
  bool CheckVersions() {
    uint32_t newest_min = 0;
    uint32_t oldest_max = UINT32_MAX;
    size_t newest = 0;
    size_t oldest = 0;
    for (size_t i = 0; i < members_.size(); ++i) {
      if (members_[i].wire_min() > newest_min) {
        newest_min = members_[i].wire_min();
        newest = i;
      }
      if (members_[i].wire_max() < oldest_max) {
        oldest_max = members_[i].wire_max();
        oldest = i;
      }
    }
    if (newest_min <= oldest_max) return true;
    return Fail(
        absl::StrCat("the daemon of rank ", newest, " speaks wire version ",
                     newest_min, " at least, that of rank ", oldest,
                     " version ", oldest_max,
                     " at most: upgrade the daemon of rank ", oldest),
        {newest, oldest});
  }

  bool CheckRanks() {
    std::map<uint32_t, size_t> seen;
    for (size_t i = 0; i < members_.size(); ++i) {
      const Member& m = members_[i];
      if (m.world() != own_.world()) {
        return Fail(
            absl::StrCat("rank ", i, " was prepared for a world of ", m.world(),
                         ", rank ", own_.rank(), " for ", own_.world()),
            {i});
      }
      if (m.rank() >= m.world()) {
        return Fail(absl::StrCat("rank ", m.rank(), " in a world of ",
                                 m.world(), ": ranks are 0 to ", m.world() - 1),
                    {i});
      }
      const auto [it, inserted] = seen.insert({m.rank(), i});
      if (!inserted) {
        return Fail(
            absl::StrCat("rank ", m.rank(), " is there twice, in places ",
                         it->second, " (", EndpointText(members_[it->second]),
                         ") and ", i, " (", EndpointText(m), ")"),
            {it->second, i});
      }
      if (m.rank() != i) {
        return Fail(absl::StrCat("rank ", m.rank(), " stands in place ", i),
                    {i});
      }
    }
    return true;
  }

  bool CheckOwn() {
    if (members_[own_.rank()].nonce() == own_.nonce() &&
        members_[own_.rank()].port() == own_.port()) {
      return true;
    }
    return Fail(absl::StrCat("what stands for rank ", own_.rank(),
                             " is of an earlier preparation, not of this one"),
                {own_.rank()});
  }

  bool CheckNames() {
    for (size_t i = 0; i < members_.size(); ++i) {
      if (members_[i].name() == members_[0].name()) continue;
      return Fail(
          absl::StrCat("rank ", i, " calls the group \"", members_[i].name(),
                       "\", rank 0 \"", members_[0].name(), "\""),
          {i});
    }
    return true;
  }

  bool CheckEndpoints() {
    std::map<std::string, size_t> seen;
    for (size_t i = 0; i < members_.size(); ++i) {
      const Member& m = members_[i];
      const nic::Ipv4Address ip = AddressOf(m);
      const uint32_t top = ip.value() >> 24;
      if (top == 127) {
        return Fail(
            absl::StrCat("rank ", i, " has the loopback address ",
                         EndpointText(m), ", which no other host reaches"),
            {i});
      }
      if (m.address().size() != 4 || top == 0 || nic::IsGroupOrReserved(ip) ||
          m.port() == 0 || m.port() > 65535 ||
          wire::PayloadForMtu(m.mtu()) == 0 ||
          m.nonce().size() != kNonceBytes) {
        return Fail(absl::StrCat("rank ", i, " has no usable data endpoint (",
                                 EndpointText(m), ", MTU ", m.mtu(), ")"),
                    {i});
      }
      const auto [it, inserted] = seen.insert({EndpointText(m), i});
      if (!inserted) {
        return Fail(
            absl::StrCat("ranks ", it->second, " and ", i,
                         " have the same data endpoint ", EndpointText(m)),
            {it->second, i});
      }
    }
    return true;
  }

  // Lists every difference, not the first: whoever mends one wants to know.
  bool CheckSettings() {
    std::vector<std::string> words;
    std::set<size_t> ranks;
    const auto first = Settings(members_[0]);
    for (size_t i = 1; i < members_.size(); ++i) {
      const auto settings = Settings(members_[i]);
      for (size_t s = 0; s < first.size(); ++s) {
        if (settings[s].second == first[s].second) continue;
        ranks.insert(i);
        if (words.size() < kMaxDifferences) {
          words.push_back(absl::StrCat(first[s].first, " is ", first[s].second,
                                       " at rank 0 and ", settings[s].second,
                                       " at rank ", i));
        }
      }
    }
    if (ranks.empty()) return true;
    return Fail(absl::StrCat("settings differ: ", absl::StrJoin(words, "; ")),
                {ranks.begin(), ranks.end()});
  }

  Formation Form() const {
    Formation formation;
    uint32_t mtu = UINT32_MAX;
    std::vector<uint8_t> nonces;
    for (const Member& m : members_) {
      mtu = std::min(mtu, m.mtu());
      nonces.insert(nonces.end(), m.nonce().begin(), m.nonce().end());
      formation.members.push_back(
          {core::NetAddress::FromIpv4(AddressOf(m).value()),
           static_cast<uint16_t>(m.port())});
    }
    formation.payload_bytes = static_cast<uint32_t>(wire::PayloadForMtu(mtu));
    formation.tag = static_cast<uint32_t>(Xxh64(nonces, kMemberMagic));
    return formation;
  }

  static constexpr size_t kMaxDifferences = 32;

  const Member& own_;
  const std::vector<std::string>& blobs_;
  Error& error_;
  std::vector<Member> members_;
};

}  // namespace

std::optional<Formation> CheckMembers(const Member& own,
                                      const std::vector<std::string>& blobs,
                                      Error* error) {
  return Checker(own, blobs, error).Check();
}

}  // namespace optireduce::control
