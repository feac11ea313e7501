// The operations of a session that are in flight or whose end nobody has asked
// for yet.

#ifndef OPTIREDUCE_CLIENT_OP_TABLE_H_
#define OPTIREDUCE_CLIENT_OP_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "client/optireduce.h"
#include "dataplane/base/time.h"
#include "proto/shm_abi.h"

namespace optireduce::client {

// Bytes of the segment, counted from its start.
struct Range {
  uint64_t offset = 0;
  uint64_t bytes = 0;

  bool Overlaps(const Range& other) const {
    return bytes != 0 && other.bytes != 0 &&
           offset < other.offset + other.bytes && other.offset < offset + bytes;
  }
};

// Which rank of which group speaks.
struct Speaker {
  uint32_t rank = 0;
  uint32_t world = 0;
  std::string group;  // its name
};

enum class OpKind : uint8_t {
  kCollective,
  kSave,     // of the group's state, to `output`
  kLoad,     // from `input`
  kVerdict,  // an all-gather of records of a step; see verdict.h
};

struct Op {
  or_group group = 0;
  std::shared_ptr<const Speaker> speaker;
  OpKind kind = OpKind::kCollective;
  // As submitted, with the group's hard limit. Only that limit if it is no
  // collective.
  or_operation operation{};
  Range input;
  Range output;
  bool non_finite = false;  // the input, of one that counts for a verdict
  Timestamp submitted;

  // How it ended; OR_PENDING while it is in flight.
  or_status status = OR_PENDING;
  bool answered = false;  // by the daemon, in `completion`
  OptireduceShmCompletion completion{};
};

// Not thread-safe. Pointers to ops stay valid until Forget().
class OpTable {
 public:
  // Nobody asks about more ended operations than this.
  static constexpr size_t kMaxOps = 65536;

  bool IsFull() const { return ops_.size() >= kMaxOps; }
  or_op Add(const Op& op);
  // nullptr: it never existed, or was forgotten.
  Op* Find(or_op id);
  void Forget(or_op id) { ops_.erase(id); }

  // Records an answer and returns its op; nullptr if it is for no op in flight
  // (one that was given up before).
  Op* Complete(const OptireduceShmCompletion& completion);
  // Gives up what is in flight, of one group or of all.
  void EndAll(or_status status);
  void EndGroup(or_group group, or_status status);

  // A range that an op in flight uses and that overlaps `wanted`; nullptr if
  // there is none.
  const Range* FindInFlight(const Range& wanted) const;
  // Whether a collective of the step is in flight.
  bool IsInFlight(or_group group, uint64_t step) const;

 private:
  std::map<or_op, Op> ops_;
  or_op next_ = 1;
};

// What a completion means to the caller.
or_status StatusOf(const OptireduceShmCompletion& completion);

}  // namespace optireduce::client

#endif  // OPTIREDUCE_CLIENT_OP_TABLE_H_
