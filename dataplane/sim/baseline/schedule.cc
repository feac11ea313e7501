#include "dataplane/sim/baseline/schedule.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "dataplane/base/require.h"

namespace optireduce::sim::baseline {

namespace {

// A range of the buffer, and how it is cut.
struct Part {
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t bytes() const { return end - begin; }
  // The first ones are one byte longer where it does not come out even.
  Part Piece(size_t index, size_t of) const {
    const uint64_t each = bytes() / of;
    const uint64_t longer = bytes() % of;
    const uint64_t from =
        begin + index * each + std::min<uint64_t>(index, longer);
    return {from, from + each + (index < longer ? 1 : 0)};
  }
};

class Builder {
 public:
  using Place = uint32_t;
  using After = std::vector<Place>;

  explicit Builder(size_t world) {
    Require(world >= 2);
    schedule_.world = world;
  }

  // Nothing for an empty part: whoever waits for it need not.
  std::optional<Place> Add(size_t from, size_t to, uint64_t bytes,
                           After after = {}, uint16_t channel = 0) {
    if (bytes == 0) return std::nullopt;
    schedule_.transfers.push_back({static_cast<uint16_t>(from),
                                   static_cast<uint16_t>(to), bytes, channel,
                                   std::move(after)});
    return static_cast<Place>(schedule_.transfers.size() - 1);
  }

  Schedule Finish() { return std::move(schedule_); }

