// The verdict on a training step: what each rank tells the others, and what all
// of them make of it.
//
// Each rank's record goes to all by an exact all-gather; the verdict is a pure
// function of the records, so it is the same everywhere. What it depends on is
// therefore in the records, settings and the run of bad steps so far included:
// ranks that differ in these still agree, and one that has missed a verdict (an
// error) catches up with the next.

#ifndef OPTIREDUCE_CLIENT_VERDICT_H_
#define OPTIREDUCE_CLIENT_VERDICT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "client/optireduce.h"
#include "client/step_account.h"

namespace optireduce::client {

// If the caller sets none. A loss scale that begins at 65536 and is halved for
// each step that overflows is at 1 after 16.
inline constexpr uint32_t kDefaultHaltAfter = 20;

struct StepRecord {
  uint64_t step = 0;
  StepAccount account;
  uint32_t bad_steps =
      0;  // in a row, up to the last verdict that is known here
  uint32_t halt_after = kDefaultHaltAfter;
  double min_fraction = 0;
  // Sums of an or_sketch.
  std::optional<std::array<float, OR_SKETCH_SUMS>> sketch;
};

// A record on its way, little-endian:
//
//   offset  bytes
//        0      1  version, 1
//        1      1  flags: 1 not finite, 2 has a sketch
//        2      2  zero
//        4      4  bad_steps
//        8      8  step
//       16      8  present, IEEE 754
//       24      8  absent
//       32      8  min_fraction, IEEE 754
//       40      4  halt_after
//       44     20  zero
//       64     64  sketch, 16 times IEEE 754; zero if there is none
inline constexpr size_t kRecordBytes = 128;

void EncodeRecord(const StepRecord& record,
                  std::span<uint8_t, kRecordBytes> out);
// Nothing if no library of this version has written it.
std::optional<StepRecord> DecodeRecord(
    std::span<const uint8_t, kRecordBytes> bytes);

// Of the records of all ranks, by rank; at least one. Of equals the lowest rank
// is named. struct_size is set.
or_verdict Judge(std::span<const StepRecord> records);

}  // namespace optireduce::client

#endif  // OPTIREDUCE_CLIENT_VERDICT_H_
