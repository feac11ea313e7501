#include "dataplane/sim/coverage.h"

#include <algorithm>
#include <cinttypes>

#include "absl/strings/str_cat.h"

namespace optireduce::sim {

namespace {

using core::OpEvent;
using core::OpState;
using core::Verdict;

template <typename F>
void ForEachPair(F f) {
  for (size_t state = 0; state < core::kNumOpStates; ++state) {
    for (size_t event = 0; event < core::kNumOpEvents; ++event) {
      f(static_cast<OpState>(state), static_cast<OpEvent>(event));
    }
  }
}

std::string Pair(OpState state, OpEvent event) {
  const std::string_view left = Name(state);
  const std::string_view right = Name(event);
  return absl::StrCat(absl::string_view(left.data(), left.size()), " x ",
                      absl::string_view(right.data(), right.size()));
}

}  // namespace

void Coverage::Add(const core::EngineCore& core) {
  ForEachPair([&](OpState state, OpEvent event) {
    pairs_[static_cast<size_t>(state)][static_cast<size_t>(event)] +=
        core.transitions().Get(state, event);
  });
  const auto counters = core.counters().Snapshot();
  for (size_t i = 0; i < counters.size(); ++i) verdicts_[i] += counters[i];
}

void Coverage::Add(const Coverage& other) {
  ForEachPair([&](OpState state, OpEvent event) {
    pairs_[static_cast<size_t>(state)][static_cast<size_t>(event)] +=
        other.Of(state, event);
  });
  for (size_t i = 0; i < verdicts_.size(); ++i) {
    verdicts_[i] += other.verdicts_[i];
  }
}

size_t Coverage::possible() const {
  size_t pairs = 0;
  ForEachPair([&](OpState state, OpEvent event) {
    if (IsPossible(state, event)) ++pairs;
  });
  return pairs;
}

size_t Coverage::reached() const {
  size_t pairs = 0;
  ForEachPair([&](OpState state, OpEvent event) {
    if (IsPossible(state, event) && Of(state, event) > 0) ++pairs;
  });
  return pairs;
}

std::vector<std::string> Coverage::Missing() const {
  std::vector<std::string> missing;
  ForEachPair([&](OpState state, OpEvent event) {
    if (IsPossible(state, event) && Of(state, event) == 0) {
      missing.push_back(Pair(state, event));
    }
  });
  for (size_t i = 0; i < verdicts_.size(); ++i) {
    if (verdicts_[i] > 0) continue;
    missing.emplace_back(Name(static_cast<Verdict>(i)));
  }
  return missing;
}

std::vector<std::string> Coverage::Impossible() const {
  std::vector<std::string> found;
  ForEachPair([&](OpState state, OpEvent event) {
    if (!IsPossible(state, event) && Of(state, event) > 0) {
      found.push_back(Pair(state, event));
    }
  });
  return found;
}

bool Coverage::Suffices() const {
  const bool all_verdicts = std::ranges::find(verdicts_, 0) == verdicts_.end();
  return all_verdicts && Impossible().empty() &&
         100 * reached() >= 95 * possible();
}

void Coverage::Print(FILE* out) const {
  ForEachPair([&](OpState state, OpEvent event) {
    if (!IsPossible(state, event)) return;
    std::fprintf(out, "%-10s %-14s %12" PRIu64 "\n", Name(state).data(),
                 Name(event).data(), Of(state, event));
  });
  for (size_t i = 0; i < verdicts_.size(); ++i) {
    std::fprintf(out, "verdict    %-14s %12" PRIu64 "\n",
                 Name(static_cast<Verdict>(i)).data(), verdicts_[i]);
  }
  std::fprintf(
      out, "%zu of %zu pairs of state and event reached (%.1f %%)\n", reached(),
      possible(),
      100.0 * static_cast<double>(reached()) / static_cast<double>(possible()));
  for (const std::string& missing : Missing()) {
    std::fprintf(out, "not reached: %s\n", missing.c_str());
  }
  for (const std::string& found : Impossible()) {
    std::fprintf(out, "reached, but excluded by the rules: %s\n",
                 found.c_str());
  }
}

}  // namespace optireduce::sim