 private:
  Schedule schedule_;
};

void Append(const std::optional<Builder::Place>& place, Builder::After* after) {
  if (place) after->push_back(*place);
}

std::vector<uint64_t> Chunks(uint64_t bytes, uint64_t chunk) {
  std::vector<uint64_t> chunks(bytes / chunk, chunk);
  if (bytes % chunk > 0) chunks.push_back(bytes % chunk);
  return chunks;
}

// Of rank `rank` in the binary tree over 0 .. size-1 with root 0 in which odd
// ranks are leaves: it is what remains when the lowest bit moves up by one, or
// where that is beyond the end, disappears.
size_t TreeParent(size_t rank, size_t size) {
  const size_t lowest = rank & (~rank + 1);
  const size_t up = (rank ^ lowest) | lowest << 1;
  return up < size ? up : rank ^ lowest;
}

// One tree's half of an all-reduce; `rank_at` names the rank in each place.
void AddTree(const std::vector<size_t>& rank_at, uint64_t bytes,
             uint16_t channel, Builder* builder) {
  const size_t size = rank_at.size();
  std::vector<std::vector<size_t>> children(size);
  for (size_t i = 1; i < size; ++i) children[TreeParent(i, size)].push_back(i);
  // Children before parents.
  std::vector<size_t> order = {0};
  for (size_t i = 0; i < order.size(); ++i) {
    order.insert(order.end(), children[order[i]].begin(),
                 children[order[i]].end());
  }
  for (const uint64_t chunk : Chunks(bytes, kTreeChunk)) {
    std::vector<Builder::After> arrived(size);
    for (size_t i = size; i-- > 1;) {
      const size_t parent = TreeParent(order[i], size);
      Append(builder->Add(rank_at[order[i]], rank_at[parent], chunk,
                          arrived[order[i]], channel),
             &arrived[parent]);
    }
    // The root's chunk is whole when its children's are there; another's, when
    // its parent has sent it back.
    for (const size_t parent : order) {
      for (const size_t child : children[parent]) {
        arrived[child].clear();
        Append(builder->Add(rank_at[parent], rank_at[child], chunk,
                            arrived[parent], channel),
               &arrived[child]);
      }
    }
  }
}

// The digits of BCube: how many ranks exchange in each step.
std::vector<size_t> BCubeDigits(size_t world) {
  std::vector<size_t> digits;
  while (world % 2 == 0) {
    digits.push_back(2);
    world /= 2;
  }
  if (world > 1) digits.push_back(world);
  return digits;
}

// What a rank of BCube has heard and keeps.
struct BCubeRank {
  Part part;
  Builder::After after;  // transfers that the next step waits for
};

}  // namespace

Schedule Ring(size_t world, uint64_t bytes) {
  Builder builder(world);
  const Part all = {0, bytes};
  const uint64_t part_bytes = (bytes + world - 1) / world;
  const size_t segments =
      std::max<size_t>(2, (part_bytes + kRingSegment - 1) / kRingSegment);
  // What has brought each rank the segments that it sends next.
  std::vector<std::vector<Builder::After>> before(
      world, std::vector<Builder::After>(segments));
  for (size_t step = 0; step < 2 * (world - 1); ++step) {
    std::vector<std::vector<Builder::After>> arrived(
        world, std::vector<Builder::After>(segments));
    for (size_t rank = 0; rank < world; ++rank) {
      const Part part = all.Piece((rank + 2 * world - step) % world, world);
      const size_t next = (rank + 1) % world;
      for (size_t i = 0; i < segments; ++i) {
        Append(builder.Add(rank, next, part.Piece(i, segments).bytes(),
                           before[rank][i]),
               &arrived[next][i]);
      }
    }
    before = std::move(arrived);
  }
  return builder.Finish();
}

Schedule BCube(size_t world, uint64_t bytes) {
  Builder builder(world);
  std::vector<BCubeRank> ranks(world);
  for (BCubeRank& rank : ranks) rank.part = {0, bytes};
  const std::vector<size_t> digits = BCubeDigits(world);

  // Visits a step's pairs: the rank, its digit, and the same for its peer.
  const auto each_pair = [&](size_t digit, size_t weight, auto visit) {
    for (size_t rank = 0; rank < world; ++rank) {
      const size_t own = rank / weight % digit;
      for (size_t i = 1; i < digit; ++i) {
        const size_t other = (own + i) % digit;
        visit(rank, own, rank - own * weight + other * weight, other);
      }
    }
  };
  size_t weight = 1;
  for (const size_t digit : digits) {
    // What a rank had to have before, it has to have still.
    std::vector<Builder::After> arrived(world);
    for (size_t i = 0; i < world; ++i) arrived[i] = ranks[i].after;
    each_pair(digit, weight, [&](size_t rank, size_t, size_t peer, size_t at) {
      Append(builder.Add(rank, peer, ranks[rank].part.Piece(at, digit).bytes(),
                         ranks[rank].after),
             &arrived[peer]);
    });
    for (size_t rank = 0; rank < world; ++rank) {
      ranks[rank] = {ranks[rank].part.Piece(rank / weight % digit, digit),
                     std::move(arrived[rank])};
    }
    weight *= digit;
  }
  for (size_t step = digits.size(); step-- > 0;) {
    weight /= digits[step];
    std::vector<BCubeRank> next = ranks;
    each_pair(digits[step], weight,
              [&](size_t rank, size_t, size_t peer, size_t) {
                const Part& part = ranks[rank].part;
                Append(builder.Add(rank, peer, part.bytes(), ranks[rank].after),
                       &next[peer].after);
                next[peer].part = {std::min(next[peer].part.begin, part.begin),
                                   std::max(next[peer].part.end, part.end)};
              });
    ranks = std::move(next);
  }
  return builder.Finish();
}

Schedule DoubleTree(size_t world, uint64_t bytes) {
  Builder builder(world);
  std::vector<size_t> first(world);
  std::vector<size_t> second(world);
  for (size_t i = 0; i < world; ++i) {
    first[i] = i;
    // Mirrored if N is even, moved by one if it is odd.
    second[i] = world % 2 == 0 ? world - 1 - i : (i + 1) % world;
  }
  const Part all = {0, bytes};
  AddTree(first, all.Piece(0, 2).bytes(), 0, &builder);
  AddTree(second, all.Piece(1, 2).bytes(), 1, &builder);
  return builder.Finish();
}

Schedule ParameterServer(size_t world, uint64_t bytes) {
  Builder builder(world);
  for (const uint64_t part : Chunks(bytes, kServerPart)) {
    Builder::After arrived;
    for (size_t rank = 1; rank < world; ++rank) {
      Append(builder.Add(rank, 0, part), &arrived);
    }
    for (size_t rank = 1; rank < world; ++rank) {
      builder.Add(0, rank, part, arrived);
    }
  }
  return builder.Finish();
}

Schedule Transpose(size_t world, uint64_t bytes) {
  Builder builder(world);
  const Part all = {0, bytes};
  std::vector<Builder::After> arrived(world);
  for (size_t i = 1; i < world; ++i) {
    for (size_t rank = 0; rank < world; ++rank) {
      const size_t owner = (rank + i) % world;
      Append(builder.Add(rank, owner, all.Piece(owner, world).bytes()),
             &arrived[owner]);
    }
  }
  for (size_t i = 1; i < world; ++i) {
    for (size_t owner = 0; owner < world; ++owner) {
      builder.Add(owner, (owner + i) % world, all.Piece(owner, world).bytes(),
                  arrived[owner]);
    }
  }
  return builder.Finish();
}

size_t GroupsOfTranspose2D(size_t world) {
  const auto rounds = [world](size_t groups) {
    return 2 * (world / groups - 1) + (groups - 1);
  };
  size_t best = 1;
  for (size_t groups = 2; groups < world; ++groups) {
    if (world % groups == 0 && rounds(groups) < rounds(best)) best = groups;
  }
  return best;
}

Schedule Transpose2D(size_t world, uint64_t bytes) {
  Builder builder(world);
  const size_t groups = GroupsOfTranspose2D(world);
  const size_t size = world / groups;
  const Part all = {0, bytes};
  const auto part = [&](size_t place) {
    return all.Piece(place, size).bytes();
  };
  std::vector<Builder::After> inside(world);
  for (size_t i = 1; i < size; ++i) {
    for (size_t rank = 0; rank < world; ++rank) {
      const size_t place = (rank % size + i) % size;
      const size_t peer = rank - rank % size + place;
      Append(builder.Add(rank, peer, part(place)), &inside[peer]);
    }
  }
  std::vector<Builder::After> across = inside;
  for (size_t i = 1; i < groups; ++i) {
    for (size_t rank = 0; rank < world; ++rank) {
      const size_t peer = (rank + i * size) % world;
      Append(builder.Add(rank, peer, part(rank % size), inside[rank]),
             &across[peer]);
    }
  }
  for (size_t i = 1; i < size; ++i) {
    for (size_t rank = 0; rank < world; ++rank) {
      const size_t peer = rank - rank % size + (rank % size + i) % size;
      builder.Add(rank, peer, part(rank % size), across[rank]);
    }
  }
  return builder.Finish();
}

}  // namespace optireduce::sim::baseline
