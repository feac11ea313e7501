// What happened in a run, boiled down to one number: equal runs, equal hashes.

#ifndef OPTIREDUCE_DATAPLANE_SIM_TRACE_H_
#define OPTIREDUCE_DATAPLANE_SIM_TRACE_H_

#include <cstdint>
#include <cstdio>

#include "dataplane/base/time.h"
#include "dataplane/core/drop.h"
#include "dataplane/core/engine_core.h"
#include "dataplane/core/report.h"
#include "dataplane/sim/packet_pool.h"

namespace optireduce::sim {

// Only what is the same on every compiler and host goes in: no addresses, no
// iteration order of hash tables.
class Trace {
 public:
  // Lines for people go to `out` while it is set; null: none.
  explicit Trace(FILE* out = nullptr) : out_(out) {}

  uint64_t hash() const { return hash_; }

  void Send(Timestamp now, const Packet& packet);
  // `why` names a fault or a queue.
  void Lost(Timestamp now, const Packet& packet, const char* why);
  void Deliver(Timestamp now, const Packet& packet, core::Verdict verdict);
  void Submit(Timestamp now, uint32_t group, core::Rank rank, core::OpSeq op,
              core::SubmitResult result);
  void Event(Timestamp now, uint32_t group, core::Rank rank,
             const core::Event& event);
  // Stalls, deaths, joins and leaves of a host or rank.
  void Note(Timestamp now, const char* what, uint32_t who);

 private:
  enum class Kind : uint8_t {
    kSend = 1,
    kLost,
    kDeliver,
    kSubmit,
    kEvent,
    kNote,
  };

  void Mix(Kind kind, Timestamp now, uint64_t a, uint64_t b, uint64_t c);

  FILE* out_;
  uint64_t hash_ = 0;
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_TRACE_H_
