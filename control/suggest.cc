#include "control/suggest.h"

#include <algorithm>
#include <cctype>

namespace optireduce::control {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    c = static_cast<char>(tolower(static_cast<unsigned char>(c)));
  }
  return lower;
}

}  // namespace

size_t EditDistance(std::string_view a, std::string_view b) {
  // Three rows of the usual table; row[j]: from the first i of `a` to the first
  // j of `b`.
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::string Suggestion(std::string_view wrong,
                       const std::vector<std::string>& candidates,
                       std::string_view prefix) {
  const std::string lower = Lower(wrong);
  const std::string* best = nullptr;
  // A third of the letters may be wrong; more is another word.
  size_t best_distance = std::max<size_t>(2, wrong.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(lower, Lower(candidate));
    // Replacing every letter of a short word is no slip.
    if (distance < best_distance && distance < candidate.size()) {
      best = &candidate;
      best_distance = distance;
    }
  }
  if (best == nullptr) return "";
  return "; did you mean \"" + std::string(prefix) + *best + "\"?";
}

}  // namespace optireduce::control
