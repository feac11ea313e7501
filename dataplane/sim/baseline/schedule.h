// All-reduce algorithms as graphs of transfers: who sends how much to whom, and
// after what.

#ifndef OPTIREDUCE_DATAPLANE_SIM_BASELINE_SCHEDULE_H_
#define OPTIREDUCE_DATAPLANE_SIM_BASELINE_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace optireduce::sim::baseline {

struct Transfer {
  uint16_t from = 0;
  uint16_t to = 0;
  uint64_t bytes = 0;  // at least 1
  // Transfers between two ranks share a connection, in each channel another.
  uint16_t channel = 0;
  // Places of transfers to `from` that must have arrived before. None: it goes
  // when the rank submits the op.
  std::vector<uint32_t> after;
};

// A rank has the result when all transfers to it have arrived. Transfers
// of one connection that become ready at once go in the order of the list.
struct Schedule {
  size_t world = 0;
  std::vector<Transfer> transfers;
};

// All-reduces of `bytes` over `world` >= 2 ranks; the time that arithmetic
// takes counts as nothing. Parts of the buffer are as even as whole bytes
// allow; empty ones are not sent.

// The ring as Gloo has it: N - 1 steps of reduce-scatter, N - 1 of all-gather,
// one part of N at a time to the next rank, in segments that go on by
// themselves: two, or as many as it takes for at most kRingSegment each.
inline constexpr uint64_t kRingSegment = 1 << 20;
Schedule Ring(size_t world, uint64_t bytes);

// Gloo's BCube to the base 2: in each step ranks that differ in one digit
// exchange a share of what they reduce, then all comes back in reverse. What of
// N is no power of two is one more digit.
Schedule BCube(size_t world, uint64_t bytes);

// NCCL's double binary tree: two trees, each for one half, in which the leaves
// of one are inner ranks of the other (Sanders, Speck and Traeff), in chunks of
// kTreeChunk up to the root and down again.
inline constexpr uint64_t kTreeChunk = uint64_t{128} << 10;
Schedule DoubleTree(size_t world, uint64_t bytes);

// Rank 0 is also the only server: every other rank sends it all, in parts of
// kServerPart, and gets each part back once all have sent it.
inline constexpr uint64_t kServerPart = uint64_t{1} << 20;
Schedule ParameterServer(size_t world, uint64_t bytes);

// The transpose all-reduce: part r of every rank to rank r at once, and the sum
// back to all once all of them are there.
Schedule Transpose(size_t world, uint64_t bytes);

// The published two-dimensional form: G groups of N/G ranks. (a) inside a group
// part p of N/G to the rank in place p; (b) ranks in one place exchange their
// partial sums between groups, all with all; (c) the sums inside the group. G
// divides N, is less, and makes the rounds, 2 (N/G - 1) + (G - 1), fewest; with
// one group it is the form above.
Schedule Transpose2D(size_t world, uint64_t bytes);
size_t GroupsOfTranspose2D(size_t world);

}  // namespace optireduce::sim::baseline

#endif  // OPTIREDUCE_DATAPLANE_SIM_BASELINE_SCHEDULE_H_
