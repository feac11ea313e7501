// The ranks of a group meet in a directory that all of them see.
//
// Each rank keeps one file there, replaced by atomic renames:
//
//   | magic | world | nonce of this attempt | digest of all nonces | member |
//
// The digest is over the nonces of all ranks, as this rank sees them, and 0
// while it lacks one. A rank has met the others when the files of all ranks
// bear the digest that it computes itself. A file that an earlier run left
// cannot: its digest would have to cover nonces that were drawn later. So no
// run identifier is needed, and a rank that restarts meanwhile is simply met
// anew.
//
// A rank removes its file only when the group is formed: that means that all
// ranks have answered each other, hence that all have met. One that fails
// leaves its file, as others may still need it to see how they stand.

#ifndef OPTIREDUCE_CLIENT_RENDEZVOUS_H_
#define OPTIREDUCE_CLIENT_RENDEZVOUS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "client/deadline.h"
#include "client/optireduce.h"

namespace optireduce::client {

class Rendezvous {
 public:
  // `directory` and `name` are the caller's or_rendezvous, already checked.
  Rendezvous(const char* directory, const char* name, uint32_t rank,
             uint32_t world);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Fills in all_members[0..world). OR_ERR_FORMATION: the deadline passed (the
  // text names the ranks that did not come), or another process claims this
  // rank. OR_ERR_SYSTEM: the directory cannot be used.
  or_status Meet(const or_member& own, or_member* all_members,
                 const Deadline& deadline);

  // The group is formed: removes this rank's file, unless it is somebody else's
  // by now.
  void CleanUp();

  // The file of a rank, for tests and messages.
  std::string PathOf(uint32_t rank) const;

 private:
  using Nonce = std::array<uint8_t, 16>;
  // What a file holds. Every field of fixed size: no padding.
  struct Entry {
    std::array<char, 8> magic;
    uint32_t world;
    uint32_t member_size;
    Nonce nonce;
    uint64_t digest;
    std::array<uint8_t, OR_MEMBER_BYTES> member;
  };
  static_assert(sizeof(Entry) == 8 + 8 + 16 + 8 + OR_MEMBER_BYTES);

  or_status PrepareDirectory() const;
  or_status Write();
  // False if there is no whole entry. It may be one of another world.
  bool Read(uint32_t rank, Entry* entry) const;
  bool IsClaimedByAnother() const;
  or_status Claimed();
  // Reads all files; true when all ranks agree.
  bool Look();
  or_status NotMet() const;

  std::string prefix_;  // path of a file without the rank
  std::string directory_;
  std::string name_;
  uint32_t rank_;
  uint32_t world_;
  Entry own_{};
  std::vector<Entry> seen_;    // by rank
  std::vector<bool> present_;  // by rank
};

}  // namespace optireduce::client

#endif  // OPTIREDUCE_CLIENT_RENDEZVOUS_H_
