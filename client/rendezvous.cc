#include "client/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <span>

#include "client/error.h"
#include "dataplane/base/xxhash64.h"

namespace optireduce::client {
namespace {

constexpr std::array<char, 8> kMagic = {'o', 'r', 'm', 'e', 'e', 't', '0', '1'};
constexpr Duration kFirstPoll = Duration::Millis(1);
constexpr Duration kLastPoll = Duration::Millis(50);
constexpr size_t kNamesInMessage = 16;

// A file name in which every name is legal and no two are alike.
std::string Escaped(const char* name) {
  std::string escaped;
  for (const char* c = name; *c != '\0'; ++c) {
    const bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                       (*c >= '0' && *c <= '9') || *c == '_' || *c == '-';
    if (plain) {
      escaped += *c;
    } else {
      char hex[4];
      snprintf(hex, sizeof(hex), "%%%02x", static_cast<unsigned char>(*c));
      escaped += hex;
    }
  }
  return escaped;
}

bool ReadExactly(const char* path, void* data, size_t size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  // One byte more than there should be, to see that there is none.
  char extra = 0;
  const ssize_t got = pread(fd, data, size, 0);
  const ssize_t rest = pread(fd, &extra, 1, static_cast<off_t>(size));
  close(fd);
  return got == static_cast<ssize_t>(size) && rest == 0;
}

bool WriteExactly(const char* path, const void* data, size_t size) {
  const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  const ssize_t put = write(fd, data, size);
  const int write_error = put < 0 ? errno : ENOSPC;
  const bool closed = close(fd) == 0;
  if (put == static_cast<ssize_t>(size) && closed) return true;
  if (put != static_cast<ssize_t>(size)) errno = write_error;
  return false;
}

// "1, 2 and 5 more"
std::string NameRanks(const std::vector<uint32_t>& ranks) {
  std::string text;
  const size_t named = std::min(ranks.size(), kNamesInMessage);
  for (size_t i = 0; i < named; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(ranks[i]);
  }
  if (ranks.size() > named) {
    text += " and " + std::to_string(ranks.size() - named) + " more";
  }
  return text;
}

}  // namespace

Rendezvous::Rendezvous(const char* directory, const char* name, uint32_t rank,
                       uint32_t world)
    : prefix_(std::string(directory) + "/optireduce." + Escaped(name) + "."),
      directory_(directory),
      name_(name),
      rank_(rank),
      world_(world),
      seen_(world),
      present_(world) {}

void Rendezvous::CleanUp() {
  if (!IsClaimedByAnother()) unlink(PathOf(rank_).c_str());
}

std::string Rendezvous::PathOf(uint32_t rank) const {
  return prefix_ + std::to_string(rank);
}

or_status Rendezvous::Meet(const or_member& own, or_member* all_members,
                           const Deadline& deadline) {
  own_.magic = kMagic;
  own_.world = world_;
  own_.member_size = own.size;
  std::copy(std::begin(own.data), std::end(own.data), own_.member.begin());
  if (getrandom(own_.nonce.data(), own_.nonce.size(), 0) !=
      static_cast<ssize_t>(own_.nonce.size())) {
    return Fail(OR_ERR_SYSTEM, "getrandom: %s", strerror(errno));
  }
  or_status status = PrepareDirectory();
  if (status == OR_OK) status = Write();
  BackOff back_off(kFirstPoll, kLastPoll);
  while (status == OR_OK && !Look()) {
    if (IsClaimedByAnother()) return Claimed();
    if (deadline.Passed()) return NotMet();
    if (seen_[rank_].digest != own_.digest || !present_[rank_]) {
      status = Write();
    } else {
      back_off.Wait(deadline);
    }
  }
  if (status != OR_OK) return status;
  for (uint32_t rank = 0; rank < world_; ++rank) {
    all_members[rank].size = seen_[rank].member_size;
    std::copy(seen_[rank].member.begin(), seen_[rank].member.end(),
              all_members[rank].data);
  }
  return OR_OK;
}

or_status Rendezvous::PrepareDirectory() const {
  if (mkdir(directory_.c_str(), 0777) != 0 && errno != EEXIST) {
    return Fail(OR_ERR_SYSTEM, "rendezvous directory %s: %s",
                directory_.c_str(), strerror(errno));
  }
  return OR_OK;
}

or_status Rendezvous::Write() {
  // The nonce makes the temporary name this process's own.
  char suffix[2 * sizeof(Nonce) + 2] = ".";
  for (size_t i = 0; i < own_.nonce.size(); ++i) {
    snprintf(suffix + 1 + 2 * i, 3, "%02x", own_.nonce[i]);
  }
  const std::string path = PathOf(rank_);
  const std::string temporary = path + suffix;
  if (!WriteExactly(temporary.c_str(), &own_, sizeof(own_)) ||
      rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(temporary.c_str());
    return Fail(OR_ERR_SYSTEM, "rendezvous file %s: %s", path.c_str(),
                strerror(error));
  }
  return OR_OK;
}

bool Rendezvous::Read(uint32_t rank, Entry* entry) const {
  return ReadExactly(PathOf(rank).c_str(), entry, sizeof(*entry)) &&
         entry->magic == kMagic && entry->member_size <= OR_MEMBER_BYTES;
}

bool Rendezvous::IsClaimedByAnother() const {
  Entry entry{};
  return Read(rank_, &entry) && entry.nonce != own_.nonce;
}

or_status Rendezvous::Claimed() {
  // Once more in place of the other's, which then sees the conflict too.
  const or_status status = Write();
  if (status != OR_OK) return status;
  return Fail(OR_ERR_FORMATION,
              "two processes claim rank %u of group \"%s\" in %s: give each "
              "its own rank, or each group its own name",
              rank_, name_.c_str(), directory_.c_str());
}

bool Rendezvous::Look() {
  std::vector<uint8_t> nonces;
  nonces.reserve(world_ * sizeof(Nonce));
  for (uint32_t rank = 0; rank < world_; ++rank) {
    present_[rank] = Read(rank, &seen_[rank]) && seen_[rank].world == world_;
    if (!present_[rank]) continue;
    const Nonce& nonce = seen_[rank].nonce;
    nonces.insert(nonces.end(), nonce.begin(), nonce.end());
  }
  const bool all = nonces.size() == world_ * sizeof(Nonce);
  own_.digest = all ? std::max<uint64_t>(Xxh64(nonces), 1) : 0;
  return all && seen_[rank_].nonce == own_.nonce &&
         std::all_of(seen_.begin(), seen_.end(), [this](const Entry& entry) {
           return entry.digest == own_.digest;
         });
}

or_status Rendezvous::NotMet() const {
  std::vector<uint32_t> absent;
  std::vector<uint32_t> behind;
  for (uint32_t rank = 0; rank < world_; ++rank) {
    if (!present_[rank]) {
      absent.push_back(rank);
    } else if (rank != rank_ && seen_[rank].digest != own_.digest) {
      behind.push_back(rank);
    }
  }
  // Then the others agree, and this rank alone saw it too late to answer.
  if (behind.empty()) behind.push_back(rank_);
  if (!absent.empty()) {
    return Fail(OR_ERR_FORMATION,
                "group \"%s\" of %u ranks in %s: no word from rank %s within "
                "the limit; start it, with the same directory, name and world",
                name_.c_str(), world_, directory_.c_str(),
                NameRanks(absent).c_str());
  }
  return Fail(OR_ERR_FORMATION,
              "group \"%s\" of %u ranks in %s: rank %s left only an old file, "
              "or did not see all others within the limit",
              name_.c_str(), world_, directory_.c_str(),
              NameRanks(behind).c_str());
}

}  // namespace optireduce::client
